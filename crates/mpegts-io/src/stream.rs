//! A stream of bytes that is cut into units, each handed over at its time, or as its bytes come.

use std::collections::VecDeque;
use std::io;

use anabranch_net::Clock;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Instant};
use anabranch_video::input::InputKind;

use super::cutter::Cutter;
use super::foreign::ForeignInput;
use super::growth::{Growth, LongestGrowth};
use super::input_error::InputError;
use super::links::Links;
use super::pace::{LONGEST_CATCH_UP, Pace, SHORTEST_WAIT};
use super::part::Part;
use super::picture_end::PictureEnd;
use super::source::{Bytes, READ_BYTES, Source, Wait};
use super::units::{Reading, UnitSplitter};
use super::watch::InputWatch;

/// Pause that ends a live picture.
const PAUSE: Duration = Duration::from_millis(100);
/// Time without bytes after which a pipe counts as empty. A shorter wait is for the writer to be
/// scheduled.
const MOMENT: Duration = Duration::from_millis(2);
/// Lead up to which units of a pipe are read early, to find out whether its writer waits for us.
const MAX_LEAD: Duration = Duration::from_secs(1);
/// Maximum bytes that are read early.
const MAX_WAITING_BYTES: usize = 8 << 20;

/// Bytes that are cut into units.
#[derive(Debug)]
pub(super) struct Stream {
    name: String,
    source: Source,
    cutter: Cutter,
    /// Release times; `None` if units leave as they arrive.
    pace: Option<Pace>,
    watch: InputWatch,
    /// Program that implements a foreign protocol.
    foreign: Option<ForeignInput>,
    /// Units that are not due yet.
    waiting: Waiting,
    /// Time that reading has waited since the last unit, with no unit left to send.
    waited: Duration,
    read_at: Instant,
    picture_end: PictureEnd,
    growth: Growth,
}

/// Units or parts in the order of their times.
#[derive(Debug, Default)]
struct Waiting {
    units: VecDeque<(Part, Instant)>,
    bytes: usize,
}

impl Stream {
    /// Cuts the bytes of `source`, which begin with `first`, into units.
    pub(super) fn new(
        name: String,
        source: Source,
        kind: InputKind,
        first: &[u8],
        foreign: Option<ForeignInput>,
    ) -> io::Result<Self> {
        let is_of_datagrams = source.is_of_datagrams();
        let (splitter, pace) = if source.may_be_live() {
            (UnitSplitter::live(kind), Pace::piped())
        } else {
            (UnitSplitter::stored(kind), Pace::stored())
        };
        let mut cutter = Cutter::new(splitter, kind);
        if is_of_datagrams {
            cutter = cutter.dated();
        }
        cutter.push(Instant::ZERO, first)?;
        Ok(Stream {
            watch: InputWatch::new(name.clone(), is_of_datagrams),
            name,
            source,
            cutter,
            pace: (!is_of_datagrams).then_some(pace),
            foreign,
            waiting: Waiting::default(),
            waited: Duration::ZERO,
            read_at: Instant::ZERO,
            picture_end: PictureEnd::default(),
            growth: Growth::default(),
        })
    }

    /// Makes a report of silence name the parameters that choose a multicast group's interface.
    pub(super) fn hint_at_interface(&mut self) {
        self.watch.hint_at_interface();
    }

    /// Returns the links of a bonded stream by a foreign protocol.
    pub(super) fn links(&self) -> Option<Links> {
        self.foreign.as_ref()?.links()
    }

