//! The source that is what it is: a file, sent by its own clock.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anabranch_core::Frame;
use anabranch_units::{Duration, Importance};
use anabranch_video::annex_b::AccessUnitSplitter;
use anabranch_video::input::{InputKind, PROBE_LEN, probe, remux_arguments};
use anabranch_video::mpeg_ts::TransportUnitSplitter;
use anyhow::{Context, bail};

use super::feed::Feed;

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// How the units of a file are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitKind {
    /// Pieces of a transport stream, one picture each.
    MpegTs,
    /// Access units of an H.264 byte stream.
    AnnexB,
}

/// A file that is open for reading, remuxed if need be.
#[derive(Debug)]
pub(super) struct VideoFile {
    pub(super) kind: UnitKind,
    path: PathBuf,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    File(File),
    Remuxed(Child),
}

/// One unit and when it is due after the first.
struct Unit {
    bytes: Vec<u8>,
    importance: Importance,
    due: Duration,
}

impl VideoFile {
    /// Opens the file, and starts `ffmpeg` where it is neither MPEG-TS nor Annex B.
    pub(super) fn open(path: &Path) -> anyhow::Result<VideoFile> {
        let cannot_read = || format!("cannot read {}", path.display());
        let mut file = File::open(path).with_context(cannot_read)?;
        let mut first = Vec::new();
        file.by_ref()
            .take(PROBE_LEN as u64)
            .read_to_end(&mut first)
            .with_context(cannot_read)?;
        file.rewind().with_context(cannot_read)?;
        let (kind, bytes) = match probe(&first) {
            InputKind::MpegTs => (UnitKind::MpegTs, Bytes::File(file)),
            InputKind::AnnexB => (UnitKind::AnnexB, Bytes::File(file)),
            InputKind::Other => (UnitKind::MpegTs, Bytes::Remuxed(remux(path)?)),
        };
        Ok(VideoFile {
            kind,
            path: path.to_owned(),
            bytes,
        })
    }

    /// Sends the file until it or the feed ends.
    pub(super) fn play(mut self, feed: &Feed<'_>) -> anyhow::Result<()> {
        let path = self.path.clone();
        let cannot_read = || format!("cannot read {}", path.display());
        let mut splitter = Splitter::new(self.kind);
        let start_at = feed.clock.now();
        let mut buffer = vec![0; READ_BYTES];
        let mut has_sent = false;
        loop {
            let len = self.bytes.read(&mut buffer).with_context(cannot_read)?;
            splitter.push(&buffer[..len]);
            while let Some(unit) = splitter.next(len == 0) {
                if !feed.wait_until(start_at + unit.due) || !send(feed, unit) {
                    return Ok(());
                }
                has_sent = true;
            }
            if len == 0 {
                break;
            }
        }
        self.bytes.finish(&path)?;
        if !has_sent {
            bail!("{} holds no video", path.display());
        }
        Ok(())
    }
}

fn send(feed: &Feed<'_>, unit: Unit) -> bool {
    let captured_at = feed.clock.now();
    let index = feed.ledger.on_captured(captured_at);
    let frame = Frame {
        bytes: unit.bytes.into(),
        importance: unit.importance,
        captured_at,
    };
    feed.send(index, &frame, &frame.bytes)
}

fn remux(path: &Path) -> anyhow::Result<Child> {
    Command::new("ffmpeg")
        .args(remux_arguments(path))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => anyhow::anyhow!(
                "{} is neither MPEG-TS nor an H.264 byte stream, and ffmpeg, which could turn it \
                 into one, is not installed",
                path.display()
            ),
            _ => anyhow::Error::new(error).context("cannot start ffmpeg"),
        })
}

impl Bytes {
    /// As [`Read::read`], interruptions passed over.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Bytes::File(file) => file.read(buffer),
                Bytes::Remuxed(child) => match &mut child.stdout {
                    Some(stdout) => stdout.read(buffer),
                    None => Ok(0),
                },
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Whether the whole file was read.
    fn finish(&mut self, path: &Path) -> anyhow::Result<()> {
        if let Bytes::Remuxed(child) = self {
            let status = child.wait().context("cannot wait for ffmpeg")?;
            if !status.success() {
                bail!("ffmpeg cannot turn {} into MPEG-TS", path.display());
            }
        }
        Ok(())
    }
}

impl Drop for Bytes {
    /// A file that is not played to its end leaves no program behind.
    fn drop(&mut self) {
        if let Bytes::Remuxed(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Units out of bytes, each with its time.
enum Splitter {
    MpegTs {
        splitter: Box<TransportUnitSplitter>,
        /// A unit without a time of its own goes with the one before it.
        last: Duration,
    },
    AnnexB {
        splitter: AccessUnitSplitter,
        next: Duration,
    },
}

impl Splitter {
    fn new(kind: UnitKind) -> Self {
        match kind {
            UnitKind::MpegTs => Splitter::MpegTs {
                splitter: Box::default(),
                last: Duration::ZERO,
            },
            UnitKind::AnnexB => Splitter::AnnexB {
                splitter: AccessUnitSplitter::new(),
                next: Duration::ZERO,
            },
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        match self {
            Splitter::MpegTs { splitter, .. } => splitter.push(bytes),
            Splitter::AnnexB { splitter, .. } => splitter.push(bytes),
        }
    }

    /// The next unit; where the file `has_ended`, also the last one.
    fn next(&mut self, has_ended: bool) -> Option<Unit> {
        match self {
            Splitter::MpegTs { splitter, last } => {
                let unit = match has_ended {
                    true => splitter.finish(),
                    false => splitter.next_unit(),
                }?;
                *last = unit.clock.unwrap_or(*last);
                Some(Unit {
                    bytes: unit.bytes,
                    importance: unit.importance,
                    due: *last,
                })
            }
            Splitter::AnnexB { splitter, next } => {
                let unit = match splitter.next_unit() {
                    None if has_ended => splitter.finish(),
                    unit => unit,
                }?;
                let due = *next;
                *next += splitter.frame_interval();
                Some(Unit {
                    bytes: unit.annex_b,
                    importance: unit.importance,
                    due,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_units_come_at_frame_intervals_and_the_last_at_the_end() {
        let mut splitter = Splitter::new(UnitKind::AnnexB);
        splitter.push(&[0, 0, 0, 1, 0x65, 0x80, 7, 0, 0, 0, 1, 0x41, 0x80, 9]);
        let first = splitter.next(false).expect("the next one has started");
        assert_eq!(
            (first.importance, first.due),
            (Importance::Key, Duration::ZERO)
        );
        assert!(splitter.next(false).is_none());
        let last = splitter.next(true).expect("the stream has ended");
        assert_eq!(last.bytes, [0, 0, 0, 1, 0x41, 0x80, 9]);
        assert_eq!(last.importance, Importance::Reference);
        assert_eq!(last.due, Duration::from_millis(40));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = VideoFile::open(Path::new("/nowhere.mp4")).unwrap_err();
        assert!(error.to_string().contains("/nowhere.mp4"), "{error}");
    }
}
