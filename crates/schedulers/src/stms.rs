//! `stms`: slip-stream, a fast path and slow ones that run ahead of it.
//!
//! Source: Shi, Cui, Wang, Hu, Wang, Chen & Liu, "STMS: Improving MPTCP throughput under
//! heterogeneous networks", USENIX ATC 2018. The fast path takes the packet that the receiver needs
//! next. A slow one takes the packet that lies a gap of G bytes behind it, so that it arrives when
//! its turn has come: G = C_f·(d_s - d_f), with the fast path's rate and the one-way delays. As
//! delays are estimated, observations correct the gap: it shrinks if the slow path's packets wait
//! at the receiver for the fast path's, and grows if these wait for the slow path's.
//!
//! Read for frames over push queues: packets are held until a path is ready for one. If the backlog
//! is smaller than the gap, the slow path stays idle, since the fast one delivers all of it
//! earlier. A frame is delivered as a whole. So the aim is that a frame's packets arrive together,
//! not that packets out of order fit into a receive window.
//!
//! *Deviations*: the paper's fast path is the one of lower delay, and here the fastest of any
//! number. The rates of all faster paths together make a slow one's gap. Delays are half the
//! smoothed round-trip times, corrected by a quarter of the observed difference, at most once per
//! round-trip time of the slow path. The observed difference is the time from a slow packet's
//! arrival to that of the fast path's first packet that follows it in its frame. Retransmissions
//! and repairs follow the session's rules.

use anabranch_core::scheduler::{
    Assignment, PacketKind, Scheduler, SchedulerEvent, SendQueue, usable,
};
use anabranch_core::{FrameId, PathId, PathSet, PathView, SessionView};
use anabranch_units::{Duration, Instant};

use super::binding::Binding;

/// Share of an observed difference that corrects the gap.
const GAIN: f64 = 0.25;
/// Number of recorded arrivals on the fast path.
const FAST_ARRIVALS: usize = 128;
/// Largest number of arrivals on slow paths that wait for the fast path's next.
const SLOW_ARRIVALS: usize = 32;

#[derive(Debug, Default)]
struct Stms {
    binding: Binding,
    /// The path of the least round-trip time.
    fastest: Option<PathId>,
    /// By path number: additional state beside its view.
    slow: Vec<SlowPath>,
    arrivals: Arrivals,
    /// The newest frame of which a packet was bound.
    newest: FrameId,
    /// The paths that may be used, the fastest first.
    order: Vec<PathId>,
    /// Whether each packet of the queue has been handled in this call.
    is_dealt_with: Vec<bool>,
}

/// Distance of a path behind the fastest.
#[derive(Clone, Copy, Debug, Default)]
struct SlowPath {
    /// Additional delay over the fastest path, half of the round-trip times' difference.
    estimate: Duration,
    /// Correction of the estimate, in seconds.
    correction: f64,
    /// Frames before this one show the gap before its last correction.
    shows_from: FrameId,
    corrected_at: Option<Instant>,
    rtt: Duration,
}

impl SlowPath {
    fn lead(&self) -> Duration {
        let seconds = self.estimate.as_secs_f64() + self.correction;
        Duration::from_secs(1).mul_f64(seconds.max(0.0))
    }
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(Stms::default())
}

impl Scheduler for Stms {
    fn schedule(
        &mut self,
        _now: Instant,
        queue: &SendQueue<'_>,
        _session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        self.binding.begin(paths);
        self.is_dealt_with.clear();
        for (index, packet) in queue.iter() {
            self.is_dealt_with.push(packet.kind() != PacketKind::Source);
            if packet.kind() != PacketKind::Source
                && let Some(id) = self.binding.by_rule(packet)
            {
                self.binding.bind(index, packet, PathSet::only(id), out);
            }
        }
        self.rank_paths();
        let mut is_any_bound = true;
        while core::mem::take(&mut is_any_bound) {
            for place in 0..self.order.len() {
                let id = self.order[place];
                let Some(index) = self.packet_behind(queue, self.gap_bytes(place)) else {
                    continue;
                };
                let packet = queue.packet(index).expect("it is in the queue");
                let path = &self.binding.paths[id.index()];
                if path.sendable_bytes >= u64::from(packet.bytes) {
                    self.binding.bind(index, packet, PathSet::only(id), out);
                    self.is_dealt_with[index] = true;
                    self.newest = self.newest.max(packet.frame);
                    is_any_bound = true;
                }
            }
        }
    }

    fn on_event(&mut self, now: Instant, event: &SchedulerEvent) {
        let SchedulerEvent::Delivered {
            path,
            frame,
            fragment,
            received_at,
        } = *event
        else {
            return;
        };
        let arrival = Arrival {
            path,
            frame,
            fragment,
            at: received_at,
        };
        if Some(path) != self.fastest {
            match self.arrivals.fast_after(&arrival) {
                Some(at) => self.correct(now, &arrival, at),
                None => self.arrivals.keep_slow(arrival),
            }
            return;
        }
        self.arrivals.keep_fast(arrival);
        while let Some(slow) = self.arrivals.take_slow_before(&arrival) {
            self.correct(now, &slow, received_at);
        }
    }
}

