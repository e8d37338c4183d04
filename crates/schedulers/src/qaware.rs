//! `qaware`: the least sum of the local queue at its measured departure rate and half the
//! round-trip time.
//!
//! Source: Shreedhar, Mohan, Kaul & Kangasharju, "QAware: a cross-layer approach to MPTCP
//! scheduling", IFIP Networking 2018: argmin (q + 1)/μ + RTT/2, with the packets q in the device's
//! queue and its departure rate μ, smoothed with 1/8.
//!
//! *Deviations*: the local queue is the path's own, before pacer and window, so that packets are
//! bound at once and a full window shows as a growing queue. μ is measured as its inverse, the time
//! per byte between departures while packets wait, which bursts do not distort. Before the first
//! sample it is the controller's send rate.

use anabranch_core::scheduler::{PacketView, Scheduler, SchedulerEvent, eligible_paths};
use anabranch_core::{PathId, PathView};
use anabranch_units::{Duration, Instant};

use super::{OneByOne, PathChoice};

/// Weight of the newest sample in the departure rate.
const WEIGHT_OF_SAMPLE: f64 = 1.0 / 8.0;

#[derive(Debug, Default)]
struct QAware {
    departures: [Departures; PathId::LIMIT],
}

/// Observed departures from a path's queue.
#[derive(Clone, Copy, Debug, Default)]
struct Departures {
    /// 1/μ in nanoseconds per byte; `None` before the first sample.
    nanos_per_byte: Option<f64>,
    /// Time at which the last packet left, if others waited behind it.
    busy_since: Option<Instant>,
}

impl Departures {
    /// Handles a packet of `bytes` that has left; `queued_bytes` remain.
    fn on_sent(&mut self, now: Instant, bytes: u32, queued_bytes: u64) {
        if let Some(since) = self.busy_since
            && bytes > 0
        {
            let sample = now.saturating_since(since).as_nanos() as f64 / f64::from(bytes);
            let before = self.nanos_per_byte.unwrap_or(sample);
            self.nanos_per_byte = Some(before + WEIGHT_OF_SAMPLE * (sample - before));
        }
        self.busy_since = (queued_bytes > 0).then_some(now);
    }

    /// Returns the time in which `bytes` bytes leave a path.
    fn time_for(&self, bytes: u64, path: &PathView) -> Duration {
        match self.nanos_per_byte {
            Some(nanos) if nanos > 0.0 => Duration::from_nanos((nanos * bytes as f64) as u64),
            _ => path.drain_rate().time_for(bytes),
        }
    }
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(QAware::default()))
}

impl QAware {
    /// Returns (q + 1)/μ + RTT/2 for a packet of `bytes` bytes.
    fn cost(&self, path: &PathView, bytes: u64) -> Duration {
        self.departures[path.id.index()].time_for(path.queued_bytes + bytes, path)
            + path.rtt.smoothed.unwrap_or(PathView::UNKNOWN_RTT) / 2
    }
}

impl PathChoice for QAware {
    fn choose(&mut self, _now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let bytes = u64::from(packet.bytes);
        let least = eligible_paths(packet, paths)
            .min_by_key(|path| path.preferred(self.cost(path, bytes)))?;
        Some(least.id)
    }

