//! Parts of units, and the bytes of the frame that carries them.

use anabranch_units::{Importance, Instant};
use anabranch_video::arrival_times::ArrivalTimes;
use anabranch_video::mpeg_ts::PACKET_LEN;
use anabranch_video::null_packets::NullFilter;

use super::unit::Unit;

/// Room that null packets leave to the arrival times of a unit that grows, whose length is unknown
/// until it ends. Chosen: five bytes for a burst, 40 for a dozen groups of packets; 70 gaps between
/// null packets still fit.
const ROOM_FOR_TIMES: usize = 40;

/// Bytes of a unit, which may be all of them. The parts of a unit follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// MPEG-TS; may be empty if it is the last part.
    pub bytes: Vec<u8>,
    /// Whether the unit ends with it.
    pub is_last: bool,
    /// Importance of the whole unit.
    pub importance: Importance,
    /// Arrival times of the unit's packets, with the last part; `None`: unknown.
    pub arrivals: Option<ArrivalTimes>,
}

impl Part {
    /// Returns the unit that is this part.
    pub fn into_unit(self) -> Unit {
        Unit {
            bytes: self.bytes,
            importance: self.importance,
            arrivals: self.arrivals,
        }
    }
}

impl From<Unit> for Part {
    fn from(unit: Unit) -> Self {
        Part {
            bytes: unit.bytes,
            is_last: true,
            importance: unit.importance,
            arrivals: unit.arrivals,
        }
    }
}

/// Bytes of the frame that carries a unit, made part by part: without null packets, and with what
/// follows a unit behind the last part.
#[derive(Debug)]
pub struct GrowingFrame {
    captured_at: Instant,
    nulls: NullFilter,
    /// Numbers of packets, and the times at which their parts were handed over.
    handed_over: Vec<(u64, Instant)>,
}

impl GrowingFrame {
    /// Creates the frame of a unit whose first part is handed over at `captured_at`.
    pub fn new(captured_at: Instant) -> Self {
        GrowingFrame {
            captured_at,
            nulls: NullFilter::with_room_for(ROOM_FOR_TIMES),
            handed_over: Vec::new(),
        }
    }

    /// Returns the frame's next bytes, of a part that is handed over at `at`.
    pub fn push(&mut self, part: &Part, at: Instant) -> Vec<u8> {
        let packet_count = (part.bytes.len() / PACKET_LEN) as u64;
        self.handed_over.push((packet_count, at));
        let mut bytes = self.nulls.push(&part.bytes);
        if part.is_last {
            let times = part
                .arrivals
                .clone()
                .or_else(|| ArrivalTimes::new(&self.handed_over, self.captured_at));
            bytes
                .extend(self.nulls.finish(|room| {
                    times.map_or_else(Vec::new, |times| times.encoded_within(room))
                }));
        }
        bytes
    }

    /// Returns the number of null packets that were left out.
    pub fn null_count(&self) -> u64 {
        self.nulls.total()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Duration;
    use anabranch_video::null_packets;

    use super::*;

    fn part(bytes: Vec<u8>, is_last: bool) -> Part {
        Part {
            bytes,
            is_last,
            importance: Importance::Key,
            arrivals: None,
        }
    }

    #[test]
    fn a_frame_made_of_parts_holds_the_unit_and_its_times() {
        fn millis(count: u64, at: u64) -> (u64, Duration) {
            (count, Duration::from_millis(at))
        }

        fn at(number: usize) -> Instant {
            Instant::from_millis(20 * number as u64)
        }

        let null = [&[0x47, 0x1f, 0xff, 0x10][..], &[0xff; 184]].concat();
        let picture = vec![1; PACKET_LEN];
        let parts = [
            [null.clone(), picture.clone()].concat(),
            [picture.clone(), null.clone(), null.clone()].concat(),
            [null, picture].concat(),
        ];
        let mut frame = GrowingFrame::new(at(0));
        let mut bytes = Vec::new();
        for (number, unit) in parts.iter().enumerate() {
            let added = frame.push(&part(unit.clone(), number == 2), at(number));
            assert!(number == 2 || added.len() == PACKET_LEN);
            bytes.extend(added);
        }
        assert_eq!(frame.null_count(), 4);
        assert_eq!(null_packets::insert(&mut bytes), 4);
        let times = ArrivalTimes::split_off(&mut bytes).expect("parts have times");
        assert_eq!(bytes, parts.concat());
        assert_eq!(times.lead(), Duration::ZERO);
        let groups: Vec<_> = times.groups(Duration::ZERO, 1).into();
        assert_eq!(groups, [millis(2, 0), millis(3, 20), millis(2, 40)]);
    }

    #[test]
    fn a_unit_of_parts_of_which_the_last_is_empty_ends_with_its_times() {
        let at = Instant::from_millis(7);
        let mut frame = GrowingFrame::new(at);
        let mut bytes = frame.push(&part(vec![1; PACKET_LEN], false), at);
        bytes.extend(frame.push(&part(Vec::new(), true), at));
        let times = ArrivalTimes::split_off(&mut bytes).expect("it has times");
        assert_eq!((times.packet_count(), bytes.len()), (1, PACKET_LEN));
    }
}