impl Stms {
    /// Finds the fastest path and the others' distances behind it.
    fn rank_paths(&mut self) {
        let paths = &self.binding.paths;
        self.slow.resize(paths.len(), SlowPath::default());
        let fastest = usable(paths).min_by_key(|path| rtt(path));
        if fastest.map(|path| path.id) != self.fastest {
            self.fastest = fastest.map(|path| path.id);
            self.slow.fill(SlowPath::default());
            self.arrivals = Arrivals::default();
        }
        self.order.clear();
        let Some(fastest) = fastest else { return };
        for path in usable(paths) {
            let slow = &mut self.slow[path.id.index()];
            slow.rtt = rtt(path);
            slow.estimate = slow.rtt.saturating_sub(rtt(fastest)) / 2;
            self.order.push(path.id);
        }
        self.order.sort_unstable_by_key(|id| {
            let is_slow = Some(*id) != self.fastest;
            (is_slow, self.slow[id.index()].lead(), *id)
        });
    }

    /// Returns G of the path at this place of the order: the bytes that the faster ones deliver
    /// until its packet arrives.
    fn gap_bytes(&self, place: usize) -> u64 {
        let lead = self.slow[self.order[place].index()].lead();
        let faster = self.order[..place].iter().map(|id| {
            let ahead = lead.saturating_sub(self.slow[id.index()].lead());
            let path = &self.binding.paths[id.index()];
            path.preferred_rate(path.drain_rate()).bytes_in(ahead)
        });
        faster.sum()
    }

    /// Returns the packet that has at least `gap_bytes` of waiting packets before it.
    fn packet_behind(&self, queue: &SendQueue<'_>, gap_bytes: u64) -> Option<usize> {
        let mut before = 0;
        let waiting = queue
            .iter()
            .filter(|(index, _)| !self.is_dealt_with[*index]);
        for (index, packet) in waiting {
            if before >= gap_bytes {
                return Some(index);
            }
            before += u64::from(packet.bytes);
        }
        None
    }

    /// Corrects the gap of a slow path: the fast path's next packet came at `fast_at`.
    fn correct(&mut self, now: Instant, slow: &Arrival, fast_at: Instant) {
        let path = &mut self.slow[slow.path.index()];
        let is_too_soon = path.corrected_at.is_some_and(|at| now < at + path.rtt);
        if slow.frame < path.shows_from || is_too_soon {
            return;
        }
        let late = slow.at.saturating_since(fast_at).as_secs_f64();
        let early = fast_at.saturating_since(slow.at).as_secs_f64();
        // A lead is not negative, and at most a second beyond the estimate.
        let estimate = path.estimate.as_secs_f64();
        path.correction = (path.correction + GAIN * (late - early)).clamp(-estimate, 1.0);
        path.shows_from = FrameId(self.newest.0 + 1);
        path.corrected_at = Some(now);
    }
}

fn rtt(path: &PathView) -> Duration {
    path.preferred(path.rtt.smoothed.unwrap_or(PathView::UNKNOWN_RTT))
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    path: PathId,
    frame: FrameId,
    fragment: u16,
    at: Instant,
}

impl Arrival {
    fn is_before(&self, other: &Arrival) -> bool {
        self.frame == other.frame && self.fragment < other.fragment
    }
}

/// The last packets that have arrived, of the fast path and of the others.
#[derive(Debug, Default)]
struct Arrivals {
    /// Ring of arrivals.
    fast: Vec<Arrival>,
    fast_count: usize,
    /// Arrivals that no packet of the fast path has followed yet.
    slow: Vec<Arrival>,
}

impl Arrivals {
    fn keep_fast(&mut self, arrival: Arrival) {
        match self.fast.get_mut(self.fast_count % FAST_ARRIVALS) {
            Some(oldest) => *oldest = arrival,
            None => self.fast.push(arrival),
        }
        self.fast_count += 1;
    }

    fn keep_slow(&mut self, arrival: Arrival) {
        if self.slow.len() == SLOW_ARRIVALS {
            self.slow.remove(0);
        }
        self.slow.push(arrival);
    }

    /// Returns the arrival time of the fast path's first packet behind `slow` in its frame.
    fn fast_after(&self, slow: &Arrival) -> Option<Instant> {
        let behind = self.fast.iter().filter(|fast| slow.is_before(fast));
        behind.min_by_key(|fast| fast.fragment).map(|fast| fast.at)
    }

