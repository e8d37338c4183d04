//! Tests of the process that decodes untrusted key frames.
//!
//! Needs a clock: a real process has limits of time and memory.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "these tests act as users, who wait in real time"
)]

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait until the process has set its limits, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn start() -> Child {
    Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .arg("draw-key-frame")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns a soft limit from Linux's list of a process's limits.
fn limit(list: &str, name: &str) -> u64 {
    let line = list.lines().find(|line| line.starts_with(name)).unwrap();
    let most = line[name.len()..].split_whitespace().nth(1).unwrap();
    most.parse().unwrap_or(u64::MAX)
}

#[test]
fn decoder_process_is_limited_and_refuses_noise() {
    let mut child = start();
    let began = Instant::now();
    let limits = format!("/proc/{}/limits", child.id());
    // The process sets this limit last.
    let text = loop {
        let text = std::fs::read_to_string(&limits).unwrap();
        if limit(&text, "Max processes") == 0 {
            break text;
        }
        assert!(began.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(Duration::from_millis(10));
    };
    for (name, most) in [
        ("Max cpu time", 3),
        ("Max file size", 0),
        ("Max open files", 0),
        ("Max address space", 1 << 30),
    ] {
        assert!(limit(&text, name) <= most, "{text}");
    }
    let mut input = child.stdin.take().unwrap();
    input.write_all(&[0x47; 188 * 100]).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    // A process that exceeds its memory ends too.
    let mut child = start();
    let mut input = child.stdin.take().unwrap();
    let piece = vec![0; 1 << 20];
    let taken = (0..2_048).take_while(|_| input.write_all(&piece).is_ok());
    assert!(taken.count() < 1_200, "it has taken more than its limit");
    assert!(!child.wait().unwrap().success());
}
