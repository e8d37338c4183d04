//! Sources of bytes: a file, standard input, UDP, SRT, or another file that `ffmpeg` converts.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::process::Child;

use anabranch_net::Clock;
use anabranch_net::system::AsFd;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Instant};
use anabranch_video::input::{InputKind, PROBE_LEN, probe};

use super::handover::{Payload, Taker};
use super::input_error::InputError;
use super::pipes::{self, PipedInput};
use super::remux::remux;
use super::udp_error::UdpError;
use super::udp_input::{Take, UdpInput};
use super::udp_url::UdpUrl;
use super::watch::InputWatch;

/// Maximum bytes of one read.
pub(super) const READ_BYTES: usize = 1 << 16;

/// Source of bytes.
#[derive(Debug)]
pub(super) enum Source {
    File(File),
    Pipe(PipedInput),
    Udp(Box<UdpInput>),
    /// Payloads of SRT, each with the time at which it was due.
    Srt(Taker<Payload>),
    Remuxed {
        child: Child,
        output: PipedInput,
    },
}

/// Conditions that end a read's wait for bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait<'a> {
    /// Longest wait.
    pub(super) patience: Duration,
    pub(super) stop: &'a Stop,
    pub(super) clock: &'a Clock,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bytes {
    /// Bytes, which were handed over.
    Some,
    /// No bytes in time.
    NoneYet,
    /// No more bytes will arrive.
    End,
}

impl Source {
    /// Opens the file at `path`, through `ffmpeg` if it is neither MPEG-TS nor an H.264 byte
    /// stream.
    ///
    /// # Errors
    /// The file cannot be read, or `ffmpeg` is missing or cannot convert it.
    pub(super) fn open_file(path: &Path) -> Result<(Source, InputKind, Vec<u8>), InputError> {
        let mut file = File::open(path).map_err(|source| {
            if path.as_os_str() == "test" {
                InputError::NoTestFile(source)
            } else {
                let name = file_name(path);
                InputError::Open { name, source }
            }
        })?;
        let mut first = Vec::new();
        let read = (&mut file).take(PROBE_LEN as u64).read_to_end(&mut first);
        if let Err(source) = read {
            let name = file_name(path);
            return Err(InputError::Read { name, source });
        }
        match probe(&first) {
            kind @ (InputKind::MpegTs | InputKind::AnnexB) => Ok((Source::File(file), kind, first)),
            kind @ (InputKind::Elementary | InputKind::Other) => {
                Ok((Source::remux(path, kind)?, InputKind::MpegTs, Vec::new()))
            }
        }
    }

    /// Opens `path`: a file, or a named pipe, which is read like standard input.
    pub(super) fn open_path(
        path: &Path,
        stop: &Stop,
        clock: &Clock,
    ) -> Result<(Source, InputKind, Vec<u8>), InputError> {
        if !path.metadata().is_ok_and(|found| pipes::is_fifo(&found)) {
            return Source::open_file(path);
        }
        let name = file_name(path);
        // Opening does not wait for the writer; reading does, until stopped.
        match pipes::open_fifo(path) {
            Ok(pipe) => Source::probe_pipe(pipe, &name, stop, clock),
            Err(source) => Err(InputError::Open { name, source }),
        }
    }

    fn remux(path: &Path, kind: InputKind) -> Result<Source, InputError> {
        let mut child = remux(path, kind)?;
        let stdout = child.stdout.take().ok_or(InputError::NoRemuxedOutput)?;
        let output = pipes::output_of(stdout).map_err(InputError::RemuxedOutput)?;
        Ok(Source::Remuxed { child, output })
    }

    /// Opens standard input, and waits for its first bytes.
    pub(super) fn open_stdin(
        stop: &Stop,
        clock: &Clock,
    ) -> Result<(Source, InputKind, Vec<u8>), InputError> {
        let name = "standard input";
        match pipes::standard_input() {
            Ok(pipe) => Source::probe_pipe(pipe, name, stop, clock),
            Err(source) => Err(InputError::Read {
                name: name.to_owned(),
                source,
            }),
        }
    }

    /// Opens a pipe, and waits for its first bytes.
    fn probe_pipe(
        pipe: PipedInput,
        name: &str,
        stop: &Stop,
        clock: &Clock,
    ) -> Result<(Source, InputKind, Vec<u8>), InputError> {
        let mut source = Source::Pipe(pipe);
        let (mut first, mut buffer) = (Vec::new(), [0; PROBE_LEN]);
        let mut waited = Duration::ZERO;
        let mut watch = InputWatch::new(name.trim_start_matches("input ").to_owned(), false);
        while first.len() < PROBE_LEN && !stop.is_stopped() {
            let rest = &mut buffer[first.len()..];
            let wait = Wait {
                patience: Duration::from_millis(100),
                stop,
                clock,
            };
            let read = source.read(rest, wait, &mut waited, &mut |_, bytes: &[u8]| {
                first.extend_from_slice(bytes);
            });
            match read {
                Ok(Bytes::Some) => {}
                Ok(Bytes::NoneYet) => {
                    if let Some(line) = watch.on_nothing(clock.now()) {
                        log::info!("{line}");
                    }
                }
                Ok(Bytes::End) => break,
                Err(source) => {
                    let name = name.to_owned();
                    return Err(InputError::Read { name, source });
                }
            }
        }
        match probe(&first) {
            InputKind::Elementary if !stop.is_stopped() => Err(InputError::Untimed {
                name: name.to_owned(),
            }),
            InputKind::Other if !stop.is_stopped() => Err(InputError::OtherFormat {
                name: name.to_owned(),
            }),
            kind => Ok((source, kind, first)),
        }
    }

