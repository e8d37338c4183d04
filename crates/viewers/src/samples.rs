//! Pictures and sound of one stream, from its MPEG-TS, with times that go on.
//!
//! Times of a transport stream wrap, and begin elsewhere when an encoder restarts. Viewers need one
//! clock that never steps back.

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_units::{Duration, Instant};
use anabranch_video::annex_b;
use anabranch_video::mpeg_ts::{
    AudioCodec, ElementaryReader, ElementaryUnit, TICKS_PER_SECOND, Track, VideoCodec,
};
use anabranch_video::parameters::Parameters;

use crate::sound::{self, Sound};

/// Values of a timestamp in MPEG-TS, which has 33 bits.
const TIMESTAMPS: u64 = 1 << 33;
/// Step between two timestamps of a stream beyond which a new clock has begun. Chosen: longer than
/// pauses of encoders at low picture rates.
const LONGEST_STEP: u64 = 10 * TICKS_PER_SECOND;

/// Kind of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A coded picture: an H.264 access unit in Annex B. The first picture of a sequence brings its
    /// parameter sets.
    Picture,
    /// A frame of sound of this layout, as its codec defines it, without header.
    Sound(Sound),
}

/// A picture or a frame of sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its kind.
    pub kind: Kind,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// Time of presentation in ticks since the stream's first sample, and a second more.
    pub presented_at: u64,
    /// Time of decoding in the same ticks. Never decreases among samples of one kind.
    pub decoded_at: u64,
    /// Whether decoding can start here: an IDR picture.
    pub is_key: bool,
    /// Number of the clock that the sample belongs to. Between two of them there is a jump, or the
    /// format changed.
    pub epoch: u32,
}

/// Format of a stream, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// Codec of the pictures.
    pub video: Option<VideoCodec>,
    /// Parameter sets of H.264.
    pub parameters: Option<Parameters>,
    /// Codec of the sound.
    pub audio: Option<AudioCodec>,
    /// Layout of a sound that viewers can play.
    pub sound: Option<Sound>,
    /// Whether pictures are decoded in another order than shown (B pictures).
    pub reorders: bool,
}

/// Makes samples of one stream's MPEG-TS.
#[derive(Debug, Default)]
pub struct Sampler {
    reader: ElementaryReader,
    clock: Timeline,
    format: Format,
    epoch: u32,
    /// Latest presentation time of this epoch's pictures.
    latest_picture_at: u64,
    latest_sound_at: u64,
    complete: VecDeque<Sample>,
}

/// Timestamps of 33 bits as ticks that never jump back.
#[derive(Clone, Copy, Debug, Default)]
struct Timeline {
    latest: Option<Latest>,
}

#[derive(Clone, Copy, Debug)]
struct Latest {
    timestamp: u64,
    ticks: u64,
    at: Instant,
}

/// Ticks of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    ticks: u64,
    has_jumped: bool,
}

impl Sampler {
    /// Creates a sampler of a stream of which nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the format of the last sample.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Takes transport packets at `now`, up to the end of a picture.
    pub fn push(&mut self, now: Instant, packets: &[u8]) {
        self.reader.push(packets);
        self.reader.end_picture();
        let (video, audio) = self.reader.codecs();
        (self.format.video, self.format.audio) = (video, audio);
        while let Some(unit) = self.reader.next_unit() {
            match unit.track {
                Track::Video(VideoCodec::H264) => self.push_picture(now, unit),
                Track::Audio(codec) => self.push_sound(codec, &unit),
                Track::Video(_) => {}
            }
        }
    }

    /// Records that samples were lost: later ones belong to another epoch.
    pub fn skip(&mut self) {
        self.reader = ElementaryReader::new();
        self.begin_epoch();
    }

    /// Takes the next sample.
    pub fn next_sample(&mut self) -> Option<Sample> {
        self.complete.pop_front()
    }

    fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.latest_picture_at = 0;
    }

    fn push_picture(&mut self, now: Instant, unit: ElementaryUnit) {
        let Some(decoded_at) = unit.decoded_at else {
            return;
        };
        let placed = self.clock.place(now, decoded_at);
        if placed.has_jumped {
            self.begin_epoch();
        }
        let is_key = annex_b::is_key(&unit.bytes);
        let mut bytes = unit.bytes;
        if is_key {
            match Parameters::read(&bytes) {
                Some(parameters) if self.format.parameters.as_ref() != Some(&parameters) => {
                    if self.format.parameters.replace(parameters).is_some() {
                        self.begin_epoch();
                    }
                    self.format.reorders = false;
                }
                Some(_) => {}
                // Viewers may join at any key picture.
                None => bytes = self.with_parameters(&bytes),
            }
        }
        let presented = unit.presented_at.unwrap_or(decoded_at);
        let ahead = presented.wrapping_sub(decoded_at) % TIMESTAMPS;
        let ahead = if ahead < LONGEST_STEP { ahead } else { 0 };
        let presented_at = placed.ticks + ahead;
        self.format.reorders |= presented_at < self.latest_picture_at;
        self.latest_picture_at = self.latest_picture_at.max(presented_at);
        self.complete.push_back(Sample {
            kind: Kind::Picture,
            bytes: bytes.into(),
            presented_at,
            decoded_at: placed.ticks,
            is_key,
            epoch: self.epoch,
        });
    }

    fn push_sound(&mut self, codec: AudioCodec, unit: &ElementaryUnit) {
        let Some(timestamp) = unit.presented_at else {
            return;
        };
        let Some(first_at) = self.clock.place_beside(timestamp) else {
            return;
        };
        let mut at = first_at.max(self.latest_sound_at);
        for frame in sound::frames(codec, &unit.bytes) {
            if self.format.sound != Some(frame.sound)
                && self.format.sound.replace(frame.sound).is_some()
            {
                self.begin_epoch();
            }
            self.complete.push_back(Sample {
                kind: Kind::Sound(frame.sound),
                bytes: frame.bytes.into(),
                presented_at: at,
                decoded_at: at,
                is_key: false,
                epoch: self.epoch,
            });
            at += frame.ticks;
        }
        self.latest_sound_at = at;
    }

    /// Returns the access unit with the last parameter sets in front.
    fn with_parameters(&self, annex_b: &[u8]) -> Vec<u8> {
        const START_CODE: [u8; 4] = [0, 0, 0, 1];
        let Some(parameters) = &self.format.parameters else {
            return annex_b.to_vec();
        };
        let Parameters { sps, pps, .. } = parameters;
        [&START_CODE, &sps[..], &START_CODE, &pps[..], annex_b].concat()
    }
}

impl Timeline {
    /// Places the next timestamp of the pictures. After a jump it follows the last one by the time
    /// since then.
    fn place(&mut self, now: Instant, timestamp: u64) -> Placed {
        let placed = match self.latest {
            None => Placed {
                ticks: TICKS_PER_SECOND,
                has_jumped: false,
            },
            Some(latest) => {
                let step = timestamp.wrapping_sub(latest.timestamp) % TIMESTAMPS;
                let has_jumped = step > LONGEST_STEP;
                let elapsed = ticks(now.saturating_since(latest.at)).max(1);
                let step = if has_jumped { elapsed } else { step };
                Placed {
                    ticks: latest.ticks + step,
                    has_jumped,
                }
            }
        };
        self.latest = Some(Latest {
            timestamp,
            ticks: placed.ticks,
            at: now,
        });
        placed
    }

    /// Places a timestamp of the sound by the pictures' clock. `None`: no picture has come yet, or
    /// the sound has another clock.
    fn place_beside(&self, timestamp: u64) -> Option<u64> {
        let latest = self.latest?;
        let ahead = timestamp.wrapping_sub(latest.timestamp) % TIMESTAMPS;
        let behind = latest.timestamp.wrapping_sub(timestamp) % TIMESTAMPS;
        if ahead <= LONGEST_STEP {
            Some(latest.ticks + ahead)
        } else if behind <= LONGEST_STEP {
            latest.ticks.checked_sub(behind)
        } else {
            None
        }
    }
}

fn ticks(duration: Duration) -> u64 {
    duration.as_micros() * 9 / 100
}

#[cfg(test)]
mod tests {
    use anabranch_video::mpeg_ts::TransportStreamWriter;

    use super::*;

    /// SPS and PPS of x264: High profile, level 3.0, 640 by 360.
    const PARAMETERS: &[u8] = &[
        0, 0, 0, 1, 0x67, 0x64, 0x00, 0x1e, 0xac, 0xb2, 0x01, 0x40, 0x5f, 0xf2, 0xe0, 0x22, 0x00,
        0x00, 0x03, 0x00, 0x02, 0x00, 0x00, 0x03, 0x00, 0x64, 0x1e, 0x2c, 0x5c, 0x90, 0, 0, 0, 1,
        0x68, 0xeb, 0xc3, 0xcb, 0x22, 0xc0,
    ];

    /// Returns the transport stream of each picture, at these times.
    fn stream(times: &[u64]) -> Vec<Vec<u8>> {
        let mut writer = TransportStreamWriter::new(Vec::new());
        let (mut taken, mut pieces) = (0, Vec::new());
        for (number, at) in times.iter().enumerate() {
            let slice = if number == 0 { 0x65 } else { 0x41 };
            let parameters = if number == 0 { PARAMETERS } else { &[] };
            let picture = [parameters, &[0, 0, 0, 1, slice, 0x88, number as u8]].concat();
            let at = Duration::from_millis(*at);
            writer.write(&picture, at, number == 0).unwrap();
        }
        let all = writer.into_inner();
        // Each picture has one packet, and the first has tables in front.
        for at in 1..=times.len() {
            let end = all.len() - (times.len() - at) * 188;
            pieces.push(all[taken..end].to_vec());
            taken = end;
        }
        pieces
    }

