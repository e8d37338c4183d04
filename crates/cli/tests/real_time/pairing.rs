//! Tests of `recv --pair` and of `send` with its link, as users run them.
//!
//! Needs a clock: real programs wait for each other.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::bed::{Bed, Running, anabranch, transport_stream};

/// Returns the program on a separate machine, without the keys and lists of others.
fn machine(bed: &Bed, name: &str) -> Command {
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", bed.path(name));
    command
}

/// Starts a receiver and returns it, its link and its code.
fn pairing(bed: &Bed, options: &[&str]) -> (Running, String, String) {
    let mut command = machine(bed, "studio");
    command.args([
        "recv",
        "--pair",
        "--listen",
        "127.0.0.1:0",
        "--keep-listening",
    ]);
    command.args(options).arg(bed.path("received.ts"));
    let mut running = Running::of(command.stdout(Stdio::piped()));
    let mut line = String::new();
    let mut stdout = BufReader::new(running.child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let link = line.trim().to_owned();
    assert!(link.starts_with("anabranch://127.0.0.1:"), "{link}");
    let code = link.split_once("&code=").unwrap().1.to_owned();
    running.wait_for("good once and for ten minutes");
    (running, link, code)
}

fn send(bed: &Bed, machine_name: &str, words: &[&str]) -> (i32, String) {
    let mut command = machine(bed, machine_name);
    command.arg("send").args(["--timeout", "8 s"]).args(words);
    Running::of(&mut command).finish()
}

#[test]
fn a_link_is_all_that_a_sender_needs_and_lets_in_one() {
    let bed = Bed::new();
    let film = bed.text("film.ts");
    std::fs::write(&film, transport_stream(25)).unwrap();
    let (mut studio, link, code) = pairing(&bed, &[]);
    let (exit, said) = send(&bed, "camera", &[&film, &link]);
    assert_eq!(exit, 0, "{said}");
    assert!(
        said.contains("made the key file") && !said.contains(&code),
        "{said}"
    );
    let reported_line = studio.wait_for("paired with ");
    let list = std::fs::read_to_string(bed.path("studio/anabranch/senders")).unwrap();
    let key = list.lines().last().unwrap();
    assert!(
        key.starts_with("abpub_") && reported_line.contains(key),
        "{list}"
    );
    // The sender is now known, by the link and by its key alone.
    let (exit, said) = send(&bed, "camera", &["--to", &link, &film]);
    assert_eq!(exit, 0, "{said}");
    let bare = link.split('&').next().unwrap();
    let (exit, said) = send(&bed, "camera", &[&film, bare, "--via", "lo"]);
    assert_eq!(exit, 0, "{said}");
    // Another sender is refused with the same code.
    let (exit, said) = send(&bed, "other", &[&link, &film]);
    assert_eq!(exit, 3, "{said}");
    assert!(
        said.contains("ask for another link") && !said.contains(&code),
        "{said}"
    );
    studio.wait_for("the code of its link is wrong, used or expired");
    studio.interrupt();
    let (exit, said) = studio.finish();
    assert_eq!(exit, 0, "{said}");
    assert!(!said.contains(&code), "{said}");
    let received = std::fs::metadata(bed.path("received.ts")).unwrap();
    assert!(received.len() > 3 * 20 * 188, "{received:?}");
    // The same receiver and sender meet again after a restart, without --pair.
    let files =
        ["receiver.key", "senders"].map(|name| bed.text(&format!("studio/anabranch/{name}")));
    let again = bed.text("again.ts");
    let options = [
        "recv",
        "--listen",
        "127.0.0.1:0",
        "--key",
        &files[0],
        "--allow-from",
        &files[1],
    ];
    let mut studio = Running::start(&[&options[..], &[&again]].concat());
    let line = studio.wait_for("listening at ");
    let to = line
        .split("listening at ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let peer = bare.split_once("key=").unwrap().1;
    let sender_key = bed.text("camera/anabranch/sender.key");
    let words = ["--to", to, "--peer", peer, "--key", &sender_key, &film];
    let (exit, said) = send(&bed, "camera", &words);
    assert_eq!(exit, 0, "{said}");
    studio.finish_well();
}
