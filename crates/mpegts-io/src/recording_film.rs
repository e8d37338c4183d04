//! The fragmented MP4 of a recording whose name ends in `.mp4`. A player can open it while it is
//! written, and after a crash, too.

use std::borrow::Cow;
use std::io;

use anabranch_units::{Duration, Instant};
use anabranch_video::mpeg_ts::{TICKS_PER_SECOND, VideoCodec};
use anabranch_viewers::SamplePace;
use anabranch_viewers::fragments;
use anabranch_viewers::samples::{Format, Kind, Sample, Sampler};

/// Time for which a film waits for its first frame of sound, if the stream's tables name a sound.
const SOUND_WAIT: u64 = TICKS_PER_SECOND;
/// Maximum number of samples that wait for the film's beginning.
const MAX_WAITING: usize = 1_000;
/// Time after which a stream without pictures that a film can hold is a failure.
const PATIENCE: Duration = Duration::from_secs(10);

/// Effect of a piece of the stream on the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Appends bytes to the file.
    Append(Vec<u8>),
    /// Begins another file with these bytes: the pictures have other parameters.
    Begin(Vec<u8>),
}

/// Makes a film of one stream.
#[derive(Debug, Default)]
pub(super) struct Film {
    sampler: Sampler,
    /// Format of the film; `None` before its first key picture.
    format: Option<Format>,
    /// Samples before the film's beginning.
    waiting: Vec<Sample>,
    fragment_count: u32,
    pictures: SamplePace,
    sounds: SamplePace,
    /// Time of the first piece without a film.
    lacking_since: Option<Instant>,
}

impl Film {
    /// Begins another file with the next piece.
    pub(super) fn restart(&mut self) {
        self.format = None;
        self.waiting.clear();
        (self.pictures, self.sounds) = Default::default();
    }

    /// Takes transport packets, up to the end of a picture.
    ///
    /// # Errors
    /// The stream has no pictures that a film can hold.
    pub(super) fn push(&mut self, now: Instant, packets: &[u8]) -> io::Result<Vec<Step>> {
        self.sampler.push(now, packets);
        let mut steps = Vec::new();
        while let Some(sample) = self.sampler.next_sample() {
            self.take(sample, &mut steps);
        }
        if self.format.is_some() {
            self.lacking_since = None;
            return Ok(steps);
        }
        let since = *self.lacking_since.get_or_insert(now);
        if now >= since + PATIENCE {
            self.lacking_since = Some(now);
            let what: Cow<'_, str> = match self.sampler.format().video {
                Some(VideoCodec::H264) => "no key picture of H.264 has come".into(),
                Some(codec) => format!("the pictures are {codec:?}").into(),
                None => "no pictures have come".into(),
            };
            return Err(io::Error::other(format!(
                "{what}: MP4 is written of H.264 alone; name the file .ts"
            )));
        }
        Ok(steps)
    }

    fn take(&mut self, sample: Sample, steps: &mut Vec<Step>) {
        let known = self.sampler.format();
        let has_changed = self
            .format
            .as_ref()
            .is_some_and(|format| format.parameters != known.parameters);
        if has_changed && sample.is_key {
            self.restart();
            self.begin(sample, steps);
        } else if self.format.is_some() {
            let fragment = self.fragment(&sample);
            append(steps, &fragment);
        } else {
            self.begin(sample, steps);
        }
    }

    /// Begins the film at a key picture, once the sound's format is known.
    fn begin(&mut self, sample: Sample, steps: &mut Vec<Step>) {
        if self.waiting.is_empty() && !sample.is_key {
            return;
        }
        self.waiting.push(sample);
        let format = self.sampler.format().clone();
        let first_at = self.waiting[0].decoded_at;
        let span = self.waiting[self.waiting.len() - 1]
            .decoded_at
            .saturating_sub(first_at);
        let lacks_sound = format.audio.is_some() && format.sound.is_none();
        if lacks_sound && span < SOUND_WAIT && self.waiting.len() < MAX_WAITING {
            return;
        }
        let Some(head) = fragments::head(&format) else {
            self.waiting.clear();
            return;
        };
        self.format = Some(format);
        let mut bytes = head.to_vec();
        for sample in core::mem::take(&mut self.waiting) {
            bytes.extend(self.fragment(&sample));
        }
        steps.push(Step::Begin(bytes));
    }

    /// Returns a sample's fragment; nothing for a sound that the film's beginning does not have.
    fn fragment(&mut self, sample: &Sample) -> Vec<u8> {
        let duration = match sample.kind {
            Kind::Picture => self.pictures.duration(sample.decoded_at),
            Kind::Sound(sound) => {
                let format = self.format.as_ref();
                if format.is_none_or(|format| format.sound != Some(sound)) {
                    return Vec::new();
                }
                self.sounds.duration(sample.decoded_at)
            }
        };
        self.fragment_count = self.fragment_count.wrapping_add(1);
        fragments::fragment(sample, duration, self.fragment_count).to_vec()
    }
}