    /// Hands each unit to `deliver` at its time, until the stream ends, it is stopped or `deliver`
    /// returns false. With `longest_growth`, hands over parts of live units as they come. A unit
    /// ends with the bytes that come in the last quarter of that time, or at its end. The rest of
    /// its picture makes another one.
    pub(super) fn run(
        mut self,
        clock: &Clock,
        stop: &Stop,
        longest_growth: LongestGrowth<'_>,
        mut deliver: impl FnMut(Part, Instant) -> bool,
    ) -> Result<(), InputError> {
        let mut buffer = vec![0; READ_BYTES];
        let mut state = Reading::GoesOn;
        self.read_at = clock.now();
        if longest_growth.is_some() && self.source.may_be_live() {
            self.cutter.return_parts();
        }
        loop {
            self.cut(clock.now(), state, longest_growth)?;
            if !self.hand_over(clock, stop, &mut deliver) || stop.is_stopped() {
                return Ok(());
            }
            let next_at = self.waiting.next_at();
            state = match next_at {
                None if state == Reading::HasEnded => return Ok(()),
                Some(next_at) if state == Reading::HasEnded || !self.reads_ahead(clock.now()) => {
                    if !stop.wait_until(clock, next_at) {
                        return Ok(());
                    }
                    state
                }
                next_at => self.read(&mut buffer, state, next_at, stop, clock)?,
            };
        }
    }

    /// Cuts units out of the bytes that have arrived, and schedules each.
    fn cut(
        &mut self,
        now: Instant,
        state: Reading,
        longest_growth: LongestGrowth<'_>,
    ) -> io::Result<()> {
        if self.cutter.is_dated() {
            let mut next_state = state;
            while let Some((part, came_at)) = self.cutter.next_dated(next_state)? {
                self.schedule(part, came_at, longest_growth);
                next_state = if self.growth.ends_with_bytes_at(came_at) {
                    Reading::Pauses
                } else {
                    state
                };
            }
            return Ok(());
        }
        while let Some((unit, due)) = self.cutter.next_timed(state)? {
            let waited = core::mem::take(&mut self.waited);
            let pace = self.pace.as_mut();
            let release_at = pace.map_or(now, |pace| pace.release_at(due, now, waited));
            self.schedule(unit, release_at, longest_growth);
        }
        if state == Reading::Waits
            && self.part_at(now).is_some_and(|at| at <= now)
            && let Some(part) = self.cutter.next_part()?
        {
            self.schedule(part, now, longest_growth);
        }
        Ok(())
    }

    fn schedule(&mut self, part: Part, at: Instant, longest_growth: LongestGrowth<'_>) {
        self.growth.on_part(&part, at, longest_growth);
        self.waiting.push(part, at);
    }

    /// Returns when the part of a pipe's unit that has come is due, if there is one. Until then it
    /// waits for the rest.
    fn part_at(&self, now: Instant) -> Option<Instant> {
        if !self.cutter.has_part() {
            return None;
        }
        let pace = self.pace?;
        Some(pace.release_part_at(self.cutter.estimated_due(), now))
    }

    /// Hands over the units that are due. Returns whether more are wanted.
    fn hand_over(
        &mut self,
        clock: &Clock,
        stop: &Stop,
        deliver: &mut impl FnMut(Part, Instant) -> bool,
    ) -> bool {
        while let Some(due_at) = self.waiting.next_at()
            && !stop.is_stopped()
        {
            let late = clock.now().saturating_since(due_at);
            if late > LONGEST_CATCH_UP
                && let Some(pace) = &mut self.pace
            {
                // The program or the machine was suspended.
                pace.postpone(late);
                self.waiting.postpone(late);
                continue;
            }
            let Some((unit, due_at)) = self.waiting.pop(clock.now()) else {
                return true;
            };
            if !deliver(unit, due_at) {
                return false;
            }
        }
        true
    }

    /// Returns whether to read while units wait. That is done only for inputs that may be live. For
    /// a pipe it shows whether the writer waits for us.
    fn reads_ahead(&mut self, now: Instant) -> bool {
        if !self.source.may_be_live() {
            return false;
        }
        let has_room = self.waiting.lead(now) < MAX_LEAD && self.waiting.bytes < MAX_WAITING_BYTES;
        if !has_room && let Some(pace) = &mut self.pace {
            pace.on_full();
        }
        has_room
    }

