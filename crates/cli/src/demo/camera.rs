//! The source that follows the transport: the built-in camera and a real encoder.

use core::sync::atomic::Ordering;

use anabranch_core::Frame;
use anabranch_units::{DataRate, Duration, Importance, Seed};
use anabranch_video::camera::{Camera, FRAMES_PER_SECOND, HEIGHT, WIDTH};
use anabranch_video::encoder::{EncodeError, EncoderConfig, H264Encoder};
use anabranch_video::source::LEAST_KEY_FRAME_INTERVAL;
use anyhow::Context;

use super::feed::Feed;

/// Minimum and maximum bitrate of the encoder.
pub(super) const BITRATE_RANGE: (DataRate, DataRate) = (
    DataRate::from_kilobits_per_second(300),
    DataRate::from_megabits_per_second(4),
);
/// Frames from one key frame to the next: two seconds.
const KEY_FRAME_INTERVAL: u32 = 2 * FRAMES_PER_SECOND;
const FRAME_INTERVAL: Duration = Duration::from_millis(1_000 / FRAMES_PER_SECOND as u64);

/// Films until the feed ends.
pub(super) fn film(feed: &Feed<'_>, seed: Seed) -> anyhow::Result<()> {
    let mut camera = Camera::new(seed);
    let mut encoder = H264Encoder::new(EncoderConfig {
        width: WIDTH,
        height: HEIGHT,
        frames_per_second: FRAMES_PER_SECOND,
        bitrate: BITRATE_RANGE.0,
        key_frame_interval: KEY_FRAME_INTERVAL,
    })?;
    let start_at = feed.clock.now();
    let mut due_at = start_at;
    let mut key_at = start_at;
    while feed.wait_until(due_at) {
        due_at += FRAME_INTERVAL;
        let may_have_key = due_at.saturating_since(key_at) > LEAST_KEY_FRAME_INTERVAL;
        if may_have_key && feed.is_key_wanted.swap(false, Ordering::Relaxed) {
            encoder.request_key_frame();
        }
        let (least, most) = BITRATE_RANGE;
        encoder.set_bitrate(feed.sender.target_bitrate().clamp(least, most));
        let captured_at = feed.clock.now();
        let index = feed.ledger.on_captured(captured_at);
        // The transport will give the frame this number.
        let number = feed.ledger.sent_count() as u32;
        let picture = camera.render(number, captured_at - start_at);
        let encoded = match encoder.encode(picture) {
            Ok(encoded) => encoded,
            Err(EncodeError::Skipped) => {
                encoder.request_key_frame();
                continue;
            }
            Err(error) => return Err(error).context("the camera's picture cannot be encoded"),
        };
        if encoded.is_key {
            key_at = captured_at;
            // The key frame repairs the effect of all earlier losses.
            feed.is_key_wanted.store(false, Ordering::Relaxed);
        }
        let frame = Frame {
            bytes: encoded.annex_b.into(),
            importance: Importance::key_if(encoded.is_key),
            captured_at,
        };
        if !feed.send(index, &frame, picture.luma()) {
            break;
        }
    }
    Ok(())
}
