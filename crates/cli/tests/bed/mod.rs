//! The real program, with helpers for streams over loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use anabranch_emu::{Relay, RelayConfig, RelayLink};
use anabranch_link::LinkConfig;
use anabranch_units::Seed;
use anabranch_video::mpeg_ts::TransportStreamWriter;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub use crate::ports::free_port;

use crate::punctual::Watch;

/// Limit for any wait, far longer than the programs need: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// A latency at which no frame is late on a busy machine, for tests of bytes and not of times.
pub const UNHURRIED: [&str; 2] = ["--latency", "4 s"];

/// Two routes with 10 ms back. The first has 40 ms there, and the second loses every packet there.
#[cfg(all(feature = "codec", feature = "emulate"))]
pub const TWO_ROUTES: &str = r#"
title = "Two ways"
duration = "10 s"
[links.there]
rate = "2 Mbit/s"
delay = "40 ms"
[links.void]
rate = "2 Mbit/s"
loss = 1.0
[links.back]
delay = "10 ms"
[routes.one]
forward = ["there"]
reverse = ["back"]
[routes.two]
forward = ["void"]
reverse = ["back"]
[[flows]]
name = "camera"
paths = ["one"]
source = { kind = "cbr", rate = "1 Mbit/s" }
"#;

/// A folder with two key pairs.
pub struct Bed {
    pub folder: TempDir,
    pub sender_public: String,
    pub receiver_public: String,
}

impl Bed {
    pub fn new() -> Bed {
        let folder = tempfile::tempdir().unwrap();
        let sender_public = keygen(&folder.path().join("sender.key"));
        let receiver_public = keygen(&folder.path().join("receiver.key"));
        Bed {
            folder,
            sender_public,
            receiver_public,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Puts a file in the place of another one, in one step. It says to be changed some seconds
    /// after 1970.
    pub fn replace(&self, name: &str, text: &str, changed_s: u64) {
        let next = self.path("next");
        std::fs::write(&next, text).unwrap();
        let file = std::fs::File::options().append(true).open(&next).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(changed_s))
            .unwrap();
        std::fs::rename(next, self.path(name)).unwrap();
    }

    /// Starts a receiver that allows `allowed`, and returns its address too.
    pub fn recv(&self, allowed: &str, output: &str, options: &[&str]) -> (Running, String) {
        let key = self.text("receiver.key");
        let fixed = [
            "recv",
            "--listen",
            "127.0.0.1:0",
            "--key",
            &key,
            "--allow",
            allowed,
        ];
        let mut running = Running::start(&[&fixed[..], options, &[output]].concat());
        let line = running.wait_for("listening at ");
        let address = line.split_whitespace().nth(2).unwrap().to_owned();
        (running, address)
    }

    pub fn send(&self, to: &str, input: &str, options: &[&str]) -> Running {
        self.send_with("sender.key", to, input, options)
    }

    /// Starts a sender whose key is in the file `key`.
    pub fn send_with(&self, key: &str, to: &str, input: &str, options: &[&str]) -> Running {
        let key = self.text(key);
        let fixed = [
            "send",
            "--to",
            to,
            "--key",
            &key,
            "--peer",
            &self.receiver_public,
        ];
        Running::start(&[&fixed[..], options, &[input]].concat())
    }
}

/// A running program with its standard error.
///
/// Threads of a program print in any order. So a wait takes a line wherever it is: among those that
/// earlier waits have passed over, or among the next ones. Each line is taken once.
pub struct Running {
    pub child: Child,
    lines: mpsc::Receiver<String>,
    pub said: String,
    /// Lines that have been read and not taken.
    passed_over: Vec<String>,
    watch: Option<Watch>,
}

impl Running {
    pub fn start(arguments: &[&str]) -> Running {
        Running::start_with(arguments, Stdio::null())
    }

    pub fn start_with(arguments: &[&str], stdin: Stdio) -> Running {
        Running::of(anabranch().args(arguments).stdin(stdin))
    }

