//! Cuts the bytes of a stream into units or their parts, and determines the time of each.

use std::collections::VecDeque;
use std::io;

use anabranch_units::{Duration, Instant};
use anabranch_video::input::InputKind;
use anabranch_video::mpeg_ts::PictureProgress;

use super::arrival_log::ArrivalLog;
use super::muxer::Muxer;
use super::part::Part;
use super::timed_units::TimedUnits;
use super::units::{FilmUnit, Reading, UnitSplitter};

/// Bytes that arrive within this time have the same date. It is a fraction of a picture's interval,
/// and equals the time for which fast datagrams accumulate.
const SAME_TIME: Duration = Duration::from_millis(2);
/// Age at which a live unit without a picture leaves. At 25 pictures per second the next picture
/// comes earlier and includes its sound, which saves a datagram.
const LONGEST_HOLD: Duration = Duration::from_millis(50);

/// Cutter of bytes into MPEG-TS units.
#[derive(Debug)]
pub(super) struct Cutter {
    units: TimedUnits,
    /// Converter of other streams to MPEG-TS.
    muxer: Option<Muxer>,
    /// Dates of units by the arrival of their bytes; `None` if the stream's clock dates them.
    dates: Option<Dates>,
}

/// Arrival of a live stream's bytes and units.
#[derive(Debug, Default)]
struct Dates {
    /// Units and parts that were cut before the last bytes arrived.
    complete: VecDeque<(Part, Instant)>,
    /// Time of the last bytes, or of a pause.
    came_at: Instant,
    log: ArrivalLog,
    /// Capture time of the unit whose parts are returned, and their length.
    begun: Option<(Instant, usize)>,
}

impl Cutter {
    pub(super) fn new(splitter: UnitSplitter, kind: InputKind) -> Self {
        Cutter {
            units: TimedUnits::new(splitter),
            muxer: (kind == InputKind::AnnexB).then(Muxer::new),
            dates: None,
        }
    }

    /// Returns a cutter that dates units by the arrival of their bytes.
    pub(super) fn dated(self) -> Self {
        Cutter {
            dates: Some(Dates::default()),
            ..self
        }
    }

    /// Returns parts of units from now on, as they come.
    pub(super) fn return_parts(&mut self) {
        self.units.return_parts();
    }

    /// Returns whether there is a part of a stream that its clock dates.
    pub(super) fn has_part(&self) -> bool {
        self.dates.is_none() && self.units.has_part()
    }

    /// Estimates the time of the last packet by the stream's clock.
    pub(super) fn estimated_due(&self) -> Option<Duration> {
        self.units.estimated_due()
    }

    /// Returns the part that has come of the incomplete unit, of a stream that its clock dates.
    pub(super) fn next_part(&mut self) -> io::Result<Option<Part>> {
        let part = self.units.next_part();
        part.map(|part| self.muxed(part)).transpose()
    }

    /// Returns whether arrivals date units.
    pub(super) fn is_dated(&self) -> bool {
        self.dates.is_some()
    }

    /// Returns whether there are complete units whose times are unknown.
    pub(super) fn has_held(&self) -> bool {
        self.units.has_held()
    }

    /// Returns the stream's progress in pictures.
    pub(super) fn progress(&self) -> PictureProgress {
        self.units.progress()
    }

    /// Adds bytes that arrived at `came_at`. Units that earlier bytes completed get their time
    /// first: they may have been held in order to be read together with the new bytes.
    pub(super) fn push(&mut self, came_at: Instant, bytes: &[u8]) -> io::Result<()> {
        // Without bytes nothing has arrived that could be held.
        if bytes.is_empty() {
            return Ok(());
        }
        if self
            .dates
            .as_ref()
            .is_some_and(|dates| came_at > dates.came_at + SAME_TIME)
        {
            self.date_complete()?;
        }
        if let Some(dates) = &mut self.dates {
            dates.came_at = dates.came_at.max(came_at);
            dates.log.push(bytes.len(), dates.came_at);
        }
        self.units.push(bytes);
        Ok(())
    }

    /// Records that no byte of the picture arrived until `at`, which ends it.
    pub(super) fn on_pause(&mut self, at: Instant) -> io::Result<()> {
        self.date_complete()?;
        if let Some(dates) = &mut self.dates {
            dates.came_at = dates.came_at.max(at);
        }
        Ok(())
    }

    /// Dates the complete units by the last bytes, if arrivals date units.
    fn date_complete(&mut self) -> io::Result<()> {
        while self.dates.is_some()
            && let Some(dated) = self.cut_dated(Reading::GoesOn)?
        {
            if let Some(dates) = &mut self.dates {
                dates.complete.push_back(dated);
            }
        }
        Ok(())
    }

