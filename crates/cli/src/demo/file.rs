//! The source with its own bitrate: a file, sent by its own clock.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::Child;

use anabranch_core::Frame;
use anabranch_mpegts_io::{FilmUnit, Reading, TimedUnits, UnitSplitter, remux};
use anabranch_units::Duration;
use anabranch_video::input::{InputKind, PROBE_LEN, probe};
use anyhow::{Context, bail};

use super::feed::Feed;

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// A file that is open for reading, remuxed if need be.
#[derive(Debug)]
pub(super) struct VideoFile {
    /// Format of the file; any other format is remuxed to MPEG-TS.
    pub(super) kind: InputKind,
    path: PathBuf,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    File(File),
    Remuxed(Child),
}

impl VideoFile {
    /// Opens the file, and starts `ffmpeg` if it is neither MPEG-TS nor Annex B.
    pub(super) fn open(path: &Path) -> anyhow::Result<VideoFile> {
        let cannot_read = || format!("cannot read {}", path.display());
        let mut file = File::open(path).with_context(cannot_read)?;
        let mut first = Vec::new();
        file.by_ref()
            .take(PROBE_LEN as u64)
            .read_to_end(&mut first)
            .with_context(cannot_read)?;
        file.rewind().with_context(cannot_read)?;
        let kind = probe(&first);
        let bytes = match kind {
            InputKind::MpegTs | InputKind::AnnexB => Bytes::File(file),
            InputKind::Elementary | InputKind::Other => Bytes::Remuxed(remux(path, kind)?),
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
        let mut units = TimedUnits::new(UnitSplitter::stored(self.kind));
        let mut due = Duration::ZERO;
        let start_at = feed.clock.now();
        let mut buffer = vec![0; READ_BYTES];
        let mut has_sent = false;
        loop {
            let len = self.bytes.read(&mut buffer).with_context(cannot_read)?;
            units.push(&buffer[..len]);
            while let Some((unit, unit_due)) = units.next(Reading::has_ended(len == 0)) {
                due = unit_due.unwrap_or(due);
                if !feed.wait_until(start_at + due) || !send(feed, unit) {
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

fn send(feed: &Feed<'_>, unit: FilmUnit) -> bool {
    let captured_at = feed.clock.now();
    let index = feed.ledger.on_captured(captured_at);
    let frame = Frame {
        bytes: unit.bytes.into(),
        importance: unit.importance,
        captured_at,
    };
    feed.send(index, &frame, &frame.bytes)
}

impl Bytes {
    /// Reads as [`Read::read`] does, and retries after interruptions.
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

    /// Checks that the whole file was read.
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
    /// Kills `ffmpeg` if the file was not played to its end.
    fn drop(&mut self) {
        if let Bytes::Remuxed(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let error = VideoFile::open(Path::new("/nowhere.mp4")).unwrap_err();
        assert!(error.to_string().contains("/nowhere.mp4"), "{error}");
    }
}
