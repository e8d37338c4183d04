//! Null packets of a unit (PID 0x1FFF), which are left out on the way and inserted again.
//!
//! Encoders stuff a stream to a constant bitrate with packets that mean nothing. The receiver puts
//! the same packets at the same places, so that the output's bytes and clock references are those
//! of the input.
//!
//! ```text
//! unit without them (n × 188 bytes) │ nulls │ arrival times │ length of nulls (u8) │ mark (0xA8)
//! nulls: header's last byte, step, filling, gaps
//! gap: packets before it (varint), null packets in it (varint)
//! ```
//!
//! All null packets of a unit that are left out have the header 47 1F FF xx and one byte as their
//! filling. xx is constant, or (step 1) its low four bits, the continuity counter, count up. Others
//! are carried like all packets. All behind the unit takes 1 to 187 bytes, so that a frame's length
//! modulo 188 is its length. The arrival times are those of the whole unit.

use crate::mpeg_ts::{PACKET_LEN, SYNC_BYTE};
use crate::varint;

/// Last byte of a frame of which null packets were left out.
const MARK: u8 = 0xA8;
/// Beginning of a null packet without transport error, unit start and priority.
const HEADER: [u8; 3] = [SYNC_BYTE, 0x1F, 0xFF];
/// Bytes of a packet before its filling.
const HEADER_LEN: usize = 4;
/// Bytes of `nulls` before its gaps.
const PATTERN_LEN: usize = 3;
/// Bytes behind the arrival times: the length of the nulls and the mark.
const TRAILER_LEN: usize = 2;
/// Most bytes behind the unit, so that they are shorter than a packet.
const MAX_TAIL_LEN: usize = PACKET_LEN - 1;
/// Most null packets that a frame stands for: those of 50 ms at 120 Mbit/s. A peer could otherwise
/// have this end write without limit.
const MAX_NULLS: usize = 4_096;

/// Appearance of the null packets that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pattern {
    /// Fourth byte of the first one.
    control: u8,
    /// Whether the continuity counter counts up.
    counts: bool,
    filling: u8,
}

impl Pattern {
    /// Returns the pattern of a packet, if it is a null packet that can be described.
    fn of(packet: &[u8]) -> Option<Pattern> {
        let (header, filling) = packet.split_at_checked(HEADER_LEN)?;
        let first = *filling.first()?;
        let is_even = filling.iter().all(|byte| *byte == first);
        // A control of less is no packet's, and the first byte of another kind of frame.
        let is_null = header[..3] == HEADER && header[3] >= 0x10;
        (is_null && is_even).then_some(Pattern {
            control: header[3],
            counts: false,
            filling: first,
        })
    }

    /// Returns the fourth byte of the packet that follows one with `control`.
    fn next(self, control: u8) -> u8 {
        if self.counts {
            (control & 0xF0) | (control.wrapping_add(1) & 0x0F)
        } else {
            control
        }
    }

    fn write(self, control: u8, out: &mut Vec<u8>) {
        out.extend(HEADER);
        out.push(control);
        out.resize(out.len() + PACKET_LEN - HEADER_LEN, self.filling);
    }
}

/// Makes a unit into a frame with these arrival times behind it, and leaves null packets out.
/// Returns their number.
pub fn append_times(unit: &mut Vec<u8>, times: &[u8]) -> u64 {
    let mut filter = NullFilter::with_room_for(times.len());
    if unit.len().is_multiple_of(PACKET_LEN) {
        let kept = filter.push(unit);
        if filter.total() > 0 {
            *unit = kept;
        }
    }
    unit.extend(filter.finish(|_| times.to_vec()));
    filter.total()
}

/// Leaves null packets out of the packets of a unit, in order.
#[derive(Clone, Debug)]
pub struct NullFilter {
    /// Most bytes of the description.
    room: usize,
    /// Pattern of the first null packet; whether it counts is known with the second.
    pattern: Option<Pattern>,
    has_second: bool,
    /// Fourth byte of the next null packet that can be left out.
    control: u8,
    /// Closed gaps, as they are sent.
    gaps: Vec<u8>,
    /// Packets before the open gap, and null packets in it.
    before: u64,
    gap: u64,
    total: u64,
}

