//! Splitting an H.264 byte stream (ITU-T H.264 annex B) into access units.

use anabranch_units::{Duration, Importance};
use h264_reader::nal::sps::SeqParameterSet;
use h264_reader::nal::{Nal, RefNal};
use h264_reader::rbsp::BitRead;

use crate::frame_trace::PictureType;
use crate::nal::{self, h264};

/// An access unit larger than this is handed over in parts, so that memory stays bounded.
pub const MAX_UNIT_LEN: usize = 4 << 20;

/// Length of a start code of four bytes and a header, without the byte behind it that decides.
const UNDECIDED_LEN: usize = 5;

/// Picture interval of streams without timing: 25 per second.
const DEFAULT_FRAME_INTERVAL: Duration = Duration::from_millis(40);

/// One access unit: a coded picture and its accompanying NAL units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessUnit {
    /// Its bytes, start codes included.
    pub annex_b: Vec<u8>,
    /// Importance of the picture: key if it holds an IDR slice or a recovery point, so that
    /// decoding can start here; disposable if no slice of it is used for reference.
    pub importance: Importance,
}

/// Splits a byte stream that is pushed in pieces of any size. The units contain the stream byte for
/// byte, except for bytes in front of the first start code.
#[derive(Clone, Debug, Default)]
pub struct AccessUnitSplitter {
    buffer: Vec<u8>,
    /// Bytes at the front of `buffer` that were handed over. They are removed once no unit is
    /// complete, so that a push of many units moves the rest once.
    taken_len: usize,
    /// Bytes of `buffer` already searched for start codes.
    searched_len: usize,
    is_started: bool,
    has_slice: bool,
    slices: nal::Slices,
    has_sei: bool,
    frame_interval: Option<Duration>,
}

impl AccessUnitSplitter {
    /// Creates a splitter that waits for a first start code.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the stream's next bytes. Call [`next_unit`](Self::next_unit) until it is empty before
    /// pushing more, so that only one access unit is held.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete access unit; `None` until more bytes are pushed. An access unit is
    /// complete once the next one starts.
    pub fn next_unit(&mut self) -> Option<AccessUnit> {
        // A start code, the NAL unit's header and the first byte of a slice decide.
        while let Some(at) = self.next_header_position() {
            self.searched_len = at;
            let start = self.start_code_position(at);
            if !self.is_started {
                self.is_started = true;
                self.taken_len = start;
                self.record(at);
            } else if self.starts_access_unit(at) {
                let unit = self.take(start);
                self.record(at);
                return Some(unit);
            } else {
                self.record(at);
            }
        }
        // The last two bytes may yet become part of a header and its first byte.
        self.searched_len = self.searched_len.max(self.buffer.len().saturating_sub(2));
        if !self.is_started {
            // Only a start code and its header can still be of use.
            self.taken_len = self.buffer.len().saturating_sub(UNDECIDED_LEN);
        }
        // A start code whose unit is undecided lies behind the part.
        let end = self.taken_len + MAX_UNIT_LEN;
        if self.buffer.len() >= end + UNDECIDED_LEN {
            return Some(self.take(end));
        }
        self.buffer.drain(..self.taken_len);
        self.searched_len = self.searched_len.saturating_sub(self.taken_len);
        self.taken_len = 0;
        None
    }

    /// Returns the last access unit, once the stream has ended.
    pub fn finish(&mut self) -> Option<AccessUnit> {
        let is_pending = self.is_started && self.buffer.len() > self.taken_len;
        is_pending.then(|| self.take(self.buffer.len()))
    }

    /// Returns the time between pictures: from the stream's own timing (ITU-T H.264 §E.2.1) once an
    /// SPS with timing was met, 40 ms before.
    pub fn frame_interval(&self) -> Duration {
        self.frame_interval.unwrap_or(DEFAULT_FRAME_INTERVAL)
    }

    /// Returns position of the next NAL unit's header that has a byte behind it.
    fn next_header_position(&self) -> Option<usize> {
        let from = self.searched_len.saturating_sub(2);
        nal::header_positions(&self.buffer[from..])
            .map(|position| from + position)
            .find(|&position| position > self.searched_len)
            .filter(|position| position + 1 < self.buffer.len())
    }

    /// Returns the start of a start code, which includes a zero byte in front.
    fn start_code_position(&self, header_at: usize) -> usize {
        let start = header_at - 3;
        if start > 0 && self.buffer[start - 1] == 0 {
            start - 1
        } else {
            start
        }
    }

