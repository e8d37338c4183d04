//! The compared transports: two programs each, with a UDP port in front.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anabranch_emu::{Relay, RelayConfig, RelayLink};
use anabranch_link::LinkConfig;
use anabranch_observe::status::Status;
use anabranch_units::{DataRate, Duration, Seed};
use rustix::process::{Pid, Signal, kill_process};

use crate::traffic::wait;

/// Frequency of the kernel's clock ticks.
const TICKS_PER_SECOND: f64 = 100.0;
/// Program of Debian's package srt-tools.
const SRT: &str = "srt-live-transmit";

/// Rate of the emulated link.
const LINK_RATE: DataRate = DataRate::from_megabits_per_second(20);

/// A transport that can be started.
#[derive(Clone, Debug)]
pub enum Transport {
    /// `send` and `recv`, with their defaults or with `--latency min`. They always encrypt. A link
    /// of [`LINK_RATE`] without loss between them has this propagation delay.
    Anabranch {
        program: PathBuf,
        folder: PathBuf,
        has_least_latency: bool,
        propagation: Option<Duration>,
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
    /// File of the receiver's statistics.
    statistics: Option<PathBuf>,
    _relay: Option<Relay>,
}

impl Transport {
    pub fn name(&self) -> String {
        match self {
            Transport::Anabranch {
                has_least_latency,
                propagation,
                ..
            } => {
                let latency = if *has_least_latency { " min" } else { "" };
                let link = propagation.map_or_else(String::new, |delay| format!(" + {delay}"));
                format!("anabranch{latency}{link}")
            }
            Transport::Srt {
                latency,
                is_encrypted,
            } => {
                let cipher = if *is_encrypted { " AES" } else { "" };
                format!("SRT{cipher} latency={latency}")
            }
        }
    }

    /// Returns the propagation delay between both ends.
    pub fn propagation(&self) -> Duration {
        match self {
            Transport::Anabranch { propagation, .. } => propagation.unwrap_or_default(),
            Transport::Srt { .. } => Duration::ZERO,
        }
    }

    /// Starts both ends. Datagrams to `input` leave to `output`.
    pub fn start(&self, output: SocketAddr) -> io::Result<Running> {
        let (input, between) = (free_port()?, free_port()?);
        let (mut relay, mut statistics) = (None, None);
        let (receiver, sender) = match self {
            Transport::Anabranch {
                program,
                folder,
                has_least_latency,
                propagation,
            } => {
                let latency = has_least_latency.then_some(["--latency", "min"]);
                let sender_public = keygen(program, &folder.join("sender.key"))?;
                let receiver_public = keygen(program, &folder.join("receiver.key"))?;
                let mut receiver = Command::new(program);
                receiver.args(["recv", "--listen", &between.to_string(), "--allow"]);
                receiver.args([&sender_public, "--key"]);
                receiver.arg(folder.join("receiver.key"));
                receiver.args(latency.iter().flatten());
                let file = folder.join("statistics");
                let _ = fs::remove_file(&file);
                receiver.arg("--stats").arg(&file);
                statistics = Some(file);
                receiver.arg(format!("udp://{output}"));
                if let Some(delay) = propagation {
                    relay = Some(relay_to(between, *delay)?);
                }
                let to = relay.as_ref().map_or(between, |relay| relay.listen_addr(0));
                let mut sender = Command::new(program);
                sender.args(["send", "--to", &to.to_string(), "--peer"]);

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
            statistics,
            _relay: relay,
        })
    }
}

/// Starts a link to `target`.
fn relay_to(target: SocketAddr, delay: Duration) -> io::Result<Relay> {
    let link = LinkConfig {
        rate: Some(LINK_RATE),
        delay,
        ..LinkConfig::default()
    };
    let link = RelayLink {
        name: "link".to_owned(),
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        target,
        forward: link.clone(),
        reverse: link,
        seed: Seed(1),
    };
    let config = RelayConfig {
        links: vec![link],
        origin: None,
    };
    Relay::start(config).map_err(io::Error::other)
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
    /// Returns bytes on the wire beside the media, as a share of the media, in the receiver's last
    /// statistics; `None` for SRT.
    pub fn overhead(&self) -> Option<f64> {
        let lines = fs::read_to_string(self.statistics.as_ref()?).ok()?;
        let mut statuses = lines
            .lines()
            .rev()
            .filter_map(|line| serde_json::from_str::<Status>(line).ok());
        let stream = statuses.find_map(|status| status.streams.into_iter().next())?;
        let media_bytes = stream.counters.delivered_bytes as f64;
        Some(stream.received_bytes() as f64 / media_bytes - 1.0)
    }

    /// Returns the CPU seconds of sender and receiver so far, in user and kernel mode.
    pub fn cpu_seconds(&self) -> [f64; 2] {
        [&self.sender, &self.receiver].map(|child| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
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
