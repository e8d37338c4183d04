//! Units of a film with the times at which they are due.

use std::collections::VecDeque;

use anabranch_units::Duration;
use anabranch_video::mpeg_ts::PictureProgress;

use super::units::{FilmUnit, Reading, UnitSplitter};

/// Queue that holds units until the stream's next clock value determines their times.
#[derive(Debug)]
pub struct TimedUnits {
    splitter: UnitSplitter,
    /// Complete units whose times are unknown.
    held: VecDeque<FilmUnit>,
    /// Clock at the stream's first byte.
    start: Option<Duration>,
    /// Whether parts of incomplete units are returned.
    has_parts: bool,
}

impl TimedUnits {
    /// Creates an empty film that is cut by `splitter`.
    pub fn new(splitter: UnitSplitter) -> Self {
        TimedUnits {
            splitter,
            held: VecDeque::new(),
            start: None,
            has_parts: false,
        }
    }

    /// Returns parts of incomplete units from now on, too.
    pub fn return_parts(&mut self) {
        self.has_parts = true;
    }

    /// Adds the film's next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.splitter.push(bytes);
    }

    /// Returns the stream's progress in pictures.
    pub fn progress(&self) -> PictureProgress {
        self.splitter.progress()
    }

    /// Returns the number of bytes that were left out because they were in no packet.
    pub fn skipped_bytes(&self) -> u64 {
        self.splitter.skipped_bytes()
    }

    /// Returns whether there are complete units whose times are unknown.
    pub fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns whether a part can be returned that waits for no complete unit.
    pub fn has_part(&self) -> bool {
        self.has_parts && self.held.is_empty() && self.splitter.has_part()
    }

    /// Returns the next unit as soon as it is complete, or a part as soon as there is one, for
    /// inputs that others pace.
    pub fn next_complete(&mut self, state: Reading) -> Option<FilmUnit> {
        self.splitter.next(state).or_else(|| self.next_part())
    }

    /// Returns the part that has come of the incomplete unit.
    pub fn next_part(&mut self) -> Option<FilmUnit> {
        let splitter = &mut self.splitter;
        self.has_parts.then(|| splitter.next_part()).flatten()
    }

    /// Returns the next unit and its time after the stream's start. If the input waits or pauses,
    /// units with an estimated or unknown time are returned too.
    pub fn next(&mut self, state: Reading) -> Option<(FilmUnit, Option<Duration>)> {
        let splitter = &mut self.splitter;
        let complete = core::iter::from_fn(|| splitter.next(state));
        self.held.extend(complete);
        let front = self.held.front()?;
        let (end, clock) = (front.end, front.clock);
        let due = match end {
            None => clock,
            Some(end) => match self.due_at(end) {
                None if state == Reading::GoesOn => return None,
                None => self.estimated_due(),
                due => due,
            },
        };
        self.held.pop_front().map(|unit| (unit, due))
    }

    fn due_at(&mut self, end: u64) -> Option<Duration> {
        if self.start.is_none() {
            self.start = self.splitter.due_at(0);
        }
        let start = self.start?;
        Some(self.splitter.due_at(end)?.saturating_sub(start))
    }

    /// Estimates the time of the last packet after the stream's start.
    pub fn estimated_due(&self) -> Option<Duration> {
        let start = self.start?;
        Some(self.splitter.estimated_due()?.saturating_sub(start))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_video::input::InputKind;
    use anabranch_video::mpeg_ts::TransportStreamWriter;

    use super::*;

    /// Returns pictures 40 ms apart, whose times are in the stream.
    fn film(count: u64) -> Vec<u8> {
        let picture = [0, 0, 0, 1, 0x09, 0xf0, 0, 0, 0, 1, 0x65, 0x88, 1, 2, 3];
        let mut writer = TransportStreamWriter::new(Vec::new());
        for number in 0..count {
            let at = Duration::from_millis(40 * number);
            writer.write(&picture, at, true).unwrap();
        }
        writer.into_inner()
    }

    fn due_times(units: &mut TimedUnits, state: Reading) -> Vec<Option<u64>> {
        let units = core::iter::from_fn(|| units.next(state));
        units
            .map(|(_, due)| due.map(|due| (due + Duration::from_micros(5)).as_millis()))
            .collect()
    }

    #[test]
    fn unit_is_due_at_the_next_clock_reference() {
        let mut units = TimedUnits::new(UnitSplitter::stored(InputKind::MpegTs));
        units.push(&film(4));
        let due = due_times(&mut units, Reading::GoesOn);
        // The end of the third picture precedes the fourth's clock, behind tables that come with
        // it.
        assert_eq!(due, [Some(40), Some(80), Some(120)]);
        assert!(units.has_held());
        assert_eq!(due_times(&mut units, Reading::HasEnded), [Some(160)]);
    }

    #[test]
    fn complete_units_leave_where_the_input_waits() {
        let mut units = TimedUnits::new(UnitSplitter::live(InputKind::MpegTs));
        units.push(&film(1));
        assert_eq!(due_times(&mut units, Reading::GoesOn), []);
        assert_eq!(due_times(&mut units, Reading::Waits), [None]);
        assert!(!units.has_held());
    }
}