    /// Returns whether an access unit starts here, by ITU-T H.264 §7.4.1.2.3 without arbitrary
    /// slice order. It starts, after a slice, with a NAL unit that precedes a picture, or with a
    /// slice whose first macroblock is the picture's first.
    fn starts_access_unit(&self, header_at: usize) -> bool {
        self.has_slice
            && match nal::h264_type(self.buffer[header_at]) {
                // This bit is set in the first slice of a picture.
                h264::SLICE | h264::SLICE_PARTITION_A | h264::IDR_SLICE => {
                    self.buffer[header_at + 1] & 0x80 != 0
                }
                h264::SEI | h264::SPS | h264::PPS | h264::ACCESS_UNIT_DELIMITER => true,
                14..=18 => true,
                _ => false,
            }
    }

    /// Records the NAL unit whose header is at `header_at`.
    fn record(&mut self, header_at: usize) {
        let header = self.buffer[header_at];
        self.slices.record_h264(header);
        self.has_sei |= nal::h264_type(header) == h264::SEI;
        self.has_slice |= matches!(
            nal::h264_type(header),
            h264::IDR_SLICE | h264::SLICE | h264::SLICE_PARTITION_A
        );
    }

    /// Cuts off the bytes before `end`, and returns them in memory of their own.
    fn take(&mut self, end: usize) -> AccessUnit {
        let annex_b = self.buffer[self.taken_len..end].to_vec();
        self.taken_len = end;
        let mut slices = core::mem::take(&mut self.slices);
        if core::mem::take(&mut self.has_sei) && nal::has_h264_recovery_point(&annex_b) {
            slices.record_key();
        }
        let importance = slices.importance();
        if self.frame_interval.is_none() && importance.is_key() {
            self.frame_interval = frame_interval(&annex_b);
        }
        self.has_slice = false;
        AccessUnit {
            annex_b,
            importance,
        }
    }
}