    pub fn of(command: &mut Command) -> Running {
        let command = command.stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program was built");
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (said, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        Running {
            child,
            lines,
            said: String::new(),
            passed_over: Vec::new(),
            watch: Some(Watch::start()),
        }
    }

    /// Takes the first line with this part that no wait has taken, and waits for it if needed.
    pub fn wait_for(&mut self, part: &str) -> String {
        let mut is_it = self.passed_over.iter().map(|line| line.contains(part));
        if let Some(index) = is_it.position(|is_it| is_it) {
            return self.passed_over.remove(index);
        }
        loop {
            let line = self
                .next_line()
                .unwrap_or_else(|| panic!("it ended before it said {part:?}:\n{}", self.said));
            if line.contains(part) {
                return line;
            }
            self.passed_over.push(line);
        }
    }

    fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.said += &format!("{line}\n");
                Some(line)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("it neither speaks nor ends:\n{}", self.said)
            }
        }
    }

    /// Waits until the program handles SIGTERM, which would end it before.
    #[allow(clippy::disallowed_methods, reason = "a real program is waited for")]
    pub fn wait_for_signal_handler(&self) {
        let status = format!("/proc/{}/status", self.child.id());
        if cfg!(target_os = "linux") {
            wait_until("it handles no signal", || {
                let status = std::fs::read_to_string(&status).ok()?;
                let caught = status
                    .lines()
                    .find_map(|line| line.strip_prefix("SigCgt:"))?;
                let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
                (caught >> (Signal::TERM.as_raw() - 1) & 1 == 1).then_some(())
            });
        }
        // A handler consists of some parts, which are registered one after the other.
        std::thread::sleep(Duration::from_millis(200));
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Waits for the end. Returns the exit code and the whole standard error.
    pub fn finish(self) -> (i32, String) {
        let (code, said) = self.end();
        (code.expect("it was not killed"), said)
    }

    /// Waits for the end, which must be a good one. Returns the whole standard error. On a machine
    /// that is too slow, less than half of the frames may arrive in time, which is exit code 5.
    pub fn finish_well(mut self) -> String {
        let watch = self.watch.take().expect("it is taken once");
        let (code, said) = self.finish();
        let is_well = code == 0 || code == 5 && watch.allows(false, "frames in time", &[&said]);
        assert!(is_well, "exit code {code}:\n{said}");
        said
    }

    /// Waits for the end. Returns the exit code, none if it was killed, and the whole standard
    /// error.
    pub fn end(mut self) -> (Option<i32>, String) {
        while self.next_line().is_some() {}
        let code = self.child.wait().unwrap().code();
        (code, core::mem::take(&mut self.said))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls `poll` until it returns a value.
#[allow(clippy::disallowed_methods, reason = "a real program is waited for")]
pub fn wait_until<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a file has at least `bytes`.
pub fn wait_for_bytes(path: &Path, bytes: usize) {
    let what = format!("{} of {bytes} bytes", path.display());
    wait_until(&what, || {
        let length = path.metadata().map_or(0, |of| of.len());
        (length >= bytes as u64).then_some(())
    });
}

pub fn anabranch() -> Command {
    Command::new(env!("CARGO_BIN_EXE_anabranch"))
}

pub fn run(arguments: &[&str]) -> Output {
    anabranch().args(arguments).output().unwrap()
}

pub fn keygen(path: &Path) -> String {
    let output = run(&["keygen", "--output", path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Returns MPEG-TS of 25 pictures a second, about 200 kbit/s, with a key frame each second.
pub fn transport_stream(picture_count: u64) -> Vec<u8> {
    transport_stream_of(picture_count, |number| 900 + number * 37 % 200)
}

/// Returns MPEG-TS of 25 pictures a second of these sizes, with a key frame each second.
pub fn transport_stream_of(picture_count: u64, size: impl Fn(u64) -> u64) -> Vec<u8> {
    transport_stream_with(picture_count, size, |number| match number % 25 {
        0 => (vec![0, 0, 0, 1, 0x65], true),
        _ => (vec![0, 0, 0, 1, 0x41], false),
    })
}

/// Returns MPEG-TS of 25 pictures a second of these sizes. `head` returns a picture's first bytes,
/// and whether decoding can start at it.
pub fn transport_stream_with(
    picture_count: u64,
    size: impl Fn(u64) -> u64,
    head: impl Fn(u64) -> (Vec<u8>, bool),
) -> Vec<u8> {
    let mut writer = TransportStreamWriter::new(Vec::new());
    for number in 0..picture_count {
        let (mut picture, is_key) = head(number);
        // No zeros, so that there are no start codes.
        picture.extend((0..size(number)).map(|at| (at * number % 255) as u8 + 1));
        let at = anabranch_units::Duration::from_millis(40 * number);
        writer.write(&picture, at, is_key).unwrap();
    }
    writer.into_inner()
}

/// Starts a relay whose link has 20 ms of delay in each direction. `there` changes the direction to
/// `target`.
pub fn relay(target: &str, there: impl Fn(LinkConfig) -> LinkConfig) -> Relay {
    let reverse = LinkConfig {
        delay: anabranch_units::Duration::from_millis(20),
        ..LinkConfig::default()
    };
    let link = RelayLink {
        name: "link".to_owned(),
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        target: target.parse().unwrap(),
        forward: there(reverse.clone()),
        reverse,
        seed: Seed(1),
    };
    let config = RelayConfig {
        links: vec![link],
        origin: None,
    };
    Relay::start(config).unwrap()
}

/// Requests a page from the program's metrics. Returns its status, head and body.
pub fn get(address: &str, path: &str) -> (u16, String, String) {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}
