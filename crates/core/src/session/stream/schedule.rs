//! Which path carries a segment, where there are several: the scheduler's word.
//!
//! Schedulers see segments as packets of frames that have one fragment and no deadline; the frame's
//! number is the segment's offset.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Importance, Instant};

use super::{Stream, StreamSession};
use crate::config::{Config, Reinjection};
use crate::media::FrameId;
use crate::path::Path;
use crate::path_view::{PathId, PathSet, PathState};
use crate::scheduler::{Assignment, PacketView, Scheduler, SchedulerEvent, SendQueue};
use crate::send_reason::SendReason;
use crate::session::timeout::next_ready_after;
use crate::session_view::SessionView;
use crate::stream::{Chunk, Waiting};
use crate::wire;

/// Maximum of bytes bound to paths: more would be bound by an old forecast. Linux binds the same
/// amount at a time.
const MAX_BOUND_BYTES: u64 = 64 << 10;

/// Number of packets on each path before one has answered: the initial window of RFC 6928.
const DUPLICATED_PACKETS: u64 = 10;

/// The scheduler, and when to ask it.
#[derive(Debug)]
pub(super) struct Binding {
    scheduler: Box<dyn Scheduler>,
    /// Whether segments may find a path that they did not find before.
    is_due: bool,
    asked_at: Instant,
    /// Time since which segments have waited though the scheduler was called.
    held_since: Option<Instant>,
    /// Time since which each path's window has let a packet go.
    open_since: Vec<Instant>,
    /// By path: when it was penalised last.
    pub(super) penalised_at: Vec<Instant>,
    /// Waiting segments as schedulers see them: of many, few change from one call to the next.
    queue: VecDeque<PacketView>,
    /// Version of the send stream that the queue reflects.
    queue_version: Option<u64>,
    assignments: Vec<Assignment>,
}

impl Binding {
    fn new(config: &Config, now: Instant) -> Self {
        Binding {
            scheduler: config.scheduler.build(),
            is_due: true,
            asked_at: now,
            held_since: None,
            open_since: Vec::new(),
            penalised_at: Vec::new(),
            queue: VecDeque::new(),
            queue_version: None,
            assignments: Vec::new(),
        }
    }
}

impl Stream {
    /// Makes a call of the scheduler due, after an event that it may act upon.
    pub(super) fn request_scheduling(&mut self) {
        if let Some(binding) = &mut self.binding {
            binding.is_due = true;
        }
    }

    pub(super) fn is_schedule_due(&self) -> bool {
        self.binding.as_ref().is_some_and(|binding| binding.is_due)
    }

    /// Handles a packet that has left a path, which takes the next at once if its pacer lets bursts
    /// through. Waiting segments are held, and without a pacer there is no more room than before.
    pub(super) fn on_packet_sent(&mut self, now: Instant, event: &SchedulerEvent, is_paced: bool) {
        if let Some(binding) = &mut self.binding {
            binding.scheduler.on_event(now, event);
            binding.is_due |= is_paced || !self.send.has_waiting();
        }
    }

    pub(super) fn notify_scheduler(&mut self, now: Instant, event: &SchedulerEvent) {
        if let Some(binding) = &mut self.binding {
            binding.scheduler.on_event(now, event);
            binding.is_due = true;
        }
    }
}

impl StreamSession {
    /// Prepares the binding to several paths after a path has been added, and asks unknown paths
    /// for their round-trip times.
    pub(super) fn bind_to_several(&mut self, now: Instant) {
        if self.paths.len() == 2 && self.content.binding.is_none() {
            let binding = Binding::new(&self.config, now);
            self.content.binding = Some(Box::new(binding));
        }
        if let Some(binding) = &mut self.content.binding {
            binding.open_since.resize(self.paths.len(), now);
            binding.penalised_at.resize(self.paths.len(), Instant::ZERO);
            for index in 0..self.paths.len() {
                let path = &self.paths[index];
                if path.is_at_rest() && !path.recovery.rtt().has_sample() {
                    self.ask(path.id, SendReason::IdleProbe);
                }
            }
        }
    }

    /// Drops a question for the round-trip time if a segment that is about to leave also asks it.
    pub(super) fn drop_needless_question(&mut self, id: PathId) {
        let path = &mut self.paths[id.index()];
        let is_question = matches!(path.challenge, Some((_, SendReason::IdleProbe)));
        if is_question && path.has_bound() {
            path.challenge = None;
            path.expected_response = None;
        }
    }

