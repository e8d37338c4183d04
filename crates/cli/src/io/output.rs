//! Where what is received goes.

use core::str::FromStr;
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;

use anabranch_net::Clock;
use anabranch_units::Duration;
use anyhow::{Context, ensure};

use super::input::{check_protocol, socket_addr};
use super::recording::Recording;
use crate::stop::Stop;

/// Seven transport packets fit an Ethernet frame, and every player takes them.
const DATAGRAM_BYTES: usize = 7 * 188;
/// So many datagrams are sent at once: they fit any player's socket …
const BURST_COUNT: usize = 8;
/// … which is given this long to read them. Together some 80 Mbit/s.
const BURST_INTERVAL: Duration = Duration::from_millis(1);

/// What the command line says of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputName {
    /// `-`
    Stdout,
    /// `udp://ADDR:PORT`
    Udp(String),
    File(PathBuf),
}

impl FromStr for OutputName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        check_protocol(text, "ffmpeg -i udp://127.0.0.1:6000 -c copy -f mpegts URL")?;
        Ok(match (text, text.strip_prefix("udp://")) {
            ("-", _) => OutputName::Stdout,
            (_, Some(address)) => OutputName::Udp(address.to_owned()),
            _ => OutputName::File(text.into()),
        })
    }
}

/// An output that is open.
#[derive(Debug)]
pub(crate) enum Output {
    File { recording: Recording, name: String },
    Stdout(File),
    Udp { socket: UdpSocket, to: SocketAddr },
}

impl Output {
    /// Opens an output. A file that is there already is overwritten when the first bytes come.
    pub(crate) fn open(name: &OutputName) -> anyhow::Result<Output> {
        match name {
            OutputName::File(path) => {
                let name = format!("output {}", path.display());
                let recording = Recording::new(path)?;
                Ok(Output::File { recording, name })
            }
            OutputName::Stdout => {
                // The library's own would look for line ends in video.
                let fd = io::stdout().as_fd().try_clone_to_owned();
                let file = File::from(fd.context("cannot write standard output")?);
                Ok(Output::Stdout(file))
            }
            OutputName::Udp(address) => {
                let to = socket_addr(address)?;
                ensure!(
                    !to.ip().is_unspecified(),
                    "udp://{address}: where to? An output needs an address, as udp://127.0.0.1:6000"
                );
                let any = match to {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
                };
                let socket = UdpSocket::bind(any)
                    .with_context(|| format!("cannot open output udp://{to}"))?;
                Ok(Output::Udp { socket, to })
            }
        }
    }

    /// Writes a unit.
    ///
    /// # Errors
    /// What the file reports. A player that does not listen is no error.
    pub(crate) fn write(&mut self, unit: &[u8], clock: &Clock, stop: &Stop) -> anyhow::Result<()> {
        match self {
            Output::File { recording, name } => recording
                .write_all(unit)
                .with_context(|| format!("cannot write {name}")),
            Output::Stdout(file) => file.write_all(unit).context("cannot write standard output"),
            Output::Udp { socket, to } => {
                for (index, datagram) in unit.chunks(DATAGRAM_BYTES).enumerate() {
                    if index > 0 && index % BURST_COUNT == 0 {
                        stop.wait_until(clock, clock.now() + BURST_INTERVAL);
                    }
                    let _ = socket.send_to(datagram, *to);
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_outputs() {
        let name = |text: &str| -> OutputName { text.parse().unwrap() };
        assert_eq!(name("-"), OutputName::Stdout);
        assert_eq!(
            name("udp://127.0.0.1:6000"),
            OutputName::Udp("127.0.0.1:6000".into())
        );
        assert_eq!(name("out.ts"), OutputName::File("out.ts".into()));
    }

    #[test]
    fn datagrams_hold_seven_packets_and_the_last_what_is_left() {
        let player = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = player.local_addr().unwrap();
        let mut output = Output::open(&OutputName::Udp(address.to_string())).unwrap();
        let (clock, stop) = (Clock::start(), Stop::new().unwrap());
        output.write(&[0x47; 188 * 16], &clock, &stop).unwrap();
        let mut buffer = [0; 2_000];
        let sizes: Vec<_> = (0..3).map(|_| player.recv(&mut buffer).unwrap()).collect();
        assert_eq!(sizes, [1_316, 1_316, 376]);
    }

    #[test]
    fn an_output_that_cannot_be_made_is_named() {
        let error = Output::open(&OutputName::File("/nowhere/out.ts".into())).unwrap_err();
        assert!(format!("{error:#}").contains("/nowhere/out.ts"));
    }
}
