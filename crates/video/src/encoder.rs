//! A real H.264 encoder (OpenH264) whose bitrate changes while it runs.
//!
//! Every picture is coded: frame skipping, on by default in OpenH264, is off, so rate is held by
//! quality alone. There are no B frames and no delay. Key frames are IDR pictures that carry SPS
//! and PPS, at a fixed interval and on request; scene-change detection, which would add others, is
//! off.

use anabranch_units::DataRate;
use openh264::encoder::{
    BitRate, Complexity, Encoder, EncoderConfig as OpenH264Config, FrameRate, FrameType, Level,
    Profile, RateControlMode, SpsPpsStrategy, UsageType,
};
use openh264::formats::YUVSource;
use openh264::{OpenH264API, Timestamp};
use thiserror::Error;

use crate::openh264_options;
use crate::picture::Picture;

/// Target size of a key frame, in average frames. OpenH264 aims at four, which delays every frame
/// behind it, and it cannot bound a frame's size. Key frames are therefore coded at a lower
/// bitrate, which is corrected by the size of the last one.
const KEY_FRAME_RATIO: u64 = 2;
/// The first share of the bitrate that key frames are coded at, in percent …
const KEY_FRAME_PERCENT: u64 = 50;
/// … and its bounds.
const KEY_FRAME_PERCENT_RANGE: (u64, u64) = (15, 80);
/// First share of the bitrate that other frames are coded at, in percent. They use the bits that
/// key frames save, which OpenH264 would leave unused. The share is corrected by the size of the
/// last group of pictures …
const OTHER_FRAME_PERCENT: u64 = 102;
/// … within these bounds.
const OTHER_FRAME_PERCENT_RANGE: (u64, u64) = (100, 130);
/// Share of the bitrate that a group of pictures aims at, in percent. OpenH264 alone uses 91.
const GROUP_PERCENT: u64 = 95;

/// Share for the first frame, in percent. Without earlier frames, OpenH264 takes the quantizer from
/// a table by bitrate, meant for pictures simpler than the camera's.
const FIRST_FRAME_PERCENT: u64 = 40;

/// Range of bitrates that [`H264Encoder`] accepts: from the least for a small picture to the
/// maximum of level 3.1.
pub const BITRATE_RANGE: (DataRate, DataRate) = (
    DataRate::from_kilobits_per_second(50),
    DataRate::from_megabits_per_second(14),
);

/// Properties of the pictures and of the stream of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderConfig {
    /// Width of the pictures in pixels, even.
    pub width: usize,
    /// Height of the pictures in pixels, even.
    pub height: usize,
    /// Pictures per second, 1 to 60.
    pub frames_per_second: u32,
    /// Bitrate at first, clamped to [`BITRATE_RANGE`].
    pub bitrate: DataRate,
    /// Frames from one key frame to the next, at least 1.
    pub key_frame_interval: u32,
}

/// One coded picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedPicture {
    /// The access unit as an Annex B byte stream; a key frame starts with SPS and PPS.
    pub annex_b: Vec<u8>,
    /// Whether it is an IDR picture, from which decoding can start.
    pub is_key: bool,
}

/// Reasons for which a picture was not encoded.
#[derive(Debug, Error)]
pub enum EncodeError {
    /// The configuration is outside the documented ranges.
    #[error("the encoder cannot be made: {0}")]
    Config(&'static str),
    /// The picture has another size than the encoder was made for.
    #[error("the picture is {width}x{height}, the encoder was made for another size")]
    Size {
        /// Width of the picture in pixels.
        width: usize,
        /// Height of the picture in pixels.
        height: usize,
    },
    /// OpenH264 failed; its own message.
    #[error("OpenH264: {0}")]
    Codec(#[from] openh264::Error),
    /// OpenH264 refused a setting; its return code.
    #[error("OpenH264 refused a setting (code {0})")]
    Refused(i32),
    /// OpenH264 left the picture out although frame skipping is off.
    #[error("OpenH264 skipped a picture")]
    Skipped,
}

/// Encodes pictures one by one, in Constrained Baseline profile.
pub struct H264Encoder {
    encoder: Encoder,
    config: EncoderConfig,
    bitrate: DataRate,
    /// Bitrate that OpenH264 uses; `None` before the first picture, which sets it up.
    applied_bitrate: Option<DataRate>,
    /// Pictures coded since the last key frame, that one included; 0 before the first.
    since_key_count: u32,
    encoded_count: u64,
    is_key_requested: bool,
    /// The share of the bitrate that the next key frame is coded at.
    key_percent: u64,
    /// Present share of the bitrate for other frames, in percent.
    other_percent: u64,
    /// Bits allowed for the frames since the last key frame, which is included; the field below
    /// counts the bits that they used.
    group_allowed_bits: u64,
    group_coded_bits: u64,
}

impl core::fmt::Debug for H264Encoder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("H264Encoder")
            .field("config", &self.config)
            .field("bitrate", &self.bitrate)
            .field("encoded_count", &self.encoded_count)
            .finish_non_exhaustive()
    }
}

