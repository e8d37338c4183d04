//! The time of each byte of a transport stream, by the stream's own clocks.
//!
//! Bytes between two clock references (PCR) are spread evenly (ITU-T H.222.0 §2.4.2.2). One clock,
//! the *leader*, is followed: the PCR of the first program; without it another program's PCR;
//! without any the timestamps of a stream, those of the first program preferred. Each PID has a
//! clock of its own. If the leader is silent while another clock advances by [`SILENCE`], that one
//! leads. Where a time base ends, and where no clock is left, bytes take their time at the average
//! rate of the last seconds.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Duration};

use super::PACKET_LEN;
use super::clock::{Counter, REFERENCE_HOLD, Step, TIMESTAMP_HOLD};
use super::packet::{NULL_PID, Packet};
use super::pes::PesHeader;
use super::tables::ProgramTables;

/// Rate of a stream without any clock: chosen, a usual rate of a contribution.
const DEFAULT_RATE: DataRate = DataRate::from_megabits_per_second(4);
/// Lower bound of the average rate for extrapolation, so that no time is too long. Chosen.
const LOWEST_RATE: DataRate = DataRate::from_kilobits_per_second(1);
/// Silence after which the leader is replaced: five times the largest distance of clock references
/// that H.222.0 §2.7.2 allows.
const SILENCE: Duration = Duration::from_millis(500);
/// Largest distance of clock references (H.222.0 §2.7.2).
const REFERENCE_INTERVAL: Duration = Duration::from_millis(100);
/// Size of a large picture. Without a clock value inside, its bytes do not reveal the passage of
/// time.
const MAX_PICTURE_BYTES: u64 = 256 << 10;
/// Span over which the average rate is measured, with more weight on the recent past.
const RATE_SPAN: Duration = Duration::from_secs(4);
/// Time of the first clock value, so that bytes before it can be due earlier.
const ORIGIN: Duration = Duration::from_secs(10);
/// Maximum error of the estimated time at which a clock that returns continues its own time line.
const LARGEST_ERROR: Duration = Duration::from_secs(1);
/// Number of bytes without a clock value after which the time is extrapolated, so that memory is
/// bounded.
const MAX_UNTIMED_BYTES: u64 = 8 << 20;
/// Maximum number of clocks, more than streams have; the oldest makes room.
const MAX_CLOCKS: usize = 64;
/// Maximum number of anchors, more than [`MAX_UNTIMED_BYTES`] of units need; the oldest makes room.
const MAX_ANCHORS: usize = 4_096;

/// Kind of clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Program clock reference.
    Reference,
    /// Decoding or presentation timestamps of PES packets.
    Timestamp,
}

/// The clock of one PID.
#[derive(Clone, Copy, Debug)]
struct PidClock {
    kind: Kind,
    pid: u16,
    counter: Counter,
    /// Position of the last value that advanced the clock.
    marked_at: u64,
    /// The stream's time at the last value; `None`: unknown, since this clock has not led.
    time: Option<Duration>,
    /// Advance since the first value after the leader's last; `None` before that value.
    ahead: Option<Duration>,
    /// Whether the stream has announced that the next value belongs to a new time base.
    is_new_base: bool,
}

/// The time of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    position: u64,
    time: Duration,
}

/// Average rate of the last seconds.
#[derive(Clone, Copy, Debug, Default)]
struct RecentRate {
    bytes: u64,
    time: Duration,
}

/// Assigns times to the bytes of a stream of whole packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    clocks: Vec<PidClock>,
    /// Index of the clock that is followed.
    leader: Option<usize>,
    /// Times of bytes, in order of position and time.
    anchors: VecDeque<Anchor>,
    rate: RecentRate,
    /// Time between the leader's last two values.
    interval: Duration,
    /// Bytes of all packets so far.
    position: u64,
    has_ended: bool,
}

impl Timeline {
    /// Takes the stream's next packet; `tables` are those before it. Returns the time of its first
    /// byte if it carries the leader's next value.
    pub(super) fn push(&mut self, packet: Packet<'_>, tables: &ProgramTables) -> Option<Duration> {
        let has_advanced = self.read_clocks(packet, tables);
        self.position += PACKET_LEN as u64;
        if self.position - self.last().map_or(0, |last| last.position) > MAX_UNTIMED_BYTES {
            self.extrapolate();
        }
        has_advanced.then(|| self.last().map(|last| last.time.saturating_sub(ORIGIN)))?
    }

    /// Ends the stream: all times are known from now on.
    pub(super) fn finish(&mut self) {
        if !self.has_ended {
            self.has_ended = true;
            let last = self.last_or_first();
            let gap = self.gap_since(last);
            self.add_anchor(last.time + gap);
        }
    }

