//! Tests of outputs that cannot be written for a while: a file size limit simulates a full disk.
//!
//! Needs a clock: a real program retries its outputs.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::bed::{Bed, Running, transport_stream_of};

/// Length of a transport packet.
const PACKET_BYTES: usize = 188;
/// Size limit of the receiver's file: four seconds and a half, ending within a packet.
const MAX_FILE_BYTES: usize = 1_125_001;

/// Receives nine seconds of 2 Mbit/s into `output` and a player. Returns the lines of statistics
/// and the number of bytes at the player.
fn receive(bed: &Bed, output: &str, make_room: impl FnOnce()) -> (Vec<Value>, usize) {
    let player = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    player.set_nonblocking(true).unwrap();
    let film = transport_stream_of(9 * 25, |_| 10_000);
    std::fs::write(bed.path("film.ts"), &film).unwrap();
    let limit = format!("--fsize={MAX_FILE_BYTES}");
    let shell = [
        "sh",
        "-c",
        "trap '' XFSZ; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_anabranch"),
    ];
    let (key, stats) = (bed.text("receiver.key"), bed.text("stats"));
    let to_player = format!("udp://{}", player.local_addr().unwrap());
    let mut command = Command::new("prlimit");
    command
        .arg(limit)
        .args(shell)
        .args(["recv", "--listen", "127.0.0.1:0", "--key", &key]);
    command.args([
        "--allow",
        &bed.sender_public,
        "--stats",
        &stats,
        output,
        &to_player,
    ]);
    let mut receiver = Running::of(&mut command);
    let line = receiver.wait_for("listening at ");
    let address = line.split_whitespace().nth(2).unwrap().to_owned();
    let sender = bed.send(&address, &bed.text("film.ts"), &[]);
    receiver.wait_for("cannot write output");
    make_room();
    receiver.wait_for("is written again");
    sender.finish_well();
    receiver.finish_well();
    let text = std::fs::read_to_string(bed.path("stats")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut buffer = [0; 2_000];
    let mut datagram_count = 0;
    while player.recv(&mut buffer).is_ok() {
        datagram_count += 1;
    }
    (lines.collect(), datagram_count)
}

/// Checks that a file has whole packets and begins with a program's table.
fn assert_whole(path: &Path) -> usize {
    let bytes = std::fs::read(path).unwrap();
    assert!(
        !bytes.is_empty() && bytes.len().is_multiple_of(PACKET_BYTES),
        "{}",
        bytes.len()
    );
    assert!(bytes.chunks(PACKET_BYTES).all(|packet| packet[0] == 0x47));
    assert_eq!(
        bytes[1] & 0x1f,
        0,
        "PID 0 comes first, in front of a key frame"
    );
    assert!(bytes.len() <= MAX_FILE_BYTES);
    bytes.len()
}

fn first<'a>(lines: &'a [Value], event: &str) -> &'a Value {
    lines.iter().find(|line| line["event"] == event).unwrap()
}

fn assert_reported(lines: &[Value], output: &str) {
    let failed = first(lines, "output-failed");
    let resumed = first(lines, "output-resumed");
    for line in [failed, resumed] {
        assert_eq!(line["output"], output, "{line}");
    }
    assert!(
        failed["reason"].as_str().unwrap().contains("too large"),
        "{failed}"
    );
    assert!(
        resumed["failed_for_s"].as_f64().unwrap() >= 1.0,
        "{resumed}"
    );
    assert!(resumed["left_out_bytes"].as_u64().unwrap() > 0, "{resumed}");
}

#[test]
fn a_file_that_has_room_again_goes_on_and_the_player_misses_nothing() {
    let bed = Bed::new();
    let (output, kept) = (bed.path("out.ts"), bed.path("kept.ts"));
    let (lines, datagram_count) = receive(&bed, &bed.text("out.ts"), || {
        std::fs::rename(&output, &kept).unwrap()
    });
    assert_reported(&lines, &bed.text("out.ts"));
    let whole = assert_whole(&kept) + assert_whole(&output);
    let film = bed.path("film.ts").metadata().unwrap().len() as usize;
    assert!(whole < film, "something was left out");
    assert!(datagram_count > 0);
}

#[test]
fn a_file_that_is_named_by_the_time_is_followed_by_another() {
    let bed = Bed::new();
    let folder = bed.path("recordings");
    let output = format!("{}/{{time}}.ts", folder.display());
    let (lines, _) = receive(&bed, &output, || {});
    assert_reported(&lines, &output);
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
    assert_eq!(files.len(), 2, "no try leaves an empty file: {files:?}");
    for file in files {
        assert_whole(&file.unwrap().path());
    }
}