    fn samples(sampler: &mut Sampler) -> Vec<Sample> {
        core::iter::from_fn(|| sampler.next_sample()).collect()
    }

    #[test]
    fn pictures_come_at_once_with_their_times() {
        let mut sampler = Sampler::new();
        let mut at = Instant::ZERO;
        for (number, piece) in (0..).zip(stream(&[0, 40, 80])) {
            sampler.push(at, &piece);
            let samples = samples(&mut sampler);
            let times: Vec<u64> = samples.iter().map(|it| it.presented_at).collect();
            assert_eq!(times, [TICKS_PER_SECOND + number * 3_600]);
            assert_eq!((samples[0].is_key, samples[0].epoch), (number == 0, 0));
            at += Duration::from_millis(40);
        }
        let format = sampler.format();
        assert_eq!(format.video, Some(VideoCodec::H264));
        let parameters = format.parameters.as_ref().unwrap();
        assert_eq!((parameters.width, parameters.height), (640, 360));
        assert!(!format.reorders);
    }

    #[test]
    fn a_clock_that_jumps_goes_on_by_the_time_that_passed() {
        let mut sampler = Sampler::new();
        for piece in stream(&[0, 40]) {
            sampler.push(Instant::from_secs(1), &piece);
        }
        samples(&mut sampler);
        // Another encoder, whose clock is behind.
        let mut again = stream(&[100_000, 100_040]);
        sampler.push(Instant::from_secs(3), &again.remove(0));
        let jumped = samples(&mut sampler);
        let since = TICKS_PER_SECOND + 3_600 + 2 * TICKS_PER_SECOND;
        assert_eq!((jumped[0].decoded_at, jumped[0].epoch), (since, 1));
    }

    #[test]
    fn a_key_picture_always_brings_its_parameters() {
        let mut sampler = Sampler::new();
        for piece in stream(&[0, 40]) {
            sampler.push(Instant::ZERO, &piece);
        }
        let key = ElementaryUnit {
            track: Track::Video(VideoCodec::H264),
            bytes: vec![0, 0, 0, 1, 0x65, 0x88],
            presented_at: Some(1_000_000),
            decoded_at: Some(1_000_000),
        };
        samples(&mut sampler);
        sampler.push_picture(Instant::ZERO, key);
        let sample = sampler.next_sample().unwrap();
        assert!(sample.is_key && Parameters::read(&sample.bytes).is_some());
    }

    #[test]
    fn pictures_shown_before_earlier_ones_are_noticed() {
        fn picture(presented_at: u64, decoded_at: u64) -> ElementaryUnit {
            ElementaryUnit {
                track: Track::Video(VideoCodec::H264),
                bytes: vec![0, 0, 0, 1, 0x41, 0x88],
                presented_at: Some(presented_at),
                decoded_at: Some(decoded_at),
            }
        }

        let mut sampler = Sampler::new();
        sampler.push_picture(Instant::ZERO, picture(7_200, 0));
        sampler.push_picture(Instant::ZERO, picture(18_000, 3_600));
        assert!(!sampler.format().reorders);
        sampler.push_picture(Instant::ZERO, picture(10_800, 7_200));
        assert!(sampler.format().reorders);
    }

    proptest::proptest! {
        #[test]
        fn damaged_streams_make_samples_or_none(
            damages in proptest::collection::vec((0_usize..4_000, proptest::num::u8::ANY), 0..20),
            nonsense: Vec<u8>,
        ) {
            let mut sampler = Sampler::new();
            for mut piece in stream(&[0, 40, 80]).into_iter().chain([nonsense]) {
                for (at, value) in &damages {
                    if let Some(byte) = piece.get_mut(*at) {
                        *byte = *value;
                    }
                }
                sampler.push(Instant::ZERO, &piece);
                while let Some(sample) = sampler.next_sample() {
                    assert!(crate::fragments::fragment(&sample, 1, 1).len() > 8);
                }
                let format = sampler.format();
                let head = crate::fragments::head(format);
                assert_eq!(head.is_some(), crate::fragments::media_type(format).is_some());
            }
        }
    }

    #[test]
    fn timestamps_wrap_without_a_jump() {
        let mut clock = Timeline::default();
        let first = clock.place(Instant::ZERO, TIMESTAMPS - 10).ticks;
        let next = clock.place(Instant::ZERO, 20);
        assert_eq!((next.ticks, next.has_jumped), (first + 30, false));
        assert_eq!(clock.place_beside(TIMESTAMPS - 5), Some(first + 5));
        assert_eq!(clock.place_beside(TIMESTAMPS / 2), None);
    }
}
