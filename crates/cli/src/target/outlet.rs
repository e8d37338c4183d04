//! Destinations of targets: lines of JSON, and OBS.

#[cfg(not(unix))]
#[path = "outlet/no_unix_socket.rs"]
mod unix_socket;
#[cfg(unix)]
mod unix_socket;

use core::str::FromStr;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use anabranch_net::system::{Feature, ensure_has};
use anabranch_terminal::print;
use anabranch_units::{Duration, Instant};
use anabranch_video::target_filter::TargetFilter;
use anyhow::Context;

use super::{Obs, Target};
use crate::command_line::socket_addr;
use unix_socket::UnixSocket;

/// Time between repetitions of UDP datagrams. They may be lost, and listeners may start late.
const REPEAT_INTERVAL: Duration = Duration::from_secs(2);
/// Time between attempts to reach a socket.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Value of `--target-to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TargetName {
    /// `-`
    StandardOutput,
    /// `unix:PATH`
    Unix(PathBuf),
    /// `udp://ADDR:PORT`
    Udp(String),
    /// `obs://ADDR:PORT?…`
    Obs(super::obs::ObsName),
}

impl FromStr for TargetName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "-" {
            return Ok(TargetName::StandardOutput);
        }
        if let Some(path) = after(text, "unix:") {
            let has = ensure_has(Feature::UnixSockets, format_args!("unix:{path}"));
            has.map_err(|missing| missing.to_string())?;
            return Ok(TargetName::Unix(path.into()));
        }
        if let Some(address) = after(text, "udp://") {
            return Ok(TargetName::Udp(address.to_owned()));
        }
        if let Some(rest) = after(text, "obs://") {
            return rest.parse().map(TargetName::Obs);
        }
        if text.starts_with("zmq:") || text.starts_with("tcp:") {
            return Err(
                "ffmpeg takes commands for its filters by zmq, and none for its encoders: let \
                 --encode run an encoder whose bitrate can change (docs/operations/encoder.md)"
                    .to_owned(),
            );
        }
        Err("expected -, unix:PATH, udp://ADDR:PORT or obs://ADDR:PORT".to_owned())
    }
}

fn after<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.strip_prefix(prefix).filter(|rest| !rest.is_empty())
}

impl TargetName {
    pub(super) fn open(&self) -> anyhow::Result<Outlet> {
        let channel = match self {
            TargetName::StandardOutput => Channel::StandardOutput,
            TargetName::Unix(path) => Channel::Unix {
                path: path.clone(),
                socket: None,
                retry_at: Instant::ZERO,
            },
            TargetName::Udp(address) => {
                let address = socket_addr("--target-to udp://", address)?;
                let any: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any).context("--target-to: cannot open a socket")?;
                socket.set_nonblocking(true)?;
                Channel::Udp(socket, address)
            }
            TargetName::Obs(name) => return Ok(Outlet::Obs(Box::new(Obs::open(name)?))),
        };
        Ok(Outlet::lines(channel))
    }
}

/// An opened [`TargetName`].
#[derive(Debug)]
pub(super) enum Outlet {
    Lines(Lines),
    Obs(Box<Obs>),
}

impl Outlet {
    /// Creates the outlet of the built-in encoder, at the other end of a connected socket.
    pub(super) fn of_encoder(control: UdpSocket) -> Outlet {
        Outlet::lines(Channel::Encoder(control))
    }

    fn lines(channel: Channel) -> Outlet {
        Outlet::Lines(Lines {
            channel,
            report_filter: TargetFilter::default(),
        })
    }
}

/// Lines of JSON.
#[derive(Debug)]
pub(super) struct Lines {
    channel: Channel,
    report_filter: TargetFilter,
}

#[derive(Debug)]
enum Channel {
    StandardOutput,
    Unix {
        path: PathBuf,
        socket: Option<UnixSocket>,
        retry_at: Instant,
    },
    Udp(UdpSocket, SocketAddr),
    /// A connected socket.
    Encoder(UdpSocket),
}

impl Lines {
    /// Reports the target if it has changed enough. Returns whether a reader remains.
    pub(super) fn report(&mut self, target: Target) -> bool {
        self.connect(target.at);
        let is_lossy = matches!(self.channel, Channel::Udp(..) | Channel::Encoder(_));
        let reported_at = self.report_filter.reported_at();
        let is_repeated =
            is_lossy && reported_at.is_some_and(|at| target.at >= at + REPEAT_INTERVAL);
        let should_report = self.report_filter.should_report(target.at, target.target);
        if !should_report && !is_repeated {
            return true;
        }
        self.report_filter.repeat(target.at);
        let line = format!("{}\n", target.line());
        match &mut self.channel {
            Channel::StandardOutput => {
                if let Err(error) = print::text(&line) {
                    print::note(format_args!("--target-to -: {error:#}"));
                    return false;
                }
            }
            Channel::Udp(socket, address) => {
                // A listener that is not up yet gets the next one.
                let _ = socket.send_to(line.as_bytes(), *address);
            }
            Channel::Encoder(socket) => {
                let _ = socket.send(line.as_bytes());
            }
            Channel::Unix { path, socket, .. } => match socket {
                None => self.report_filter.forget(),
                Some(open) => {
                    if let Err(error) = open.write(line.as_bytes()) {
                        let path = path.display();
                        print::note(format_args!("--target-to unix:{path}: {error}"));
                        *socket = None;
                        self.report_filter.forget();
                    }
                }
            },
        }
        true
    }