/// Returns the picture interval of the first SPS in `annex_b`: 2 * num_units_in_tick / time_scale
/// (ITU-T H.264 §E.2.1). `None` without one, or if it is not between 1 ms and 1 s.
pub fn frame_interval(annex_b: &[u8]) -> Option<Duration> {
    let header_at = nal::header_positions(annex_b)
        .find(|&position| nal::h264_type(annex_b[position]) == h264::SPS)?;
    let unit = &annex_b[header_at..];
    let len = nal::header_positions(unit)
        .next()
        .map_or(unit.len(), |next| next - 3);
    // Zeros before the next start code are no part of the SPS.
    let used_len = unit[..len].iter().rposition(|&byte| byte != 0)? + 1;
    let sps = RefNal::new(&unit[..used_len], &[], true);
    let sps = SeqParameterSet::from_bits(sps.rbsp_bits()).ok()?;
    let timing = sps.vui_parameters?.timing_info?;
    let seconds = 2.0 * f64::from(timing.num_units_in_tick) / f64::from(timing.time_scale);
    (0.001..=1.0)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

/// Returns whether an access unit, an Annex B byte stream, holds an IDR slice. A header that ends
/// the bytes has no slice behind it.
pub fn is_key(annex_b: &[u8]) -> bool {
    nal::header_positions(annex_b).any(|position| {
        nal::h264_type(annex_b[position]) == h264::IDR_SLICE && position + 1 < annex_b.len()
    })
}

/// Returns a fingerprint of the coded picture in an access unit, an Annex B byte stream. It covers
/// only the slices' bytes (64-bit FNV-1a), so that delimiters and parameter sets inserted on the
/// way do not matter. `None` if there is no slice.
pub fn fingerprint(annex_b: &[u8]) -> Option<u64> {
    let mut starts = nal::header_positions(annex_b).peekable();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut has_slice = false;
    while let Some(start) = starts.next() {
        if !(h264::SLICE..=h264::IDR_SLICE).contains(&nal::h264_type(annex_b[start])) {
            continue;
        }
        has_slice = true;
        let end = starts.peek().map_or(annex_b.len(), |next| next - 3);
        // Zeros behind it belong to the next start code.
        let unit = &annex_b[start..end];
        let used_len = unit
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |at| at + 1);
        for &byte in &unit[..used_len] {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    has_slice.then_some(hash)
}

/// Returns the coding type of the picture of an access unit, an Annex B byte stream: the
/// farthest-reaching type of its slices (ITU-T H.264 table 7-6). `None` if no slice can be read.
pub fn picture_type(annex_b: &[u8]) -> Option<PictureType> {
    let slices = nal::header_positions(annex_b).filter(|&position| {
        matches!(
            nal::h264_type(annex_b[position]),
            h264::SLICE | h264::SLICE_PARTITION_A | h264::IDR_SLICE
        )
    });
    slices
        .filter_map(|position| slice_type(&annex_b[position..]))
        .max()
}

/// Returns the type of the slice that a NAL unit starts with: slice_type of its header (§7.3.3).
fn slice_type(unit: &[u8]) -> Option<PictureType> {
    // The first macroblock's number and the type take no more than nine bytes.
    let start = &unit[..unit.len().min(16)];
    let len = nal::header_positions(start)
        .next()
        .map_or(start.len(), |next| next - 3);
    let start = &start[..len];
    let slice = RefNal::new(start, &[], false);
    let mut bits = slice.rbsp_bits();
    bits.read_ue("first_mb_in_slice").ok()?;
    match bits.read_ue("slice_type").ok()? % 5 {
        0 | 3 => Some(PictureType::P),
        1 => Some(PictureType::B),
        _ => Some(PictureType::I),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPS: &[u8] = &[0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1f];
    const PPS: &[u8] = &[0, 0, 0, 1, 0x68, 0xce];
    const IDR: &[u8] = &[0, 0, 0, 1, 0x65, 0x88, 0x84, 0x21];
    const SECOND_SLICE: &[u8] = &[0, 0, 1, 0x65, 0x48, 0x84];
    const P_SLICE: &[u8] = &[0, 0, 1, 0x41, 0x9a, 0x02, 0x03];
    const DELIMITER: &[u8] = &[0, 0, 0, 1, 0x09, 0xf0];

    fn split(stream: &[u8], chunk_len: usize) -> Vec<AccessUnit> {
        let mut splitter = AccessUnitSplitter::new();
        let mut units = Vec::new();
        for chunk in stream.chunks(chunk_len) {
            splitter.push(chunk);
            while let Some(unit) = splitter.next_unit() {
                units.push(unit);
            }
        }
        units.extend(splitter.finish());
        units
    }

    #[test]
    fn access_units_start_at_parameter_sets_delimiters_and_first_slices() {
        let expected = [
            [SPS, PPS, IDR, SECOND_SLICE].concat(),
            P_SLICE.to_vec(),
            P_SLICE.to_vec(),
            [DELIMITER, P_SLICE].concat(),
            [SPS, PPS, IDR].concat(),
        ];
        let stream = expected.concat();
        for chunk_len in 1..=stream.len() {
            let units = split(&stream, chunk_len);
            let bytes: Vec<_> = units.iter().map(|unit| unit.annex_b.clone()).collect();
            assert_eq!(bytes, expected, "{chunk_len}");
            let keys: Vec<_> = units.iter().map(|unit| unit.importance.is_key()).collect();
            assert_eq!(keys, [true, false, false, false, true]);
        }
    }

    #[test]
    fn decoding_can_start_at_a_recovery_point() {
        let recovery_point = [0, 0, 0, 1, 0x06, 6, 1, 0xc4, 0x80];
        let timing = [0, 0, 1, 0x06, 1, 1, 6, 0x80];
        let refreshed = [&recovery_point, P_SLICE].concat();
        let timed = [&timing, P_SLICE].concat();
        let stream = [IDR, &timed, &refreshed, P_SLICE].concat();
        for chunk_len in 1..=stream.len() {
            let units = split(&stream, chunk_len);
            let keys: Vec<_> = units.iter().map(|unit| unit.importance.is_key()).collect();
            assert_eq!(keys, [true, false, true, false], "{chunk_len}");
        }
    }

    #[test]
    fn a_header_at_the_end_of_a_stream_is_no_picture() {
        let stream = [P_SLICE, &IDR[..5]].concat();
        for len in 1..=stream.len() {
            for unit in split(&stream[..len], 3) {
                let is_key = is_key(&unit.annex_b);
                assert!(!is_key || unit.importance.is_key(), "{:?}", unit.annex_b);
            }
        }
    }

    #[test]
    fn a_unit_without_reference_slices_is_disposable() {
        let b_slice = [0, 0, 1, 0x01, 0x9a, 2, 3];
        let second = [0, 0, 1, 0x01, 0x5a, 2, 3];
        let stream = [IDR, P_SLICE, &b_slice, &second, P_SLICE].concat();
        let importance: Vec<_> = split(&stream, 5)
            .iter()
            .map(|unit| unit.importance)
            .collect();
        use Importance::{Disposable, Key, Reference};
        assert_eq!(importance, [Key, Reference, Disposable, Reference]);
    }

    #[test]
    fn a_fingerprint_is_of_the_slices_alone() {
        let picture = [IDR, SECOND_SLICE].concat();
        let dressed = [DELIMITER, SPS, PPS, IDR, SECOND_SLICE, &[0, 0]].concat();
        assert_eq!(fingerprint(&dressed), fingerprint(&picture));
        assert_ne!(fingerprint(&picture), fingerprint(IDR));
        assert_ne!(fingerprint(P_SLICE), fingerprint(IDR));
        assert_eq!(fingerprint(&[SPS, PPS].concat()), None);
    }

    #[test]
    fn a_picture_is_of_its_slices_farthest_reaching_type() {
        fn slice(bits: u8) -> Vec<u8> {
            vec![0, 0, 1, 0x41, bits, 0x80]
        }

        // first_mb_in_slice 0 is the bit 1; slice_type 7 (I) is 0001000, 5 (P) 00110, 6 (B) 00111.
        let (i, p, b) = (slice(0b1000_1000), slice(0b1001_1010), slice(0b1001_1110));
        assert_eq!(picture_type(&i), Some(PictureType::I));
        assert_eq!(picture_type(&[&i[..], &p].concat()), Some(PictureType::P));
        assert_eq!(
            picture_type(&[&p[..], &b, &i].concat()),
            Some(PictureType::B)
        );
        assert_eq!(picture_type(SPS), None);
    }

    #[test]
    fn the_frame_interval_comes_from_the_sps() {
        // Constrained Baseline, 640x360, num_units_in_tick 1 and time_scale 60.
        let sps = [
            0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1e, 0xda, 0x02, 0x80, 0xbf, 0xe5, 0xc0, 0x44, 0, 0, 3,
            0, 4, 0, 0, 3, 0, 0xf0, 0x3c, 0x58, 0xba, 0x80, 0, 0, 0, 1, 0x68, 0xce, 0x0f, 0xc8,
        ];
        assert_eq!(frame_interval(&sps).map(Duration::as_micros), Some(33_333));
        assert_eq!(frame_interval(SPS), None);
        assert_eq!(frame_interval(P_SLICE), None);
        let mut splitter = AccessUnitSplitter::new();
        splitter.push(&[&sps, IDR, P_SLICE].concat());
        assert_eq!(splitter.frame_interval(), Duration::from_millis(40));
        assert!(splitter.next_unit().is_some());
        assert_eq!(splitter.frame_interval().as_micros(), 33_333);
    }

    #[test]
    fn units_of_one_push_hold_their_own_bytes_alone() {
        let mut splitter = AccessUnitSplitter::new();
        splitter.push(&[0, 0, 1, 0x41, 0x80].repeat(20_000));
        let units: Vec<AccessUnit> = core::iter::from_fn(|| splitter.next_unit()).collect();
        assert_eq!(units.len(), 19_999);
        assert_eq!(
            units.iter().map(|unit| unit.annex_b.capacity()).max(),
            Some(5)
        );
        assert!(splitter.buffer.capacity() <= 200_000);
    }

    #[test]
    fn a_start_code_where_a_part_ends_is_found() {
        for cut in 0..8 {
            let mut splitter = AccessUnitSplitter::new();
            let mut first = IDR.to_vec();
            first.resize(MAX_UNIT_LEN - cut, 7);
            let stream = [first.clone(), IDR.to_vec(), IDR.to_vec()].concat();
            let mut units = Vec::new();
            for piece in [&stream[..MAX_UNIT_LEN + 1], &stream[MAX_UNIT_LEN + 1..]] {
                splitter.push(piece);
                units.extend(core::iter::from_fn(|| splitter.next_unit()));
            }
            units.extend(splitter.finish());
            let lengths: Vec<usize> = units.iter().map(|unit| unit.annex_b.len()).collect();
            assert_eq!(lengths, [first.len(), IDR.len(), IDR.len()], "{cut}");
        }
    }

    #[test]
    fn a_unit_without_end_is_handed_over_in_parts() {
        let mut splitter = AccessUnitSplitter::new();
        splitter.push(IDR);
        let mut out_len = 0;
        for _ in 0..20 {
            splitter.push(&[0xff; 1 << 20]);
            while let Some(unit) = splitter.next_unit() {
                assert!(unit.annex_b.len() <= MAX_UNIT_LEN);
                out_len += unit.annex_b.len();
            }
            assert!(splitter.buffer.len() < MAX_UNIT_LEN + UNDECIDED_LEN);
        }
        out_len += splitter.finish().map_or(0, |unit| unit.annex_b.len());
        assert_eq!(out_len, IDR.len() + (20 << 20));
    }

    /// Generates bytes, often of start codes and of headers that matter.
    fn byte() -> impl Strategy<Value = u8> {
        let header = prop_oneof![Just(0x65), Just(0x67), any::<u8>()];
        prop_oneof![4 => Just(0), 3 => Just(1), 3 => header]
    }

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in_whatever_the_pieces(
            bytes in prop::collection::vec(byte(), 0..400),
            chunk_len in 1_usize..50,
        ) {
            let whole = split(&bytes, bytes.len().max(1));
            let pieces = split(&bytes, chunk_len);
            prop_assert_eq!(&whole, &pieces);
            let out: Vec<u8> = whole.into_iter().flat_map(|unit| unit.annex_b).collect();
            prop_assert!(bytes.ends_with(&out));
        }

        #[test]
        fn no_sps_makes_the_timing_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = frame_interval(&[&[0, 0, 1, 0x67], &bytes[..]].concat());
        }
    }
}