impl NullFilter {
    /// Creates a filter that leaves room for `times_len` bytes of arrival times.
    pub fn with_room_for(times_len: usize) -> Self {
        NullFilter {
            room: (MAX_TAIL_LEN - TRAILER_LEN).saturating_sub(times_len),
            pattern: None,
            has_second: false,
            control: 0,
            gaps: Vec::new(),
            before: 0,
            gap: 0,
            total: 0,
        }
    }

    /// Returns the number of packets left out so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns these whole packets of the unit, less those that are left out.
    pub fn push(&mut self, packets: &[u8]) -> Vec<u8> {
        let mut kept = Vec::with_capacity(packets.len());
        for packet in packets.chunks_exact(PACKET_LEN) {
            if Pattern::of(packet).is_some_and(|null| self.leaves_out(null)) {
                self.gap += 1;
                self.total += 1;
                continue;
            }
            self.close_gap();
            self.before += 1;
            kept.extend_from_slice(packet);
        }
        kept
    }

    /// Returns the bytes behind the unit: the description of the null packets, and the arrival
    /// times, of which `times` returns at most as many bytes as it is given.
    pub fn finish(&mut self, times: impl FnOnce(usize) -> Vec<u8>) -> Vec<u8> {
        self.close_gap();
        if self.total == 0 {
            return times(MAX_TAIL_LEN);
        }
        let Some(pattern) = self.pattern else {
            return times(MAX_TAIL_LEN);
        };
        let mut tail = vec![pattern.control, u8::from(pattern.counts), pattern.filling];
        tail.append(&mut self.gaps);
        let nulls_len = tail.len();
        tail.extend(times(MAX_TAIL_LEN - TRAILER_LEN - nulls_len));
        tail.extend([nulls_len as u8, MARK]);
        tail
    }

    /// Returns whether a null packet is left out.
    fn leaves_out(&mut self, null: Pattern) -> bool {
        let pattern = match &mut self.pattern {
            Some(pattern) => {
                if !self.has_second {
                    pattern.counts = null.control != pattern.control;
                    self.control = pattern.next(pattern.control);
                    self.has_second = true;
                }
                *pattern
            }
            None => {
                self.control = null.control;
                *self.pattern.insert(null)
            }
        };
        let described_len = PATTERN_LEN + self.gaps.len();
        let fits = self.room >= described_len + 2 * MAX_VARINT_LEN;
        let is_alike = null.control == self.control && null.filling == pattern.filling;
        let is_left_out = fits && is_alike && self.total < MAX_NULLS as u64;
        if is_left_out && self.has_second {
            self.control = pattern.next(self.control);
        }
        is_left_out
    }

    fn close_gap(&mut self) {
        if self.gap > 0 {
            varint::put(self.before, &mut self.gaps);
            varint::put(self.gap, &mut self.gaps);
            (self.before, self.gap) = (0, 0);
        }
    }
}

/// Inserts the null packets again that were left out of a frame, whose arrival times then follow
/// the whole unit. Returns their number; a frame without any is unchanged.
pub fn insert(frame: &mut Vec<u8>) -> u64 {
    let Some(Described {
        unit_len,
        nulls,
        times,
    }) = described(frame)
    else {
        return 0;
    };
    let Some((pattern, gaps)) = gaps(nulls) else {
        return 0;
    };
    let mut rest = &frame[..unit_len];
    let total: u64 = gaps.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return 0;
    }
    let mut whole = Vec::with_capacity(frame.len() + total as usize * PACKET_LEN);
    let mut control = pattern.control;
    for (before, count) in gaps {
        let len = usize::try_from(before).map_or(usize::MAX, |count| count * PACKET_LEN);
        let Some((packets, behind)) = rest.split_at_checked(len) else {
            return 0;
        };
        whole.extend_from_slice(packets);
        rest = behind;
        for _ in 0..count {
            pattern.write(control, &mut whole);
            control = pattern.next(control);
        }
    }
    whole.extend_from_slice(rest);
    whole.extend_from_slice(times);
    *frame = whole;
    total
}

