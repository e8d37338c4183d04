//! A film's coded pictures, one after the other.

use std::path::Path;

use anabranch_net::Clock;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Importance};
use anabranch_video::input::InputKind;
use anabranch_video::mpeg_ts::{PictureExtractor, VideoCodec};

use super::input_error::InputError;
use super::source::{Bytes, READ_BYTES, Source, Wait};
use super::units::{Reading, UnitSplitter};

/// Longest single wait for ffmpeg's output.
const PATIENCE: Duration = Duration::from_secs(1);

/// One coded picture, in coding order.
#[derive(Clone, Debug)]
pub struct CodedPicture {
    /// H.264 byte stream, without the container's bytes.
    pub bytes: Vec<u8>,
    /// Codec of the bytes.
    pub codec: VideoCodec,
    /// Importance for other pictures.
    pub importance: Importance,
    /// Decoding time, never decreasing.
    pub due: Duration,
    /// Presentation time in units of 1/90,000 s, 33 bits, if the film has it.
    pub presented_at: Option<u64>,
}

/// Reader of a film up to its end.
#[derive(Debug)]
pub struct PictureReader {
    shown: String,
    source: Source,
    splitter: UnitSplitter,
    /// Extractor of pictures from a transport stream's units; the units of a byte stream are
    /// pictures.
    extractor: Option<PictureExtractor>,
    /// Decoding time of the last unit.
    last_due: Duration,
    buffer: Vec<u8>,
    has_ended: bool,
    stop: Stop,
    clock: Clock,
}

impl PictureReader {
    /// Opens a film: MPEG-TS or an H.264 byte stream directly, others through ffmpeg.
    ///
    /// # Errors
    /// The file cannot be read, or ffmpeg is missing or cannot convert it.
    pub fn open(path: &Path) -> Result<PictureReader, InputError> {
        let (source, kind, first) = Source::open_file(path)?;
        let mut splitter = UnitSplitter::new(kind);
        splitter.push(&first);
        Ok(PictureReader {
            shown: path.display().to_string(),
            source,
            splitter,
            extractor: (kind != InputKind::AnnexB).then(PictureExtractor::new),
            last_due: Duration::ZERO,
            buffer: vec![0; READ_BYTES],
            has_ended: false,
            stop: Stop::new()?,
            clock: Clock::start(),
        })
    }

    /// Returns the next picture; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read, or ffmpeg has failed.
    pub fn next_picture(&mut self) -> Result<Option<CodedPicture>, InputError> {
        loop {
            if let Some(picture) = self.next_known() {
                return Ok(Some(picture));
            }
            if self.has_ended {
                return Ok(None);
            }
            let mut waited = Duration::ZERO;
            let wait = Wait {
                patience: PATIENCE,
                stop: &self.stop,
                clock: &self.clock,
            };
            let splitter = &mut self.splitter;
            let read = self.source.read(
                &mut self.buffer,
                wait,
                &mut waited,
                &mut |_, bytes: &[u8]| splitter.push(bytes),
            );
            match read {
                Ok(Bytes::Some | Bytes::NoneYet) => {}
                Ok(Bytes::End) => self.has_ended = true,
                Err(source) => {
                    let name = self.shown.clone();
                    return Err(InputError::Read { name, source });
                }
            }
        }
    }

    /// Returns the next picture of the bytes that have been read.
    fn next_known(&mut self) -> Option<CodedPicture> {
        loop {
            let unit = self.splitter.next(Reading::has_ended(self.has_ended))?;
            self.last_due = unit.clock.unwrap_or(self.last_due);
            let (bytes, codec, presented_at) = match &mut self.extractor {
                None => (unit.bytes, VideoCodec::H264, None),
                Some(extractor) => {
                    // Some units hold only tables or sound.
                    let Some(picture) = extractor.extract(&unit.bytes) else {
                        continue;
                    };
                    (picture.bytes, picture.codec, picture.presented_at)
                }
            };
            return Some(CodedPicture {
                bytes,
                codec,
                importance: unit.importance,
                due: self.last_due,
                presented_at,
            });
        }
    }
}