    /// Listens at the address, and joins if it is a multicast group.
    pub(super) fn open_udp(url: &UdpUrl) -> Result<Source, UdpError> {
        Ok(Source::Udp(Box::new(UdpInput::open(url)?)))
    }

    /// Takes the pending warning about the encoders.
    pub(super) fn warning(&mut self) -> Option<String> {
        match self {
            Source::Udp(input) => input.warning(),
            _ => None,
        }
    }

    /// Takes the start of the last datagram that cannot be of the stream.
    pub(super) fn left_out(&mut self) -> Option<Vec<u8>> {
        match self {
            Source::Udp(input) => input.left_out(),
            _ => None,
        }
    }

    /// Returns the time at which held packets can be read even if none arrives.
    fn releases_at(&self) -> Option<Instant> {
        match self {
            Source::Udp(input) => input.releases_at(),
            _ => None,
        }
    }

    /// Returns whether bytes come in datagrams, each with its arrival time.
    pub(super) fn is_of_datagrams(&self) -> bool {
        matches!(self, Source::Udp(_) | Source::Srt(_))
    }

    /// Returns whether bytes may arrive as they are produced.
    pub(super) fn may_be_live(&self) -> bool {
        matches!(self, Source::Pipe(_)) || self.is_of_datagrams()
    }

    /// Hands waiting bytes to `take` with their arrival time, and adds the time waited to `waited`.
    /// Bytes of files and pipes go through `buffer` and arrive when they are read.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        wait: Wait<'_>,
        waited: &mut Duration,
        take: &mut Take<'_>,
    ) -> io::Result<Bytes> {
        let Wait {
            patience,
            stop,
            clock,
        } = wait;
        if matches!(self, Source::Udp(input) if input.has_ended()) {
            return Ok(Bytes::End);
        }
        if let Source::Udp(input) = self
            && let Some(until) = input.rests_until()
            && stop.wait_until(clock, until)
            && input.read(clock, take)
        {
            return Ok(Bytes::Some);
        }
        let fd = match &*self {
            Source::File(_) => None,
            Source::Pipe(pipe) => Some(pipe.as_fd()),
            Source::Udp(input) => Some(input.as_fd()),
            Source::Srt(payloads) => Some(payloads.as_fd()),
            Source::Remuxed { output, .. } => Some(output.as_fd()),
        };
        if let Some(fd) = fd {
            let since = clock.now();
            let patience = match self.releases_at() {
                Some(at) => patience.min(at.saturating_since(since)),
                None => patience,
            };
            let is_readable = stop.wait_readable(fd, patience);
            let now = clock.now();
            *waited += now.saturating_since(since);
            if !is_readable && self.releases_at().is_none_or(|at| now < at) {
                if let Source::Udp(input) = self {
                    input.on_silence(now);
                }
                return Ok(Bytes::NoneYet);
            }
        }
        let read = match self {
            Source::File(file) => file.read(buffer),
            Source::Pipe(pipe) => pipe.read(buffer),
            Source::Udp(input) => {
                return Ok(if input.read(clock, take) {
                    Bytes::Some
                } else {
                    Bytes::NoneYet
                });
            }
            Source::Srt(payloads) => return Ok(hand_over(&payloads.take(), take)),
            Source::Remuxed { output, .. } => output.read(buffer),
        };
        match read {
            Ok(0) => self.end().map(|()| Bytes::End),
            Ok(bytes) => {
                take(clock.now(), &buffer[..bytes]);
                Ok(Bytes::Some)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) =>
            {
                Ok(Bytes::NoneYet)
            }
            Err(error) => Err(error),
        }
    }

    /// Checks that the remuxer succeeded; otherwise its output is incomplete.
    fn end(&mut self) -> io::Result<()> {
        if let Source::Remuxed { child, .. } = self
            && !child.wait()?.success()
        {
            return Err(io::Error::other("ffmpeg failed, see its message above"));
        }
        Ok(())
    }
}

/// Returns the name of a file or named pipe for messages.
fn file_name(path: &Path) -> String {
    format!("input {}", path.display())
}

/// Hands payloads of SRT to `take`, each with the time at which it was due.
fn hand_over(payloads: &VecDeque<Payload>, take: &mut Take<'_>) -> Bytes {
    for (due_at, bytes) in payloads {
        take(*due_at, bytes);
    }
    if payloads.is_empty() {
        Bytes::NoneYet
    } else {
        Bytes::Some
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Source::Remuxed { child, .. } = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