/// Takes the description of null packets off a frame without inserting them. The arrival times,
/// which count them, go with it.
pub fn discard(frame: &mut Vec<u8>) {
    if let Some(Described { unit_len, .. }) = described(frame) {
        frame.truncate(unit_len);
    }
}

/// Returns the length of a frame with the null packets that were left out of it.
pub fn whole_len(frame: &[u8]) -> usize {
    let gaps = described(frame).and_then(|described| gaps(described.nulls));
    let count = gaps.map_or(0, |(_, gaps)| {
        gaps.iter().map(|(_, count)| count).sum::<u64>()
    });
    frame.len() + count as usize * PACKET_LEN
}

/// Parts of a frame of which null packets were left out.
struct Described<'a> {
    unit_len: usize,
    nulls: &'a [u8],
    times: &'a [u8],
}

fn described(frame: &[u8]) -> Option<Described<'_>> {
    let tail_len = frame.len() % PACKET_LEN;
    let unit_len = frame.len() - tail_len;
    let tail = &frame[unit_len..];
    let (&[len, MARK], tail) = tail.split_last_chunk::<2>().map(|(a, b)| (b, a))? else {
        return None;
    };
    let (nulls, times) = tail.split_at_checked(usize::from(len))?;
    Some(Described {
        unit_len,
        nulls,
        times,
    })
}

/// Reads a pattern and the packets before each gap and in it.
fn gaps(nulls: &[u8]) -> Option<(Pattern, Vec<(u64, u64)>)> {
    let (&[control, step @ 0..=1, filling], mut rest) = nulls.split_first_chunk::<PATTERN_LEN>()?
    else {
        return None;
    };
    let pattern = Pattern {
        control,
        counts: step == 1,
        filling,
    };
    let (mut gaps, mut total) = (Vec::new(), 0);
    while !rest.is_empty() {
        let gap = (
            varint::take(&mut rest, MAX_VARINT_LEN)?,
            varint::take(&mut rest, MAX_VARINT_LEN)?,
        );
        total += gap.1;
        if total > MAX_NULLS as u64 {
            return None;
        }
        gaps.push(gap);
    }
    Some((pattern, gaps))
}

