//! The real program when its peers, readers and paths come and go. Waits are generous: the machine
//! may be busy.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(15);

/// A folder with two key pairs, and an address of loopback for a receiver.
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
        // A port that is free a moment before it is used.
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Bed {
            folder,
            sender_public,
            receiver_public,
            address: socket.local_addr().unwrap().to_string(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn recv(&self, output: &Path, stdout: Stdio) -> Running {
        let mut command = anabranch();
        command.args(["recv", "--listen", &self.address, "--key"]);
        command.arg(self.path("receiver.key"));
        command.args(["--allow", &self.sender_public]).arg(output);
        Running::start(command.stdout(stdout))
    }

    fn send(&self, options: &[&str], input: &Path) -> Running {
        let mut command = anabranch();
        command.args(["send", "--to", &self.address, "--key"]);
        command.arg(self.path("sender.key"));
        command.args(["--peer", &self.receiver_public]);
        Running::start(command.args(options).arg(input))
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

fn anabranch() -> Command {
    Command::new(env!("CARGO_BIN_EXE_anabranch"))
}

fn keygen(path: &Path) -> String {
    let output = anabranch().args(["keygen", "--output"]).arg(path).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A program that runs, with what it says on standard error.
struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
    said: String,
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let command = command.stdin(Stdio::null()).stderr(Stdio::piped());
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
        }
    }

    fn wait_for(&mut self, part: &str) {
        while self
            .next_line(part)
            .is_some_and(|line| !line.contains(part))
        {}
        let said = &self.said;
        assert!(said.contains(part), "it ended before {part:?}:\n{said}");
    }

    fn next_line(&mut self, awaited: &str) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.said += &format!("{line}\n");
                Some(line)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("awaited {awaited:?}; it said:\n{}", self.said)
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its exit code, and all that it said.
    fn finish(mut self) -> (Option<i32>, String) {
        while self.next_line("its end").is_some() {}
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

/// Waits without doing anything.
fn wait(span: Duration) {
    let (_keep, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(span);
}

const TEST_PICTURE: &str = "test:";

#[test]
fn a_receiver_that_was_killed_and_started_again_goes_on_with_the_stream() {
    let bed = Bed::new();
    let mut first = bed.recv(&bed.path("first.ts"), Stdio::null());
    first.wait_for("listening at ");
    let mut send = bed.send(&[], Path::new(TEST_PICTURE));
    first.wait_for("connected to ");
    first.signal(Signal::KILL);
    assert_eq!(first.finish().0, None);
    let mut second = bed.recv(&bed.path("second.ts"), Stdio::null());
    second.wait_for("connected to ");
    send.wait_for("connected again");
    wait(Duration::from_millis(500));
    send.signal(Signal::TERM);
    let (code, said) = send.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("opened again once"), "{said}");
    let (code, said) = second.finish();
    assert_eq!(code, Some(0), "{said}");
    let written = bed.path("second.ts").metadata().unwrap().len();
    assert!(written > 0 && written.is_multiple_of(188), "{written}");
}

#[test]
fn a_sender_whose_place_was_taken_ends_with_a_code_of_its_own() {
    let bed = Bed::new();
    let mut recv = bed.recv(&bed.path("out.ts"), Stdio::null());
    recv.wait_for("listening at ");
    let first = bed.send(&[], Path::new(TEST_PICTURE));
    recv.wait_for("connected to ");
    let second = bed.send(&[], Path::new(TEST_PICTURE));
    let (code, said) = first.finish();
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("has taken this one's place"), "{said}");
    second.signal(Signal::TERM);
    let (code, said) = second.finish();
    assert_eq!(code, Some(0), "{said}");
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
    // What has not left cannot be answered: --timeout has not begun.
    wait(Duration::from_millis(1_500));
    send.signal(Signal::TERM);
    let (code, said) = send.finish();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_signal_ends_a_receiver_that_waits_for_the_reader_of_its_pipe() {
    let bed = Bed::new();
    let mut recv = bed.recv(&bed.fifo(), Stdio::null());
    recv.wait_for("waiting for a reader");
    recv.signal(Signal::TERM);
    let (code, said) = recv.finish();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_signal_ends_a_sender_that_waits_for_the_writer_of_its_pipe() {
    let bed = Bed::new();
    let send = bed.send(&[], &bed.fifo());
    wait(Duration::from_millis(500));
    send.signal(Signal::TERM);
    let (code, said) = send.finish();
    assert_eq!(code, Some(0), "{said}");
}

/// Starts a session into a pipe that nobody reads, until more has come than the pipe holds.
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
    let (code, said) = recv.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("session of"), "{said}");
}

#[test]
fn a_receiver_whose_reader_slept_ends_with_the_session() {
    let bed = Bed::new();
    let (mut recv, send) = blocked(&bed);
    assert_eq!(send.finish().0, Some(0));
    let mut taken = Vec::new();
    let mut pipe = recv.child.stdout.take().unwrap();
    pipe.read_to_end(&mut taken).unwrap();
    assert_eq!(recv.finish().0, Some(0));
    assert!(taken.len().is_multiple_of(188), "{}", taken.len());
}