    /// Returns whether the path has been asked for its round-trip time, and has not answered yet.
    pub(super) fn is_unanswered(&self, path: &Path) -> bool {
        path.state() == PathState::Active
            && path.expected_response.is_some()
            && !path.recovery.rtt().has_sample()
    }

    /// Holds a further path in reserve until it has answered. A flow of MPTCP also carries nothing
    /// before its handshake: short data would take longer on a path that turns out to be slow. With
    /// [`Reinjection::Tail`] the first path is held, too, once another has answered.
    pub(super) fn hold_unanswered(&mut self) {
        let is_answered = |path: &Path| {
            path.state() == PathState::Active
                && path.recovery.rtt().has_sample()
                && path.control().is_usable
        };
        let is_duplicating = self.config.stream.reinjection == Reinjection::Tail;
        let is_over = is_duplicating && self.paths.iter().any(is_answered);
        for index in usize::from(!is_over)..self.paths.len() {
            let path = &self.paths[index];
            let is_carrying = is_duplicating && path.has_unanswered_segments();
            self.views[index].is_standby |= is_carrying || self.is_unanswered(path);
        }
    }

    /// Adds the queue in the network to the forecasts: a new packet arrives after those in flight,
    /// which drain at the queue's rate. Samples of a path at rest, and their deviation, describe a
    /// queue that is gone.
    pub(super) fn add_network_queues(&mut self, now: Instant) {
        if self.config.stream.reinjection != Reinjection::Tail {
            return;
        }
        for index in 0..self.paths.len() {
            let path = &self.paths[index];
            if self.has_idle_rtt(path.id) {
                let delay_margin = path.recovery.rtt().idle_delay_margin();
                let forecast = &mut self.views[index].forecast;
                forecast.delay_margin = forecast.delay_margin.min(delay_margin);
                continue;
            }
            let drained = self.queue_drains_in(now, path.id, path.recovery.bytes_in_flight());
            if !drained.is_zero() {
                let forecast = &mut self.views[index].forecast;
                let least = forecast.min_one_way_delay;
                forecast.one_way_delay = drained.saturating_sub(least).max(least);
            }
        }
    }

    /// Sends the first packets by all paths. While no path has answered, none is known to be
    /// better.
    fn duplicate_start(&mut self, now: Instant, packet: &PacketView, bound_to: PathSet) {
        let is_answered = |path: &Path| path.recovery.rtt().has_sample();
        let is_new = packet.reason == SendReason::New && packet.in_flight_on.is_empty();
        if !is_new
            || self.config.stream.reinjection != Reinjection::Tail
            || self.paths.iter().any(is_answered)
        {
            return;
        }
        let most = DUPLICATED_PACKETS * u64::from(self.max_packet_bytes);
        for path in &mut self.paths {
            let is_other = path.state() == PathState::Active && !bound_to.contains(path.id);
            let bytes = path.queued_bytes() + u64::from(packet.bytes);
            let has_room =
                path.has_window_beyond(bytes) && path.recovery.bytes_in_flight() + bytes <= most;
            if is_other && has_room && path.control().is_usable && !path.is_metered() {
                if !path.has_bound() {
                    path.leave_idleness(now);
                }
                path.bind_next(*packet);
                self.content.send.on_bound(packet.frame.0);
            }
        }
    }

    pub(super) fn session_view(&self) -> SessionView {
        let send = &self.content.send;
        let bound_bytes: u64 = self.paths.iter().map(Path::queued_bytes).sum();
        SessionView {
            backlog_bytes: send.backlog_bytes() + bound_bytes + self.content.further_bytes,
            window_bytes: Some(send.window_bytes()),
            target_bitrate: DataRate::ZERO,
            deadline: self.config.media.deadline,
        }
    }

    /// Calls the scheduler for waiting segments.
    pub(super) fn bind_segments(&mut self, now: Instant) {
        let Some(mut binding) = self.content.binding.take() else {
            return;
        };
        binding.is_due = false;
        binding.asked_at = now;
        let max_bytes = self.segment_bytes();
        let send = &self.content.send;
        let reinjection = self.config.stream.reinjection;
        if send.has_waiting() || send.next_new(max_bytes).is_some() {
            let is_unschedulable = self.is_unschedulable(now, &binding);
            if !is_unschedulable {
                self.refresh_views(now);
            }
            if reinjection == Reinjection::Xlink && self.reinject_start(now) {
                self.refresh_views(now);
            }
            self.cut_segments(now, &mut binding);
            if reinjection == Reinjection::Tail && !self.content.send.has_waiting() {
                binding.is_due = !is_unschedulable && self.rebind_later_ones();
            } else {
                self.bind_waiting(now, &mut binding, is_unschedulable);
            }
        } else if is_for_windows(reinjection) && send.is_blocked(max_bytes) {
            self.refresh_views(now);
            self.reinject_awaited(now, &mut binding);
        } else if reinjection == Reinjection::Tail && send.has_in_flight() {
            if self.has_room(now) {
                self.refresh_views(now);
                self.reinject_tail(now);
            }
        } else if reinjection == Reinjection::Xlink {
            self.refresh_views(now);
            self.reinject_all_below(now, u64::MAX);
        }
        if !self.content.send.has_waiting() {
            binding.held_since = None;
        }
        self.content.binding = Some(binding);
    }