/// Bytes of a varint below 2^21, as all numbers of packets in a frame are.
const MAX_VARINT_LEN: usize = 3;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn null(control: u8, filling: u8) -> Vec<u8> {
        let mut packet = [&HEADER[..], &[control]].concat();
        packet.resize(PACKET_LEN, filling);
        packet
    }

    fn picture(number: u8) -> Vec<u8> {
        let mut packet = vec![SYNC_BYTE, 1, 0, 0x10];
        packet.resize(PACKET_LEN, number);
        packet
    }

    fn any_packet((kind, number): &(u8, u8)) -> Vec<u8> {
        match kind {
            0 => picture(*number),
            1 => null(0x10 | number, 0xff),
            2 => null(0x10, *number),
            _ => null(0x10, 0xff),
        }
    }

    /// Sends a unit with these bytes behind it. Returns the number of null packets left out and
    /// the bytes that travelled.
    fn carried(unit: &[u8], times: &[u8]) -> (u64, usize) {
        let mut frame = unit.to_vec();
        let left_out = append_times(&mut frame, times);
        let len = frame.len();
        let whole = [unit, times].concat();
        if left_out > 0 {
            assert_eq!(whole_len(&frame), len + left_out as usize * PACKET_LEN);
            assert!((1..PACKET_LEN).contains(&(len % PACKET_LEN)));
        }
        assert_eq!(insert(&mut frame), left_out);
        assert_eq!(frame, whole);
        (left_out, len)
    }

    #[test]
    fn null_packets_travel_as_a_few_bytes_and_come_back_as_they_were() {
        let unit = [
            picture(1),
            null(0x10, 0xff),
            null(0x10, 0xff),
            picture(2),
            null(0x10, 0xff),
        ];
        let (left_out, len) = carried(&unit.concat(), &[1, 2, 0xA7]);
        assert_eq!((left_out, len), (3, 2 * PACKET_LEN + 3 + 4 + 3 + 2));
        // Of a unit that is nothing else, and of one without any.
        assert_eq!(carried(&null(0x10, 0).repeat(500), &[]).0, 500);
        assert_eq!(
            carried(&picture(1).repeat(9), &[5]),
            (0, 9 * PACKET_LEN + 1)
        );
    }

    #[test]
    fn counters_that_count_are_continued_and_other_null_packets_are_carried() {
        let counted: Vec<_> = (0..40)
            .map(|count| null(0x10 | (count % 16), 0xff))
            .collect();
        assert_eq!(carried(&counted.concat(), &[]).0, 40);
        let mut filled = null(0x10, 0xff);
        filled[100] = 7;
        let unit = [null(0x10, 0xff), null(0x10, 0), filled, null(0x10, 0xff)];
        assert_eq!(carried(&unit.concat(), &[]).0, 2);
        // Not whole packets: nothing is known of them.
        let cut = &null(0x10, 0xff).repeat(2)[1..];
        assert_eq!(carried(cut, &[]).0, 0);
    }

    #[test]
    fn null_packets_without_room_are_carried() {
        let unit = [picture(1), null(0x10, 0xff)].concat().repeat(300);
        let (left_out, _) = carried(&unit, &[9; 20]);
        assert!((70..300).contains(&left_out), "{left_out}");
        assert_eq!(carried(&unit, &[9; 186]).0, 0);
        let many = null(0x10, 0xff).repeat(MAX_NULLS + 5);
        assert_eq!(carried(&many, &[]).0, MAX_NULLS as u64);
    }

    #[test]
    fn a_forged_frame_makes_no_more_than_its_bound() {
        let pattern = [0x10, 0, 0xff];
        for gaps in [
            &[0, 0x81, 0x20][..],
            &[1, 1],
            &[0, 0xff, 0xff, 0xff, 1],
            &[0],
        ] {
            let len = (pattern.len() + gaps.len()) as u8;
            let mut frame = [&pattern[..], gaps, &[len, MARK]].concat();
            let before = frame.clone();
            assert_eq!(insert(&mut frame), 0, "{gaps:?}");
            assert_eq!(frame, before);
            assert!(whole_len(&frame) <= frame.len() + PACKET_LEN);
        }
    }

    proptest! {
        #[test]
        fn a_unit_that_grows_makes_the_same_frame(
            packets in prop::collection::vec((0_u8..6, 0_u8..3), 0..300),
            cuts in prop::collection::vec(0_usize..300, 0..8),
            times in prop::collection::vec(any::<u8>(), 0..187),
        ) {
            let unit: Vec<u8> = packets.iter().flat_map(any_packet).collect();
            let mut whole = unit.clone();
            let total = append_times(&mut whole, &times);
            let mut cuts: Vec<_> = cuts.iter().map(|at| at % (packets.len() + 1)).collect();
            cuts.extend([0, packets.len()]);
            cuts.sort_unstable();
            let mut filter = NullFilter::with_room_for(times.len());
            let mut grown = Vec::new();
            for pair in cuts.windows(2) {
                grown.extend(filter.push(&unit[pair[0] * PACKET_LEN..pair[1] * PACKET_LEN]));
            }
            let tail = filter.finish(|room| {
                assert!(times.len() <= room);
                times.clone()
            });
            grown.extend(tail);
            prop_assert_eq!((filter.total(), grown), (total, whole));
        }

        #[test]
        fn any_unit_comes_back(
            packets in prop::collection::vec((0_u8..6, 0_u8..3), 0..300),
            times in prop::collection::vec(any::<u8>(), 0..187),
        ) {
            let unit: Vec<u8> = packets.iter().flat_map(any_packet).collect();
            carried(&unit, &times);
        }

        #[test]
        fn random_ends_never_panic(mut frame in prop::collection::vec(any::<u8>(), 0..600)) {
            frame.extend([frame.first().copied().unwrap_or(3), MARK]);
            let (before, len) = (frame.clone(), whole_len(&frame));
            match insert(&mut frame) {
                0 => prop_assert_eq!(frame, before),
                count => {
                    prop_assert!(count <= MAX_NULLS as u64);
                    prop_assert!(len >= frame.len());
                }
            }
        }
    }
}
