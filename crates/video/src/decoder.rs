//! The H.264 decoder (OpenH264) that checks received video: one access unit in, at once one picture
//! out.

use openh264::OpenH264API;
use openh264::decoder::{DecodedYUV, Decoder, DecoderConfig, Flush};
use openh264::formats::YUVSource;
use thiserror::Error;

/// Reasons for which an access unit gave no picture. The decoder stays usable: it recovers at the
/// next key frame.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// The decoder could not be created.
    #[error("OpenH264's decoder cannot be created: {0}")]
    Create(openh264::Error),
    /// The access unit is damaged, or a frame that it refers to is missing; OpenH264's own message.
    #[error("the access unit cannot be decoded: {0}")]
    Damaged(openh264::Error),
}

/// Decodes one access unit after the other, either without delay or in display order.
pub struct H264Decoder {
    decoder: Decoder,
}

impl core::fmt::Debug for H264Decoder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("H264Decoder").finish_non_exhaustive()
    }
}

impl H264Decoder {
    /// Creates a decoder that waits for a key frame, for streams without B frames, such as
    /// [`H264Encoder`](crate::encoder::H264Encoder)'s: each picture is returned with its access
    /// unit.
    ///
    /// # Errors
    /// [`DecodeError::Create`] if OpenH264 cannot be created.
    pub fn new() -> Result<Self, DecodeError> {
        // Except for the Baseline profile, OpenH264 would hold back the last picture.
        Self::with(Flush::Flush)
    }

    /// Creates a decoder that waits for a key frame, for any streams. Pictures are returned late,
    /// in the order of their display, and the last with [`finish`](Self::finish).
    ///
    /// # Errors
    /// [`DecodeError::Create`] if OpenH264 cannot be created.
    pub fn in_display_order() -> Result<Self, DecodeError> {
        Self::with(Flush::NoFlush)
    }

    fn with(flush: Flush) -> Result<Self, DecodeError> {
        let config = DecoderConfig::new().flush_after_decode(flush);
        Decoder::with_api_config(OpenH264API::from_source(), config)
            .map(|decoder| H264Decoder { decoder })
            .map_err(DecodeError::Create)
    }

    /// Decodes one access unit, an Annex B byte stream; `None` if it holds no picture, or one that
    /// the decoder cannot show yet.
    ///
    /// # Errors
    /// [`DecodeError::Damaged`] if the bytes are damaged or depend on a frame that never arrived.
    pub fn decode(&mut self, annex_b: &[u8]) -> Result<Option<Decoded<'_>>, DecodeError> {
        // OpenH264 takes an empty unit for the end of the stream.
        if annex_b.is_empty() {
            return Ok(None);
        }
        let picture = self.decoder.decode(annex_b).map_err(DecodeError::Damaged)?;
        Ok(picture.map(|picture| Decoded { picture }))
    }

    /// Returns the pictures that were held back, once the stream has ended.
    pub fn finish(&mut self) -> Vec<Decoded<'_>> {
        let pictures = self
            .decoder
            .flush_remaining()
            .unwrap_or_default()
            .into_iter()
            .map(|picture| Decoded { picture });
        pictures.collect()
    }
}

/// A small picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thumbnail {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Red, green and blue of each pixel, row by row: `3 * width * height` bytes.
    pub rgb: Vec<u8>,
}

/// Returns the range of part `index` of `count` equal parts of `len`, at least one element.
fn part(index: usize, count: usize, len: usize) -> core::ops::Range<usize> {
    let start = (index * len / count).min(len.saturating_sub(1));
    let end = ((index + 1) * len / count).max(start + 1);
    start..end.min(len)
}

fn mean(
    plane: &[u8],
    stride: usize,
    rows: core::ops::Range<usize>,
    columns: core::ops::Range<usize>,
) -> i32 {
    let count = rows.len() * columns.len();
    let rows = rows.filter_map(|row| plane.get(row * stride..)?.get(columns.clone()));
    let sum: usize = rows.flatten().map(|value| usize::from(*value)).sum();
    (sum / count.max(1)) as i32
}

