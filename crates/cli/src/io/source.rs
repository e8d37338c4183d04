//! Bytes that come in: a file, standard input, UDP, or what `ffmpeg` makes of another file.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout};

use anabranch_net::Clock;
use anabranch_units::Duration;
use anabranch_video::input::{InputKind, PROBE_LEN, probe};
use anyhow::{Context, bail};
use socket2::SockRef;

use super::remux::remux;
use super::rtp;
use super::watch::InputWatch;
use crate::print;
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
        let mut source = Source::Pipe(File::from(fd));
        let mut first = vec![0; PROBE_LEN];
        let mut length = 0;
        let mut watch = InputWatch::new("standard input".to_owned(), false);
        while length < PROBE_LEN && !stop.is_stopped() {
            let rest = &mut first[length..];
            let patience = Duration::from_millis(100);
            let mut waited = Duration::ZERO;
            match source.read(rest, patience, stop, clock, &mut waited) {
                Ok(Bytes::Some(bytes)) => length += bytes,
                Ok(Bytes::NoneYet) => {
                    let told = watch.on_nothing(clock.now());
                    told.into_iter().for_each(print::note);
                }
                Ok(Bytes::End) => break,
                Err(error) => return Err(error).context("cannot read standard input"),
            }
        }
        first.truncate(length);
        match probe(&first) {
            InputKind::Elementary if !stop.is_stopped() => bail!(
                "standard input is a stream of HEVC or MPEG video without times: put `ffmpeg -i - \
                 -c copy -bsf:v setts=ts=N*DURATION -f mpegts - |` before anabranch"
            ),
            InputKind::Other if !stop.is_stopped() => bail!(
                "standard input is neither MPEG-TS nor an H.264 byte stream: put `ffmpeg -i - \
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
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Bytes::NoneYet),
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

/// One datagram; errors of UDP are other programs' affairs.
fn received(socket: &UdpSocket, buffer: &mut [u8]) -> Bytes {
    let received = socket.recv(buffer);
    received.map_or(Bytes::NoneYet, |bytes| {
        Bytes::Some(rtp::strip(&mut buffer[..bytes]))
    })
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Source::Remuxed { child, .. } = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