    /// Returns the time at which bytes outside of pictures leave.
    pub(super) fn held_until(&self) -> Option<Instant> {
        let oldest_at = self.dates.as_ref()?.log.oldest_at()?;
        (!self.units.progress().has_picture).then(|| oldest_at + LONGEST_HOLD)
    }

    /// Returns the next unit of a live stream, or a part of one, and the arrival of its end. That
    /// is its last byte, or a sign that this was the last. If the input pauses or has ended,
    /// returns the incomplete unit too.
    pub(super) fn next_dated(&mut self, state: Reading) -> io::Result<Option<(Part, Instant)>> {
        let complete = self
            .dates
            .as_mut()
            .and_then(|dates| dates.complete.pop_front());
        match complete {
            Some(dated) => Ok(Some(dated)),
            None => self.cut_dated(state),
        }
    }

    fn cut_dated(&mut self, state: Reading) -> io::Result<Option<(Part, Instant)>> {
        let Some(unit) = self.units.next_complete(state) else {
            return Ok(None);
        };
        let skipped_bytes = self.units.skipped_bytes();
        let mut part = self.muxed(unit)?;
        let Some(dates) = &mut self.dates else {
            return Ok(None);
        };
        let came_at = dates.came_at;
        let (captured_at, len) = dates.begun.take().unwrap_or((came_at, 0));
        let len = len + part.bytes.len();
        if part.is_last {
            part.arrivals = dates.log.take(len, skipped_bytes, captured_at);
        } else {
            dates.begun = Some((captured_at, len));
        }
        Ok(Some((part, came_at)))
    }

    /// Returns the next unit, and its time by the stream's clock. If the input pauses or has ended,
    /// returns the incomplete unit too.
    pub(super) fn next_timed(
        &mut self,
        state: Reading,
    ) -> io::Result<Option<(Part, Option<Duration>)>> {
        let Some((unit, due)) = self.units.next(state) else {
            return Ok(None);
        };
        Ok(Some((self.muxed(unit)?, due)))
    }