/// Converts a pixel by ITU-R BT.601, in 8 bits of fraction.
fn colour(y: i32, u: i32, v: i32) -> [u8; 3] {
    let (y, u, v) = (298 * (y - 16), u - 128, v - 128);
    let rgb = [y + 409 * v, y - 100 * u - 208 * v, y + 516 * u];
    rgb.map(|value| ((value + 128) >> 8).clamp(0, 255) as u8)
}

/// A decoded picture, which the decoder keeps until the next call.
#[derive(Debug)]
pub struct Decoded<'a> {
    picture: DecodedYUV<'a>,
}

impl Decoded<'_> {
    /// Returns the width in pixels.
    pub fn width(&self) -> usize {
        self.picture.dimensions().0
    }

    /// Returns the height in pixels.
    pub fn height(&self) -> usize {
        self.picture.dimensions().1
    }

    /// Returns the bytes from one row of luma to the next, at least the width.
    pub fn luma_stride(&self) -> usize {
        self.picture.strides().0
    }

    /// Returns the luma plane, `height` rows of `luma_stride` bytes.
    pub fn luma(&self) -> &[u8] {
        self.picture.y()
    }

    /// Returns the luma plane without padding: `width * height` bytes.
    pub fn packed_luma(&self) -> Vec<u8> {
        let rows = self.luma().chunks(self.luma_stride()).take(self.height());
        rows.flat_map(|row| &row[..self.width()]).copied().collect()
    }

    /// Returns the picture at most `max_width` pixels wide, in colour (ITU-R BT.601, limited
    /// range). Each pixel is the average of the pixels in its area.
    pub fn thumbnail(&self, max_width: usize) -> Thumbnail {
        let (width, height) = self.picture.dimensions();
        let small_width = width.clamp(1, max_width.max(1));
        let small_height = (height * small_width / width.max(1)).max(1);
        let (luma_stride, blue_stride, red_stride) = self.picture.strides();
        let planes = [
            (self.picture.y(), luma_stride, width, height),
            (self.picture.u(), blue_stride, width / 2, height / 2),
            (self.picture.v(), red_stride, width / 2, height / 2),
        ];
        let mut rgb = Vec::with_capacity(small_width * small_height * 3);
        for row in 0..small_height {
            for column in 0..small_width {
                let [y, u, v] = planes.map(|(plane, stride, width, height)| {
                    let rows = part(row, small_height, height);
                    mean(plane, stride, rows, part(column, small_width, width))
                });
                rgb.extend(colour(y, u, v));
            }
        }
        Thumbnail {
            width: small_width,
            height: small_height,
            rgb,
        }
    }

    /// Returns the frame number burnt in by the camera, if the picture has one.
    pub fn burnt_in_number(&self) -> Option<u32> {
        crate::burnt_in::read(self.luma(), self.luma_stride(), self.width(), self.height())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_bt_601() {
        assert_eq!(colour(16, 128, 128), [0, 0, 0]);
        assert_eq!(colour(235, 128, 128), [255, 255, 255]);
        // 100 % red, to the rounding of 8 bits.
        let [red, green, blue] = colour(81, 90, 240);
        assert!(
            red >= 253 && green <= 2 && blue <= 2,
            "{red} {green} {blue}"
        );
    }

    #[test]
    fn parts_cover_everything_and_are_never_empty() {
        let parts: Vec<_> = (0..3).map(|index| part(index, 3, 10)).collect();
        assert_eq!(parts, [0..3, 3..6, 6..10]);
        assert_eq!(part(4, 5, 2), 1..2);
        assert_eq!(mean(&[1, 3, 9, 5, 7, 9], 3, 0..2, 0..2), 4);
    }
}
