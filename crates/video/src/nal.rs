//! NAL units of H.264 and HEVC in a byte stream (ITU-T H.264 and H.265, annex B), and their
//! counterparts in MPEG-2: their positions, their types, and the importance of the picture.

use anabranch_units::Importance;

/// NAL unit types of H.264 (ITU-T H.264 table 7-1) that separate access units.
pub(crate) mod h264 {
    pub(crate) const SLICE: u8 = 1;
    pub(crate) const SLICE_PARTITION_A: u8 = 2;
    pub(crate) const IDR_SLICE: u8 = 5;
    pub(crate) const SEI: u8 = 6;
    pub(crate) const SPS: u8 = 7;
    pub(crate) const PPS: u8 = 8;
    pub(crate) const ACCESS_UNIT_DELIMITER: u8 = 9;
}

/// Start code values of MPEG-1 and MPEG-2 (ITU-T H.262 table 6-1).
pub(crate) mod mpeg2 {
    pub(crate) const PICTURE: u8 = 0x00;
    pub(crate) const SEQUENCE_HEADER: u8 = 0xb3;
    /// picture_coding_type of I, P and B pictures (table 6-12).
    pub(crate) const CODED_AS_I: u8 = 1;
    pub(crate) const CODED_AS_P: u8 = 2;
    pub(crate) const CODED_AS_B: u8 = 3;

    /// Returns picture_coding_type, from the second byte behind [`PICTURE`]: ten bits of temporal
    /// reference precede it.
    pub(crate) const fn coding_type(byte: u8) -> u8 {
        byte >> 3 & 7
    }
}

/// SEI messages of H.264 and HEVC in a NAL unit, byte by byte behind its header (ITU-T H.264
/// §7.3.2.3.1, H.265 §7.3.2.4), in search of a recovery point: a stream without IDR pictures can be
/// decoded from there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeiMessages {
    stage: SeiStage,
    /// The part of the message's type or size read so far.
    value: u32,
    kind: u32,
    zero_count: u8,
    seen_len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum SeiStage {
    #[default]
    Kind,
    Size,
    Payload(u32),
}

impl SeiMessages {
    /// Number of bytes within which messages are searched. Messages before a recovery point,
    /// buffering period and picture timing, are shorter; long user data has a unit of its own.
    pub(crate) const MAX_LEN: usize = 96;
    /// payloadType of a recovery point, in both standards.
    const RECOVERY_POINT: u32 = 6;

    /// Takes the next byte. Returns whether it completes a recovery point.
    pub(crate) fn push(&mut self, byte: u8) -> bool {
        self.seen_len += 1;
        let is_emulation_prevention = self.zero_count >= 2 && byte == 3;
        self.zero_count = match byte {
            0 => self.zero_count.saturating_add(1),
            _ => 0,
        };
        if is_emulation_prevention {
            return false;
        }
        if let SeiStage::Payload(left) = &mut self.stage {
            *left -= 1;
            if *left == 0 {
                self.stage = SeiStage::Kind;
            }
            return false;
        }
        self.value += u32::from(byte);
        if byte == 0xff {
            return false;
        }
        let value = core::mem::take(&mut self.value);
        match self.stage {
            SeiStage::Kind => {
                self.kind = value;
                self.stage = SeiStage::Size;
            }
            _ if self.kind == Self::RECOVERY_POINT => return true,
            _ if value == 0 => self.stage = SeiStage::Kind,
            _ => self.stage = SeiStage::Payload(value),
        }
        false
    }

    /// Returns whether further bytes are ignored.
    pub(crate) const fn is_over(&self) -> bool {
        self.seen_len >= Self::MAX_LEN
    }
}

/// Returns whether a NAL unit of H.264 in `bytes`, a byte stream, holds a recovery point.
pub(crate) fn has_h264_recovery_point(bytes: &[u8]) -> bool {
    let seis = header_positions(bytes).filter(|at| h264_type(bytes[*at]) == h264::SEI);
    seis.map(|at| &bytes[at + 1..]).any(|unit| {
        let mut messages = SeiMessages::default();
        let end = find_start_code(unit).unwrap_or(unit.len());
        let looked_at = unit[..end].iter().take(SeiMessages::MAX_LEN);
        looked_at.copied().any(|byte| messages.push(byte))
    })
}

