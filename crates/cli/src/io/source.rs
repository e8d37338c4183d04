//! Bytes that come in: a file, standard input, UDP, or what `ffmpeg` makes of another file.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anabranch_net::Clock;
use anabranch_units::Duration;
use anabranch_video::input::{InputKind, PROBE_LEN, probe, remux_arguments};
use anyhow::{Context, bail};
use rustix::fs::OFlags;
use socket2::SockRef;

use crate::stop::Stop;

/// What is asked of the operating system, so that a key frame's burst fits.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// The most that one read takes: longer than any datagram.
pub(super) const READ_BYTES: usize = 1 << 16;

/// Where bytes come from.
#[derive(Debug)]
pub(super) enum Source {
    File(File),
    Pipe(File),
    Udp(UdpSocket),
    Remuxed { child: Child, output: ChildStdout },
}

/// What a read brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bytes {
    /// So many.
    Some(usize),
    /// None in time.
    NoneYet,
    /// No more will come.
    End,
}

impl Source {
    /// Opens the file at `path`, by way of `ffmpeg` if it holds neither MPEG-TS nor a byte stream.
    pub(super) fn open_file(path: &Path) -> anyhow::Result<(Source, InputKind, Vec<u8>)> {
        let shown = path.display();
        let mut file = File::open(path).with_context(|| format!("cannot open input {shown}"))?;
        let mut first = Vec::new();
        (&mut file)
            .take(PROBE_LEN as u64)
            .read_to_end(&mut first)
            .with_context(|| format!("cannot read input {shown}"))?;
        match probe(&first) {
            kind @ (InputKind::MpegTs | InputKind::AnnexB) => Ok((Source::File(file), kind, first)),
            kind @ (InputKind::Elementary | InputKind::Other) => {
                Ok((Source::remux(path, kind)?, InputKind::MpegTs, Vec::new()))
            }
        }
    }

    /// Opens what is at `path`: a file, or a named pipe, which is read as standard input is.
    pub(super) fn open_path(
        path: &Path,
        stop: &Stop,
        clock: &Clock,
    ) -> anyhow::Result<(Source, InputKind, Vec<u8>)> {
        let is_pipe = |metadata: Metadata| metadata.file_type().is_fifo();
        if !path.metadata().is_ok_and(is_pipe) {
            return Source::open_file(path);
        }
        let name = format!("input {}", path.display());
        // So that opening it does not wait for its writer; reading does, until stopped.
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(path)
            .with_context(|| format!("cannot open {name}"))?;
        Source::probe_pipe(pipe, &name, stop, clock)
    }

    fn remux(path: &Path, kind: InputKind) -> anyhow::Result<Source> {
        let mut child = remux(path, kind)?;
        let output = child
            .stdout
            .take()
            .context("ffmpeg has no standard output")?;
        Ok(Source::Remuxed { child, output })
    }

    /// Standard input, with its first bytes, which are waited for.
    pub(super) fn open_stdin(
        stop: &Stop,
        clock: &Clock,
    ) -> anyhow::Result<(Source, InputKind, Vec<u8>)> {
        // Not through the library's buffer: what it holds would not be seen by a wait.
        let fd = io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .context("cannot read standard input")?;
        Source::probe_pipe(File::from(fd), "standard input", stop, clock)
    }

