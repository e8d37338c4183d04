//! Viewers of a stream as fragmented MP4, and the pictures since the last key picture, with which
//! each of them begins.

use anabranch_units::MemoryShare;
use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::fragments;
use crate::sample_pace::SamplePace;
use crate::samples::{Format, Kind, Sample};
use anabranch_video::mpeg_ts::TICKS_PER_SECOND;

/// Most viewers of one stream as a film.
pub(crate) const MAX_FILMS_OF_STREAM: usize = 8;
/// Fragments that wait for a viewer: two seconds and more of 50 pictures and 47 frames of sound.
/// All viewers share the fragments.
const MAX_WAITING: usize = 256;
/// Longest span that is kept for newcomers. Chosen: key pictures of live encoders are 1 to 4 s
/// apart, and more takes a browser long to skip.
const LONGEST_BACKLOG: u64 = 10 * TICKS_PER_SECOND;

/// The film of one stream.
#[derive(Debug)]
pub(crate) struct Films {
    backlog: Backlog,
    viewers: Vec<Viewer>,
    fragment_count: u32,
    pictures: SamplePace,
    sounds: SamplePace,
}

/// Samples since the last key picture.
#[derive(Debug)]
struct Backlog {
    samples: Vec<(Sample, u64)>,
    memory: MemoryShare,
}

#[derive(Debug)]
struct Viewer {
    fragments: mpsc::Sender<Bytes>,
    awaits_key: bool,
    has_sound: bool,
}

impl Films {
    /// Creates the film of a stream without viewers. Its backlog takes `memory`.
    pub(crate) fn new(memory: MemoryShare) -> Self {
        Films {
            backlog: Backlog {
                samples: Vec::new(),
                memory,
            },
            viewers: Vec::new(),
            fragment_count: 0,
            pictures: SamplePace::default(),
            sounds: SamplePace::default(),
        }
    }

    /// Returns the number of viewers.
    pub(crate) fn count(&mut self) -> usize {
        self.viewers.retain(|viewer| !viewer.fragments.is_closed());
        self.viewers.len()
    }

    /// Adds a viewer. Returns the film's pieces from its beginning on; `None` without pictures.
    pub(crate) fn add(&mut self, format: &Format, wants_sound: bool) -> Option<FilmPieces> {
        let has_sound = wants_sound && format.sound.is_some();
        let silent;
        let format = if has_sound {
            format
        } else {
            silent = Format {
                sound: None,
                ..format.clone()
            };
            &silent
        };
        let mut begin = BytesMut::from(&fragments::head(format)?[..]);
        let samples = self.backlog.samples.iter();
        for (sample, duration) in samples.filter(|it| has_sound || it.0.kind == Kind::Picture) {
            self.fragment_count = self.fragment_count.wrapping_add(1);
            begin.extend(fragments::fragment(sample, *duration, self.fragment_count));
        }
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        sender.try_send(begin.freeze()).ok()?;
        self.viewers.push(Viewer {
            fragments: sender,
            awaits_key: self.backlog.samples.is_empty(),
            has_sound,
        });
        Some(FilmPieces {
            media_type: fragments::media_type(format)?,
            pieces: receiver,
        })
    }

    /// Sends a sample to all viewers. One that does not read goes on at the next key picture.
    pub(crate) fn write(&mut self, sample: &Sample) {
        let duration = match sample.kind {
            Kind::Picture => self.pictures.duration(sample.decoded_at),
            Kind::Sound(_) => self.sounds.duration(sample.decoded_at),
        };
        self.backlog.push(sample, duration);
        if self.viewers.is_empty() {
            return;
        }
        self.fragment_count = self.fragment_count.wrapping_add(1);
        let fragment = fragments::fragment(sample, duration, self.fragment_count);
        self.viewers
            .retain_mut(|viewer| viewer.take(sample, &fragment));
    }

    /// Ends the film for all its viewers, because later samples do not continue it. They may ask
    /// again.
    pub(crate) fn end(&mut self) {
        self.backlog.clear();
        self.viewers.clear();
        (self.pictures, self.sounds) = Default::default();
    }
}

impl Viewer {
    /// Sends a fragment, unless it depends on one that the viewer lacks. Returns whether the viewer
    /// is still there.
    fn take(&mut self, sample: &Sample, fragment: &Bytes) -> bool {
        if sample.kind != Kind::Picture && !self.has_sound {
            return !self.fragments.is_closed();
        }
        if self.awaits_key && !sample.is_key {
            return !self.fragments.is_closed();
        }
        match self.fragments.try_send(fragment.clone()) {
            Ok(()) => self.awaits_key = false,
            Err(TrySendError::Full(_)) => self.awaits_key = true,
            Err(TrySendError::Closed(_)) => return false,
        }
        true
    }
}

