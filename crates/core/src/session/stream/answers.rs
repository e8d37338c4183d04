//! Paths that have not answered yet: they are asked, held in reserve, and raced.

use super::Stream;
use super::placement::Placement;
use crate::path::Path;
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::reinjection::Reinjection;
use crate::scheduler::PacketView;
use crate::send_reason::SendReason;
use crate::session::questions::Questions;

/// Number of packets on each path before one has answered: the initial window of RFC 6928.
const DUPLICATED_PACKETS: u64 = 10;

/// Asks unknown paths for their round-trip times, after a path has been added.
pub(super) fn ask_unknown_paths(paths: &mut [Path], questions: &mut Questions) {
    for path in paths {
        if path.is_at_rest() && !path.recovery.rtt().has_sample() {
            questions.ask(path, SendReason::IdleProbe);
        }
    }
}

impl Stream {
    /// Holds a further path in reserve until it has answered. A flow of MPTCP also carries nothing
    /// before its handshake: short data would take longer on a path that turns out to be slow. With
    /// [`Reinjection::Tail`] the first path is held, too, once another has answered.
    pub(super) fn hold_unanswered(&self, paths: &[Path], views: &mut [PathView]) {
        let is_duplicating = self.config.reinjection == Reinjection::Tail;
        let is_over = is_duplicating
            && paths.iter().any(|path| {
                path.state() == PathState::Active
                    && path.recovery.rtt().has_sample()
                    && path.control().is_usable
            });
        for (path, view) in paths.iter().zip(views).skip(usize::from(!is_over)) {
            let is_carrying = is_duplicating && path.has_unanswered_segments();
            view.is_standby |= is_carrying || is_unanswered(path);
        }
    }
}

impl Placement<'_> {
    /// Sends the first packets by all paths but metered ones. No copy on a path that has never
    /// answered is expected at any time, and none is known to be better.
    pub(super) fn race(&mut self, packet: &PacketView, bound_to: PathSet) {
        let is_first = packet.reason == SendReason::New && packet.in_flight_on.is_empty();
        if !is_first
            || self.config.stream.reinjection != Reinjection::Tail
            || self
                .paths
                .iter()
                .any(|path| path.recovery.rtt().has_sample())
        {
            return;
        }
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            if !bound_to.contains(id) && self.may_race_on(id, packet) {
                if !self.paths[index].has_bound() {
                    self.paths[index].leave_idleness(self.now);
                }
                self.stream.copies.pay(u64::from(packet.bytes));
                self.stream.send.on_bound(packet.frame.0);
                self.paths[index].bind_next(*packet);
            }
        }
    }

    fn may_race_on(&self, id: PathId, packet: &PacketView) -> bool {
        let path = &self.paths[id.index()];
        let most = DUPLICATED_PACKETS * u64::from(self.sizes.max_packet_bytes);
        let bytes = path.queued_bytes() + u64::from(packet.bytes);
        let has_room =
            path.has_window_beyond(bytes) && path.recovery.bytes_in_flight() + bytes <= most;
        has_room
            && path.state() == PathState::Active
            && path.control().is_usable
            && !path.is_metered()
            && self.stream.copies.covers(u64::from(packet.bytes))
    }
}

/// Returns whether the path has been asked for its round-trip time, and has not answered yet.
pub(super) fn is_unanswered(path: &Path) -> bool {
    path.state() == PathState::Active
        && path.expected_response.is_some()
        && !path.recovery.rtt().has_sample()
}

/// Drops a question for the round-trip time if a segment that is about to leave also asks it.
pub(super) fn drop_needless_question(path: &mut Path) {
    let is_question = matches!(path.challenge, Some((_, SendReason::IdleProbe)));
    if is_question && path.has_bound() {
        path.challenge = None;
        path.expected_response = None;
    }
}
