//! Measurements of a scenario's run outside of the simulator, as it measures its own.

use std::sync::Arc;

use anabranch_core::PathId;
use anabranch_sim::{FlowId, Observer, PacketCounts, TraceHash};
use anabranch_units::{Instant, Seed};

use super::stepped::{SECOND, by_expectation, multiples, windows};
use super::{Outcome, with_starts};
use crate::metrics::{Counters, Recorder, Window};
use crate::scenario::Scenario;

/// The recorder of a scenario that something else than the simulator runs. Its owner reports all
/// events, with instants from the scenario's start, and calls [`at_stop`](Self::at_stop) at every
/// [`next_stop`](Self::next_stop).
#[derive(Debug)]
pub struct Recording {
    seed: u64,
    scenario: Arc<Scenario>,
    windows: Vec<Window>,
    recorder: Recorder,
    /// The stops that are still to come, the next one last.
    stops: Vec<Instant>,
}

impl Recording {
    /// Returns a recording before the first event. The seed draws the flows' starts.
    pub fn new(scenario: &Scenario, seed: u64) -> Recording {
        let scenario = Arc::new(with_starts(scenario, Seed(seed)));
        let windows = windows(&scenario);
        let recorder = Recorder::new(&scenario, &windows);
        let end = Instant::ZERO + scenario.duration;
        let mut stops: Vec<Instant> = recorder.boundaries().collect();
        stops.extend(multiples(SECOND, end));
        stops.push(end);
        stops.sort();
        stops.dedup();
        stops.reverse();
        Recording {
            seed,
            scenario,
            windows,
            recorder,
            stops,
        }
    }

    /// Returns the scenario, with the starts of its flows drawn.
    pub fn scenario(&self) -> &Arc<Scenario> {
        &self.scenario
    }

    /// Returns the time at which counters are due; `None`: the run is over.
    pub fn next_stop(&self) -> Option<Instant> {
        self.stops.last().copied()
    }

    /// Takes the counters of the next stop, after all events up to that time.
    pub fn at_stop(&mut self, counters: &mut impl Counters) {
        let Some(stop) = self.stops.pop() else {
            return;
        };
        self.recorder.at_boundary(counters);
        if stop.as_nanos().is_multiple_of(SECOND.as_nanos()) {
            self.recorder.at_second(stop);
        }
    }

    /// Returns the receiver of all events but lost packets.
    pub fn observer(&mut self) -> &mut impl Observer {
        &mut self.recorder
    }

    /// Counts packets of a flow's path that the links towards its receiver have lost.
    pub fn count_dropped(&mut self, flow: FlowId, path: PathId, count: u64) {
        self.recorder.count_dropped(flow, path, count);
    }

    /// Returns the results. `data_packets_delivered` are those that arrived at the receiver.
    pub fn finish(
        self,
        trace_hash: TraceHash,
        packets: PacketCounts,
        data_packets_delivered: u64,
    ) -> Outcome {
        let end = Instant::ZERO + self.scenario.duration;
        let statistics = self.recorder.finish(end);
        let (statistics, expected) = by_expectation(&self.scenario, &self.windows, statistics);
        Outcome {
            seed: self.seed,
            trace_hash,
            packets,
            data_packets_delivered,
            statistics,
            expected,
            series: None,
        }
    }
}