    /// What comes by a pipe, with its first bytes, which are waited for.
    fn probe_pipe(
        pipe: File,
        name: &str,
        stop: &Stop,
        clock: &Clock,
    ) -> anyhow::Result<(Source, InputKind, Vec<u8>)> {
        let mut source = Source::Pipe(pipe);
        let mut first = vec![0; PROBE_LEN];
        let mut length = 0;
        while length < PROBE_LEN && !stop.is_stopped() {
            let rest = &mut first[length..];
            let patience = Duration::from_secs(1);
            let mut waited = Duration::ZERO;
            match source.read(rest, patience, stop, clock, &mut waited) {
                Ok(Bytes::Some(bytes)) => length += bytes,
                Ok(Bytes::NoneYet) => {}
                Ok(Bytes::End) => break,
                Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
            }
        }
        first.truncate(length);
        match probe(&first) {
            InputKind::Elementary if !stop.is_stopped() => bail!(
                "{name} is a stream of HEVC or MPEG video without times: put `ffmpeg -i - \
                 -c copy -bsf:v setts=ts=N*DURATION -f mpegts - |` before anabranch"
            ),
            InputKind::Other if !stop.is_stopped() => bail!(
                "{name} is neither MPEG-TS nor an H.264 byte stream: put `ffmpeg -i - \
                 -c copy -f mpegts - |` before anabranch"
            ),
            kind => Ok((source, kind, first)),
        }
    }

    /// Listens at `address`, as a member if it is a multicast group.
    pub(super) fn open_udp(address: SocketAddr) -> anyhow::Result<Source> {
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind(address)?;
            match address.ip() {
                IpAddr::V4(group) if group.is_multicast() => {
                    socket.join_multicast_v4(&group, &std::net::Ipv4Addr::UNSPECIFIED)?;
                }
                IpAddr::V6(group) if group.is_multicast() => {
                    socket.join_multicast_v6(&group, 0)?;
                }
                _ => {}
            }
            // The system grants what it allows; less is no error.
            let _ = SockRef::from(&socket).set_recv_buffer_size(SOCKET_BUFFER_BYTES);
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open().with_context(|| format!("cannot listen at input udp://{address}"))?;
        Ok(Source::Udp(socket))
    }

    /// Reads what is there, waiting for `patience` at most; the time waited is added to `waited`.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        patience: Duration,
        stop: &Stop,
        clock: &Clock,
        waited: &mut Duration,
    ) -> io::Result<Bytes> {
        let fd = match &*self {
            Source::File(_) => None,
            Source::Pipe(pipe) => Some(pipe.as_fd()),
            Source::Udp(socket) => Some(socket.as_fd()),
            Source::Remuxed { output, .. } => Some(output.as_fd()),
        };
        if let Some(fd) = fd {
            let since = clock.now();
            let is_readable = stop.wait_readable(fd, patience);
            *waited += clock.now().saturating_since(since);
            if !is_readable {
                return Ok(Bytes::NoneYet);
            }
        }
        let read = match self {
            Source::File(file) | Source::Pipe(file) => file.read(buffer),
            Source::Udp(socket) => return Ok(received(socket, buffer)),
            Source::Remuxed { output, .. } => output.read(buffer),
        };
        match read {
            Ok(0) => self.end().map(|()| Bytes::End),
            Ok(bytes) => Ok(Bytes::Some(bytes)),
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) =>
            {
                Ok(Bytes::NoneYet)
            }
            Err(error) => Err(error),
        }
    }

    /// A remuxer that failed has made less than all.
    fn end(&mut self) -> io::Result<()> {
        if let Source::Remuxed { child, .. } = self
            && !child.wait()?.success()
        {
            return Err(io::Error::other("ffmpeg failed, see its message above"));
        }
        Ok(())
    }
}

/// Starts `ffmpeg`, which makes MPEG-TS of a file of this kind on its standard output.
pub(crate) fn remux(path: &Path, kind: InputKind) -> anyhow::Result<Child> {
    let child = Command::new("ffmpeg")
        .args(remux_arguments(path, kind))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    match child {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "{} is neither MPEG-TS nor an H.264 byte stream, and the program ffmpeg that could \
             make MPEG-TS of it is not installed: install it, or make a .ts of the file elsewhere",
            path.display()
        ),
        child => child.context("cannot start ffmpeg"),
    }
}

/// One datagram; errors of UDP are other programs' affairs.
fn received(socket: &UdpSocket, buffer: &mut [u8]) -> Bytes {
    socket.recv(buffer).map_or(Bytes::NoneYet, Bytes::Some)
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Source::Remuxed { child, .. } = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
