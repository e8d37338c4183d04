//! A full window of the peer, as Linux answers it: [`crate::Reinjection::Linux`].

use super::reinjector::{Reinjector, rtt};
use super::schedule::Binding;
use crate::path_view::PathView;

/// Ratio of round-trip times from which a path is much slower than another (Linux,
/// `mptcp_sched.c`). Below it, copies would cost more than the wait.
const MUCH_SLOWER: u64 = 4;
/// Number of packets up to which a window counts as too small (same source).
const HARDLY_A_WINDOW: u64 = 4;

impl Reinjector<'_> {
    /// Handles a full peer's window though a path could send. A slower path that should have
    /// delivered the awaited segment is penalised. If that path is much slower or its window is too
    /// small, its copy does not count. Both follow Linux's `mptcp_rcv_buf_optimization`.
    pub(super) fn reinject_awaited(&mut self, binding: &mut Binding) {
        let could_send = |view: &&PathView| view.is_in_service() && view.sendable_bytes > 0;
        let open = self.views.iter().filter(could_send);
        let Some(by) = open.min_by_key(|view| rtt(view)) else {
            return;
        };
        let Some((chunk, in_flight_on)) = self.stream.send.first_in_flight_elsewhere(by.id) else {
            return;
        };
        let small_window = HARDLY_A_WINDOW * u64::from(self.max_packet_bytes);
        let mut is_worth_a_copy = false;
        for holder in in_flight_on.iter() {
            let view = &self.views[holder.index()];
            let holder_rtt = rtt(view);
            let has_hardly_a_window = view.congestion_window.is_some_and(|it| it <= small_window);
            is_worth_a_copy |= has_hardly_a_window || rtt(by) * MUCH_SLOWER < holder_rtt;
            let penalised_at = &mut binding.penalised_at[holder.index()];
            if holder_rtt > rtt(by) && *penalised_at + holder_rtt <= self.now {
                *penalised_at = self.now;
                self.paths[holder.index()].on_penalty();
            }
        }
        let by = by.id;
        if is_worth_a_copy {
            self.copy_in_flight(by, chunk.end(), |_, _| None);
        }
    }
}