/// Appends to the last step, whichever it is.
fn append(steps: &mut Vec<Step>, bytes: &[u8]) {
    match steps.last_mut() {
        Some(Step::Append(before) | Step::Begin(before)) => before.extend_from_slice(bytes),
        None => steps.push(Step::Append(bytes.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{KEY_FRAME_INTERVAL, encoded, transport_stream};

    /// Returns the names of the boxes of a file, which must end with its last box.
    fn boxes(mut bytes: &[u8]) -> Vec<String> {
        let mut names = Vec::new();
        while !bytes.is_empty() {
            let length = u32::from_be_bytes(*bytes.first_chunk().unwrap()) as usize;
            names.push(String::from_utf8_lossy(&bytes[4..8]).into_owned());
            bytes = &bytes[length..];
        }
        names
    }

    /// Returns MPEG-TS of the pictures from `first` on, of which each call of `push` gets one.
    fn pieces(first: usize, count: usize) -> Vec<Vec<u8>> {
        let pictures: Vec<_> = encoded(count as u32).into_iter().enumerate().collect();
        pictures[first..]
            .iter()
            .map(|picture| transport_stream(core::slice::from_ref(picture), Duration::ZERO))
            .collect()
    }

    fn push_all(film: &mut Film, pieces: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut files: Vec<Vec<u8>> = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            let now = Instant::from_millis(40 * number as u64);
            for step in film.push(now, piece).unwrap() {
                match step {
                    Step::Begin(bytes) => files.push(bytes),
                    Step::Append(bytes) => files.last_mut().unwrap().extend(bytes),
                }
            }
        }
        files
    }

    #[test]
    fn a_film_begins_at_a_key_picture_and_has_a_fragment_for_each() {
        // The first pictures depend on one that never came.
        let mut film = Film::default();
        let files = push_all(&mut film, &pieces(3, 60));
        let [file] = &files[..] else {
            panic!("{} files", files.len())
        };
        let fragments = (60 - KEY_FRAME_INTERVAL) * 2;
        let names = boxes(file);
        assert_eq!(names[..2], ["ftyp", "moov"]);
        assert_eq!(names.len(), 2 + fragments);
        let pairs = names[2..].chunks(2);
        assert!(pairs.into_iter().all(|pair| pair == ["moof", "mdat"]));
    }

    #[test]
    fn a_stream_without_pictures_of_h264_is_a_failure_that_says_so() {
        let mut film = Film::default();
        let null = [&[0x47, 0x1f, 0xff, 0x10][..], &[0xff; 184]].concat();
        assert_eq!(film.push(Instant::ZERO, &null).unwrap(), []);
        let late = Instant::ZERO + PATIENCE;
        let error = film.push(late, &null).unwrap_err().to_string();
        assert!(
            error.contains("no pictures") && error.contains(".ts"),
            "{error}"
        );
        assert!(film.push(late, &null).is_ok(), "once in this time");
    }
}
