//! The H.264 decoder (OpenH264) that checks what was received: one access unit in, at once one
//! picture out.

use openh264::OpenH264API;
use openh264::decoder::{DecodedYUV, Decoder, DecoderConfig, Flush};
use openh264::formats::YUVSource;
use thiserror::Error;

/// Why an access unit gave no picture. The decoder stays usable: it recovers at the next key frame.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// The decoder could not be created.
    #[error("OpenH264's decoder cannot be created: {0}")]
    Create(openh264::Error),
    /// The access unit is damaged, or a frame that it refers to is missing; OpenH264's own words.
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
    /// A decoder that waits for a key frame, of streams without B frames, such as
    /// [`H264Encoder`](crate::encoder::H264Encoder)'s: each picture comes out with its access unit.
    ///
    /// # Errors
    /// [`DecodeError::Create`] if OpenH264 cannot be created.
    pub fn new() -> Result<Self, DecodeError> {
        // But for the Baseline profile OpenH264 would keep the last picture to itself.
        Self::with(Flush::Flush)
    }

    /// A decoder that waits for a key frame, of any streams: pictures come out late, in the order
    /// of their display, and the last with [`finish`](Self::finish).
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
    /// [`DecodeError::Damaged`] if the bytes are damaged or depend on a frame that never came.
    pub fn decode(&mut self, annex_b: &[u8]) -> Result<Option<Decoded<'_>>, DecodeError> {
        // OpenH264 takes an empty unit for the end of the stream.
        if annex_b.is_empty() {
            return Ok(None);
        }
        let picture = self.decoder.decode(annex_b).map_err(DecodeError::Damaged)?;
        Ok(picture.map(|picture| Decoded { picture }))
    }

    /// The pictures that were held back, once the stream has ended.
    pub fn finish(&mut self) -> Vec<Decoded<'_>> {
        let pictures = self.decoder.flush_remaining().unwrap_or_default();
        let pictures = pictures.into_iter().map(|picture| Decoded { picture });
        pictures.collect()
    }
}

/// A decoded picture, which the decoder keeps until the next call.
#[derive(Debug)]
pub struct Decoded<'a> {
    picture: DecodedYUV<'a>,
}

impl Decoded<'_> {
    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.picture.dimensions().0
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.picture.dimensions().1
    }

    /// Bytes from one row of luma to the next, at least the width.
    pub fn luma_stride(&self) -> usize {
        self.picture.strides().0
    }

    /// The luma plane, `height` rows of `luma_stride` bytes.
    pub fn luma(&self) -> &[u8] {
        self.picture.y()
    }

    /// The luma plane without padding: `width * height` bytes.
    pub fn packed_luma(&self) -> Vec<u8> {
        let rows = self.luma().chunks(self.luma_stride()).take(self.height());
        rows.flat_map(|row| &row[..self.width()]).copied().collect()
    }

    /// The frame number burnt in by the camera, if the picture has one.
    pub fn burnt_in_number(&self) -> Option<u32> {
        crate::burnt_in::read(self.luma(), self.luma_stride(), self.width(), self.height())
    }
}
