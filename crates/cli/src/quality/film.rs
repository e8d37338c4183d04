//! A film that is compared: its pictures' marks first, then the pictures themselves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anabranch_units::Duration;
use anabranch_video::alignment::{Mark, PresentationClock};
use anabranch_video::annex_b;
use anabranch_video::decoder::H264Decoder;
use anabranch_video::frame_trace::PictureType;
use anabranch_video::mpeg_ts::VideoCodec;
use anyhow::{bail, ensure};

use crate::io::{CodedPicture, PictureReader};

/// What is known of a film before it is decoded.
#[derive(Debug)]
pub(super) struct Film {
    pub(super) path: PathBuf,
    /// Of its pictures, in coding order.
    pub(super) marks: Vec<Mark>,
    /// From the first picture's time to the last one's, and once the mean interval.
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
        while let Some(picture) = reader.next()? {
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

    /// The place of each picture in the order of display.
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

/// The luma of a decoded picture, rows without padding.
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

/// A film's pictures as they are decoded, in the order of display.
#[derive(Debug)]
pub(super) struct Track {
    reader: PictureReader,
    decoder: H264Decoder,
    /// Of each picture in coding order; `None`: it is decoded, but not shown.
    ranks: std::vec::IntoIter<Option<usize>>,
    /// Decoded, and shown later.
    ready: BTreeMap<usize, Option<Luma>>,
}

impl Track {
    pub(super) fn open(film: &Film, ranks: Vec<Option<usize>>) -> anyhow::Result<Track> {
        Ok(Track {
            reader: PictureReader::open(&film.path)?,
            decoder: H264Decoder::new()?,
            ranks: ranks.into_iter(),
            ready: BTreeMap::new(),
        })
    }

    /// The picture with this place, which must be one that the film has, and behind those that were
    /// asked for before; `None` if it cannot be decoded.
    pub(super) fn picture(&mut self, rank: usize) -> anyhow::Result<Option<Luma>> {
        while !self.ready.contains_key(&rank) {
            let (Some(picture), Some(of)) = (self.reader.next()?, self.ranks.next()) else {
                bail!("a film became shorter while it was read");
            };
            let luma = self.decode(&picture);
            if let Some(of) = of {
                self.ready.insert(of, luma);
            }
        }
        Ok(self.ready.remove(&rank).flatten())
    }

    fn decode(&mut self, picture: &CodedPicture) -> Option<Luma> {
        let decoded = self.decoder.decode(&picture.bytes).ok()??;
        Some(Luma {
            width: decoded.width(),
            bytes: decoded.packed_luma(),
        })
    }
}
