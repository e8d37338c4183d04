//! The compared transports: two programs each, with a UDP port in front.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anabranch_units::Duration;
use rustix::process::{Pid, Signal, kill_process};

use crate::traffic::wait;

/// Frequency of the kernel's clock ticks.
const TICKS_PER_SECOND: f64 = 100.0;
/// Program of Debian's package srt-tools.
const SRT: &str = "srt-live-transmit";

/// A transport that can be started.
#[derive(Clone, Debug)]
pub enum Transport {
    /// `send` and `recv`, with their defaults or with `--latency min`. They always encrypt.
    Anabranch {
        program: PathBuf,
        folder: PathBuf,
        has_least_latency: bool,
    },
    /// SRT with this latency in milliseconds, with AES-128 or without encryption.
    Srt { latency: u32, is_encrypted: bool },
}

/// The two running programs of a transport.
#[derive(Debug)]
pub struct Running {
    sender: Child,
    receiver: Child,
    pub input: SocketAddr,
}

impl Transport {
    pub fn name(&self) -> String {
        match self {
            Transport::Anabranch {
                has_least_latency, ..
            } => match has_least_latency {
                true => "anabranch min".to_owned(),
                false => "anabranch".to_owned(),
            },
            Transport::Srt {
                latency,
                is_encrypted,
            } => {
                let cipher = if *is_encrypted { " AES" } else { "" };
                format!("SRT{cipher} latency={latency}")
            }
        }
    }

    /// Starts both ends. Datagrams to `input` leave to `output`.
    pub fn start(&self, output: SocketAddr) -> io::Result<Running> {
        let (input, between) = (free_port()?, free_port()?);
        let (receiver, sender) = match self {
            Transport::Anabranch {
                program,
                folder,
                has_least_latency,
            } => {
                let latency = has_least_latency.then_some(["--latency", "min"]);
                let sender_public = keygen(program, &folder.join("sender.key"))?;
                let receiver_public = keygen(program, &folder.join("receiver.key"))?;
                let mut receiver = Command::new(program);
                receiver.args(["recv", "--listen", &between.to_string(), "--allow"]);
                receiver.args([&sender_public, "--key"]);
                receiver.arg(folder.join("receiver.key"));
                receiver.args(latency.iter().flatten());
                receiver.arg(format!("udp://{output}"));
                let mut sender = Command::new(program);
                sender.args(["send", "--to", &between.to_string(), "--peer"]);
                sender.args([&receiver_public, "--key"]);
                sender.arg(folder.join("sender.key"));
                sender.args(latency.iter().flatten());
                sender.arg(format!("udp://{input}"));
                (receiver, sender)
            }
            Transport::Srt {
                latency,
                is_encrypted,
            } => {
                let mut options = format!("latency={latency}");
                if *is_encrypted {
                    options += "&passphrase=a-long-passphrase&pbkeylen=16";
                }
                let mut receiver = Command::new(SRT);
                receiver.args(["-q", &format!("srt://{between}?mode=listener&{options}")]);
                receiver.arg(format!("udp://{output}"));
                let mut sender = Command::new(SRT);
                sender.args(["-q", &format!("udp://{input}")]);
                sender.arg(format!("srt://{between}?mode=caller&{options}"));
                (receiver, sender)
            }
        };
        let receiver = quiet(receiver)?;
        wait(Duration::from_millis(300));
        let sender = quiet(sender)?;
        wait(Duration::from_millis(700));
        Ok(Running {
            sender,
            receiver,
            input,
        })
    }
}

pub fn is_srt_installed() -> bool {
    let started = Command::new(SRT)
        .arg("-version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    started.is_ok()
}

fn quiet(mut command: Command) -> io::Result<Child> {
    let log = match std::env::var_os("BESIDE_SRT_LOG") {
        Some(_) => Stdio::inherit(),
        None => Stdio::null(),
    };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
}

/// Makes a key pair and returns the public key.
fn keygen(program: &Path, path: &Path) -> io::Result<String> {
    let output = Command::new(program)
        .args(["keygen", "--force", "--output"])
        .arg(path)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let key = text
        .split_whitespace()
        .find(|word| word.starts_with("abpub_"));
    key.map(str::to_owned)
        .ok_or_else(|| io::Error::other(format!("no key: {text}")))
}

fn free_port() -> io::Result<SocketAddr> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

impl Running {
    /// Returns the CPU seconds of sender and receiver so far, in user and kernel mode.
    pub fn cpu_seconds(&self) -> [f64; 2] {
        [&self.sender, &self.receiver].map(|child| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()));
            let stat = stat.unwrap_or_default();
            let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
            let ticks = fields.split_whitespace().skip(11).take(2);
            ticks.flat_map(str::parse::<f64>).sum::<f64>() / TICKS_PER_SECOND
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in [&mut self.sender, &mut self.receiver] {
            // SIGINT lets the program print its summary into the log.
            let _ = kill_process(Pid::from_child(child), Signal::INT);
            wait(Duration::from_millis(300));
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
