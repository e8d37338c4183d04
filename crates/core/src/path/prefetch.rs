//! Fetching what the next calls need of a path.

use anabranch_units::{Depth, prefetch};

use super::Path;

impl Path {
    /// Has the processor fetch what calls need that send, or receive.
    pub(crate) fn prefetch(&self, depth: Depth, is_sender: bool, is_receiver: bool) {
        if depth == Depth::Shell {
            prefetch(&self.control);
            prefetch(&self.bound);
            prefetch(&self.challenge);
            prefetch(&self.counters);
            prefetch(&self.arrivals);
            if is_sender {
                prefetch(&self.recovery);
                prefetch(&self.schedule);
            }
            return;
        }
        prefetch(&*self.controller);
        if is_sender {
            self.recovery.prefetch_contents();
            self.bound.prefetch_contents();
        }
        if is_receiver {
            self.arrivals.prefetch_contents();
        }
    }
}
