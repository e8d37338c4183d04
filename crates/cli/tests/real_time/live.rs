//! Tests of the real program when its peers, readers and paths come and go. Waits are generous: the
//! machine may be busy.
//!
//! Needs a clock: real programs exchange packets over sockets.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::bed::{Running, UNHURRIED, anabranch, free_port, keygen, wait_for_bytes};

/// A folder with two key pairs, and a loopback address for a receiver.
struct Bed {
    folder: TempDir,
    sender_public: String,
    receiver_public: String,
    address: String,
}

impl Bed {
    fn new() -> Bed {
        let folder = tempfile::tempdir().unwrap();
        let sender_public = keygen(&folder.path().join("sender.key"));
        let receiver_public = keygen(&folder.path().join("receiver.key"));
        Bed {
            folder,
            sender_public,
            receiver_public,
            address: format!("127.0.0.1:{}", free_port()),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn recv(&self, output: &Path, stdout: Stdio) -> Running {
        self.recv_with(&[], output, stdout)
    }

    fn recv_with(&self, options: &[&str], output: &Path, stdout: Stdio) -> Running {
        let mut command = anabranch();
        command.args(["recv", "--listen", &self.address, "--key"]);
        command.arg(self.path("receiver.key"));
        command.args(["--allow", &self.sender_public]);
        command.args(options).arg(output);
        Running::of(command.stdin(Stdio::null()).stdout(stdout))
    }

    fn send(&self, options: &[&str], input: &Path) -> Running {
        let mut command = anabranch();
        command.args(["send", "--to", &self.address, "--key"]);
        command.arg(self.path("sender.key"));
        command.args(["--peer", &self.receiver_public]);
        Running::of(command.stdin(Stdio::null()).args(options).arg(input))
    }

    fn fifo(&self) -> PathBuf {
        let path = self.path("fifo");
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success(),
            "mkfifo"
        );
        path
    }
}

/// Waits without doing anything.
fn wait(span: Duration) {
    let (_keep, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(span);
}

const TEST_PICTURE: &str = "test:";

fn assert_that_a_second_receiver_goes_on(bed: &Bed, mut send: Running) {
    let mut second = bed.recv_with(&UNHURRIED, &bed.path("second.ts"), Stdio::null());
    second.wait_for("connected to ");
    send.wait_for("connected again");
    wait_for_bytes(&bed.path("second.ts"), 1);
    send.signal(Signal::TERM);
    let said = send.finish_well();
    assert!(said.contains("opened again once"), "{said}");
    second.finish_well();
    let written = bed.path("second.ts").metadata().unwrap().len();
    assert!(written > 0 && written.is_multiple_of(188), "{written}");
}

#[test]
fn a_receiver_that_was_killed_and_started_again_goes_on_with_the_stream() {
    let bed = Bed::new();
    let mut first = bed.recv(&bed.path("first.ts"), Stdio::null());
    first.wait_for("listening at ");
    let send = bed.send(&[], Path::new(TEST_PICTURE));
    first.wait_for("connected to ");
    first.signal(Signal::KILL);
    assert_eq!(first.end().0, None);
    assert_that_a_second_receiver_goes_on(&bed, send);
}

/// `systemctl restart` is a SIGTERM and a start.
#[test]
fn a_receiver_that_was_stopped_and_started_again_goes_on_with_the_stream() {
    let bed = Bed::new();
    let mut first = bed.recv(&bed.path("first.ts"), Stdio::null());
    first.wait_for("listening at ");
    let mut send = bed.send(&["--report", "100 ms"], Path::new(TEST_PICTURE));
    first.wait_for("connected to ");
    wait(Duration::from_millis(500));
    first.signal(Signal::TERM);
    first.finish_well();
    send.wait_for("the receiver has gone away");
    send.wait_for("no receiver for 0.");
    assert_that_a_second_receiver_goes_on(&bed, send);
}

/// While it has nothing to send, only its input can be late.
#[test]
fn a_sender_that_gets_no_processor_when_a_picture_is_due_says_so() {
    let bed = Bed::new();
    let mut recv = bed.recv(&bed.path("out.ts"), Stdio::null());
    recv.wait_for("listening at ");
    let mut send = bed.send(&[], Path::new(TEST_PICTURE));
    recv.wait_for("connected to ");
    for _ in 0..3 {
        wait(Duration::from_millis(300));
        send.signal(Signal::STOP);
        wait(Duration::from_millis(300));
        send.signal(Signal::CONT);
    }
    send.wait_for("this machine is too slow to keep time");
}

#[test]
fn a_sender_whose_place_was_taken_ends_with_a_code_of_its_own() {
    let bed = Bed::new();
    let mut recv = bed.recv(&bed.path("out.ts"), Stdio::null());
    recv.wait_for("listening at ");
    let first = bed.send(&[], Path::new(TEST_PICTURE));
    recv.wait_for("connected to ");
    let second = bed.send(&[], Path::new(TEST_PICTURE));
    let (code, said) = first.end();
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("has taken this one's place"), "{said}");
    second.signal(Signal::TERM);
    second.finish_well();
}

#[test]
fn a_sender_without_any_of_its_interfaces_says_so_and_waits() {
    let bed = Bed::new();
    let options = ["--via", "nowhere8", "--via", "nowhere9", "--timeout", "1 s"];
    let mut send = bed.send(&options, Path::new(TEST_PICTURE));
    for name in ["nowhere8", "nowhere9"] {
        send.wait_for(&format!(
            "({name}) is waited for: there is no network interface"
        ));
    }
    // Unsent packets cannot be answered, so --timeout has not begun.
    wait(Duration::from_millis(1_500));
    send.signal(Signal::TERM);
    send.finish_well();
}

#[test]
fn a_signal_ends_a_receiver_that_waits_for_the_reader_of_its_pipe() {
    let bed = Bed::new();
    let mut recv = bed.recv(&bed.fifo(), Stdio::null());
    recv.wait_for("waiting for a reader");
    recv.signal(Signal::TERM);
    recv.finish_well();
}

#[test]
fn a_signal_ends_a_sender_that_waits_for_the_writer_of_its_pipe() {
    let bed = Bed::new();
    let send = bed.send(&[], &bed.fifo());
    send.wait_for_signal_handler();
    send.signal(Signal::TERM);
    send.finish_well();
}

#[test]
fn a_signal_ends_a_sender_that_nobody_answers_and_it_says_so() {
    let bed = Bed::new();
    let send = bed.send(&[], Path::new(TEST_PICTURE));
    send.wait_for_signal_handler();
    send.signal(Signal::TERM);
    let said = send.finish_well();
    assert!(said.contains("stopped; no receiver has answered"), "{said}");
}

/// Starts a session into a pipe without a reader, until more bytes have arrived than the pipe
/// holds.
fn blocked(bed: &Bed) -> (Running, Running) {
    let mut recv = bed.recv(Path::new("-"), Stdio::piped());
    recv.wait_for("listening at ");
    let send = bed.send(&["--duration", "3 s"], Path::new(TEST_PICTURE));
    recv.wait_for("connected to ");
    wait(Duration::from_secs(2));
    (recv, send)
}

#[test]
fn a_signal_ends_a_receiver_whose_reader_sleeps() {
    let bed = Bed::new();
    let (recv, _send) = blocked(&bed);
    recv.signal(Signal::INT);
    let said = recv.finish_well();
    assert!(said.contains("session of"), "{said}");
}

#[test]
fn a_receiver_whose_reader_slept_ends_with_the_session() {
    let bed = Bed::new();
    let (mut recv, send) = blocked(&bed);
    send.finish_well();
    let mut taken = Vec::new();
    let mut pipe = recv.child.stdout.take().unwrap();
    pipe.read_to_end(&mut taken).unwrap();
    recv.finish_well();
    assert!(taken.len().is_multiple_of(188), "{}", taken.len());
}