/// Returns the type of an H.264 NAL unit from its first byte.
pub(crate) const fn h264_type(header: u8) -> u8 {
    header & 0x1f
}

/// Type of HEVC's NAL units of SEI messages that precede a picture (table 7-1).
pub(crate) const HEVC_PREFIX_SEI: u8 = 39;

/// Returns the type of an HEVC NAL unit from its first byte.
pub(crate) const fn hevc_type(header: u8) -> u8 {
    header >> 1 & 0x3f
}

/// Slice properties that decide a picture's importance.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slices {
    is_key: bool,
    has_reference: bool,
    has_disposable: bool,
}

impl Slices {
    /// Records that decoding can start at this picture, as known from a source other than its
    /// slices.
    pub(crate) fn record_key(&mut self) {
        self.is_key = true;
    }

    /// Records a NAL unit of H.264 by its first byte. An IDR slice belongs to a key frame, and no
    /// other picture uses a slice with nal_ref_idc 0 (ITU-T H.264 §7.4.1).
    pub(crate) fn record_h264(&mut self, header: u8) {
        match h264_type(header) {
            h264::IDR_SLICE => self.is_key = true,
            h264::SLICE | h264::SLICE_PARTITION_A if header & 0x60 == 0 => {
                self.has_disposable = true;
            }
            h264::SLICE | h264::SLICE_PARTITION_A => self.has_reference = true,
            _ => {}
        }
    }

    /// Records a NAL unit of HEVC by its first two bytes. IRAP pictures (BLA, IDR, CRA) are key
    /// frames. No picture of the same sub-layer uses sub-layer non-reference pictures, of even
    /// types below 16; those of the highest sub-layer are not used at all (ITU-T H.265 §7.4.2.2).
    /// `highest_layer` is kept over all pictures of a stream.
    pub(crate) fn record_hevc(&mut self, header: [u8; 2], highest_layer: &mut u8) {
        let layer = (header[1] & 0x07).saturating_sub(1);
        match hevc_type(header[0]) {
            16..=21 => self.is_key = true,
            kind @ 0..=15 => {
                *highest_layer = layer.max(*highest_layer);
                if kind % 2 == 0 && layer == *highest_layer {
                    self.has_disposable = true;
                } else {
                    self.has_reference = true;
                }
            }
            _ => {}
        }
    }

    /// Records a picture header of MPEG-1 or MPEG-2 by its picture_coding_type: other pictures are
    /// predicted from I and P pictures only (ITU-T H.262 §7.6.2).
    pub(crate) fn record_mpeg2(&mut self, coding_type: u8) {
        if coding_type == mpeg2::CODED_AS_B {
            self.has_disposable = true;
        } else {
            self.has_reference = true;
        }
    }

    /// Returns whether no slice is known yet.
    pub(crate) const fn is_empty(&self) -> bool {
        !(self.is_key || self.has_reference || self.has_disposable)
    }

    /// Returns the importance of the slices' picture. One without known slices may be anything.
    pub(crate) const fn importance(&self) -> Importance {
        match (self.is_key, self.has_disposable && !self.has_reference) {
            (true, _) => Importance::Key,
            (false, true) => Importance::Disposable,
            (false, false) => Importance::Reference,
        }
    }
}

/// Returns the positions of the bytes that follow a start code (00 00 01) in `bytes`, in order.
pub(crate) fn header_positions(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let mut at = 0;
    core::iter::from_fn(move || {
        let found = find_start_code(&bytes[at..])?;
        at += found + 3;
        Some(at)
    })
    .filter(|&position| position < bytes.len())
}

