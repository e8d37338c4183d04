//! `test:`: the built-in camera, encoded at whatever bitrate the transport asks for.

use anabranch_core::SourceLimits;
use anabranch_units::{DataRate, Duration, Importance, Seed};
use anabranch_video::camera::{Camera, FRAMES_PER_SECOND, HEIGHT, WIDTH};
use anabranch_video::encoder::{EncoderConfig, H264Encoder};
use anyhow::Context;

use super::Unit;
use super::muxer::Muxer;

/// The bitrates that the picture is worth.
const MIN_BITRATE: DataRate = DataRate::from_kilobits_per_second(300);
const MAX_BITRATE: DataRate = DataRate::from_megabits_per_second(4);
/// What MPEG-TS adds to the video, at most, in percent: headers of 4 in 188 bytes, and in each
/// picture the PES header and stuffing.
const CONTAINER_PERCENT: u64 = 5;

/// What the transport should know of this source.
pub(super) const LIMITS: SourceLimits = SourceLimits::Adaptive {
    min: MIN_BITRATE,
    max: MAX_BITRATE,
};

/// Makes a picture and its MPEG-TS at a time.
#[derive(Debug)]
pub(super) struct AdaptiveCamera {
    camera: Camera,
    encoder: H264Encoder,
    muxer: Muxer,
    next_number: u32,
    /// When the pictures end.
    duration: Option<Duration>,
}

impl AdaptiveCamera {
    pub(super) fn new(duration: Option<Duration>) -> anyhow::Result<Self> {
        let encoder = H264Encoder::new(EncoderConfig {
            width: WIDTH,
            height: HEIGHT,
            frames_per_second: FRAMES_PER_SECOND,
            bitrate: MIN_BITRATE,
            key_frame_interval: 2 * FRAMES_PER_SECOND,
        })?;
        Ok(AdaptiveCamera {
            camera: Camera::new(Seed(1)),
            encoder,
            muxer: Muxer::new(),
            next_number: 0,
            duration,
        })
    }

    /// When the next picture is taken, after the start; `None` if there is none.
    pub(super) fn next_clock(&self) -> Option<Duration> {
        let number = u64::from(self.next_number);
        let clock = Duration::from_secs(1) * number / u64::from(FRAMES_PER_SECOND);
        self.duration
            .is_none_or(|duration| clock < duration)
            .then_some(clock)
    }

    /// Takes and encodes a picture for a stream of `target`, container included.
    pub(super) fn take(&mut self, clock: Duration, target: DataRate) -> anyhow::Result<Unit> {
        let target = target.clamp(MIN_BITRATE, MAX_BITRATE).bits_per_second();
        let video = target * 100 / (100 + CONTAINER_PERCENT);
        self.encoder
            .set_bitrate(DataRate::from_bits_per_second(video));
        let picture = self.camera.render(self.next_number, clock);
        let encoded = self
            .encoder
            .encode(picture)
            .context("cannot encode the camera's picture")?;
        self.next_number += 1;
        let bytes = self.muxer.mux(&encoded.annex_b, clock, encoded.is_key)?;
        Ok(Unit {
            bytes,
            importance: Importance::key_if(encoded.is_key),
        })
    }
}