    /// Returns the time of the byte at `position`; `None` until the next clock value is known.
    /// Positions must not decrease from call to call.
    pub(super) fn time_at(&mut self, position: u64) -> Option<Duration> {
        while self.anchors.len() > 2 && self.anchors[1].position <= position {
            self.anchors.pop_front();
        }
        let first = *self.anchors.front()?;
        if position <= first.position {
            let is_rate_known = self.rate.get().is_some() || self.has_ended;
            let lead_in = self.gap(first.position, self.interval.max(REFERENCE_INTERVAL));
            let share = (first.position - position) as f64 / first.position.max(1) as f64;
            return is_rate_known.then(|| first.time.saturating_sub(lead_in.mul_f64(share)));
        }
        let after = self.anchors.partition_point(|it| it.position < position);
        let (from, to) = (self.anchors[after - 1], self.anchors.get(after)?);
        let share = (position - from.position) as f64 / (to.position - from.position) as f64;
        Some(from.time + to.time.saturating_sub(from.time).mul_f64(share))
    }

    /// Estimates the time of the last packet's first byte; `None` before the first clock value.
    pub(super) fn estimate(&self) -> Option<Duration> {
        let last = self.last()?;
        let position = self.position.saturating_sub(PACKET_LEN as u64);
        let bytes = position.saturating_sub(last.position);
        let next = self.interval.saturating_sub(Duration::from_nanos(1));
        let rate = self.rate.get().map(|rate| rate.max(LOWEST_RATE));
        let passed = rate.map_or(Duration::ZERO, |rate| rate.time_for(bytes));
        Some(last.time + passed.min(next))
    }

    fn last(&self) -> Option<Anchor> {
        self.anchors.back().copied()
    }

    /// Returns the last anchor; the stream's start if there is none.
    fn last_or_first(&mut self) -> Anchor {
        if self.anchors.is_empty() {
            self.anchors.push_back(Anchor {
                position: 0,
                time: ORIGIN,
            });
        }
        self.anchors[self.anchors.len() - 1]
    }

    /// Reads the packet's clocks. Returns whether the leader advanced.
    fn read_clocks(&mut self, packet: Packet<'_>, tables: &ProgramTables) -> bool {
        let pid = packet.pid();
        if packet.is_damaged() || pid == NULL_PID {
            return false;
        }
        let mut has_advanced = false;
        if packet.is_discontinuous()
            && let Some(index) = self.index_of(Kind::Reference, pid)
        {
            self.clocks[index].is_new_base = true;
        }
        if let Some(value) = packet.clock_reference() {
            has_advanced |= self.record(Kind::Reference, pid, value, tables);
        }
        if packet.starts_unit() && !packet.is_opaque() {
            let header = PesHeader::read(packet.payload());
            if let Some(value) = header.and_then(|header| header.timestamp) {
                has_advanced |= self.record(Kind::Timestamp, pid, value, tables);
            }
        }
        has_advanced
    }

    fn index_of(&self, kind: Kind, pid: u16) -> Option<usize> {
        let mut clocks = self.clocks.iter();
        clocks.position(|clock| clock.kind == kind && clock.pid == pid)
    }

    /// Takes the next value of a clock. Returns whether it gives the stream's time.
    fn record(&mut self, kind: Kind, pid: u16, value: u64, tables: &ProgramTables) -> bool {
        let (index, step) = match self.index_of(kind, pid) {
            Some(index) => (index, self.clocks[index].advance(value)),
            None => (self.insert(kind, pid, value), Step::Jump),
        };
        let advances = !matches!(step, Step::Held | Step::Forward(Duration::ZERO));
        let clock = &mut self.clocks[index];
        let before = clock.marked_at;
        if advances {
            clock.marked_at = self.position;
        }
        let Some(leader) = self.leader else {
            self.lead(index);
            return true;
        };
        if index == leader {
            if advances {
                self.follow(leader, step, self.position - before);
            }
            return advances;
        }
        let is_better = self.clocks[index].rank(tables) < self.clocks[leader].rank(tables);
        let takes_over = (is_better && advances) || self.clocks[index].silence().is_some();
        if takes_over {
            self.lead(index);
        }
        takes_over
    }

    /// Adds a clock; replaces the oldest if there are too many.
    fn insert(&mut self, kind: Kind, pid: u16, value: u64) -> usize {
        let hold = match kind {
            Kind::Reference => REFERENCE_HOLD,
            Kind::Timestamp => TIMESTAMP_HOLD,
        };
        let clock = PidClock {
            kind,
            pid,
            counter: Counter::new(value, hold),
            marked_at: self.position,
            time: None,
            ahead: None,
            is_new_base: false,
        };
        if self.clocks.len() < MAX_CLOCKS {
            self.clocks.push(clock);
            return self.clocks.len() - 1;
        }
        let others = (0..self.clocks.len()).filter(|index| Some(*index) != self.leader);
        let oldest = others.min_by_key(|index| self.clocks[*index].marked_at);
        let index = oldest.unwrap_or_default();
        self.clocks[index] = clock;
        index
    }

