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
    let mut link = String::new();
    let mut stdout = BufReader::new(running.child.stdout.take().unwrap());
    stdout.read_line(&mut link).unwrap();
    let link = link.trim().to_owned();
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

#[test]
fn a_running_receiver_gets_another_sender_by_name_and_loses_it_again() {
    let bed = Bed::new();
    let film = bed.text("film.ts");
    std::fs::write(&film, transport_stream(25)).unwrap();
    let (mut studio, link, _) = pairing(&bed, &["--name", "front"]);
    let (exit, said) = send(&bed, "camera", &[&film, &link]);
    assert_eq!(exit, 0, "{said}");
    studio.wait_for("paired with front, abpub_");
    let mut pair = machine(&bed, "studio");
    let mut pair = Running::of(pair.args(["pair", "--name", "roof"]).stdout(Stdio::piped()));
    let mut stdout = BufReader::new(pair.child.stdout.take().unwrap());
    let mut link = String::new();
    stdout.read_line(&mut link).unwrap();
    pair.wait_for("waiting until the link is used");
    // The receiver looks for invitations every second, and a sender asks for ten.
    let (exit, said) = send(&bed, "other", &[link.trim(), &film]);
    assert_eq!(exit, 0, "{said}");
    let mut outcome = String::new();
    stdout.read_line(&mut outcome).unwrap();
    assert!(outcome.starts_with("paired with roof, abpub_"), "{outcome}");
    pair.finish_well();
    studio.wait_for("paired with roof, abpub_");
    let listed = machine(&bed, "studio")
        .args(["pair", "--list"])
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names, ["front", "roof"]);
    let taken = machine(&bed, "studio")
        .args(["pair", "--name", "roof"])
        .output()
        .unwrap();
    assert_eq!(taken.status.code(), Some(1));
    let removed = machine(&bed, "studio")
        .args(["pair", "--remove", "roof"])
        .output()
        .unwrap();
    assert!(removed.status.success());
    studio.wait_for("1 senders are let in");
    let bare = link.split('&').next().unwrap();
    let (exit, said) = send(&bed, "other", &[bare, &film]);
    assert_eq!(exit, 3, "{said}");
    studio.interrupt();
    let (exit, said) = studio.finish();
    assert_eq!(exit, 0, "{said}");
    let none = machine(&bed, "studio").args(["pair"]).output().unwrap();
    assert_eq!(none.status.code(), Some(1), "nothing runs");
}

#[test]
fn a_proxy_needs_nothing_but_the_link_of_a_server() {
    let bed = Bed::new();
    let mut command = machine(&bed, "origin");
    command.args([
        "serve",
        "--pair",
        "--listen",
        "127.0.0.1:0",
        "--connect",
        "127.0.0.1:9",
    ]);
    let mut server = Running::of(command.stdout(Stdio::piped()));
    let mut stdout = BufReader::new(server.child.stdout.take().unwrap());
    let mut link = String::new();
    stdout.read_line(&mut link).unwrap();
    let mut command = machine(&bed, "van");
    command.args(["proxy", link.trim(), "--socks5", "127.0.0.1:0"]);
    let proxy = Running::of(&mut command);
    server.wait_for("paired with ");
    server.wait_for("for connections");
    proxy.finish_well();
    server.finish_well();
    let list = std::fs::read_to_string(bed.path("origin/anabranch/proxies")).unwrap();
    assert!(list.contains("abpub_"), "{list}");
}

#[test]
fn a_receiver_and_its_sender_meet_at_a_relay_by_links_alone() {
    let bed = Bed::new();
    let film = bed.text("film.ts");
    std::fs::write(&film, transport_stream(50)).unwrap();
    let mut command = machine(&bed, "relay");
    command.args([
        "serve",
        "--relay",
        "--pair",
        "--listen",
        "127.0.0.1:0",
        "--name",
        "home",
    ]);
    let mut relay = Running::of(command.stdout(Stdio::piped()));
    let mut stdout = BufReader::new(relay.child.stdout.take().unwrap());
    let mut relay_link = String::new();
    stdout.read_line(&mut relay_link).unwrap();
    let relay_link = relay_link.trim();
    let mut command = machine(&bed, "studio");
    command.args([
        "recv",
        "--pair",
        "--name",
        "roof",
        "--listen",
        "127.0.0.1:0",
    ]);
    command.args(["--via-relay", relay_link, &bed.text("received.ts")]);
    let mut studio = Running::of(command.stdout(Stdio::piped()));
    let mut stdout = BufReader::new(studio.child.stdout.take().unwrap());
    let mut link = String::new();
    stdout.read_line(&mut link).unwrap();
    let link = link.trim();
    let authority = |link: &str| link.split(['/', '?']).nth(2).map(str::to_owned);
    assert_eq!(
        authority(link),
        authority(relay_link),
        "the sender calls the relay"
    );
    relay.wait_for("paired with home, abpub_");
    studio.wait_for("registered at the relay ");
    let (exit, said) = send(&bed, "camera", &[&film, link]);
    assert_eq!(exit, 0, "{said}");
    studio.wait_for("paired with roof, abpub_");
    let said = studio.finish_well();
    assert!(said.contains("100"), "{said}");
    let gone = relay.wait_for("home has gone: ");
    assert!(gone.contains("1 paths of senders"), "{gone}");
    relay.finish_well();
    let received = std::fs::metadata(bed.path("received.ts")).unwrap();
    assert!(received.len() > 50 * 188, "{received:?}");
}