    fn take_slow_before(&mut self, fast: &Arrival) -> Option<Arrival> {
        let place = self.slow.iter().position(|slow| slow.is_before(fast))?;
        Some(self.slow.remove(place))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::scheduler::SendQueue;

    use super::super::OneByOne;
    use super::super::testing::{Bed, LeastRtt, Lines, M1_LINES, path};
    use super::*;

    fn gap(stms: &mut Stms, paths: &[PathView]) -> u64 {
        stms.schedule(
            Instant::ZERO,
            &SendQueue::new(&[]),
            &SessionView::default(),
            paths,
            &mut Vec::new(),
        );
        stms.gap_bytes(1)
    }

    #[test]
    fn the_gap_begins_as_rate_times_difference_of_delays_and_equal_paths_have_none() {
        // 4 Mbit/s for 30 ms.
        let gap_bytes = gap(&mut Stms::default(), &[path(0, 40, 4), path(1, 100, 3)]);
        assert_eq!(gap_bytes, 15_000);
        let gap_bytes = gap(&mut Stms::default(), &[path(0, 40, 4), path(1, 40, 3)]);
        assert_eq!(gap_bytes, 0);
    }

    #[test]
    fn the_slow_path_takes_the_packet_a_gap_behind_and_nothing_of_a_short_queue() {
        let mut bed = Bed::new(build(), vec![path(0, 40, 4), path(1, 100, 3)]);
        bed.paths[0].sendable_bytes = 1000;
        bed.paths[1].sendable_bytes = 1000;
        let bound = bed.schedule(&Bed::frame(40, 1000));
        let fragments: Vec<u16> = bound.iter().map(|(packet, _)| packet.fragment).collect();
        assert_eq!(fragments, [0, 16]);
        bed.paths[0].sendable_bytes = 0;
        bed.paths[1].sendable_bytes = 1000;
        assert_eq!(bed.schedule(&Bed::frame(14, 1000)), []);
    }

    #[test]
    fn of_slow_paths_with_the_same_gap_the_lower_id_comes_first() {
        fn rtt_millis(id: u8, fastest: u8) -> u64 {
            match id {
                id if id == fastest => 20,
                id => 40 + 20 * u64::from(id % 2),
            }
        }

        let fastest = 5;
        let paths: Vec<_> = (0..32)
            .map(|id| path(id, rtt_millis(id, fastest), 4))
            .collect();
        let mut stms = Stms::default();
        gap(&mut stms, &paths);
        let slow = (0..32).step_by(2).chain((1..32).step_by(2));
        let expected = [fastest]
            .into_iter()
            .chain(slow.filter(|id| *id != fastest));
        assert!(stms.order.iter().map(|id| id.0).eq(expected));
    }

    /// The paths' delays in both directions differ, so half the round-trip time is wrong by as
    /// much.
    #[test]
    fn gap_converges_to_the_one_way_delays() {
        for (there, back) in [((20, 20), (80, 20)), ((20, 20), (50, 110))] {
            let mut stms = Stms::default();
            let mut lines = Lines::of(&[(4, there.0, there.1), (3, back.0, back.1)]);
            // More than twenty round trips of the slow path, two thirds loaded.
            let rtt_millis = back.0 + back.1;
            lines.stream_over(&mut stms, 24, 20 * rtt_millis / 40 + 1);
            let expected = 4e6 / 8.0 * (back.0 - there.0) as f64 / 1e3;
            let gap_bytes = stms.gap_bytes(1) as f64;
            assert!(
                (gap_bytes / expected - 1.0).abs() <= 0.2,
                "{gap_bytes} {expected}"
            );
        }
    }

    #[test]
    fn more_arrives_in_order_than_with_the_least_round_trip_time_and_less_is_held() {
        fn run(
            scheduler: Box<dyn Scheduler>,
            bed: &[(u64, u64); 2],
            packet_count: u16,
        ) -> (f64, f64, u64) {
            let mut lines = Lines::new(scheduler, bed);
            lines.stream(packet_count, 25 * 10);
            (
                lines.in_order_share(),
                lines.mean_held_bytes(),
                lines.max_held_bytes(),
            )
        }

        for (bed, packet_count) in [([(4, 20), (3, 50)], 30), (M1_LINES, 70), (M1_LINES, 90)] {
            let stms = run(build(), &bed, packet_count);
            let least_rtt = run(Box::new(OneByOne::new(LeastRtt)), &bed, packet_count);
            assert!(stms.0 > least_rtt.0, "{stms:?} {least_rtt:?}");
            assert!(stms.1 <= 0.5 * least_rtt.1, "{stms:?} {least_rtt:?}");
            assert!(stms.2 < least_rtt.2, "{stms:?} {least_rtt:?}");
        }
    }

    // The source compares throughput with a receive window of 100 kB. Frames have none: the time at
    // which a frame is complete counts instead.
    #[test]
    fn frames_are_whole_no_later_than_with_the_least_round_trip_time() {
        fn delay(
            scheduler: Box<dyn Scheduler>,
            bed: &[(u64, u64); 2],
            packet_count: u16,
        ) -> Duration {
            let mut lines = Lines::new(scheduler, bed);
            lines.stream(packet_count, 25 * 10);
            lines.mean_frame_delay()
        }

        let beds = [10, 20, 30].map(|packet_count| ([(4, 20), (3, 50)], packet_count));
        let m1 = [30, 70, 90].map(|packet_count| (M1_LINES, packet_count));
        for (bed, packet_count) in beds.into_iter().chain(m1) {
            let stms = delay(build(), &bed, packet_count);
            let least_rtt = delay(Box::new(OneByOne::new(LeastRtt)), &bed, packet_count);
            assert!(stms <= least_rtt, "{packet_count}: {stms} {least_rtt}");
        }
    }
}