    /// Connects to a socket that is not connected.
    fn connect(&mut self, now: Instant) {
        let Channel::Unix {
            path,
            socket: socket @ None,
            retry_at,
        } = &mut self.channel
        else {
            return;
        };
        if now < *retry_at {
            return;
        }
        match UnixSocket::connect(path) {
            Ok(connected) => *socket = Some(connected),
            Err(error) => {
                let is_first = *retry_at == Instant::ZERO;
                let is_awaited = matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused
                );
                if is_first || !is_awaited {
                    let path = path.display();
                    print::note(format_args!(
                        "--target-to unix:{path}: {error}; it is waited for"
                    ));
                }
                *retry_at = now + RETRY_INTERVAL;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use anabranch_units::DataRate;

    use super::*;

    fn lines(name: &str) -> Lines {
        match name.parse::<TargetName>().unwrap().open().unwrap() {
            Outlet::Lines(lines) => lines,
            Outlet::Obs(_) => panic!("{name}"),
        }
    }

    fn target(millis: u64, kbit: u64) -> Target {
        Target {
            target: DataRate::from_kilobits_per_second(kbit),
            media: DataRate::from_kilobits_per_second(900),
            at: Instant::from_millis(millis),
        }
    }

    fn number(line: &str, field: &str) -> f64 {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value[field].as_f64().unwrap_or_else(|| panic!("{line}"))
    }

    #[test]
    fn target_names_are_parsed() {
        assert_eq!("-".parse(), Ok(TargetName::StandardOutput));
        assert_eq!("unix:/a b".parse(), Ok(TargetName::Unix("/a b".into())));
        let zmq = "zmq://127.0.0.1:5555".parse::<TargetName>().unwrap_err();
        assert!(zmq.contains("none for its encoders"), "{zmq}");
        assert!("here".parse::<TargetName>().is_err());
        let nowhere: TargetName = "udp://127.0.0.1".parse().unwrap();
        assert!(nowhere.open().is_err());
    }

    #[test]
    fn datagrams_are_repeated() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut lines = lines(&format!("udp://{}", socket.local_addr().unwrap()));
        for tenth in 0..50 {
            assert!(lines.report(target(100 * tenth, 1_000)));
        }
        let mut buffer = [0; 500];
        let mut times = Vec::new();
        while let Ok(len) = socket.recv(&mut buffer) {
            let line = core::str::from_utf8(&buffer[..len]).unwrap();
            assert_eq!(number(line, "target_bps"), 1e6);
            assert_eq!(number(line, "media_bps"), 9e5);
            times.push(number(line, "t"));
        }
        assert_eq!(times, [0.0, 2.0, 4.0]);
    }

    #[test]
    fn late_unix_socket_gets_the_current_target() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut lines = lines(&format!("unix:{}", path.display()));
        assert!(lines.report(target(0, 3_000)));
        let listener = UnixListener::bind(&path).unwrap();
        assert!(lines.report(target(500, 2_000)));
        assert!(lines.report(target(1_000, 2_000)));
        let (reader, _) = listener.accept().unwrap();
        assert!(lines.report(target(1_050, 1_000)));
        let received: Vec<f64> = BufReader::new(reader)
            .lines()
            .take(2)
            .map(|line| number(&line.unwrap(), "target_bps"))
            .collect();
        assert_eq!(received, [2e6, 1e6]);
        // The reader has gone, and another one connects.
        for tenth in 0..20 {
            lines.report(target(2_000 + 100 * tenth, 1_100 + 100 * tenth));
        }
        let (reader, _) = listener.accept().unwrap();
        let line = BufReader::new(reader).lines().next().unwrap().unwrap();
        assert!(number(&line, "target_bps") > 1.1e6, "{line}");
    }

    #[test]
    fn a_socket_of_datagrams_is_one_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        assert!(lines(&format!("unix:{}", path.display())).report(target(0, 3_000)));
        let mut buffer = [0; 500];
        let len = socket.recv(&mut buffer).unwrap();
        let line = core::str::from_utf8(&buffer[..len]).unwrap();
        assert_eq!(number(line, "target_bps"), 3e6);
    }
}