    /// Returns whether any path has room for a packet.
    fn has_room(&self, now: Instant) -> bool {
        let max_bytes = u64::from(self.max_packet_bytes);
        let mut paths = self.paths.iter();
        paths.any(|path| path.sendable_bytes(max_bytes, now) > 0)
    }

    /// Returns whether neither the scheduler nor a reinjection will bind anything: over paced paths
    /// nothing has room after each packet, until the next pacer is ready.
    fn is_unschedulable(&self, now: Instant, binding: &Binding) -> bool {
        binding.scheduler.needs_room()
            && self.config.stream.reinjection != Reinjection::Xlink
            && !self.has_room(now)
            && self
                .paths
                .iter()
                .all(|path| path.recovery.bytes_in_flight() > 0)
    }

    /// Cuts as many segments as may be bound now.
    fn cut_segments(&mut self, now: Instant, binding: &mut Binding) {
        let queued_bytes = self.paths.iter().map(Path::queued_bytes);
        let mut bytes = queued_bytes.sum::<u64>() + self.content.send.waiting_bytes();
        if bytes >= MAX_BOUND_BYTES {
            return;
        }
        let max_bytes = self.segment_bytes();
        let is_known = binding.queue_version == Some(self.content.send.waiting_version());
        let mut is_short_wanted = bytes == 0 && self.has_room(now);
        let send = &mut self.content.send;
        while bytes < MAX_BOUND_BYTES
            && let Some(chunk) = send.cut_next(max_bytes, is_short_wanted)
        {
            bytes += chunk.length as u64 + 1;
            is_short_wanted = false;
            if is_known {
                // New segments are the last.
                let view = packet_view(&self.config, &chunk, PathSet::EMPTY);
                binding.queue.push_back(view);
            }
        }
        if is_known {
            binding.queue_version = Some(send.waiting_version());
        }
    }

    pub(super) fn packet_view(&self, chunk: &Chunk, in_flight_on: PathSet) -> PacketView {
        packet_view(&self.config, chunk, in_flight_on)
    }

    /// Brings the queue up to date. Segments whose path is the one that lost them are assigned.
    fn list_waiting(&self, binding: &mut Binding) {
        let (queue, assignments) = (&mut binding.queue, &mut binding.assignments);
        assignments.clear();
        let version = Some(self.content.send.waiting_version());
        if binding.queue_version != version || self.config.laboratory.retransmits_on_same_path {
            self.list(queue, assignments);
            binding.queue_version = version;
        }
        debug_assert!(self.is_listed(&binding.queue));
    }

    fn is_listed(&self, queue: &VecDeque<PacketView>) -> bool {
        let mut listed = VecDeque::new();
        self.list(&mut listed, &mut Vec::new());
        listed == *queue
    }

    fn list(&self, queue: &mut VecDeque<PacketView>, assignments: &mut Vec<Assignment>) {
        let send = &self.content.send;
        queue.clear();
        for is_retransmission in [true, false] {
            let waiting = send.waiting();
            let waiting = waiting.filter(|(chunk, ..)| chunk.is_new() != is_retransmission);
            for (index, (chunk, waiting, in_flight_on)) in (queue.len()..).zip(waiting) {
                if let Some(path) = self.same_path(&waiting) {
                    let paths = PathSet::only(path);
                    assignments.push(Assignment { index, paths });
                }
                queue.push_back(self.packet_view(&chunk, in_flight_on));
            }
        }
    }

