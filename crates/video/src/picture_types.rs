//! Coding types of pictures, read from headers in the byte stream.

use core::num::NonZeroUsize;

use h264_reader::rbsp::{BitRead, BitReader, ByteReader};

use crate::annex_b;
use crate::frame_trace::PictureType;
use crate::mpeg_ts::VideoCodec;
use crate::nal::{self, mpeg2};

/// NAL unit type of HEVC's picture parameter sets (ITU-T H.265 table 7-1).
const HEVC_PPS: u8 = 34;
/// Picture parameter sets that a stream of HEVC can have (§7.4.3.3.1).
const HEVC_PPS_COUNT: usize = 64;
/// Number of bytes that are read: slice headers up to the type, and parameter sets up to its
/// dependencies.
const READ_LEN: usize = 16;

/// Determines the types of a stream's pictures, which must come in order: HEVC's slice headers
/// cannot be read without the parameter sets before them.
#[derive(Clone, Debug)]
pub struct PictureTypes {
    /// num_extra_slice_header_bits of each picture parameter set.
    extra_bit_counts: [u8; HEVC_PPS_COUNT],
}

impl Default for PictureTypes {
    fn default() -> Self {
        PictureTypes {
            extra_bit_counts: [0; HEVC_PPS_COUNT],
        }
    }
}

impl PictureTypes {
    /// Creates the state before the first picture.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the type of the next picture; `None` if it cannot be determined.
    pub fn of(&mut self, codec: VideoCodec, bytes: &[u8]) -> Option<PictureType> {
        match codec {
            VideoCodec::H264 => annex_b::picture_type(bytes),
            VideoCodec::Hevc => self.of_hevc(bytes),
            VideoCodec::Mpeg2 => of_mpeg2(bytes),
            VideoCodec::Other => None,
        }
    }

    /// Returns the farthest-reaching of its slices' types.
    fn of_hevc(&mut self, bytes: &[u8]) -> Option<PictureType> {
        let mut farthest = None;
        let mut positions = nal::header_positions(bytes).peekable();
        while let Some(position) = positions.next() {
            let end = positions.peek().map_or(bytes.len(), |next| next - 3);
            let unit = &bytes[position..end.min(position + READ_LEN)];
            match unit
                .first()
                .map_or(u8::MAX, |header| nal::hevc_type(*header))
            {
                HEVC_PPS => {
                    let _ = self.record_parameter_set(unit);
                }
                kind @ 0..=21 => farthest = farthest.max(self.slice_type(unit, kind)),
                _ => {}
            }
        }
        farthest
    }

    /// Records a picture parameter set: §7.3.2.3.1. `None` for a damaged one.
    fn record_parameter_set(&mut self, unit: &[u8]) -> Option<()> {
        let mut bits = hevc_bits(unit);
        let id = bits.read_ue("pps_pic_parameter_set_id").ok()?;
        bits.read_ue("pps_seq_parameter_set_id").ok()?;
        bits.read::<2, u8>("dependent_slice_segments, output_flag_present")
            .ok()?;
        let count = bits.read::<3, u8>("num_extra_slice_header_bits").ok()?;
        *self.extra_bit_counts.get_mut(id as usize)? = count;
        Some(())
    }

    /// Reads a slice's coding type: §7.3.6.1. Slices behind the picture's first begin with an
    /// address, which is not read here.
    fn slice_type(&self, unit: &[u8], kind: u8) -> Option<PictureType> {
        let mut bits = hevc_bits(unit);
        if !bits.read_bit("first_slice_segment_in_pic_flag").ok()? {
            return None;
        }
        if kind >= 16 {
            bits.read_bit("no_output_of_prior_pics_flag").ok()?;
        }
        let id = bits.read_ue("slice_pic_parameter_set_id").ok()?;
        for _ in 0..*self.extra_bit_counts.get(id as usize)? {
            bits.read_bit("slice_reserved_flag").ok()?;
        }
        match bits.read_ue("slice_type").ok()? {
            0 => Some(PictureType::B),
            1 => Some(PictureType::P),
            2 => Some(PictureType::I),
            _ => None,
        }
    }
}

/// Returns the bits behind a NAL unit's two bytes of header.
fn hevc_bits(unit: &[u8]) -> BitReader<ByteReader<&[u8]>> {
    const HEADER_LEN: NonZeroUsize = NonZeroUsize::new(2).expect("two is not zero");
    BitReader::new(ByteReader::skipping_bytes(unit, HEADER_LEN))
}

/// Returns the type in the first picture header.
fn of_mpeg2(bytes: &[u8]) -> Option<PictureType> {
    let position = nal::header_positions(bytes).find(|&at| bytes[at] == mpeg2::PICTURE)?;
    match mpeg2::coding_type(*bytes.get(position + 2)?) {
        mpeg2::CODED_AS_I => Some(PictureType::I),
        mpeg2::CODED_AS_P => Some(PictureType::P),
        mpeg2::CODED_AS_B => Some(PictureType::B),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hevc_slices_are_read_with_their_parameter_sets() {
        fn slice(bits: u8) -> [u8; 7] {
            [0, 0, 1, 1 << 1, 1, bits, 0x80]
        }

        fn of(bytes: &[u8], types: &mut PictureTypes) -> Option<PictureType> {
            types.of(VideoCodec::Hevc, bytes)
        }

        let mut types = PictureTypes::new();
        // TRAIL_R, first slice (1), set 0 (1), type B (1), P (010) or I (011).
        assert_eq!(of(&slice(0b1110_0000), &mut types), Some(PictureType::B));
        assert_eq!(of(&slice(0b1101_0000), &mut types), Some(PictureType::P));
        assert_eq!(of(&slice(0b1101_1000), &mut types), Some(PictureType::I));
        // IDR_W_RADL has one bit more, before the set's number.
        let idr = [0, 0, 1, 19 << 1, 1, 0b1010_1100, 0x80];
        assert_eq!(of(&idr, &mut types), Some(PictureType::I));
        // Set 0 (1) of sequence 0 (1), two flags, two extra bits (010).
        let set = [0, 0, 1, HEVC_PPS << 1, 1, 0b1100_0101, 0x80];
        let extra = slice(0b1111_0100);
        assert_eq!(
            of(&[&set[..], &extra].concat(), &mut types),
            Some(PictureType::P)
        );
        // Another slice of the same picture has no type of its own here.
        assert_eq!(of(&slice(0b0110_0000), &mut types), None);
    }

    #[test]
    fn mpeg2_says_it_in_the_picture_header() {
        for (coding_type, kind) in [
            (1, Some(PictureType::I)),
            (2, Some(PictureType::P)),
            (3, Some(PictureType::B)),
            (4, None),
        ] {
            let header = [0xff, 0xc0 | coding_type << 3];
            let start = [
                0,
                0,
                1,
                mpeg2::SEQUENCE_HEADER,
                9,
                9,
                0,
                0,
                1,
                mpeg2::PICTURE,
            ];
            let picture = [&start[..], &header].concat();
            assert_eq!(PictureTypes::new().of(VideoCodec::Mpeg2, &picture), kind);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let set = [0, 0, 1, HEVC_PPS << 1, 1];
            let bytes = [&set, &bytes[..], &[0, 0, 1, 2, 1], &bytes].concat();
            for codec in [VideoCodec::H264, VideoCodec::Hevc, VideoCodec::Mpeg2] {
                let _ = PictureTypes::new().of(codec, &bytes);
            }
        }
    }
}