impl H264Encoder {
    /// Creates an encoder ready for its first picture.
    ///
    /// # Errors
    /// [`EncodeError::Config`] for a configuration outside its ranges (level 3.1 holds 1280x720 at
    /// 30 pictures per second), [`EncodeError::Codec`] if OpenH264 cannot be created.
    pub fn new(config: EncoderConfig) -> Result<Self, EncodeError> {
        check(&config)?;
        let bitrate = clamp(config.bitrate);
        let first = share(bitrate, FIRST_FRAME_PERCENT);
        let settings = OpenH264Config::new()
            .usage_type(UsageType::CameraVideoRealTime)
            .rate_control_mode(RateControlMode::Bitrate)
            .bitrate(BitRate::from_bps(first.bits_per_second() as u32))
            .max_frame_rate(FrameRate::from_hz(config.frames_per_second as f32))
            .skip_frames(false)
            .profile(Profile::Baseline)
            .level(Level::Level_3_1)
            .complexity(Complexity::Low)
            .sps_pps_strategy(SpsPpsStrategy::ConstantId)
            .scene_change_detect(false)
            .adaptive_quantization(false)
            .background_detection(false)
            .num_threads(1);
        let mut encoder = Encoder::with_api_config(OpenH264API::from_source(), settings)?;
        openh264_options::set_quiet(&mut encoder).map_err(EncodeError::Refused)?;
        Ok(H264Encoder {
            encoder,
            config,
            bitrate,
            applied_bitrate: None,
            since_key_count: 0,
            encoded_count: 0,
            is_key_requested: false,
            key_percent: KEY_FRAME_PERCENT,
            other_percent: OTHER_FRAME_PERCENT,
            group_allowed_bits: 0,
            group_coded_bits: 0,
        })
    }

    /// Aims at `bitrate`, clamped to [`BITRATE_RANGE`], from the next picture on.
    pub fn set_bitrate(&mut self, bitrate: DataRate) {
        self.bitrate = clamp(bitrate);
    }

    /// Returns the target bitrate.
    pub const fn bitrate(&self) -> DataRate {
        self.bitrate
    }

    /// Makes the next picture a key frame; the interval then counts from it.
    pub const fn request_key_frame(&mut self) {
        self.is_key_requested = true;
    }

    /// Encodes one picture, the next in order.
    ///
    /// # Errors
    /// [`EncodeError::Size`] if the picture's size is not the configured one; otherwise an error of
    /// OpenH264, after which the encoder should be replaced.
    pub fn encode(&mut self, picture: &Picture) -> Result<EncodedPicture, EncodeError> {
        let (width, height) = (picture.width(), picture.height());
        if (width, height) != (self.config.width, self.config.height) {
            return Err(EncodeError::Size { width, height });
        }
        let is_first = self.since_key_count == 0;
        let is_key = is_first
            || self.is_key_requested
            || self.since_key_count >= self.config.key_frame_interval;
        if !is_first {
            let bitrate = if is_key {
                share(self.bitrate, self.key_percent)
            } else {
                clamp(share(self.bitrate, self.other_percent))
            };
            self.apply_bitrate(bitrate)?;
            if is_key {
                self.encoder.force_intra_frame();
            }
        }
        let millis = self.encoded_count * 1_000 / u64::from(self.config.frames_per_second);
        let stream = self
            .encoder
            .encode_at(&Planes(picture), Timestamp::from_millis(millis))?;
        let is_coded_as_key = match stream.frame_type() {
            FrameType::IDR => true,
            FrameType::Skip | FrameType::Invalid => return Err(EncodeError::Skipped),
            FrameType::I | FrameType::P | FrameType::IPMixed => false,
        };
        let annex_b = stream.to_vec();
        assert_eq!(
            is_coded_as_key, is_key,
            "key frames come when asked for and only then"
        );
        self.correct_shares(annex_b.len() as u64 * 8, is_key);
        self.encoded_count += 1;
        self.since_key_count = if is_key { 1 } else { self.since_key_count + 1 };
        self.is_key_requested = false;
        Ok(EncodedPicture { annex_b, is_key })
    }