    /// Takes a step of the leader, `bytes` after its last value.
    fn follow(&mut self, leader: usize, step: Step, bytes: u64) {
        let last = self.last_or_first();
        let time = match step {
            Step::Forward(passed) => {
                self.rate.add(bytes, passed);
                self.interval = passed;
                self.clocks[leader].time.unwrap_or(last.time + passed)
            }
            Step::Held | Step::Jump => last.time + self.gap_since(last),
        };
        self.mark(leader, time);
    }

    /// Makes the clock at `index`, which has just been read, the leader.
    fn lead(&mut self, index: usize) {
        let had_leader = self.leader.replace(index).is_some();
        let clock = self.clocks[index];
        // One value alone measures no time.
        let has_rate = self.rate.get().is_some() || self.anchors.len() > 1;
        let starts_over = had_leader && !has_rate && clock.silence().is_none();
        let last = if starts_over { None } else { self.last() };
        let Some(last) = last else {
            self.anchors.clear();
            for clock in &mut self.clocks {
                clock.time = None;
            }
            self.mark(index, ORIGIN);
            return;
        };
        let bytes = self.position - last.position;
        if let Some(passed) = clock.silence() {
            self.rate.add(bytes, passed);
        }
        let passed = clock.silence().unwrap_or_else(|| self.gap_since(last));
        let estimate = last.time + passed;
        let own = clock
            .time
            .filter(|time| time.abs_diff(estimate) <= LARGEST_ERROR);
        self.mark(index, own.unwrap_or(estimate));
    }

    /// Records that the next byte is due at `time` by the leader, which is at `index`.
    fn mark(&mut self, index: usize, time: Duration) {
        let time = time.max(self.last().map_or(time, |last| last.time));
        self.add_anchor(time);
        for clock in &mut self.clocks {
            clock.ahead = None;
        }
        self.clocks[index].time = Some(time);
    }

    fn add_anchor(&mut self, time: Duration) {
        let position = self.position;
        match self.anchors.back_mut() {
            Some(last) if last.position == position => last.time = time,
            _ => self.anchors.push_back(Anchor { position, time }),
        }
        if self.anchors.len() > MAX_ANCHORS {
            self.anchors.pop_front();
        }
    }

    /// Adds an anchor at the end, by the average rate.
    fn extrapolate(&mut self) {
        let last = self.last_or_first();
        let bytes = self.position - last.position;
        self.add_anchor(last.time + self.mean_rate().time_for(bytes));
    }

    fn mean_rate(&self) -> DataRate {
        self.rate.get().unwrap_or(DEFAULT_RATE).max(LOWEST_RATE)
    }

    /// Estimates the time of the bytes since the `last` anchor, as long as the clocks are silent.
    fn gap_since(&self, last: Anchor) -> Duration {
        let usual = if self.interval.is_zero() {
            REFERENCE_INTERVAL
        } else {
            self.interval
        };
        self.gap(self.position - last.position, usual)
    }

    /// Estimates the time that `bytes` take where no clock measures it. As pictures differ in size,
    /// it is no longer than `usual`, unless the bytes are too many for that.
    fn gap(&self, bytes: u64, usual: Duration) -> Duration {
        let by_rate = self.mean_rate().time_for(bytes);
        if bytes <= MAX_PICTURE_BYTES || by_rate <= SILENCE {
            by_rate.min(usual)
        } else {
            by_rate
        }
    }
}

impl PidClock {
    /// Returns the rank of a clock, the best first.
    fn rank(&self, tables: &ProgramTables) -> u8 {
        match self.kind {
            Kind::Reference if tables.reference_pid() == Some(self.pid) => 0,
            Kind::Reference => 1,
            Kind::Timestamp if tables.has_stream(self.pid) => 2,
            Kind::Timestamp => 3,
        }
    }

    /// Takes the next value.
    fn advance(&mut self, value: u64) -> Step {
        let is_new_base = core::mem::take(&mut self.is_new_base);
        let step = self.counter.advance(value, is_new_base);
        match step {
            Step::Forward(passed) => {
                self.time = self.time.map(|time| time + passed);
                self.ahead = Some(self.ahead.map_or(Duration::ZERO, |ahead| ahead + passed));
            }
            Step::Jump => {
                self.time = None;
                self.ahead = Some(Duration::ZERO);
            }
            Step::Held => {}
        }
        step
    }

    /// Returns the leader's silence by this clock, if it is too long.
    fn silence(&self) -> Option<Duration> {
        self.ahead.filter(|ahead| *ahead >= SILENCE)
    }
}

impl RecentRate {
    fn add(&mut self, bytes: u64, time: Duration) {
        self.bytes += bytes;
        self.time += time;
        if self.time > RATE_SPAN {
            self.bytes /= 2;
            self.time = self.time / 2;
        }
    }

    fn get(&self) -> Option<DataRate> {
        let is_known = self.bytes > 0 && !self.time.is_zero();
        is_known.then(|| DataRate::from_bytes_per(self.bytes, self.time))
    }
}

#[cfg(test)]
mod tests;
