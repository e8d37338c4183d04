//! Outputs of received video.

use core::fmt;
use core::str::FromStr;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use anabranch_net::Clock;
use anabranch_terminal::stop::Stop;

use super::blocking_file::BlockingFile;
use super::foreign::ForeignOutput;
use super::foreign_name::ForeignName;
use super::input::check_protocol;
use super::output_error::OutputError;
use super::playout::Piece;
use super::recording::{Recording, Rotation, check_file};
use super::srt::SrtReceivers;
use super::udp_output::UdpOutput;
use super::udp_url::UdpUrl;

/// An output as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputName {
    /// `-`
    Stdout,
    /// `udp://ADDR:PORT`
    Udp(UdpUrl),
    /// `srt://` or `rist://`
    Foreign(ForeignName),
    /// The path of a file or a named pipe.
    File(PathBuf),
}

impl FromStr for OutputName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(name) = ForeignName::output(text) {
            return Ok(OutputName::Foreign(name));
        }
        if let Some(url) = UdpUrl::parse(text, &["udp"]) {
            return url.map(OutputName::Udp);
        }
        check_protocol(text, "ffmpeg -i udp://127.0.0.1:6000 -c copy -f mpegts URL")?;
        Ok(match text {
            "-" => OutputName::Stdout,
            _ => OutputName::File(text.into()),
        })
    }
}

impl fmt::Display for OutputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputName::Stdout => f.write_str("standard output"),
            OutputName::Udp(url) => url.fmt(f),
            OutputName::Foreign(name) => name.fmt(f),
            OutputName::File(path) => path.display().fmt(f),
        }
    }
}

impl OutputName {
    /// Checks the parameters of another protocol, or a file's name and folder. Words in braces may
    /// be replaced later.
    ///
    /// # Errors
    /// They are wrong, or `rotation` is set and the file's name has no `{time}`.
    pub fn check(&self, rotation: Option<Rotation>) -> Result<(), OutputError> {
        match self {
            OutputName::Foreign(name) => Ok(name.check_all()?),
            OutputName::File(path) => check_file(path, rotation),
            OutputName::Stdout | OutputName::Udp(_) => Ok(()),
        }
    }

    /// Returns whether it is a file.
    pub fn is_file(&self) -> bool {
        matches!(self, OutputName::File(_))
    }

    /// Returns the name with `text` in place of every `place`.
    pub fn with(&self, place: &str, text: &str) -> Self {
        match self {
            OutputName::Stdout => OutputName::Stdout,
            OutputName::Udp(url) => OutputName::Udp(url.with(place, text)),
            OutputName::Foreign(name) => OutputName::Foreign(name.with(place, text)),
            OutputName::File(path) => {
                OutputName::File(path.to_string_lossy().replace(place, text).into())
            }
        }
    }
}

/// An open output.
#[derive(Debug)]
pub enum Output {
    /// A file, or a series of files.
    File {
        /// The file that is written.
        recording: Box<Recording>,
        /// Name for messages.
        name: String,
    },
    /// Standard output.
    Stdout(BlockingFile),
    /// Datagrams.
    Udp(Box<UdpOutput>),
    /// Another protocol.
    Foreign(Box<ForeignOutput>),
}

impl Output {
    /// Opens an output. An existing file is overwritten when the first bytes arrive. A named pipe
    /// is waited for until it has a reader, or the program is stopped.
    ///
    /// # Errors
    /// It cannot be written, or `rotation` is set and it is no file.
    pub fn open(
        name: &OutputName,
        rotation: Option<Rotation>,
        clock: &Clock,
        stop: &Stop,
    ) -> Result<Output, OutputError> {
        match name {
            OutputName::File(path) => {
                let name = format!("output {}", path.display());
                let recording = Box::new(Recording::new(path, rotation, clock, stop)?);
                Ok(Output::File { recording, name })
            }
            OutputName::Stdout => {
                let file = BlockingFile::standard_output().map_err(standard_output_failed)?;
                Ok(Output::Stdout(file))
            }
            OutputName::Udp(url) => Ok(Output::Udp(Box::new(UdpOutput::open(url)?))),
            OutputName::Foreign(name) => Ok(Output::Foreign(Box::new(name.open_output(clock)?))),
        }
    }