    /// Reads until the next unit is due at the latest. Returns the state of the stream.
    fn read(
        &mut self,
        buffer: &mut [u8],
        state: Reading,
        next_at: Option<Instant>,
        stop: &Stop,
        clock: &Clock,
    ) -> Result<Reading, InputError> {
        self.picture_end
            .on_bytes(self.read_at, self.cutter.progress());
        let is_live = self.source.may_be_live() && next_at.is_none();
        let over_at = if is_live {
            self.picture_end.over_at()
        } else {
            None
        };
        let pauses_at = over_at
            .unwrap_or(Instant::FAR_FUTURE)
            .min(self.read_at + PAUSE)
            .min(self.cutter.held_until().unwrap_or(Instant::FAR_FUTURE))
            .min(self.growth.until().unwrap_or(Instant::FAR_FUTURE));
        if is_live && state == Reading::GoesOn && pauses_at <= self.read_at {
            // Bytes arrive, but none of the picture.
            self.cutter.on_pause(pauses_at)?;
            return Ok(Reading::Pauses);
        }
        let has_held = is_live && self.cutter.has_held();
        let part_at = if is_live {
            self.part_at(self.read_at)
        } else {
            None
        };
        let holds = has_held || part_at.is_some();
        let moment_at = match part_at {
            _ if has_held => self.read_at + MOMENT,
            Some(part_at) => part_at,
            None => pauses_at,
        };
        let wakes_at = match next_at {
            Some(next_at) => next_at,
            None if is_live => pauses_at.min(moment_at),
            None => clock.now() + PAUSE,
        };
        let wait = Wait {
            patience: wakes_at.saturating_since(clock.now()),
            stop,
            clock,
        };
        let read = self.take_bytes(buffer, wait, next_at.is_some())?;
        let now = clock.now();
        match read {
            Bytes::Some => self.read_at = now,
            Bytes::End => return Ok(Reading::HasEnded),
            Bytes::NoneYet => {
                if let Some(line) = self.watch.on_nothing(now) {
                    log::info!("{line}");
                }
            }
        }
        Ok(match read {
            Bytes::NoneYet if is_live && now >= pauses_at => {
                self.read_at = now;
                self.cutter.on_pause(pauses_at)?;
                Reading::Pauses
            }
            Bytes::NoneYet if holds && now >= moment_at => Reading::Waits,
            _ => Reading::GoesOn,
        })
    }

    /// Reads the bytes that have arrived. `is_ahead` means that some units are not due yet.
    fn take_bytes(
        &mut self,
        buffer: &mut [u8],
        wait: Wait<'_>,
        is_ahead: bool,
    ) -> Result<Bytes, InputError> {
        let clock = wait.clock;
        let mut sink = Sink {
            cutter: &mut self.cutter,
            watch: &mut self.watch,
            pushed: Ok(()),
        };
        let mut waited = Duration::ZERO;
        let read = self
            .source
            .read(buffer, wait, &mut waited, &mut |came_at, bytes: &[u8]| {
                sink.take(clock.now(), came_at, bytes);
            });
        let pushed = sink.pushed;
        let read = read.map_err(|source| InputError::Read {
            name: format!("input {}", self.name),
            source,
        })?;
        pushed?;
        if let Some(datagram) = self.source.left_out()
            && let Some(line) = self.watch.on_left_out(clock.now(), &datagram)
        {
            log::info!("{line}");
        }
        if let Some(warning) = self.source.warning() {
            log::warn!("input {}: {warning}", self.name);
        }
        if !is_ahead {
            self.waited += waited;
        } else if let Some(pace) = &mut self.pace
            && (waited > SHORTEST_WAIT || read == Bytes::NoneYet)
        {
            pace.on_empty(clock.now(), self.waiting.lead(clock.now()));
        }
        Ok(read)
    }
}

/// Takes the bytes of one read.
struct Sink<'a> {
    cutter: &'a mut Cutter,
    watch: &'a mut InputWatch,
    /// The cutter's first error.
    pushed: io::Result<()>,
}

impl Sink<'_> {
    fn take(&mut self, now: Instant, came_at: Instant, bytes: &[u8]) {
        if let Some(line) = self.watch.on_bytes(now, bytes) {
            log::info!("{line}");
        }
        if self.pushed.is_ok() {
            self.pushed = self.cutter.push(came_at, bytes);
        }
    }
}

