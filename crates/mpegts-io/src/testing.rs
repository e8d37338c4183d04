//! Small films for tests.

#[path = "../../video/tests/installed/mod.rs"]
mod installed;

use std::process::{Command, Stdio};

use anabranch_units::{DataRate, Duration, Seed};
use anabranch_video::camera::{Camera, FRAMES_PER_SECOND, HEIGHT, WIDTH};
use anabranch_video::encoder::{EncoderConfig, H264Encoder};
use anabranch_video::mpeg_ts::TransportStreamWriter;

pub use installed::has_ffmpeg;

/// Pictures from one key frame to the next, in [`encoded`].
pub const KEY_FRAME_INTERVAL: usize = 25;

/// Returns coded pictures of the built-in camera, 40 ms apart.
pub fn encoded(count: u32) -> Vec<Vec<u8>> {
    let mut camera = Camera::new(Seed(1));
    let config = EncoderConfig {
        width: WIDTH,
        height: HEIGHT,
        frames_per_second: FRAMES_PER_SECOND,
        bitrate: DataRate::from_megabits_per_second(1),
        key_frame_interval: KEY_FRAME_INTERVAL as u32,
    };
    let mut encoder = H264Encoder::new(config).expect("an encoder");
    let pictures = (0..count).map(|number| {
        let picture = camera.render(number, Duration::ZERO);
        encoder.encode(picture).expect("a frame").annex_b
    });
    pictures.collect()
}

/// Returns MPEG-TS of some of [`encoded`]'s pictures, each with its number, starting at `from`.
pub fn transport_stream(pictures: &[(usize, Vec<u8>)], from: Duration) -> Vec<u8> {
    let mut writer = TransportStreamWriter::new(Vec::new());
    for (number, picture) in pictures {
        let at = from + Duration::from_millis(40 * *number as u64);
        let is_key = number % KEY_FRAME_INTERVAL == 0;
        writer.write(picture, at, is_key).expect("memory");
    }
    writer.into_inner()
}

/// Runs ffmpeg, and returns its log at this level.
pub fn ffmpeg(level: &str, arguments: &[&str]) -> String {
    let output = Command::new("ffmpeg")
        .stdin(Stdio::null())
        .args(["-hide_banner", "-y", "-v", level])
        .args(arguments)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}
