//! A film's coded pictures, one after the other.

use std::path::Path;

use anabranch_net::Clock;
use anabranch_units::{Duration, Importance};
use anabranch_video::annex_b::AccessUnitSplitter;
use anabranch_video::input::InputKind;
use anabranch_video::mpeg_ts::{PictureExtractor, TransportUnitSplitter, VideoCodec};
use anyhow::Context;

use super::source::{Bytes, READ_BYTES, Source};
use crate::stop::Stop;

/// How long to wait for what ffmpeg makes, at a time.
const PATIENCE: Duration = Duration::from_secs(1);

/// One coded picture, in coding order.
#[derive(Clone, Debug)]
pub(crate) struct CodedPicture {
    /// A byte stream, without what the container adds.
    pub(crate) bytes: Vec<u8>,
    pub(crate) codec: VideoCodec,
    /// What is lost with it.
    pub(crate) importance: Importance,
    /// When it is due on the way to a decoder; never decreases.
    pub(crate) due: Duration,
    /// When it is shown: 33 bits in units of 1/90,000 s, where the film says it.
    pub(crate) presented_at: Option<u64>,
}

/// Reads a file to its end.
#[derive(Debug)]
pub(crate) struct PictureReader {
    shown: String,
    source: Source,
    splitter: Splitter,
    buffer: Vec<u8>,
    has_ended: bool,
    stop: Stop,
    clock: Clock,
}

#[derive(Debug)]
enum Splitter {
    MpegTs {
        splitter: Box<TransportUnitSplitter>,
        extractor: PictureExtractor,
        last: Duration,
    },
    AnnexB {
        splitter: AccessUnitSplitter,
        next: Duration,
    },
}

impl PictureReader {
    /// Opens a film: MPEG-TS or an H.264 byte stream as it is, others by way of ffmpeg.
    pub(crate) fn open(path: &Path) -> anyhow::Result<PictureReader> {
        let (source, kind, first) = Source::open_file(path)?;
        let mut splitter = Splitter::new(kind);
        splitter.push(&first);
        Ok(PictureReader {
            shown: path.display().to_string(),
            source,
            splitter,
            buffer: vec![0; READ_BYTES],
            has_ended: false,
            stop: Stop::new()?,
            clock: Clock::start(),
        })
    }

    /// The next picture; `None` at the end.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<CodedPicture>> {
        loop {
            if let Some(picture) = self.splitter.next(self.has_ended) {
                return Ok(Some(picture));
            }
            if self.has_ended {
                return Ok(None);
            }
            let mut waited = Duration::ZERO;
            let (stop, clock) = (&self.stop, &self.clock);
            let read = &mut self.source;
            let read = read.read(&mut self.buffer, PATIENCE, stop, clock, &mut waited);
            match read.with_context(|| format!("cannot read {}", self.shown))? {
                Bytes::Some(bytes) => self.splitter.push(&self.buffer[..bytes]),
                Bytes::NoneYet => {}
                Bytes::End => self.has_ended = true,
            }
        }
    }
}

impl Splitter {
    fn new(kind: InputKind) -> Self {
        match kind {
            InputKind::AnnexB => Splitter::AnnexB {
                splitter: AccessUnitSplitter::new(),
                next: Duration::ZERO,
            },
            InputKind::MpegTs | InputKind::Other => Splitter::MpegTs {
                splitter: Box::default(),
                extractor: PictureExtractor::new(),
                last: Duration::ZERO,
            },
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        match self {
            Splitter::MpegTs { splitter, .. } => splitter.push(bytes),
            Splitter::AnnexB { splitter, .. } => splitter.push(bytes),
        }
    }

    /// The next picture; where the film `has_ended`, also the last one.
    fn next(&mut self, has_ended: bool) -> Option<CodedPicture> {
        match self {
            Splitter::MpegTs {
                splitter,
                extractor,
                last,
            } => loop {
                let unit = match has_ended {
                    true => splitter.finish(),
                    false => splitter.next_unit(),
                }?;
                *last = unit.clock.unwrap_or(*last);
                // Some units hold tables or sound alone.
                let Some(picture) = extractor.extract(&unit.bytes) else {
                    continue;
                };
                return Some(CodedPicture {
                    bytes: picture.bytes,
                    codec: picture.codec,
                    importance: unit.importance,
                    due: *last,
                    presented_at: picture.presented_at,
                });
            },
            Splitter::AnnexB { splitter, next } => {
                let unit = match splitter.next_unit() {
                    None if has_ended => splitter.finish(),
                    unit => unit,
                }?;
                let due = *next;
                *next += splitter.frame_interval();
                Some(CodedPicture {
                    bytes: unit.annex_b,
                    codec: VideoCodec::H264,
                    importance: unit.importance,
                    due,
                    presented_at: None,
                })
            }
        }
    }
}
