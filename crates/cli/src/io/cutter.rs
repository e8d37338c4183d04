//! Cuts the bytes of a stream into units, and says when each came or is due.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};
use anabranch_video::input::InputKind;
use anabranch_video::mpeg_ts::PictureProgress;

use super::arrival_log::ArrivalLog;
use super::input::Unit;
use super::muxer::Muxer;
use super::timed_units::TimedUnits;
use super::units::{FilmUnit, Reading, UnitSplitter};

/// Bytes that came this close together are dated alike: a fraction of a picture's interval, and as
/// long as fast datagrams are left to gather.
const SAME_TIME: Duration = Duration::from_millis(2);
/// A live unit without a picture leaves at this age. At 25 pictures per second the next picture
/// comes earlier and takes its sound along, which saves a datagram.
const LONGEST_HOLD: Duration = Duration::from_millis(50);

/// Units of MPEG-TS out of bytes.
#[derive(Debug)]
pub(super) struct Cutter {
    units: TimedUnits,
    /// Makes MPEG-TS of other streams.
    muxer: Option<Muxer>,
    /// Dates units by the arrival of their bytes; `None`: their stream's clock does.
    dates: Option<Dates>,
}

/// Arrival of a live stream's bytes and units.
#[derive(Debug, Default)]
struct Dates {
    /// Units that were complete before the last bytes came.
    complete: VecDeque<(Unit, Instant)>,
    /// When the last bytes came, or a pause was noticed.
    came_at: Instant,
    log: ArrivalLog,
}

impl Cutter {
    pub(super) fn new(splitter: UnitSplitter, kind: InputKind) -> Self {
        Cutter {
            units: TimedUnits::new(splitter),
            muxer: (kind == InputKind::AnnexB).then(Muxer::new),
            dates: None,
        }
    }

    /// Dates units by the arrival of their bytes.
    pub(super) fn dated(self) -> Self {
        Cutter {
            dates: Some(Dates::default()),
            ..self
        }
    }

    /// Whether arrivals date units.
    pub(super) fn is_dated(&self) -> bool {
        self.dates.is_some()
    }

    /// Whether there are complete units of which the times are unknown.
    pub(super) fn has_held(&self) -> bool {
        self.units.has_held()
    }

    /// Returns how far the stream has come with its pictures.
    pub(super) fn progress(&self) -> PictureProgress {
        self.units.progress()
    }

    /// Takes bytes that came at `came_at`. Units that earlier bytes completed get their time first:
    /// these may have waited to be read together with them.
    pub(super) fn push(&mut self, came_at: Instant, bytes: &[u8]) -> anyhow::Result<()> {
        let is_later = |dates: &Dates| came_at > dates.came_at + SAME_TIME;
        if self.dates.as_ref().is_some_and(is_later) {
            self.date_complete()?;
        }
        if let Some(dates) = &mut self.dates {
            dates.came_at = dates.came_at.max(came_at);
            dates.log.push(bytes.len(), dates.came_at);
        }
        self.units.push(bytes);
        Ok(())
    }

    /// Notes that nothing of the picture came until `at`, which ends it.
    pub(super) fn on_pause(&mut self, at: Instant) -> anyhow::Result<()> {
        self.date_complete()?;
        if let Some(dates) = &mut self.dates {
            dates.came_at = dates.came_at.max(at);
        }
        Ok(())
    }

    /// Gives the units that are complete the time of the last bytes, if arrivals date units.
    fn date_complete(&mut self) -> anyhow::Result<()> {
        while self.dates.is_some()
            && let Some(dated) = self.cut_dated(Reading::GoesOn)?
        {
            if let Some(dates) = &mut self.dates {
                dates.complete.push_back(dated);
            }
        }
        Ok(())
    }

    /// Returns when bytes leave that are in no picture.
    pub(super) fn held_until(&self) -> Option<Instant> {
        let oldest_at = self.dates.as_ref()?.log.oldest_at()?;
        (!self.units.progress().has_picture).then(|| oldest_at + LONGEST_HOLD)
    }

    /// Returns the next unit of a live stream and the time at which its end had come: its last
    /// byte, or a sign that this was the last. Where the input pauses or has ended, also the part
    /// that has come of the unit after.
    pub(super) fn next_dated(&mut self, state: Reading) -> anyhow::Result<Option<(Unit, Instant)>> {
        let complete = self
            .dates
            .as_mut()
            .and_then(|dates| dates.complete.pop_front());
        match complete {
            Some(dated) => Ok(Some(dated)),
            None => self.cut_dated(state),
        }
    }

    fn cut_dated(&mut self, state: Reading) -> anyhow::Result<Option<(Unit, Instant)>> {
        let Some(unit) = self.units.next_complete(state) else {
            return Ok(None);
        };
        let skipped_bytes = self.units.skipped_bytes();
        let mut unit = self.muxed(unit)?;
        let Some(Dates { log, came_at, .. }) = &mut self.dates else {
            return Ok(None);
        };
        unit.arrivals = log.take(unit.bytes.len(), skipped_bytes, *came_at);
        Ok(Some((unit, *came_at)))
    }

    /// Returns the next unit, and when it is due by the stream's clock; where the input pauses or
    /// has ended, also the part that has come of the one after.
    pub(super) fn next_timed(
        &mut self,
        state: Reading,
    ) -> anyhow::Result<Option<(Unit, Option<Duration>)>> {
        let Some((unit, due)) = self.units.next(state) else {
            return Ok(None);
        };
        Ok(Some((self.muxed(unit)?, due)))
    }

    fn muxed(&mut self, unit: FilmUnit) -> anyhow::Result<Unit> {
        let FilmUnit {
            bytes,
            importance,
            clock,
            ..
        } = unit;
        let bytes = match (&mut self.muxer, clock) {
            (Some(muxer), Some(clock)) => muxer.mux(&bytes, clock, importance.is_key())?,
            _ => bytes,
        };
        Ok(Unit {
            bytes,
            importance,
            arrivals: None,
        })
    }
}

#[cfg(test)]
mod tests {
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

    /// A packet without video, whose continuity counter is `number`.
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
            let (_, oldest) = arrivals.groups(Duration::ZERO, 1)[0];
            let packets = unit.bytes.len() / 188;
            units.push((packets, at.saturating_sub(oldest), at));
        }
        // Each ends with the first packet of the next.
        let expected = [
            (350, 1_000, 5_000),
            (350, 5_000, 9_000),
            (350, 9_000, 13_000),
            (1, 13_000, 13_100),
        ];
        let expected = expected.map(|(packets, first, end)| {
            (
                packets,
                Instant::from_millis(first),
                Instant::from_millis(end),
            )
        });
        assert_eq!(units, expected);
    }

    #[test]
    fn bytes_without_a_picture_leave_at_an_age() {
        let mut cutter = dated();
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