impl Waiting {
    /// Adds a unit that is due at `due_at`, or together with the one before it.
    fn push(&mut self, unit: Part, due_at: Instant) {
        let before = self.units.back().map_or(due_at, |(_, at)| *at);
        self.bytes += unit.bytes.len();
        self.units.push_back((unit, due_at.max(before)));
    }

    /// Returns the time at which the next unit is due.
    fn next_at(&self) -> Option<Instant> {
        self.units.front().map(|(_, due_at)| *due_at)
    }

    /// Removes the next unit, if it is due.
    fn pop(&mut self, now: Instant) -> Option<(Part, Instant)> {
        self.next_at().filter(|due_at| *due_at <= now)?;
        let (unit, due_at) = self.units.pop_front()?;
        self.bytes -= unit.bytes.len();
        Some((unit, due_at))
    }

    /// Returns the lead of the last unit over its time.
    fn lead(&self, now: Instant) -> Duration {
        let last = self.units.back();
        last.map_or(Duration::ZERO, |(_, due_at)| due_at.saturating_since(now))
    }

    fn postpone(&mut self, span: Duration) {
        for (_, due_at) in &mut self.units {
            *due_at += span;
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Importance;
    use anabranch_video::mpeg_ts::TransportStreamWriter;

    use super::*;
    use crate::source::Source;

    /// Returns MPEG-TS of pictures 40 ms apart.
    fn film(count: u64) -> Vec<u8> {
        let picture = [0, 0, 0, 1, 0x09, 0xf0, 0, 0, 0, 1, 0x65, 0x88, 1, 2, 3];
        let mut writer = TransportStreamWriter::new(Vec::new());
        for number in 0..count {
            let at = Duration::from_millis(40 * number);
            writer.write(&picture, at, number == 0).unwrap();
        }
        writer.into_inner()
    }

    #[test]
    fn a_looped_file_is_dated_by_its_clock_round_after_round() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loop.ts");
        std::fs::write(&path, film(5).repeat(4)).unwrap();
        let (source, kind, first) = Source::open_file(&path).unwrap();
        let stream = Stream::new("loop".into(), source, kind, &first, None).unwrap();
        let (clock, stop) = (Clock::start(), Stop::new().unwrap());
        let mut dates = Vec::new();
        stream
            .run(&clock, &stop, None, |_, due_at| {
                assert!(clock.now() >= due_at, "never before its time");
                dates.push(due_at);
                true
            })
            .unwrap();
        assert_eq!(dates.len(), 20);
        for pair in dates.windows(2) {
            let step = pair[1].saturating_since(pair[0]);
            let error = step.abs_diff(Duration::from_millis(40));
            assert!(error < Duration::from_millis(30), "{dates:?}");
        }
        let length = dates[19].saturating_since(dates[0]);
        let error = length.abs_diff(Duration::from_millis(19 * 40));
        assert!(error < Duration::from_millis(60), "{length}");
    }

    #[test]
    fn units_wait_for_the_machine_after_a_sleep() {
        let unit = Part {
            bytes: vec![0; 188],
            is_last: true,
            importance: Importance::Key,
            arrivals: None,
        };
        let at = Instant::from_millis;
        let mut waiting = Waiting::default();
        waiting.push(unit.clone(), at(100));
        waiting.push(unit.clone(), at(140));
        waiting.push(unit, at(130));
        assert_eq!(
            (waiting.lead(at(90)), waiting.bytes),
            (Duration::from_millis(50), 564)
        );
        assert_eq!(waiting.pop(at(99)), None);
        waiting.postpone(Duration::from_secs(9));
        assert_eq!(waiting.pop(at(9_099)), None);
        let dates: Vec<_> = core::iter::from_fn(|| waiting.pop(at(10_000)))
            .map(|(_, due_at)| due_at)
            .collect();
        assert_eq!(dates, [at(9_100), at(9_140), at(9_140)]);
        assert_eq!(waiting.bytes, 0);
    }
}
