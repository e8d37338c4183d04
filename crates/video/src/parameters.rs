//! NAL units of an H.264 access unit, and the parameter sets that other containers keep apart from
//! the pictures.

use h264_reader::nal::sps::SeqParameterSet;
use h264_reader::nal::{Nal, RefNal};

use crate::nal::{self, h264};

/// Parameter sets of an H.264 video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The sequence parameter set, a NAL unit without start code. At least four bytes.
    pub sps: Vec<u8>,
    /// The picture parameter set, a NAL unit without start code.
    pub pps: Vec<u8>,
    /// Width of the shown picture in pixels.
    pub width: u16,
    /// Height of the shown picture in pixels.
    pub height: u16,
}

impl Parameters {
    /// Reads the first parameter sets in an access unit, an Annex B byte stream. `None` if one is
    /// missing or cannot be read.
    pub fn read(annex_b: &[u8]) -> Option<Parameters> {
        let [sps, pps] = [h264::SPS, h264::PPS].map(|wanted| {
            let mut units = nal_units(annex_b);
            units.find(|unit| nal::h264_type(unit[0]) == wanted)
        });
        let (sps, pps) = (sps?, pps?);
        if sps.len() < 4 || sps.len().max(pps.len()) > usize::from(u16::MAX) {
            return None;
        }
        let bits = RefNal::new(sps, &[], true);
        let read = SeqParameterSet::from_bits(bits.rbsp_bits()).ok()?;
        let (width, height) = read.pixel_dimensions().ok()?;
        Some(Parameters {
            sps: sps.to_vec(),
            pps: pps.to_vec(),
            width: width.try_into().ok()?,
            height: height.try_into().ok()?,
        })
    }

    /// Returns profile_idc, the constraint flags and level_idc (ITU-T H.264 §7.3.2.1.1).
    pub fn profile_and_level(&self) -> [u8; 3] {
        [self.sps[1], self.sps[2], self.sps[3]]
    }
}

/// Returns the NAL units of an Annex B byte stream, without start codes and the zeros between
/// units. None is empty.
pub fn nal_units(annex_b: &[u8]) -> impl Iterator<Item = &[u8]> {
    // A start code at the end begins nothing.
    let whole = annex_b.strip_suffix(&[0, 0, 1]).unwrap_or(annex_b);
    let mut starts = nal::header_positions(annex_b).peekable();
    core::iter::from_fn(move || {
        let start = starts.next()?;
        let end = starts.peek().map_or(whole.len(), |next| next - 3);
        Some(annex_b.get(start..end).unwrap_or_default())
    })
    .map(|unit| {
        let used = unit.iter().rposition(|byte| *byte != 0);
        &unit[..used.map_or(0, |at| at + 1)]
    })
    .filter(|unit| !unit.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SPS of x264: High profile, level 3.0, 640 by 360, and its PPS.
    const SPS: &[u8] = &[
        0x67, 0x64, 0x00, 0x1e, 0xac, 0xb2, 0x01, 0x40, 0x5f, 0xf2, 0xe0, 0x22, 0x00, 0x00, 0x03,
        0x00, 0x02, 0x00, 0x00, 0x03, 0x00, 0x64, 0x1e, 0x2c, 0x5c, 0x90,
    ];
    const PPS: &[u8] = &[0x68, 0xeb, 0xc3, 0xcb, 0x22, 0xc0];

    #[test]
    fn parameter_sets_have_size_and_profile() {
        let unit = [
            &[0, 0, 0, 1, 0x09, 0xf0, 0, 0, 0, 1],
            SPS,
            &[0, 0, 1],
            PPS,
            &[0, 0, 0, 1, 0x65, 0x88],
        ]
        .concat();
        let parameters = Parameters::read(&unit).unwrap();
        assert_eq!((&*parameters.sps, &*parameters.pps), (SPS, PPS));
        assert_eq!(parameters.profile_and_level(), [0x64, 0, 0x1e]);
        assert_eq!((parameters.width, parameters.height), (640, 360));
        assert_eq!(Parameters::read(&unit[..30]), None);
        assert_eq!(Parameters::read(&[]), None);
    }

    #[test]
    fn units_come_without_start_codes_and_zeros() {
        let stream = [
            0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x65, 1, 0, 0, 3, 0, 0, 0, 0, 1,
        ];
        let units: Vec<&[u8]> = nal_units(&stream).collect();
        assert_eq!(units, [&[9, 0xf0][..], &[0x65, 1, 0, 0, 3]]);
    }
}