    /// Learns from a picture's size which bitrates give the wanted sizes.
    fn correct_shares(&mut self, coded_bits: u64, is_key: bool) {
        fn corrected(share: u64, wanted_bits: u64, bits: u64, range: (u64, u64)) -> u64 {
            ((share + share * wanted_bits / bits.max(1)) / 2).clamp(range.0, range.1)
        }

        let mean_bits = self.bitrate.bits_per_second() / u64::from(self.config.frames_per_second);
        // Half of the correction each time, as pictures differ.
        if is_key && self.encoded_count > 0 {
            let wanted = mean_bits * KEY_FRAME_RATIO;
            let range = KEY_FRAME_PERCENT_RANGE;
            self.key_percent = corrected(self.key_percent, wanted, coded_bits, range);
            let allowed = self.group_allowed_bits * GROUP_PERCENT / 100;
            let (taken, range) = (self.group_coded_bits, OTHER_FRAME_PERCENT_RANGE);
            self.other_percent = corrected(self.other_percent, allowed, taken, range);
            (self.group_allowed_bits, self.group_coded_bits) = (0, 0);
        }
        self.group_allowed_bits += mean_bits;
        self.group_coded_bits += coded_bits;
    }

    fn apply_bitrate(&mut self, bitrate: DataRate) -> Result<(), EncodeError> {
        if self.applied_bitrate.is_none() {
            // The first bitrate becomes the upper bound of later ones unless that is raised.
            let (_, maximum) = BITRATE_RANGE;
            openh264_options::set_max_bitrate(&mut self.encoder, bits(maximum))
                .map_err(EncodeError::Refused)?;
        }
        if self.applied_bitrate != Some(bitrate) {
            openh264_options::set_bitrate(&mut self.encoder, bits(bitrate))
                .map_err(EncodeError::Refused)?;
            self.applied_bitrate = Some(bitrate);
        }
        Ok(())
    }
}

fn check(config: &EncoderConfig) -> Result<(), EncodeError> {
    let macroblock_count = config.width.div_ceil(16) * config.height.div_ceil(16);
    if config.width == 0 || config.height == 0 || config.width % 2 + config.height % 2 != 0 {
        return Err(EncodeError::Config(
            "width and height must be even and not zero",
        ));
    }
    if !(1..=60).contains(&config.frames_per_second) {
        return Err(EncodeError::Config("pictures per second must be 1 to 60"));
    }
    // Level 3.1, ITU-T H.264 table A-1.
    if macroblock_count > 3_600 || macroblock_count * config.frames_per_second as usize > 108_000 {
        return Err(EncodeError::Config(
            "more than 1280x720 at 30 pictures per second",
        ));
    }
    if config.key_frame_interval == 0 {
        return Err(EncodeError::Config(
            "the key frame interval must be at least 1",
        ));
    }
    Ok(())
}

fn clamp(bitrate: DataRate) -> DataRate {
    bitrate.clamp(BITRATE_RANGE.0, BITRATE_RANGE.1)
}

fn share(bitrate: DataRate, percent: u64) -> DataRate {
    DataRate::from_bits_per_second(bitrate.bits_per_second() * percent / 100)
}

/// Converts a bitrate for OpenH264; the clamped range fits.
fn bits(bitrate: DataRate) -> i32 {
    bitrate.bits_per_second() as i32
}

/// A picture in the form that OpenH264's wrapper requires.
struct Planes<'a>(&'a Picture);

impl YUVSource for Planes<'_> {
    fn dimensions(&self) -> (usize, usize) {
        (self.0.width(), self.0.height())
    }
    fn strides(&self) -> (usize, usize, usize) {
        let width = self.0.width();
        (width, width / 2, width / 2)
    }
    fn y(&self) -> &[u8] {
        self.0.luma()
    }
    fn u(&self) -> &[u8] {
        self.0.chroma_blue()
    }
    fn v(&self) -> &[u8] {
        self.0.chroma_red()
    }
}
