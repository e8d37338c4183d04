//! Tests of the real program with a service manager.
//!
//! Needs a clock: a real program receives signals and notifies its manager.

#![allow(clippy::disallowed_methods, reason = "a real program is waited for")]

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bed::{Bed, PATIENCE, Running, anabranch, transport_stream, wait_until};

/// A service manager: it reads all messages as they come, since a program waits for room in a queue
/// of ten.
struct Manager {
    messages: mpsc::Receiver<String>,
    heard: String,
}

impl Manager {
    fn start(socket: &Path) -> Manager {
        let socket = UnixDatagram::bind(socket).unwrap();
        let (heard, messages) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(count) = socket.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                if heard.send(text).is_err() {
                    return;
                }
            }
        });
        Manager {
            messages,
            heard: String::new(),
        }
    }

    /// Waits for a message with this part.
    fn wait_for(&mut self, part: &str) {
        loop {
            let next = self
                .messages
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|error| panic!("{part}: {error}: {}", self.heard));
            self.heard += &format!("{next}\n");
            if next.contains(part) {
                return;
            }
        }
    }
}

#[test]
fn service_reads_file_notifies_and_runs_commands() {
    let bed = Bed::new();
    let events = bed.text("events");
    let config = bed.path("studio.toml");
    let on_event = format!("echo $ANABRANCH_ROLE $ANABRANCH_EVENT $ANABRANCH_STREAM >> {events}");
    let text = format!(
        "[recv]\nlisten = \"127.0.0.1:0\"\nkey = {:?}\nallow = [\"{}=front\"]\n\
         on-event = {on_event:?}\noutput = [{:?}]\n",
        bed.text("receiver.key"),
        bed.sender_public,
        bed.text("out.ts"),
    );
    fs::write(&config, text).unwrap();
    let socket = bed.path("notify");
    let mut manager = Manager::start(&socket);
    let mut command = anabranch();
    command.args(["recv", "--keep-listening", "--config"]);
    command.arg(&config).env("NOTIFY_SOCKET", &socket);
    command.env("WATCHDOG_USEC", "400000");
    let mut recv = Running::of(&mut command);
    let line = recv.wait_for("listening at ");
    let address = line.split_whitespace().nth(2).unwrap();
    manager.wait_for("READY=1");
    manager.wait_for("WATCHDOG=1");
    let film = bed.path("in.ts");
    fs::write(&film, transport_stream(50)).unwrap();
    bed.send(address, film.to_str().unwrap(), &[]).finish_well();
    manager.wait_for("STATUS=sessions: ");
    recv.wait_for("session over");
    wait_until("an event without its command", || {
        let text = fs::read_to_string(&events).unwrap_or_default();
        (text.lines().count() == 2).then_some(())
    });
    recv.interrupt();
    manager.wait_for("STOPPING=1");
    let said = recv.finish_well();
    let text = fs::read_to_string(&events).unwrap_or_default();
    let mut event_lines: Vec<_> = text.lines().collect();
    event_lines.sort_unstable();
    assert_eq!(
        event_lines,
        ["recv connected front", "recv ended front"],
        "{said}"
    );
}

/// Returns whether a process with this number is running.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

#[cfg(target_os = "linux")]
#[test]
fn commands_for_events_end_with_a_program_that_is_killed() {
    let bed = Bed::new();
    let pids = bed.text("pids");
    let command = format!("echo $$ >> {pids}; sleep 1000 & echo $! >> {pids}; wait");
    let output = bed.text("out.ts");
    let (mut recv, address) = bed.recv(&bed.sender_public, &output, &["--on-event", &command]);
    let film = bed.path("in.ts");
    fs::write(&film, transport_stream(500)).unwrap();
    let _send = bed.send(&address, film.to_str().unwrap(), &[]);
    recv.wait_for("connected");
    let pids = wait_until("no command runs", || {
        let text = fs::read_to_string(&pids).unwrap_or_default();
        let pids: Vec<_> = text.lines().map(str::to_owned).collect();
        (pids.len() == 2).then_some(pids)
    });
    assert!(pids.iter().all(|pid| is_running(pid)), "{pids:?}");
    recv.signal(Signal::KILL);
    wait_until("they run on", || {
        pids.iter().all(|pid| !is_running(pid)).then_some(())
    });
}

#[test]
fn a_key_that_nobody_hands_over_is_waited_for_until_a_signal() {
    let bed = Bed::new();
    let pipe = bed.path("key");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    let key = ["--key", pipe.to_str().unwrap()];
    let send = [
        "send",
        "--to",
        "127.0.0.1:9",
        "--peer",
        &bed.receiver_public,
        "film.ts",
    ];
    let mut command = anabranch();
    let mut child = command.args(send).args(key).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it waits");
    let pid = rustix::process::Pid::from_child(&child);
    // A second signal would end the program anyway.
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_crash_writes_no_memory_into_a_file() {
    let bed = Bed::new();
    let (recv, _) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &[]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", recv.id())).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let soft = core.unwrap().split_whitespace().nth(4).unwrap();
    assert_eq!(soft, "0", "{limits}");
}