    /// Returns whether somebody may watch the bytes on arrival.
    pub fn is_watched(&self) -> bool {
        match self {
            Output::File { recording, .. } => recording.is_pipe(),
            Output::Stdout(_) | Output::Udp(_) | Output::Foreign(_) => true,
        }
    }

    /// Returns the connections of an SRT output.
    pub fn receivers(&self) -> Option<SrtReceivers> {
        match self {
            Output::Foreign(foreign) => foreign.receivers(),
            Output::File { .. } | Output::Stdout(_) | Output::Udp(_) => None,
        }
    }

    /// Returns whether no retry can help after this error: standard output has no reader any more,
    /// and cannot be opened again.
    pub(super) fn is_over(&self, error: &OutputError) -> bool {
        matches!(self, Output::Stdout(_)) && has_no_reader(error)
    }

    /// Begins a session: an output whose name contains the time begins a new file.
    pub fn begin_session(&mut self) {
        if let Output::File { recording, .. } = self {
            recording.begin_session();
        }
    }

    /// Writes a piece of the stream.
    ///
    /// # Errors
    /// The file's error. A player that does not listen is no error.
    pub fn write(&mut self, piece: &Piece, clock: &Clock, stop: &Stop) -> Result<(), OutputError> {
        let unit = &piece.bytes;
        match self {
            Output::File { recording, name } => {
                let written = recording.write(piece, clock, stop);
                written.map_err(|source| OutputError::Write {
                    name: name.clone(),
                    source,
                })
            }
            Output::Stdout(file) => file
                .write(unit, clock, stop)
                .map_err(standard_output_failed),
            Output::Udp(output) => {
                output.write(unit, clock, stop);
                Ok(())
            }
            Output::Foreign(foreign) => {
                foreign.write(unit, clock, stop);
                Ok(())
            }
        }
    }
}

/// Returns whether the reader of a pipe has gone.
fn has_no_reader(error: &OutputError) -> bool {
    matches!(error, OutputError::Write { source, .. } if source.kind() == ErrorKind::BrokenPipe)
}

fn standard_output_failed(source: io::Error) -> OutputError {
    OutputError::Write {
        name: "standard output".to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    #[test]
    fn names_of_outputs() {
        fn name(text: &str) -> OutputName {
            text.parse().unwrap()
        }
        assert_eq!(name("-"), OutputName::Stdout);
        assert_eq!(
            name("udp://127.0.0.1:6000"),
            OutputName::Udp("udp://127.0.0.1:6000".parse().unwrap())
        );
        assert_eq!(name("out.ts"), OutputName::File("out.ts".into()));
    }

    #[test]
    fn datagrams_hold_seven_packets() {
        let player = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = player.local_addr().unwrap();
        let (clock, stop) = (Clock::start(), Stop::new().unwrap());
        let piece = Piece {
            bytes: vec![0x47; 188 * 16],
            begins_key_frame: true,
            ..Piece::default()
        };
        for (parameters, expected) in [
            ("", vec![1_316, 1_316, 376]),
            ("?pkt_size=1472", vec![1_316, 1_316, 376]),
            ("?pkt_size=1000", vec![940, 940, 940, 188]),
        ] {
            let name: OutputName = format!("udp://{address}{parameters}").parse().unwrap();
            let mut output = Output::open(&name, None, &clock, &stop).unwrap();
            output.write(&piece, &clock, &stop).unwrap();
            let mut buffer = [0; 2_000];
            let datagrams = expected.iter().map(|_| player.recv(&mut buffer).unwrap());
            assert_eq!(datagrams.collect::<Vec<_>>(), expected, "{parameters}");
        }
    }

    #[test]
    fn an_output_that_cannot_be_made_is_named() {
        let (clock, stop) = (Clock::start(), Stop::new().unwrap());
        let name = OutputName::File("/nowhere/out.ts".into());
        let error = Output::open(&name, None, &clock, &stop).unwrap_err();
        assert!(error.to_string().contains("/nowhere/out.ts"), "{error}");
    }
}