/// Returns the position of the first start code.
pub(crate) fn find_start_code(bytes: &[u8]) -> Option<usize> {
    let mut at = 2;
    while at < bytes.len() {
        // The third byte gives a minimum distance of the next start code.
        match bytes[at] {
            0 => at += 1,
            1 if bytes[at - 1] == 0 && bytes[at - 2] == 0 => return Some(at - 2),
            _ => at += 3,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn h264(headers: &[u8]) -> Importance {
        let mut slices = Slices::default();
        headers
            .iter()
            .for_each(|header| slices.record_h264(*header));
        slices.importance()
    }

    #[test]
    fn h264_pictures_are_disposable_if_no_slice_is_a_reference() {
        // nal_ref_idc in bits 5 and 6, the type below. SPS, PPS and an IDR slice; P and B slices.
        assert_eq!(h264(&[0x67, 0x68, 0x65]), Importance::Key);
        assert_eq!(h264(&[0x41]), Importance::Reference);
        assert_eq!(h264(&[0x09, 0x06, 0x01, 0x01]), Importance::Disposable);
        assert_eq!(h264(&[0x01, 0x21]), Importance::Reference);
        assert_eq!(h264(&[0x06]), Importance::Reference);
    }

    fn has_recovery_point(sei: &[u8]) -> bool {
        has_h264_recovery_point(&[&[0, 0, 1, 0x06], sei, &[0, 0, 1, 0x41, 0x9a]].concat())
    }

    #[test]
    fn a_recovery_point_is_found_among_other_messages() {
        // In x264's form: type 6, one byte, and trailing bits.
        assert!(has_recovery_point(&[6, 1, 0xc4, 0x80]));
        // Behind a buffering period of four bytes, and one of 261.
        assert!(has_recovery_point(&[0, 4, 6, 1, 2, 3, 6, 1, 0xc4, 0x80]));
        let long = [&[5, 20][..], &[1; 20], &[6, 1, 0xc4, 0x80]].concat();
        assert!(has_recovery_point(&long));
        // Emulation prevention does not count.
        assert!(has_recovery_point(&[0, 4, 0, 0, 3, 1, 6, 6, 1, 0xc4, 0x80]));
        // Bytes of other messages' payloads are no types.
        assert!(!has_recovery_point(&[0, 4, 6, 1, 6, 1, 0x80]));
        assert!(!has_recovery_point(&[1, 2, 6, 6, 0x80]));
        assert!(!has_recovery_point(&[0xff, 6, 1, 6, 0x80]));
        assert!(!has_recovery_point(&[]));
        // It is not searched behind a kilobyte of user data.
        let far = [&[5, 255, 255, 255, 235][..], &[1; 1_000], &[6, 1, 0xc4]].concat();
        assert!(!has_recovery_point(&far));
    }

    #[test]
    fn hevc_pictures_are_disposable_in_the_highest_sub_layer_only() {
        fn of(kind: u8, layer: u8, highest_layer: &mut u8) -> Importance {
            let mut slices = Slices::default();
            slices.record_hevc([kind << 1, layer + 1], highest_layer);
            slices.importance()
        }

        let mut highest_layer = 0;
        // IDR_W_RADL, CRA_NUT.
        assert_eq!(
            (of(19, 0, &mut highest_layer), of(21, 0, &mut highest_layer)),
            (Importance::Key, Importance::Key)
        );
        // TRAIL_R, TRAIL_N, while there is only one sub-layer.
        assert_eq!(of(1, 0, &mut highest_layer), Importance::Reference);
        assert_eq!(of(0, 0, &mut highest_layer), Importance::Disposable);
        // TSA_N of the next sub-layer, which may refer to the one below.
        assert_eq!(of(2, 1, &mut highest_layer), Importance::Disposable);
        assert_eq!(of(0, 0, &mut highest_layer), Importance::Reference);
    }

    #[test]
    fn mpeg2_pictures_are_disposable_if_all_in_the_unit_are_b() {
        fn of(coding_types: &[u8]) -> Importance {
            let mut slices = Slices::default();
            coding_types.iter().for_each(|of| slices.record_mpeg2(*of));
            slices.importance()
        }
        assert_eq!(of(&[3]), Importance::Disposable);
        // Two fields, or two pictures in one packet.
        assert_eq!(of(&[3, 3]), Importance::Disposable);
        assert_eq!(of(&[2, 3]), Importance::Reference);
        for coding_type in [0, 1, 2, 4, 5, 6, 7] {
            assert_eq!(of(&[coding_type]), Importance::Reference);
        }
    }

    proptest! {
        #[test]
        fn start_codes_are_found_as_by_plain_search(
            bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(2)], 0..60)
        ) {
            // The three bytes of two start codes cannot overlap.
            let plain: Vec<usize> = (3..bytes.len())
                .filter(|&at| bytes[at - 3..at] == [0, 0, 1])
                .collect();
            prop_assert_eq!(header_positions(&bytes).collect::<Vec<_>>(), plain);
        }
    }
}