    fn bind_waiting(&mut self, now: Instant, binding: &mut Binding, is_unschedulable: bool) {
        self.list_waiting(binding);
        let mut queue = core::mem::take(&mut binding.queue);
        let offered: &[PacketView] = queue.make_contiguous();
        let mut assignments = core::mem::take(&mut binding.assignments);
        if assignments.is_empty() {
            self.record_limits(offered);
            if !is_unschedulable {
                let session = self.session_view();
                let queue = SendQueue::new(offered);
                binding
                    .scheduler
                    .schedule(now, &queue, &session, &self.views, &mut assignments);
            }
        }
        self.bind_all(now, binding, offered, &assignments);
        // Bound packets may make room for more.
        binding.is_due = !assignments.is_empty();
        if binding.held_since.is_none() {
            binding.held_since = Some(now);
        }
        if binding.is_due {
            // Those that are bound wait no longer.
            assignments.retain(|assignment| !assignment.paths.is_empty());
            assignments.sort_unstable_by_key(|assignment| assignment.index);
            assignments.dedup_by_key(|assignment| assignment.index);
            for assignment in assignments.iter().rev() {
                queue.remove(assignment.index);
            }
            binding.queue_version = Some(self.content.send.waiting_version());
        }
        binding.queue = queue;
        binding.assignments = assignments;
    }

    /// Returns the path that must resend a segment since it has lost it.
    fn same_path(&self, waiting: &Waiting) -> Option<PathId> {
        let is_wanted =
            self.config.laboratory.retransmits_on_same_path && waiting.reason == SendReason::Lost;
        let path = waiting.lost.filter(|_| is_wanted)?.on;
        (self.paths[path.index()].state() == PathState::Active).then_some(path)
    }

    /// Records the paths that are limited by their windows, which keep waiting segments from them.
    fn record_limits(&mut self, queue: &[PacketView]) {
        let Some(first) = queue.first() else {
            return;
        };
        for path in &mut self.paths {
            // Bound packets leave at once, as far as the window allows.
            let bytes = path.queued_bytes() + u64::from(first.bytes);
            let is_empty = path.queued_bytes() + path.recovery.bytes_in_flight() == 0;
            path.is_window_limited |= !is_empty && !path.has_window_beyond(bytes);
        }
    }

    fn bind_all(
        &mut self,
        now: Instant,
        binding: &Binding,
        queue: &[PacketView],
        assignments: &[Assignment],
    ) {
        for assignment in assignments {
            let packet = &queue[assignment.index];
            let reason = assignment.reason(packet);
            for id in assignment.paths.iter() {
                let path = &mut self.paths[id.index()];
                if !path.has_bound() && !path.is_woken_late(now, binding.held_since) {
                    path.leave_idleness_since(now, binding.open_since[id.index()]);
                }
                path.bind_next(PacketView { reason, ..*packet });
                self.content.send.on_bound(packet.frame.0);
            }
            self.duplicate_start(now, packet, assignment.paths);
        }
    }

    /// Returns when to call the scheduler again for segments that it holds.
    pub(super) fn held_until(&self) -> Option<Instant> {
        let binding = self.content.binding.as_ref()?;
        let send = &self.content.send;
        // A short segment is cut only for a path that is ready.
        let is_short_left = send.next_new(self.segment_bytes()).is_some()
            && !self.paths.iter().any(Path::has_bound);
        if !send.has_waiting() && !is_short_left {
            return None;
        }
        let ready = next_ready_after(&self.paths, binding.asked_at);
        [ready, binding.scheduler.wake_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Records, at a report, the time since which the window lets packets go.
    pub(super) fn record_open_window(&mut self, now: Instant, id: PathId, bytes_in_flight: u64) {
        if let Some(binding) = &mut self.content.binding {
            let window = self.paths[id.index()].control().congestion_window;
            let bytes = bytes_in_flight + u64::from(self.max_packet_bytes);
            if window.is_some_and(|window| bytes > window) {
                binding.open_since[id.index()] = now;
            }
        }
    }

    /// Brings all that is bound to `path` back to where the scheduler finds it.
    pub(super) fn take_back(&mut self, path: PathId) {
        for packet in self.paths[path.index()].unbind_all() {
            self.content
                .send
                .on_taken_back(packet.frame.0, packet.reason);
        }
        self.content.request_scheduling();
    }
}

fn is_for_windows(reinjection: Reinjection) -> bool {
    matches!(reinjection, Reinjection::Linux | Reinjection::Tail)
}

/// Returns a segment as schedulers see it.
fn packet_view(config: &Config, chunk: &Chunk, in_flight_on: PathSet) -> PacketView {
    let bytes = (chunk.length + wire::SEGMENT_HEADER_BYTES) as u32;
    PacketView {
        frame: FrameId(chunk.offset),
        fragment: 0,
        fragment_count: 1,
        reason: chunk.reason,
        importance: Importance::Reference,
        bytes: bytes + config.overhead_bytes,
        deadline: None,
        in_flight_on,
        avoid: PathSet::EMPTY,
    }
}
