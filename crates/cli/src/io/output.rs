//! Where what is received goes.

use core::str::FromStr;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use anabranch_net::Clock;
use anyhow::Context;

use super::input::{check_protocol, socket_addr};
use super::patient::PatientFile;
use super::udp_output::UdpOutput;
use crate::stop::Stop;

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
    /// A file or standard output.
    File {
        file: PatientFile,
        name: String,
    },
    Udp(Box<UdpOutput>),
}

impl Output {
    /// Opens an output. A file that is there already is overwritten; a named pipe is waited for
    /// until somebody reads it, or the program is stopped.
    pub(crate) fn open(name: &OutputName, clock: &Clock, stop: &Stop) -> anyhow::Result<Output> {
        match name {
            OutputName::File(path) => {
                let name = format!("output {}", path.display());
                let file = PatientFile::create(path, clock, stop)
                    .with_context(|| format!("cannot write {name}"))?;
                Ok(Output::File { file, name })
            }
            OutputName::Stdout => {
                // The library's own would look for line ends in video.
                let fd = io::stdout().as_fd().try_clone_to_owned();
                let file = PatientFile::inherited(fd.context("cannot write standard output")?);
                Ok(Output::File {
                    file,
                    name: "standard output".to_owned(),
                })
            }
            OutputName::Udp(address) => {
                let to = socket_addr(address)?;
                let output = UdpOutput::open(to);
                let output = output.with_context(|| format!("cannot open output udp://{to}"))?;
                Ok(Output::Udp(Box::new(output)))
            }
        }
    }

    /// Writes a unit.
    ///
    /// # Errors
    /// What the file reports. A player that does not listen is no error.
    pub(crate) fn write(&mut self, unit: &[u8], clock: &Clock, stop: &Stop) -> anyhow::Result<()> {
        match self {
            Output::File { file, name } => file
                .write(unit, clock, stop)
                .with_context(|| format!("cannot write {name}")),
            Output::Udp(output) => {
                output.write(unit, clock, stop);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

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
        let (clock, stop) = (Clock::start(), Stop::new().unwrap());
        let name = OutputName::Udp(address.to_string());
        let mut output = Output::open(&name, &clock, &stop).unwrap();
        output.write(&[0x47; 188 * 16], &clock, &stop).unwrap();
        let mut buffer = [0; 2_000];
        let sizes: Vec<_> = (0..3).map(|_| player.recv(&mut buffer).unwrap()).collect();
        assert_eq!(sizes, [1_316, 1_316, 376]);
    }

    #[test]
    fn an_output_that_cannot_be_made_is_named() {
        let (clock, stop) = (Clock::start(), Stop::new().unwrap());
        let name = OutputName::File("/nowhere/out.ts".into());
        let error = Output::open(&name, &clock, &stop).unwrap_err();
        assert!(format!("{error:#}").contains("/nowhere/out.ts"));
    }
}
