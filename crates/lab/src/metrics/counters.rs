//! Counters of a running world, which windows compare at their begin and end.

use anabranch_core::{PathCounters, PathId, SessionCounters};
use anabranch_link::LinkStatistics;
use anabranch_sim::{FlowId, LinkId, World};
use anabranch_units::Instant;
use anabranch_video::adaptive_player::AdaptiveCounts;
use anabranch_video::stored_player::StoredPlayerCounts;

/// Counters of a running world: the simulator's, or another one's that carries a scenario.
pub trait Counters {
    /// Returns the time of the counts, from the scenario's start.
    fn now(&self) -> Instant;

    /// Returns the counters of a link.
    fn link_statistics(&mut self, link: LinkId) -> LinkStatistics;

    /// Returns whether a flow is a session.
    fn is_session(&self, flow: FlowId) -> bool;

    /// Returns the counters of a session's receiver.
    fn receiver_counters(&self, flow: FlowId) -> SessionCounters;

    /// Returns the counters of a path at a session's sender.
    fn sender_path_counters(&self, flow: FlowId, path: PathId) -> PathCounters;

    /// Returns the counters of a film's viewer; `None`: the flow has none.
    fn viewer_counts(&self, _flow: FlowId) -> Option<StoredPlayerCounts> {
        None
    }

    /// Returns the counters of a viewer that chooses bitrates; `None`: the flow has none.
    fn adaptive_counts(&self, _flow: FlowId) -> Option<AdaptiveCounts> {
        None
    }
}

impl Counters for World {
    fn now(&self) -> Instant {
        World::now(self)
    }

    fn link_statistics(&mut self, link: LinkId) -> LinkStatistics {
        World::link_statistics(self, link)
    }

    fn is_session(&self, flow: FlowId) -> bool {
        World::is_session(self, flow)
    }

    fn receiver_counters(&self, flow: FlowId) -> SessionCounters {
        World::receiver_counters(self, flow)
    }

    fn sender_path_counters(&self, flow: FlowId, path: PathId) -> PathCounters {
        World::sender_path_counters(self, flow, path)
    }

    fn viewer_counts(&self, flow: FlowId) -> Option<StoredPlayerCounts> {
        World::viewer_counts(self, flow)
    }

    fn adaptive_counts(&self, flow: FlowId) -> Option<AdaptiveCounts> {
        World::adaptive_counts(self, flow)
    }
}
