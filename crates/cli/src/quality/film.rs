//! A compared film: first the marks of its pictures, then the pictures themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anabranch_mpegts_io::{CodedPicture, PictureReader};
use anabranch_units::Duration;
use anabranch_video::alignment::{Mark, PresentationClock};
use anabranch_video::annex_b;
use anabranch_video::decoder::{DecodeError, Decoded, H264Decoder};
use anabranch_video::frame_trace::PictureType;
use anabranch_video::mpeg_ts::VideoCodec;
use anyhow::{bail, ensure};

/// Properties of a film before it is decoded.
#[derive(Debug)]
pub(super) struct Film {
    pub(super) path: PathBuf,
    /// Marks of its pictures, in coding order.
    pub(super) marks: Vec<Mark>,
    /// Time from the first picture to the last one, plus one mean interval.
    pub(super) duration: Duration,
    has_b_pictures: bool,
}

impl Film {
    pub(super) fn scan(path: &Path) -> anyhow::Result<Film> {
        let shown = path.display();
        let mut reader = PictureReader::open(path)?;
        let mut clock = PresentationClock::default();
        let (mut marks, mut has_b_pictures) = (Vec::new(), false);
        let (mut first, mut last) = (None, Duration::ZERO);
        while let Some(picture) = reader.next_picture()? {
            ensure!(
                picture.codec == VideoCodec::H264,
                "the video in {shown} is not H.264, and nothing else is decoded here. ffmpeg \
                 compares others, if no picture is missing: ffmpeg -i RECEIVED -i SOURCE -lavfi \
                 psnr -f null -"
            );
            marks.push(Mark {
                presented_at: picture.presented_at.map(|counter| clock.unwrap(counter)),
                fingerprint: annex_b::fingerprint(&picture.bytes),
            });
            has_b_pictures |= annex_b::picture_type(&picture.bytes) == Some(PictureType::B);
            first = first.or(Some(picture.due));
            last = picture.due;
        }
        let Some(first) = first else {
            bail!("{shown} holds no video");
        };
        let span = last - first;
        let step_count = (marks.len() as u64 - 1).max(1);
        Ok(Film {
            path: path.to_owned(),
            marks,
            duration: span + span / step_count,
            has_b_pictures,
        })
    }

    /// Returns the position of each picture in the order of display.
    pub(super) fn ranks(&self) -> anyhow::Result<Vec<usize>> {
        let is_timed = self.marks.iter().all(|mark| mark.presented_at.is_some());
        ensure!(
            is_timed || !self.has_b_pictures,
            "{} has B pictures and does not say when each is shown: take the MPEG-TS that was \
             sent, or make one with `ffmpeg -i {0} -c copy source.ts`",
            self.path.display()
        );
        let mut order: Vec<usize> = (0..self.marks.len()).collect();
        if is_timed {
            order.sort_by_key(|index| self.marks[*index].presented_at);
        }
        let mut ranks = vec![0; order.len()];
        for (rank, index) in order.into_iter().enumerate() {
            ranks[index] = rank;
        }
        Ok(ranks)
    }
}

/// Luma of a decoded picture, rows without padding.
#[derive(Debug)]
pub(super) struct Luma {
    pub(super) bytes: Vec<u8>,
    width: usize,
}

impl Luma {
    pub(super) fn size(&self) -> (usize, usize) {
        (self.width, self.bytes.len() / self.width)
    }
}

impl From<Decoded<'_>> for Luma {
    fn from(picture: Decoded<'_>) -> Luma {
        Luma {
            width: picture.width(),
            bytes: picture.packed_luma(),
        }
    }
}

/// Decoder of a film's pictures in the order of display.
#[derive(Debug)]
pub(super) struct Track {
    reader: PictureReader,
    decoder: H264Decoder,
    /// Whether the decoder returns pictures with a delay, in the order of display.
    is_reordered: bool,
    /// Position of each picture in coding order; `None` if it is decoded but not shown.
    ranks: std::vec::IntoIter<Option<usize>>,
    /// Positions of the pictures in the decoder.
    pending: BTreeSet<usize>,
    /// Decoded pictures that are shown later.
    ready: BTreeMap<usize, Option<Luma>>,
}

impl Track {
    pub(super) fn open(film: &Film, ranks: Vec<Option<usize>>) -> anyhow::Result<Track> {
        let is_reordered = film.has_b_pictures;
        Ok(Track {
            reader: PictureReader::open(&film.path)?,
            decoder: decoder(is_reordered)?,
            is_reordered,
            ranks: ranks.into_iter(),
            pending: BTreeSet::new(),
            ready: BTreeMap::new(),
        })
    }

    /// Returns the picture at this position, or `None` if it cannot be decoded. The film must have
    /// it, and positions must increase from call to call.
    pub(super) fn picture(&mut self, rank: usize) -> anyhow::Result<Option<Luma>> {
        while !self.ready.contains_key(&rank) {
            match (self.reader.next_picture()?, self.ranks.next()) {
                (Some(picture), Some(of)) => self.decode(&picture, of)?,
                _ if self.pending.is_empty() => bail!("a film became shorter while it was read"),
                _ => self.finish(),
            }
        }
        Ok(self.ready.remove(&rank).flatten())
    }

    fn decode(&mut self, picture: &CodedPicture, of: Option<usize>) -> anyhow::Result<()> {
        let decoded = self
            .decoder
            .decode(&picture.bytes)
            .map(|picture| picture.map(Luma::from));
        match decoded {
            Ok(luma) if self.is_reordered => {
                self.pending.extend(of);
                if let Some(luma) = luma
                    && let Some(first) = self.pending.pop_first()
                {
                    self.ready.insert(first, Some(luma));
                }
            }
            Ok(luma) => self.ready.extend(of.map(|of| (of, luma))),
            Err(_) => {
                self.ready.extend(of.map(|of| (of, None)));
                if self.is_reordered {
                    // The content of the decoder may be out of step. It would need a key frame
                    // anyway.
                    self.finish();
                    self.decoder = decoder(true)?;
                }
            }
        }
        Ok(())
    }

    /// Empties the decoder.
    fn finish(&mut self) {
        let mut rest = self.decoder.finish().into_iter().map(Luma::from);
        for rank in core::mem::take(&mut self.pending) {
            self.ready.insert(rank, rest.next());
        }
    }
}

fn decoder(is_reordered: bool) -> Result<H264Decoder, DecodeError> {
    if is_reordered {
        H264Decoder::in_display_order()
    } else {
        H264Decoder::new()
    }
}
