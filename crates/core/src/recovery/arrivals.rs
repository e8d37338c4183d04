//! The receiving half of recovery: which tracked packets arrived on a path, when, and when to
//! report them.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

use super::RttEstimator;
use crate::path_view::PathId;
use crate::wire::{FeedbackSchedule, HoleReports, MAX_ARRIVALS, MAX_RANGES, OutgoingReport};

/// Number of reports in a row of the same pause, after which the receiver waits for the next
/// packet: two reports may be lost.
const PAUSE_REPORTS: u8 = 3;
/// Number of usual gaps between packets after which a path pauses. With one, every uneven gap would
/// be a pause; each more delays the repair of a loss by a gap.
const PAUSE_GAPS: u64 = 2;
/// A longer gap is one between frames (60 a second are 16 ms apart).
const LONGEST_GAP: Duration = Duration::from_millis(10);

/// Number of ranges from earlier reports that are repeated, in case those got lost.
const REPEATED_RANGES: usize = 4;

/// Packets that have arrived on one path.
#[derive(Debug)]
pub(crate) struct Arrivals {
    due_at: Option<Instant>,
    /// Received numbers, inclusive, the highest range first.
    ranges: Vec<(u64, u64)>,
    /// The lowest number received since the last report.
    lowest_unreported: Option<u64>,
    /// When the last report was made.
    reported_at: Instant,
    /// Received packets of the highest numbers, ascending, with their arrival times, for the next
    /// report.
    recent: VecDeque<(u64, Instant)>,
    /// Number of the oldest entries of `recent` that are not reported again. They are removed with
    /// the next packet or report.
    reported_count: usize,
    ce_count: u64,
    schedule: FeedbackSchedule,
    /// Number below which holes have been reported out of turn, or left to the next regular report.
    holes_settled_until: u64,
    unreported_count: u32,
    /// The usual time between two packets, and when the last one came.
    gap: Duration,
    received_at: Instant,
    /// Number of reports about the present pause.
    pause_reports: u8,
    /// Whether a report is due only because of a pause.
    is_pause_due: bool,
    /// Whether [`Arrivals::on_segment`] decides when to report, until a schedule arrives.
    follows_stream: bool,
    /// When a hole was last reported out of turn.
    hole_reported_at: Option<Instant>,
}

impl Arrivals {
    /// Creates the state without arrivals. If `follows_stream`, the order of a stream's segments
    /// decides when reports are due, until the sender asks for a schedule.
    pub(crate) fn new(follows_stream: bool) -> Self {
        Arrivals {
            ranges: Vec::new(),
            recent: VecDeque::new(),
            schedule: FeedbackSchedule::default(),
            follows_stream,
            lowest_unreported: None,
            unreported_count: 0,
            gap: LONGEST_GAP,
            received_at: Instant::ZERO,
            pause_reports: 0,
            is_pause_due: false,
            due_at: None,
            reported_at: Instant::ZERO,
            holes_settled_until: 0,
            hole_reported_at: None,
            ce_count: 0,
            reported_count: 0,
        }
    }

    /// Returns the number expected next, for completing truncated ones.
    pub(crate) fn expected(&self) -> u64 {
        self.ranges.first().map_or(0, |range| range.1 + 1)
    }

    pub(crate) fn set_schedule(&mut self, schedule: FeedbackSchedule) {
        self.schedule = schedule;
        self.follows_stream = false;
    }

    /// Returns when a report is due.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// Makes a report due now, whatever the schedule: the sender has asked whether the path is
    /// alive.
    pub(crate) fn report_at_once(&mut self, now: Instant) {
        if !self.ranges.is_empty() {
            self.due_at = Some(now);
            self.is_pause_due = false;
        }
    }

    /// Records a packet that arrived at `received_at`. Returns whether it is new.
    pub(crate) fn on_received(
        &mut self,
        now: Instant,
        packet_number: u64,
        received_at: Instant,
        is_ce_marked: bool,
    ) -> bool {
        let expected = self.expected();
        if !self.insert(packet_number) {
            return false;
        }
        self.remember(packet_number, received_at);
        self.ce_count += u64::from(is_ce_marked);
        self.expect_nothing();
        self.pause_reports = 0;
        let gap = received_at.saturating_since(self.received_at);
        self.gap = (self.gap * 3 + gap.min(LONGEST_GAP)) / 4;
        self.received_at = self.received_at.max(received_at);
        self.unreported_count += 1;
        let lowest = self.lowest_unreported.unwrap_or(packet_number);
        self.lowest_unreported = Some(lowest.min(packet_number));
        if self.follows_stream {
            if self.unreported_count >= MAX_ARRIVALS as u32 {
                self.due_at = Some(now);
            }
            return true;
        }
        let is_urgent = self.is_hole_due(now, packet_number, expected)
            || (is_ce_marked && self.schedule.is_immediate_on_ce);
        let every_packets = self.schedule.every_packets.min(MAX_ARRIVALS as u32);
        if is_urgent || self.unreported_count >= every_packets {
            self.due_at = Some(now);
        } else if self.due_at.is_none() {
            let by_interval = self.schedule.interval.map(|span| self.reported_at + span);
            let by_delay = now + self.schedule.max_delay;
            self.due_at = Some(by_interval.map_or(by_delay, |at| at.min(by_delay)).max(now));
        }
        true
    }

