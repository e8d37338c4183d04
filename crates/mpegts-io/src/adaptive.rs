//! `test:`: the built-in camera, encoded at the bitrate that the transport requests.

use anabranch_core::SourceLimits;
use anabranch_units::{DataRate, Duration, Importance, Seed};
use anabranch_video::camera::{Camera, FRAMES_PER_SECOND, HEIGHT, WIDTH};
use anabranch_video::encoder::{EncoderConfig, H264Encoder};
use anabranch_video::source::LEAST_KEY_FRAME_INTERVAL;

use super::input_error::InputError;
use super::muxer::Muxer;
use super::unit::{Unit, Wanted};

/// Useful bitrates of the picture.
const MIN_BITRATE: DataRate = DataRate::from_kilobits_per_second(300);
const MAX_BITRATE: DataRate = DataRate::from_megabits_per_second(4);
/// Maximum overhead of MPEG-TS on the video, in percent: headers of 4 in 188 bytes, and in each
/// picture the PES header and stuffing.
const CONTAINER_PERCENT: u64 = 5;

/// Longest delay of a picture before the camera leaves pictures out: the usual latency, after which
/// it would come too late anyway.
const MAX_LAG: Duration = Duration::from_millis(500);

/// Limits of this source for the transport.
pub(super) const LIMITS: SourceLimits = SourceLimits::Adaptive {
    min: MIN_BITRATE,
    max: MAX_BITRATE,
};

/// A source that makes one picture and its MPEG-TS at a time.
#[derive(Debug)]
pub(super) struct AdaptiveCamera {
    camera: Camera,
    encoder: H264Encoder,
    muxer: Muxer,
    next_number: u32,
    is_key_wanted: bool,
    /// Time of the last key frame.
    key_at: Duration,
    /// Length of the film.
    duration: Option<Duration>,
}

impl AdaptiveCamera {
    pub(super) fn new(duration: Option<Duration>) -> Result<Self, InputError> {
        let encoder = H264Encoder::new(EncoderConfig {
            width: WIDTH,
            height: HEIGHT,
            frames_per_second: FRAMES_PER_SECOND,
            bitrate: MIN_BITRATE,
            key_frame_interval: 2 * FRAMES_PER_SECOND,
        })
        .map_err(InputError::Encoder)?;
        Ok(AdaptiveCamera {
            camera: Camera::new(Seed(1)),
            encoder,
            muxer: Muxer::new(),
            next_number: 0,
            is_key_wanted: false,
            key_at: Duration::ZERO,
            duration,
        })
    }

    /// Returns the time of the next picture, counted from the start; `None` if there is none.
    pub(super) fn next_clock(&self) -> Option<Duration> {
        let number = u64::from(self.next_number);
        let clock = Duration::from_secs(1) * number / u64::from(FRAMES_PER_SECOND);
        self.duration
            .is_none_or(|duration| clock < duration)
            .then_some(clock)
    }

    /// Leaves out the pictures before `elapsed`, counted from the start, if the next one is overdue
    /// by more than [`MAX_LAG`]. Returns their number. A machine that encodes more slowly than it
    /// captures would otherwise fall behind without end.
    pub(super) fn catch_up(&mut self, elapsed: Duration) -> u32 {
        if self.next_clock().is_none_or(|due| elapsed <= due + MAX_LAG) {
            return 0;
        }
        let millis = elapsed.as_nanos() / 1_000_000;
        let newest = u32::try_from(millis * u64::from(FRAMES_PER_SECOND) / 1_000)
            .unwrap_or(u32::MAX)
            .max(self.next_number);
        let left_out = newest - self.next_number;
        self.next_number = newest;
        left_out
    }

    /// Captures a picture and encodes it for the requested bitrate, which includes the container. A
    /// requested key frame comes at least half a second after the last one.
    pub(super) fn take(&mut self, clock: Duration, wanted: Wanted) -> Result<Unit, InputError> {
        self.is_key_wanted |= wanted.is_key;
        if self.is_key_wanted && clock >= self.key_at + LEAST_KEY_FRAME_INTERVAL {
            self.encoder.request_key_frame();
        }
        let target = wanted
            .bitrate
            .clamp(MIN_BITRATE, MAX_BITRATE)
            .bits_per_second();
        let video = target * 100 / (100 + CONTAINER_PERCENT);
        self.encoder
            .set_bitrate(DataRate::from_bits_per_second(video));
        let picture = self.camera.render(self.next_number, clock);
        let encoded = self.encoder.encode(picture).map_err(InputError::Picture)?;
        self.next_number += 1;
        if encoded.is_key {
            self.key_at = clock;
            self.is_key_wanted = false;
        }
        let bytes = self.muxer.mux(&encoded.annex_b, clock, encoded.is_key)?;
        Ok(Unit {
            bytes,
            importance: Importance::key_if(encoded.is_key),
            arrivals: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_camera_on_a_slow_machine_leaves_pictures_out_and_stays_live() {
        let wanted = Wanted {
            bitrate: MIN_BITRATE,
            is_key: false,
        };
        let mut camera = AdaptiveCamera::new(None).unwrap();
        let (mut elapsed, mut taken, mut left_out) = (Duration::ZERO, 0, 0);
        // Each picture takes one and a half times its interval.
        while elapsed < Duration::from_secs(20) {
            left_out += camera.catch_up(elapsed);
            let clock = camera.next_clock().unwrap();
            assert!(elapsed <= clock + MAX_LAG, "{elapsed} for {clock}");
            camera.take(clock, wanted).unwrap();
            taken += 1;
            elapsed = elapsed.max(clock) + Duration::from_millis(60);
        }
        assert!(left_out > 100, "{taken} taken, {left_out} left out");
        assert_eq!(camera.next_number, taken + left_out);
        // A pause within the lag costs no picture.
        let clock = camera.next_clock().unwrap();
        assert_eq!(camera.catch_up(clock + MAX_LAG), 0);
    }

    #[test]
    fn a_key_frame_comes_when_it_is_asked_for_and_not_too_often() {
        let mut camera = AdaptiveCamera::new(None).unwrap();
        let mut keys = Vec::new();
        for number in 0..80 {
            let wanted = Wanted {
                bitrate: MIN_BITRATE,
                is_key: [5, 20, 21].contains(&number),
            };
            let clock = camera.next_clock().unwrap();
            if camera.take(clock, wanted).unwrap().importance.is_key() {
                keys.push(number);
            }
        }
        // The key frames come half a second after the first, at once, half a second later, and then
        // by the interval.
        assert_eq!(keys, [0, 13, 26, 76]);
    }
}
