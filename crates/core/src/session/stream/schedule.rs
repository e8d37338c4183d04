//! Which path carries a segment, where there are several: the scheduler's word.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Duration, Instant};

use super::mtu::segment_bytes;
use super::placement::Placement;
use super::{Stream, StreamSession, answers};
use crate::config::Config;
use crate::path::{self, Path};
use crate::reinjection::{Occasion, Reinjection};
use crate::scheduler::{Assignment, PacketView, Scheduler, SchedulerEvent, SendQueue};
use crate::session::sizes::Sizes;
use crate::session::timeout::next_ready_after;
use crate::session_view::SessionView;

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
    /// Waiting segments as schedulers see them: of many, few change from one call to the next.
    pub(super) queue: VecDeque<PacketView>,
    /// Version of the send stream that the queue reflects.
    pub(super) queue_version: Option<u64>,
    pub(super) assignments: Vec<Assignment>,
}

impl Binding {
    fn new(config: &Config, now: Instant) -> Self {
        Binding {
            scheduler: config.scheduler.build(),
            is_due: true,
            asked_at: now,
            held_since: None,
            open_since: Vec::new(),
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
    /// Prepares the binding to several paths after a path has been added.
    pub(super) fn bind_to_several(&mut self, now: Instant) {
        if self.paths.len() == 2 && self.content.binding.is_none() {
            let binding = Binding::new(&self.config, now);
            self.content.binding = Some(Box::new(binding));
        }
        if let Some(binding) = &mut self.content.binding {
            binding.open_since.resize(self.paths.len(), now);
            answers::ask_unknown_paths(&mut self.paths, &mut self.questions);
        }
    }

    fn placement(&mut self, now: Instant) -> Placement<'_> {
        Placement {
            now,
            config: &self.config,
            sizes: &self.sizes,
            paths: &mut self.paths,
            views: &mut self.views,
            stream: &mut self.content,
        }
    }

    /// Calls the scheduler for waiting segments; without any, segments in flight may be copied.
    pub(super) fn bind_segments(&mut self, now: Instant) {
        let Some(mut binding) = self.content.binding.take() else {
            return;
        };
        binding.is_due = false;
        binding.asked_at = now;
        let send = &self.content.send;
        let max_bytes = || segment_bytes(&self.sizes, &self.paths);
        if send.has_waiting() || send.next_new(max_bytes()).is_some() {
            self.bind_next_segments(now, &mut binding);
        } else if send.has_in_flight() && has_room(now, &self.sizes, &self.paths) {
            self.refresh_views(now);
            self.placement(now).reinject();
        }
        if !self.content.send.has_waiting() {
            binding.held_since = None;
        }
        self.content.binding = Some(binding);
    }

    fn bind_next_segments(&mut self, now: Instant, binding: &mut Binding) {
        let reinjector = self.content.reinjector.as_ref();
        let has_copies_first = reinjector.is_some_and(|it| it.precedes_new_segments());
        // Over paced paths nothing has room after each packet, until the next pacer is ready.
        let is_unschedulable = binding.scheduler.needs_room()
            && !has_copies_first
            && !has_room(now, &self.sizes, &self.paths)
            && self
                .paths
                .iter()
                .all(|path| path.recovery.bytes_in_flight() > 0);
        if !is_unschedulable {
            self.refresh_views(now);
        }
        if has_copies_first {
            self.placement(now).ask_reinjector(Occasion::NewSegments);
        }
        let sizes = (&*self.config, &self.sizes);
        binding.cut_segments(now, sizes, &mut self.content.send, &self.paths);
        let has_moves = self.config.stream.reinjection == Reinjection::Tail;
        if has_moves && !self.content.send.has_waiting() {
            binding.is_due = !is_unschedulable && self.placement(now).rebind_later_ones();
        } else {
            self.bind_waiting(now, binding, is_unschedulable);
        }
    }

    fn bind_waiting(&mut self, now: Instant, binding: &mut Binding, is_unschedulable: bool) {
        binding.list_waiting(&self.config, &self.content.send, &self.paths);
        let mut queue = core::mem::take(&mut binding.queue);
        let offered: &[PacketView] = queue.make_contiguous();
        let mut assignments = core::mem::take(&mut binding.assignments);
        if assignments.is_empty() {
            record_limits(&mut self.paths, offered);
            if !is_unschedulable {
                let deadline = self.config.media.deadline;
                let session = self.content.session_view(&self.paths, deadline);
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
            self.placement(now).race(packet, assignment.paths);
        }
    }
}

/// Returns whether any path has room for a packet.
pub(super) fn has_room(now: Instant, sizes: &Sizes, paths: &[Path]) -> bool {
    let max_bytes = u64::from(sizes.max_packet_bytes);
    let mut paths = paths.iter();
    paths.any(|path| path.sendable_bytes(max_bytes, now) > 0)
}

impl Stream {
    /// Returns the state of the session over these paths for policies.
    pub(super) fn session_view(&self, paths: &[Path], deadline: Duration) -> SessionView {
        let bound_bytes: u64 = paths.iter().map(Path::queued_bytes).sum();
        SessionView {
            backlog_bytes: self.send.backlog_bytes() + bound_bytes + self.further_bytes,
            window_bytes: Some(self.send.window_bytes()),
            target_bitrate: DataRate::ZERO,
            deadline,
            quickest_rtt: path::quickest_rtt(paths),
        }
    }

    /// Returns when to call the scheduler again for segments that it holds.
    pub(super) fn held_until(&self, sizes: &Sizes, paths: &[Path]) -> Option<Instant> {
        let binding = self.binding.as_ref()?;
        // A short segment is cut only for a path that is ready.
        let is_short_left = self.send.next_new(segment_bytes(sizes, paths)).is_some()
            && !paths.iter().any(Path::has_bound);
        if !self.send.has_waiting() && !is_short_left {
            return None;
        }
        let ready = next_ready_after(paths, binding.asked_at);
        let times = [ready, binding.scheduler.wake_at()];
        times.into_iter().flatten().min()
    }

    /// Records, at a report, the time since which the window lets packets of `max_bytes` go.
    pub(super) fn record_open_window(
        &mut self,
        now: Instant,
        path: &Path,
        bytes_in_flight: u64,
        max_bytes: u32,
    ) {
        if let Some(binding) = &mut self.binding {
            let window = path.control().congestion_window;
            let bytes = bytes_in_flight + u64::from(max_bytes);
            if window.is_some_and(|window| bytes > window) {
                binding.open_since[path.id.index()] = now;
            }
        }
    }

    /// Brings all that is bound to a path back to where the scheduler finds it.
    pub(super) fn take_back(&mut self, path: &mut Path) {
        for packet in path.unbind_all() {
            self.send.on_taken_back(packet.frame.0, packet.reason);
        }
        self.request_scheduling();
    }
}

/// Records the paths that are limited by their windows, which keep waiting segments from them.
fn record_limits(paths: &mut [Path], queue: &[PacketView]) {
    let Some(first) = queue.first() else {
        return;
    };
    for path in paths {
        // Bound packets leave at once, as far as the window allows.
        let bytes = path.queued_bytes() + u64::from(first.bytes);
        let is_empty = path.queued_bytes() + path.recovery.bytes_in_flight() == 0;
        path.is_window_limited |= !is_empty && !path.has_window_beyond(bytes);
    }
}