    /// Schedules a report of a pause after a report, while more packets are expected. The last
    /// packets of a frame are followed by none that would reveal their loss, and a report may be
    /// lost.
    pub(crate) fn expect_more(&mut self) {
        let is_reported = self.schedule.reports_pauses && self.pause_reports < PAUSE_REPORTS;
        if is_reported && self.due_at.is_none() {
            let pause = (self.gap * PAUSE_GAPS).max(RttEstimator::GRANULARITY);
            self.due_at = Some(self.received_at.max(self.reported_at) + pause);
            self.is_pause_due = true;
        }
    }

    /// Cancels the report of a pause: nothing more is expected.
    pub(crate) fn expect_nothing(&mut self) {
        if self.is_pause_due {
            self.is_pause_due = false;
            self.due_at = None;
        }
    }

    /// Keeps the arrival time of a packet, if it is among the newest.
    fn remember(&mut self, packet_number: u64, received_at: Instant) {
        self.forget_reported();
        if self.recent.len() == MAX_ARRIVALS {
            // Room is made first: one entry more would take the memory of twice as many.
            let first = self.recent.front();
            if first.is_some_and(|(first, _)| packet_number < *first) {
                return;
            }
            self.recent.pop_front();
        }
        let newest = self.recent.back();
        if newest.is_none_or(|(last, _)| *last < packet_number) {
            self.recent.push_back((packet_number, received_at));
        } else {
            let position = self
                .recent
                .partition_point(|&(number, _)| number < packet_number);
            self.recent.insert(position, (packet_number, received_at));
        }
    }

    fn forget_reported(&mut self) {
        for _ in 0..core::mem::take(&mut self.reported_count) {
            self.recent.pop_front();
        }
    }

    /// Schedules a report for the segment in the packet noted last: after `delay`, and with every
    /// `ack_every`-th packet at once (RFC 5681 §4.2). Without effect once a schedule has arrived.
    pub(crate) fn on_segment(&mut self, now: Instant, delay: Duration, ack_every: u32) {
        if !self.follows_stream || self.ranges.is_empty() {
            return;
        }
        let by_delay = if self.unreported_count < ack_every {
            now + delay
        } else {
            now
        };
        self.due_at = Some(self.due_at.map_or(by_delay, |at| at.min(by_delay)));
    }

    /// Returns whether the highest number followed the one before it, if there is one.
    pub(crate) fn is_in_order(&self) -> bool {
        let newest = self.ranges.first();
        newest.is_some_and(|(low, high)| low < high || *high == 0)
    }

    /// Returns whether the packet that has just come needs a report out of turn. It does if it
    /// reveals a hole. If the schedule wants every hole at once, it also does if it fills one.
    fn is_hole_due(&mut self, now: Instant, packet_number: u64, expected: u64) -> bool {
        let Some(holes) = self.schedule.on_hole else {
            return false;
        };
        let is_late = packet_number < expected;
        let is_sure = self.settle_holes(holes) || (is_late && holes.after_packets <= 1);
        let is_reported = is_sure
            && self
                .hole_reported_at
                .is_none_or(|at| at + holes.min_interval <= now);
        if is_reported {
            self.hole_reported_at = Some(now);
        }
        is_reported
    }

    /// Settles all holes that enough packets have come beyond of. Returns whether there were any.
    fn settle_holes(&mut self, holes: HoleReports) -> bool {
        let mut packets_beyond = 0;
        for index in 0..self.ranges.len() {
            let (low, high) = self.ranges[index];
            if low <= self.holes_settled_until {
                break;
            }
            packets_beyond += high - low + 1;
            if packets_beyond >= u64::from(holes.after_packets) {
                self.holes_settled_until = low;
                return true;
            }
        }
        false
    }

    fn insert(&mut self, number: u64) -> bool {
        // The usual case: the next one.
        if let Some(first) = self.ranges.first_mut()
            && first.1 + 1 == number
        {
            first.1 = number;
            return true;
        }
        self.insert_out_of_order(number)
    }