    fn on_event(&mut self, now: Instant, event: &SchedulerEvent) {
        match *event {
            SchedulerEvent::Sent {
                path,
                bytes,
                queued_bytes,
            } => self.departures[path.index()].on_sent(now, bytes, queued_bytes),
            SchedulerEvent::PathUp(path) | SchedulerEvent::PathDown(path) => {
                self.departures[path.index()] = Departures::default();
            }
            SchedulerEvent::Acked { .. }
            | SchedulerEvent::Lost { .. }
            | SchedulerEvent::Delivered { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::scheduler::SchedulerEvent;

    use super::super::PathChoice;
    use super::super::testing::{Bed, FluidBed, m1, mean_millis, path};
    use super::*;

    /// Lets `count` packets of 1000 bytes leave the path, one every `micros`.
    fn depart(qaware: &mut QAware, path: PathId, count: u64, micros: u64) {
        for index in 0..count {
            let at = Instant::from_micros(1_000_000 + micros * index);
            let event = SchedulerEvent::Sent {
                path,
                bytes: 1000,
                queued_bytes: 1000,
            };
            qaware.on_event(at, &event);
        }
    }

    #[test]
    fn the_cost_is_the_queue_at_the_measured_rate_and_half_the_rtt() {
        let mut qaware = QAware::default();
        let mut view = path(0, 40, 8);
        view.queued_bytes = 9_000;
        // Paced at 1 ms a packet, until departures are observed: 2 ms a packet.
        assert_eq!(qaware.cost(&view, 1000), Duration::from_millis(20 + 10));
        depart(&mut qaware, PathId(0), 20, 2_000);
        assert_eq!(qaware.cost(&view, 1000), Duration::from_millis(20 + 20));
    }

    #[test]
    fn the_measured_rate_moves_by_an_eighth_and_not_while_the_queue_is_empty() {
        fn sent(millis: u64, queued_bytes: u64, departures: &mut Departures) -> Option<f64> {
            departures.on_sent(Instant::from_millis(millis), 1000, queued_bytes);
            departures.nanos_per_byte
        }

        let mut departures = Departures::default();
        assert_eq!(sent(0, 1000, &mut departures), None);
        assert_eq!(sent(1, 1000, &mut departures), Some(1000.0));
        assert_eq!(sent(10, 0, &mut departures), Some(2000.0));
        // No packet waited meanwhile, so the pause is no sample.
        assert_eq!(sent(500, 1000, &mut departures), Some(2000.0));
        assert_eq!(sent(502, 1000, &mut departures), Some(2000.0));
    }

    #[test]
    fn a_local_queue_of_50_packets_moves_traffic_at_once_before_the_rtt_changes() {
        let mut bed = Bed::new(build(), vec![path(0, 20, 10), path(1, 80, 10)]);
        bed.schedule(&Bed::frame(1, 1000));
        assert_eq!(bed.paths[0].queued_bytes, 1000);
        bed.paths[0].queued_bytes = 50_000;
        bed.schedule(&Bed::frame(1, 1000));
        assert_eq!(
            (bed.paths[0].queued_bytes, bed.paths[1].queued_bytes),
            (50_000, 1000)
        );
    }

    #[test]
    fn without_queues_the_choice_is_that_of_the_least_rtt() {
        let mut qaware = QAware::default();
        let packet = Bed::source(0, 1000);
        for (rtt_a, rtt_b) in [(20, 100), (100, 20), (40, 39)] {
            let paths = [path(0, rtt_a, 10), path(1, rtt_b, 10)];
            let least = u8::from(rtt_b < rtt_a);
            let chosen = qaware.choose(Instant::ZERO, &packet, &paths);
            assert_eq!(chosen, Some(PathId(least)));
        }
        // The packet's own time at 1/μ, 0.8 ms or 8 ms, counts too, which minRTT ignores.
        let paths = [path(0, 40, 1), path(1, 42, 10)];
        let chosen = qaware.choose(Instant::ZERO, &packet, &paths);
        assert_eq!(chosen, Some(PathId(1)));
    }

    /// minRTT as an early-binding rule.
    #[derive(Debug)]
    struct MinRtt;

    impl super::super::PathCost for MinRtt {
        fn cost(&mut self, _now: Instant, _packet: &PacketView, path: &PathView) -> Duration {
            path.rtt.smoothed.unwrap()
        }
    }

    #[test]
    fn frame_delay_is_below_that_of_the_least_rtt_where_pacers_queue() {
        fn mean(scheduler: Box<dyn Scheduler>, load: f64) -> f64 {
            let mut bed = FluidBed::new(scheduler, m1());
            bed.run(250, Duration::from_millis(40), (load * 100.0) as u16);
            mean_millis(&bed.frame_delays)
        }

        for load in [0.3, 0.45] {
            let (ours, least) = (
                mean(build(), load),
                mean(Box::new(OneByOne::new(MinRtt)), load),
            );
            assert!(ours <= least, "{ours} ms, minRTT {least} ms at {load}");
        }
        // Above the nearest path's capacity the comparison does not hold.
        let mut bed = FluidBed::new(build(), m1());
        bed.run_at(0.8, 10);
        assert!(mean_millis(&bed.frame_delays) < 100.0);
    }
}
