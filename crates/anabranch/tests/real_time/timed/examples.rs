//! The examples do what their documentation says.
//!
//! Needs a clock: the examples are programs that send over real sockets.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::punctual;

/// Returns the program of an example, which `cargo test -p anabranch` builds beside the tests.
fn program(example: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.ancestors().nth(2).expect("a test is in target/…/deps");
    let program = folder.join("examples").join(example);
    assert!(
        program.exists(),
        "no {}: run `cargo test -p anabranch` without --test, or `cargo test --examples` before",
        program.display()
    );
    program
}

/// An example that is running; it is killed if the test ends before.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(example: &str, folder: &Path, arguments: &[&str]) -> Running {
        let mut child = Command::new(program(example))
            .current_dir(folder)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let stdout = child.stdout.take().expect("it is piped");
        let lines = BufReader::new(stdout).lines();
        Running { child, lines }
    }

    /// Reads lines until one begins with `beginning`. Returns the rest of that one.
    fn line_after(&mut self, beginning: &str) -> String {
        let mut lines = self.lines.by_ref().map(|line| line.expect("text"));
        let found = lines.find_map(|line| line.strip_prefix(beginning).map(str::to_owned));
        found.unwrap_or_else(|| panic!("no line with {beginning:?}"))
    }

    /// Waits for the successful end. Returns the lines that were not read yet.
    fn finish(mut self) -> Vec<String> {
        let lines = self
            .lines
            .by_ref()
            .map(|line| line.expect("text"))
            .collect();
        let status = self.child.wait().expect("it was started");
        assert!(status.success(), "{status}: {lines:?}");
        lines
    }
}

#[test]
fn send_and_receive_carry_a_file_over_two_paths() {
    let kept = tempfile::tempdir().expect("a folder");
    let folder = kept.path();
    let watch = punctual::Watch::start();
    let film: Vec<u8> = (0..1_000_000_u64).map(|n| (n * n / 251) as u8).collect();
    fs::write(folder.join("film"), &film).expect("the folder can be written to");
    let sender_key = Running::start("send", folder, &[]).line_after("this sender's key: ");
    let receiver_key = Running::start("receive", folder, &[]).line_after("this receiver's key: ");

    let arguments = ["127.0.0.1:0", &sender_key, "received"];
    let mut receiver = Running::start("receive", folder, &arguments);
    let address = receiver.line_after("listening at ");
    let arguments = [&address, &receiver_key, "film", "127.0.0.1", "127.0.0.2"];
    let sent = Running::start("send", folder, &arguments).finish();
    let received = receiver.finish();

    let frame_count = sent.iter().find_map(|line| line.split_once(" frames of"));
    let (frame_count, _) = frame_count.expect("the sender counts its frames");
    assert!(
        frame_count.parse::<u64>().expect("a count") > 10,
        "{sent:?}"
    );
    let expected = format!("{frame_count} frames received");
    // The sender asks for a latency of 300 ms.
    let what = "frames of an example";
    let are_all_received = received.contains(&expected);
    assert!(
        watch.allows(are_all_received, what, &[]),
        "{sent:?} {received:?}"
    );
    let received = fs::read(folder.join("received")).expect("the receiver has written it");
    assert!(
        watch.allows(received == film, what, &[]),
        "{} of {} bytes",
        received.len(),
        film.len()
    );
}

#[test]
fn the_sans_io_loop_delivers_all_frames_although_datagrams_are_lost() {
    let folder = std::env::temp_dir();
    let lines = Running::start("sans_io_loopback", &folder, &[]).finish();
    let [line] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert!(line.starts_with("50 of 50 frames arrived; "), "{line}");
    // A frame takes two packets, which the pacer spaces, and the faster path delays them by 20 ms.
    let (_, least) = line.split_once("delays from ").expect("delays");
    let (least, _) = least.split_once(" ms").expect("milliseconds");
    let least: f64 = least.parse().expect("a number");
    assert!((20.0..30.0).contains(&least), "{line}");
    let again = Running::start("sans_io_loopback", &folder, &[]).finish();
    assert_eq!(lines, again, "virtual time");
}

#[test]
fn the_own_scheduler_uses_both_paths_alike() {
    let lines = Running::start("own_scheduler", &std::env::temp_dir(), &[]).finish();
    let counts: Vec<u64> = lines
        .iter()
        .filter_map(|line| line.strip_suffix(" packets")?.rsplit(' ').next())
        .map(|count| count.parse().expect("a count"))
        .collect();
    // Ten frames of four packets each.
    let [first, second] = counts[..] else {
        panic!("{lines:?}")
    };
    assert!(first >= 40 && second >= 40, "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("closed"));
}

#[test]
fn the_simulation_compares_two_schedulers() {
    fn share(scheduler: &str, lines: &[String]) -> f64 {
        let mut lines = lines.iter();
        let found = lines.find(|line| line.starts_with(scheduler));
        let number = found.expect(scheduler).split(' ').nth(1).expect("a number");
        number.parse().expect("a number")
    }

    let lines = Running::start("simulate", &std::env::temp_dir(), &[]).finish();
    // The media needs both links only while Wi-Fi fails; round robin ignores the difference.
    assert!(share("min-cost", &lines) >= 90.0, "{lines:?}");
    assert!(share("round-robin", &lines) <= 100.0, "{lines:?}");
}