impl Backlog {
    fn push(&mut self, sample: &Sample, duration: u64) {
        if sample.is_key {
            self.clear();
        }
        let Some((first, _)) = self.samples.first() else {
            if sample.is_key {
                self.add(sample, duration);
            }
            return;
        };
        let span = sample.decoded_at.saturating_sub(first.decoded_at);
        // Without its beginning, the rest is of no use.
        if span > LONGEST_BACKLOG || self.memory.is_exceeded_with(sample.bytes.len()) {
            self.clear();
        } else {
            self.add(sample, duration);
        }
    }

    fn add(&mut self, sample: &Sample, duration: u64) {
        self.memory.add(sample.bytes.len());
        self.samples.push((sample.clone(), duration));
    }

    fn clear(&mut self) {
        self.samples.clear();
        self.memory.set(0);
    }
}

/// The pieces of a film for one viewer.
#[derive(Debug)]
pub struct FilmPieces {
    /// Its media type with codecs.
    pub media_type: String,
    /// Its bytes; the first piece is its beginning. They end when the stream's format changes.
    pub pieces: mpsc::Receiver<Bytes>,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_units::SharedMemory;
    use anabranch_video::mpeg_ts::VideoCodec;
    use anabranch_video::parameters::Parameters;

    use super::*;

    fn format() -> Format {
        Format {
            video: Some(VideoCodec::H264),
            parameters: Some(Parameters {
                sps: vec![0x67, 0x64, 0, 0x1e],
                pps: vec![0x68],
                width: 640,
                height: 360,
            }),
            ..Format::default()
        }
    }

    fn picture(number: u64, len: usize) -> Sample {
        let bytes: Arc<[u8]> = [&[0, 0, 0, 1, 0x41][..], &vec![7; len]].concat().into();
        Sample {
            kind: Kind::Picture,
            bytes,
            presented_at: number * 3_600,
            decoded_at: number * 3_600,
            is_key: number.is_multiple_of(10),
            epoch: 0,
        }
    }

    fn films(most: usize) -> Films {
        Films::new(SharedMemory::new(most).share())
    }

    /// Returns the names of the boxes in some bytes.
    fn boxes(mut bytes: &[u8]) -> Vec<String> {
        let mut names = Vec::new();
        while let [a, b, c, d, name @ ..] = bytes {
            let len = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            names.push(String::from_utf8_lossy(&name[..4]).into_owned());
            bytes = &bytes[len..];
        }
        names
    }

    #[test]
    fn a_newcomer_begins_with_the_last_key_picture() {
        let mut films = films(1 << 20);
        (0..23).for_each(|number| films.write(&picture(number, 100)));
        let mut film = films.add(&format(), true).unwrap();
        assert_eq!(film.media_type, "video/mp4; codecs=\"avc1.64001e\"");
        let names = boxes(&film.pieces.try_recv().unwrap());
        assert_eq!(names[..2], ["ftyp", "moov"]);
        assert_eq!(names[2..], ["moof", "mdat"].repeat(3));
        films.write(&picture(23, 100));
        assert_eq!(boxes(&film.pieces.try_recv().unwrap()), ["moof", "mdat"]);
        assert_eq!(films.count(), 1);
        drop(film);
        assert_eq!(films.count(), 0);
    }

    #[test]
    fn a_viewer_that_does_not_read_goes_on_at_a_key_picture() {
        let mut films = films(1 << 20);
        films.write(&picture(0, 10));
        let mut film = films.add(&format(), false).unwrap();
        (1..400).for_each(|number| films.write(&picture(number, 10)));
        let mut count = 0;
        while film.pieces.try_recv().is_ok() {
            count += 1;
        }
        assert_eq!(count, MAX_WAITING);
        (401..409).for_each(|number| films.write(&picture(number, 10)));
        assert!(film.pieces.try_recv().is_err());
        films.write(&picture(410, 10));
        assert!(film.pieces.try_recv().is_ok());
    }

    #[test]
    fn a_backlog_beyond_its_memory_or_span_is_given_up() {
        let mut films = films(4_000);
        films.write(&picture(0, 1_500));
        assert_eq!(films.backlog.samples.len(), 1);
        films.write(&picture(1, 1_500));
        assert_eq!(films.backlog.samples.len(), 0);
        films.write(&picture(2, 10));
        assert_eq!(films.backlog.samples.len(), 0);
        films.write(&picture(10, 10));
        assert_eq!(films.backlog.samples.len(), 1);
        films.write(&picture(10 + 251, 10));
        assert_eq!(films.backlog.samples.len(), 0);
    }

    #[test]
    fn a_film_ends_for_all_when_it_cannot_go_on() {
        let mut films = films(1 << 20);
        films.write(&picture(0, 10));
        let mut film = films.add(&format(), false).unwrap();
        films.end();
        assert!(film.pieces.try_recv().is_ok());
        assert!(matches!(
            film.pieces.try_recv(),
            Err(mpsc::error::TryRecvError::Disconnected)
        ));
    }
}