    #[cold]
    fn insert_out_of_order(&mut self, number: u64) -> bool {
        let index = self.ranges.partition_point(|&(low, _)| low > number);
        if self
            .ranges
            .get(index)
            .is_some_and(|&(_, high)| number <= high)
        {
            return false;
        }
        let joins_above = index > 0 && self.ranges[index - 1].0 == number + 1;
        let joins_below = self
            .ranges
            .get(index)
            .is_some_and(|&(_, high)| high + 1 == number);
        match (joins_above, joins_below) {
            (true, true) => {
                self.ranges[index - 1].0 = self.ranges[index].0;
                self.ranges.remove(index);
            }
            (true, false) => self.ranges[index - 1].0 = number,
            (false, true) => self.ranges[index].1 = number,
            (false, false) if index >= MAX_RANGES => return false,
            (false, false) => self.ranges.insert(index, (number, number)),
        }
        self.ranges.truncate(MAX_RANGES);
        true
    }

    /// Returns the report about all arrivals; `None` if there are none.
    pub(crate) fn report(
        &mut self,
        now: Instant,
        path: PathId,
    ) -> Option<OutgoingReport<'_, impl ExactSizeIterator<Item = Instant>>> {
        let newest = self.ranges.first()?.1;
        let lowest_unreported = self.lowest_unreported.take().unwrap_or(newest);
        self.pause_reports += u8::from(core::mem::take(&mut self.is_pause_due));
        self.unreported_count = 0;
        self.due_at = None;
        self.reported_at = now;
        // The result is mostly the first alone, so a search would take longer.
        let new_ranges = (self.ranges.iter()).take_while(|(_, high)| *high >= lowest_unreported);
        let listed = (new_ranges.count() + REPEATED_RANGES).min(self.ranges.len());
        self.forget_reported();
        let fresh = self.recent.iter().rev();
        let fresh_count = fresh
            .take_while(|(number, _)| *number >= lowest_unreported)
            .count();
        // Without a gap, nothing older than the newest packet is reported again.
        if let [(0, _)] = self.ranges[..] {
            self.reported_count = self.recent.len().saturating_sub(1);
        }
        let unreported = self.recent.range(self.recent.len() - fresh_count..);
        Some(OutgoingReport {
            path,
            reported_at: now,
            ce_count: self.ce_count,
            ranges: &self.ranges[..listed],
            arrivals: unreported.rev().map(|(_, at)| *at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(numbers: &[u64]) -> Arrivals {
        let mut arrivals = Arrivals::new(false);
        arrivals.set_schedule(FeedbackSchedule {
            every_packets: 4,
            max_delay: Duration::from_millis(10),
            ..FeedbackSchedule::EVERY_PACKET
        });
        for &number in numbers {
            arrivals.on_received(
                Instant::from_millis(number),
                number,
                Instant::from_millis(number),
                false,
            );
        }
        arrivals
    }

    #[test]
    fn ranges_grow_join_and_refuse_duplicates() {
        let mut arrivals = received(&[0, 1, 4, 5, 3, 9]);
        assert_eq!(arrivals.ranges, [(9, 9), (3, 5), (0, 1)]);
        let at = Instant::ZERO;
        assert!(!arrivals.on_received(at, 4, at, false));
        assert!(arrivals.on_received(at, 2, at, false));
        assert_eq!(arrivals.ranges, [(9, 9), (0, 5)]);
    }

    #[test]
    fn a_report_is_due_by_count_by_delay_and_at_once_on_a_hole() {
        assert_eq!(received(&[0, 1]).due_at(), Some(Instant::from_millis(10)));
        assert_eq!(
            received(&[0, 1, 2, 3]).due_at(),
            Some(Instant::from_millis(3))
        );
        assert_eq!(received(&[0, 1, 5]).due_at(), Some(Instant::from_millis(5)));
    }

    /// Runs a receiver with this schedule, to which these numbers come a millisecond apart. Returns
    /// the numbers after whose arrival it reported at once.
    fn reported_at_once(schedule: FeedbackSchedule, numbers: &[u64]) -> Vec<u64> {
        let mut arrivals = Arrivals::new(false);
        arrivals.set_schedule(schedule);
        let mut listed = Vec::new();
        for (millis, &number) in numbers.iter().enumerate() {
            let now = Instant::from_millis(millis as u64);
            arrivals.on_received(now, number, now, false);
            if arrivals.due_at().is_some_and(|at| at <= now) {
                arrivals.report(now, PathId(0));
                listed.push(number);
            }
        }
        listed
    }

    /// Returns a schedule without reports except for holes.
    fn on_holes(after_packets: u8, min_interval: u64) -> FeedbackSchedule {
        FeedbackSchedule {
            every_packets: u32::MAX,
            max_delay: Duration::from_secs(9),
            interval: None,
            on_hole: Some(HoleReports {
                after_packets,
                min_interval: Duration::from_millis(min_interval),
            }),
            is_immediate_on_ce: false,
            reports_pauses: false,
        }
    }

    #[test]
    fn after_packets_1_reports_holes_and_late_packets() {
        let listed = reported_at_once(on_holes(1, 0), &[0, 1, 3, 4, 6, 5, 7]);
        assert_eq!(listed, [3, 6, 5]);
    }

    #[test]
    fn after_packets_3_lets_two_packets_be_overtaken() {
        let schedule = on_holes(3, 0);
        assert_eq!(reported_at_once(schedule, &[0, 2, 3, 4, 5, 6]), [4]);
        assert_eq!(
            reported_at_once(schedule, &[0, 2, 3, 1, 4, 5, 6]),
            [],
            "the late packet has filled it"
        );
    }

    #[test]
    fn after_packets_3_is_not_put_off_by_the_next_hole() {
        let listed = reported_at_once(on_holes(3, 0), &[0, 2, 3, 5, 6, 8, 9, 11, 12]);
        assert_eq!(listed, [5, 8, 11]);
    }

    #[test]
    fn min_interval_leaves_the_holes_of_one_loss_event_to_the_regular_report() {
        let numbers = [0, 2, 4, 6, 8, 9, 10, 11, 12, 14, 16, 18, 20];
        assert_eq!(reported_at_once(on_holes(1, 8), &numbers), [2, 14]);
        assert_eq!(reported_at_once(on_holes(1, 100), &numbers), [2]);
    }

    #[test]
    fn interval_counts_from_the_last_report_and_waits_for_a_packet() {
        let mut arrivals = Arrivals::new(false);
        arrivals.set_schedule(FeedbackSchedule {
            interval: Some(Duration::from_millis(100)),
            on_hole: None,
            ..on_holes(1, 0)
        });
        let cases = [
            (500, 500, "the first packet"),
            (510, 600, "the second"),
            (590, 600, "however many come"),
            (600, 600, "the last in time"),
            (790, 790, "and at once after a longer silence"),
        ];
        for (number, (millis, expected, case)) in (0..).zip(cases) {
            let now = Instant::from_millis(millis);
            arrivals.on_received(now, number, now, false);
            let due_at = arrivals.due_at().unwrap();
            if due_at <= now {
                arrivals.report(now, PathId(0));
            }
            assert_eq!(due_at.as_micros() / 1_000, expected, "{case}");
        }
    }

    /// Returns when a receiver that is asked for it reports pauses, in milliseconds, if packets
    /// came at these times and a frame stays incomplete.
    fn reported_pauses(reports_pauses: bool, came_at: &[u64]) -> Vec<u64> {
        let mut arrivals = Arrivals::new(false);
        arrivals.set_schedule(FeedbackSchedule {
            reports_pauses,
            ..FeedbackSchedule::EVERY_PACKET
        });
        let mut listed = Vec::new();
        let mut number = 0;
        for millis in 0..200 {
            let now = Instant::from_millis(millis);
            while arrivals.due_at().is_some_and(|at| at < now) {
                arrivals.report(now, PathId(0));
                arrivals.expect_more();
                listed.push(millis);
            }
            if came_at.contains(&millis) {
                arrivals.on_received(now, number, now, false);
                number += 1;
                arrivals.report(now, PathId(0));
                arrivals.expect_more();
            }
        }
        listed
    }

    #[test]
    fn pause_of_two_gaps_is_reported_three_times() {
        let steady: Vec<u64> = (0..40).map(|packet| packet * 2).collect();
        let times = reported_pauses(true, &steady);
        assert_eq!(times.len(), usize::from(PAUSE_REPORTS), "{times:?}");
        assert!((82..=84).contains(&times[0]) && times[2] <= 94, "{times:?}");
        assert_eq!(reported_pauses(false, &steady), []);
    }

    #[test]
    fn burst_makes_no_zero_pause() {
        let mut arrivals = Arrivals::new(false);
        arrivals.set_schedule(FeedbackSchedule {
            reports_pauses: true,
            ..FeedbackSchedule::EVERY_PACKET
        });
        let now = Instant::from_millis(0);
        for number in 0..64 {
            arrivals.on_received(now, number, now, false);
        }
        arrivals.report(now, PathId(0));
        arrivals.expect_more();
        assert_eq!(arrivals.due_at(), Some(now + RttEstimator::GRANULARITY));
        arrivals.expect_nothing();
        assert_eq!(arrivals.due_at(), None, "the frame is whole");
    }

    #[test]
    fn a_report_comes_before_an_arrival_time_has_to_be_forgotten() {
        let numbers: Vec<u64> = (0..300).collect();
        let listed = reported_at_once(on_holes(1, 0), &numbers);
        assert_eq!(listed, [127, 255]);
    }

    #[test]
    fn arrival_times_are_reported_once_and_ranges_repeat() {
        fn report_times(millis: u64, arrivals: &mut Arrivals) -> (Vec<(u64, u64)>, usize) {
            let report = arrivals
                .report(Instant::from_millis(millis), PathId(0))
                .unwrap();
            (report.ranges.to_vec(), report.arrivals.len())
        }

        let mut arrivals = received(&[0, 1, 2, 5]);
        assert_eq!(report_times(5, &mut arrivals), (vec![(5, 5), (0, 2)], 4));
        arrivals.on_received(Instant::from_millis(6), 6, Instant::from_millis(6), false);
        assert_eq!(report_times(6, &mut arrivals), (vec![(5, 6), (0, 2)], 1));
        assert_eq!(arrivals.due_at(), None);
    }

    #[test]
    fn gapless_report_forgets_all_but_the_newest() {
        let mut arrivals = received(&[0, 1, 2]);
        let now = Instant::from_millis(5);
        assert_eq!(arrivals.report(now, PathId(0)).unwrap().arrivals.len(), 3);
        assert_eq!(arrivals.recent.len() - arrivals.reported_count, 1);
        assert_eq!(arrivals.report(now, PathId(0)).unwrap().arrivals.len(), 1);
        // With a hole, later packets are reported again when it fills.
        let mut listed = Vec::new();
        for number in [4, 5, 3] {
            arrivals.on_received(now, number, now, false);
            listed.push(arrivals.report(now, PathId(0)).unwrap().arrivals.len());
        }
        assert_eq!(listed, [1, 1, 3]);
        assert_eq!(arrivals.recent.len() - arrivals.reported_count, 1);
        arrivals.on_received(now, 6, now, false);
        assert_eq!(arrivals.recent, [(5, now), (6, now)]);
    }

    #[test]
    fn memory_is_bounded() {
        let every_other: Vec<u64> = (0..10_000).map(|number| number * 2).collect();
        let arrivals = received(&every_other);
        assert!(arrivals.ranges.len() <= MAX_RANGES && arrivals.recent.len() <= MAX_ARRIVALS);
        assert_eq!(arrivals.expected(), 19_999);
    }

    #[test]
    fn report_repeats_four_known_ranges() {
        let every_other: Vec<u64> = (0..10).map(|number| number * 2).collect();
        let mut arrivals = received(&every_other);
        let now = Instant::from_millis(20);
        assert_eq!(arrivals.report(now, PathId(0)).unwrap().ranges.len(), 10);
        arrivals.on_received(now, 20, now, false);
        let ranges = arrivals.report(now, PathId(0)).unwrap().ranges;
        assert_eq!(ranges, [(20, 20), (18, 18), (16, 16), (14, 14), (12, 12)]);
    }

    #[test]
    fn rfc5681_4_2_a_segment_is_reported_after_the_delay_and_with_the_second_one_at_once() {
        fn due_at(millis: u64, number: u64, arrivals: &mut Arrivals) -> Option<Instant> {
            let now = Instant::from_millis(millis);
            arrivals.on_received(now, number, now, false);
            arrivals.on_segment(now, Duration::from_millis(40), 2);
            arrivals.due_at()
        }

        let mut arrivals = Arrivals::new(true);
        assert_eq!(due_at(10, 0, &mut arrivals), Some(Instant::from_millis(50)));
        assert_eq!(due_at(20, 1, &mut arrivals), Some(Instant::from_millis(20)));
    }

    /// A packet older than all kept ranges may or may not have come before.
    #[test]
    fn packet_older_than_kept_ranges_is_duplicate() {
        let every_other: Vec<u64> = (1..=MAX_RANGES as u64).map(|number| number * 2).collect();
        let mut arrivals = received(&every_other);
        let at = Instant::ZERO;
        assert!(!arrivals.on_received(at, 0, at, false));
        assert!(
            arrivals.on_received(at, 1, at, false),
            "it joins the oldest"
        );
        assert!(!arrivals.on_received(at, 1, at, false));
    }
}