    fn muxed(&mut self, unit: FilmUnit) -> io::Result<Part> {
        let FilmUnit {
            bytes,
            is_last,
            importance,
            clock,
            ..
        } = unit;
        let bytes = match (&mut self.muxer, clock) {
            (Some(muxer), Some(clock)) => muxer.mux(&bytes, clock, importance.is_key())?,
            _ => bytes,
        };
        Ok(Part {
            bytes,
            is_last,
            importance,
            arrivals: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Importance;
    use anabranch_video::mpeg_ts::TransportStreamWriter;

    use super::*;

    #[test]
    fn a_byte_stream_becomes_mpeg_ts_at_its_own_pace() {
        // An access unit delimiter and a slice, three times.
        let picture = [0, 0, 0, 1, 0x09, 0xf0, 0, 0, 0, 1, 0x41, 0x9a, 1, 2, 3];
        let kind = InputKind::AnnexB;
        let mut cutter = Cutter::new(UnitSplitter::stored(kind), kind);
        cutter.push(Instant::ZERO, &picture.repeat(3)).unwrap();
        let mut clocks = Vec::new();
        while let Some((unit, clock)) = cutter.next_timed(Reading::HasEnded).unwrap() {
            assert_eq!(unit.bytes.len() % 188, 0);
            assert_eq!(unit.bytes[0], 0x47);
            clocks.push(clock.unwrap().as_millis());
        }
        assert_eq!(clocks, [0, 40, 80]);
    }

    /// Returns a packet without video, whose continuity counter is `number`.
    fn null_packet(number: u8) -> Vec<u8> {
        [vec![0x47, 0x1f, 0xff, 0x10 | number & 0xf], vec![0xff; 184]].concat()
    }

    fn dated() -> Cutter {
        let kind = InputKind::MpegTs;
        Cutter::new(UnitSplitter::live(kind), kind).dated()
    }

    #[test]
    fn units_that_were_read_together_keep_the_times_at_which_they_came() {
        let mut cutter = dated();
        // A unit without video is complete with its 350th packet.
        let unit: Vec<u8> = (0..350_u32)
            .flat_map(|number| null_packet(number as u8))
            .collect();
        let came_at = [1, 5, 9].map(Instant::from_secs);
        for at in came_at {
            cutter.push(at, &unit).unwrap();
        }
        cutter
            .push(Instant::from_secs(13), &null_packet(0))
            .unwrap();
        cutter.on_pause(Instant::from_millis(13_100)).unwrap();
        let mut units = Vec::new();
        while let Some((unit, at)) = cutter.next_dated(Reading::Pauses).unwrap() {
            let arrivals = unit.arrivals.expect("it is dated");
            let packets = unit.bytes.len() / 188;
            units.push((packets, at.saturating_sub(arrivals.lead()), at));
        }
        // Each ends with the first packet of the next.
        let expected = [
            (350, 1_000, 5_000),
            (350, 5_000, 9_000),
            (350, 9_000, 13_000),
            (1, 13_000, 13_100),
        ]
        .map(|(packets, first, end)| {
            (
                packets,
                Instant::from_millis(first),
                Instant::from_millis(end),
            )
        });
        assert_eq!(units, expected);
    }

    /// A unit's bytes, its importance, and the arrival of each of its packets.
    type Arrived = (Vec<u8>, Importance, Vec<(u64, Instant)>);

    /// Units of which all parts have left.
    #[derive(Default)]
    struct Units {
        whole: Vec<Arrived>,
        part_count: usize,
        /// Bytes of the unit that has begun, and the time of its first part.
        bytes: Vec<u8>,
        captured_at: Option<Instant>,
    }

    impl Units {
        fn take(&mut self, cutter: &mut Cutter, state: Reading) {
            while let Some((part, at)) = cutter.next_dated(state).unwrap() {
                self.part_count += 1;
                let begun_at = *self.captured_at.get_or_insert(at);
                self.bytes.extend(part.bytes);
                if !part.is_last {
                    continue;
                }
                let times = part.arrivals.expect("it is dated");
                let first_at = begun_at.saturating_sub(times.lead());
                let packets = times
                    .groups(Duration::ZERO, 1)
                    .into_iter()
                    .map(|(count, since)| (count, first_at + since));
                let bytes = core::mem::take(&mut self.bytes);
                self.whole.push((bytes, part.importance, packets.collect()));
                self.captured_at = None;
            }
        }
    }

    /// Returns the units of a stream whose datagrams come at these times, and the number of parts
    /// in which they leave.
    fn units_of(mut cutter: Cutter, datagrams: &[(Instant, &[u8])]) -> (Vec<Arrived>, usize) {
        let mut units = Units::default();
        for (came_at, datagram) in datagrams {
            cutter.push(*came_at, datagram).unwrap();
            units.take(&mut cutter, Reading::GoesOn);
        }
        units.take(&mut cutter, Reading::HasEnded);
        (units.whole, units.part_count)
    }

    #[test]
    fn parts_keep_the_units_and_the_times_of_their_packets() {
        let mut writer = TransportStreamWriter::new(Vec::new());
        for number in 0..20 {
            let is_key = number % 5 == 0;
            let mut picture = vec![0, 0, 0, 1, if is_key { 0x65 } else { 0x41 }];
            picture.extend(vec![7; 2_000 + number as usize * 977 % 6_000]);
            let at = Duration::from_millis(40 * number);
            writer.write(&picture, at, is_key).unwrap();
        }
        let stream = writer.into_inner();
        let datagrams: Vec<_> = (0..)
            .map(|number| Instant::from_secs(9) + Duration::from_micros(1_700) * number)
            .zip(stream.chunks(3 * 188))
            .collect();
        let (whole, whole_count) = units_of(dated(), &datagrams);
        let mut cutter = dated();
        cutter.return_parts();
        let (grown, part_count) = units_of(cutter, &datagrams);
        assert_eq!((whole.len(), whole_count), (20, 20));
        assert!(part_count > 100, "{part_count}");
        for (whole, grown) in whole.iter().zip(&grown) {
            assert_eq!(whole, grown);
        }
        assert_eq!(whole.len(), grown.len());
    }

    #[test]
    fn bytes_without_a_picture_leave_at_an_age() {
        let mut cutter = dated();
        cutter.push(Instant::ZERO, &[]).unwrap();
        assert_eq!(cutter.held_until(), None);
        cutter.push(Instant::from_secs(1), &null_packet(0)).unwrap();
        cutter
            .push(Instant::from_millis(1_020), &null_packet(1))
            .unwrap();
        let held_until = cutter.held_until().expect("sound waits");
        assert_eq!(held_until, Instant::from_secs(1) + LONGEST_HOLD);
        cutter.on_pause(held_until).unwrap();
        let (unit, at) = cutter.next_dated(Reading::Pauses).unwrap().expect("a unit");
        assert_eq!((unit.bytes.len(), at), (2 * 188, held_until));
        assert_eq!(cutter.held_until(), None);
    }
}
