//! What turns need is fetched while others take theirs.

use anabranch_units::Depth;

use super::World;
use crate::flow::{FlowId, Side};
use crate::observer::Observer;

impl World {
    /// Has the processor fetch what the turns that come next need of their flows: of each in three
    /// steps, as what has been fetched tells where the rest lies.
    pub(super) fn prefetch(&mut self, next: &[FlowId], sides: &[Side], observer: &impl Observer) {
        if let Some(flow) = next.get(2) {
            self.flows.prefetch(*flow, sides);
        }
        if let Some(flow) = next.get(1) {
            self.prefetch_ends(*flow, sides, Depth::Shell);
            observer.prefetch(*flow, Depth::Shell);
        }
        if let Some(flow) = next.first() {
            self.prefetch_ends(*flow, sides, Depth::Contents);
            observer.prefetch(*flow, Depth::Contents);
        }
    }

    fn prefetch_ends(&mut self, flow_id: FlowId, sides: &[Side], depth: Depth) {
        if !self.flows.is_session(flow_id) {
            return;
        }
        for side in sides {
            self.network
                .prefetch(self.inboxes.rest(flow_id, *side), depth);
        }
    }
}
