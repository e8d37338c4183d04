//! Which path carries a segment, where there are several: the scheduler's word.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Duration, Instant};

use super::mtu::segment_bytes;
use super::placement::Placement;
use super::{Stream, answers};
use crate::config::Config;
use crate::path::{self, Path};
use crate::reinjection::{Occasion, Reinjection};
use crate::scheduler::{Assignment, PacketView, SchedulerEvent, SendQueue};
use crate::session::binding::Binding;
use crate::session::content::Context;
use crate::session::sizes::Sizes;
use crate::session_view::SessionView;

/// Segments that wait, and the calls of the scheduler for them.
#[derive(Debug)]
pub(super) struct SegmentQueue {
    pub(super) binding: Binding,
    /// Time since which each path's window has let a packet go.
    open_since: Vec<Instant>,
    /// Waiting segments as schedulers see them: of many, few change from one call to the next.
    pub(super) views: VecDeque<PacketView>,
    /// Version of the send stream that the queue reflects.
    pub(super) version: Option<u64>,
}

impl SegmentQueue {
    fn new(config: &Config, now: Instant) -> Self {
        let mut binding = Binding::new(config.scheduler.build(), now);
        binding.request();
        SegmentQueue {
            binding,
            open_since: Vec::new(),
            views: VecDeque::new(),
            version: None,
        }
    }
}

impl Stream {
    /// Makes a call of the scheduler due, after an event that it may act upon.
    pub(super) fn request_scheduling(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.binding.request();
        }
    }

    pub(super) fn is_schedule_due(&self) -> bool {
        let queue = self.queue.as_ref();
        queue.is_some_and(|queue| queue.binding.is_due())
    }

    /// Handles a packet that has left a path, which takes the next at once if its pacer lets bursts
    /// through. Waiting segments are held, and without a pacer there is no more room than before.
    pub(super) fn notify_departure(
        &mut self,
        now: Instant,
        event: &SchedulerEvent,
        is_paced: bool,
    ) {
        if let Some(queue) = &mut self.queue {
            queue.binding.notify(now, event);
            if is_paced || !self.send.has_waiting() {
                queue.binding.request();
            }
        }
    }

    pub(super) fn notify_scheduler(&mut self, now: Instant, event: &SchedulerEvent) {
        if let Some(queue) = &mut self.queue {
            queue.binding.notify(now, event);
            queue.binding.request();
        }
    }

    /// Prepares the binding to several paths after a path has been added.
    pub(super) fn bind_to_several(&mut self, ctx: &mut Context<'_>) {
        if ctx.paths.len() == 2 && self.queue.is_none() {
            let queue = SegmentQueue::new(ctx.config, ctx.now);
            self.queue = Some(Box::new(queue));
        }
        if let Some(queue) = &mut self.queue {
            queue.open_since.resize(ctx.paths.len(), ctx.now);
            answers::ask_unknown_paths(ctx.paths, ctx.questions);
        }
    }

    fn placement<'a>(&'a mut self, ctx: &'a mut Context<'_>) -> Placement<'a> {
        Placement {
            now: ctx.now,
            config: ctx.config,
            sizes: ctx.sizes,
            paths: ctx.paths,
            views: ctx.views,
            stream: self,
        }
    }

    /// Calls the scheduler for waiting segments; without any, segments in flight may be copied.
    pub(super) fn bind_segments(&mut self, ctx: &mut Context<'_>) {
        let Some(mut queue) = self.queue.take() else {
            return;
        };
        queue.binding.begin(ctx.now);
        let send = &self.send;
        if send.has_waiting() || send.next_new(segment_bytes(ctx.sizes, ctx.paths)).is_some() {
            self.bind_next_segments(ctx, &mut queue);
        } else if send.has_in_flight() && has_room(ctx.now, ctx.sizes, ctx.paths) {
            ctx.refresh_views(self);
            self.placement(ctx).reinject();
        }
        if !self.send.has_waiting() {
            queue.binding.held_since = None;
        }
        self.queue = Some(queue);
    }

    fn bind_next_segments(&mut self, ctx: &mut Context<'_>, queue: &mut SegmentQueue) {
        let reinjector = self.reinjector.as_ref();
        let has_copies_first = reinjector.is_some_and(|it| it.precedes_new_segments());
        // Over paced paths nothing has room after each packet, until the next pacer is ready.
        let is_unschedulable = queue.binding.scheduler.needs_room()
            && !has_copies_first
            && !has_room(ctx.now, ctx.sizes, ctx.paths)
            && ctx
                .paths
                .iter()
                .all(|path| path.recovery.bytes_in_flight() > 0);
        if !is_unschedulable {
            ctx.refresh_views(self);
        }
        if has_copies_first {
            self.placement(ctx).ask_reinjector(Occasion::NewSegments);
        }
        queue.cut_segments(ctx, &mut self.send);
        let has_moves = ctx.config.stream.reinjection == Reinjection::Tail;
        if has_moves && !self.send.has_waiting() {
            if !is_unschedulable && self.placement(ctx).rebind_later_ones() {
                queue.binding.request();
            }
        } else {
            self.bind_waiting(ctx, queue, is_unschedulable);
        }
    }

    fn bind_waiting(
        &mut self,
        ctx: &mut Context<'_>,
        queue: &mut SegmentQueue,
        is_unschedulable: bool,
    ) {
        queue.list_waiting(ctx.config, &self.send, ctx.paths);
        let SegmentQueue {
            binding,
            open_since,
            views,
            version,
        } = queue;
        let offered: &[PacketView] = views.make_contiguous();
        let mut assignments = core::mem::take(&mut binding.assignments);
        if assignments.is_empty() {
            record_limits(ctx.paths, offered);
            if !is_unschedulable {
                let deadline = ctx.config.media.deadline;
                let session = self.session_view(ctx.paths, deadline);
                let queue = SendQueue::new(offered);
                binding
                    .scheduler
                    .schedule(ctx.now, &queue, &session, ctx.views, &mut assignments);
            }
        }
        self.bind_all(ctx, binding.held_since, open_since, offered, &assignments);
        binding.held_since.get_or_insert(ctx.now);
        if !assignments.is_empty() {
            // Bound packets may make room for more.
            binding.request();
            // Those that are bound wait no longer.
            assignments.retain(|assignment| !assignment.paths.is_empty());
            assignments.sort_unstable_by_key(|assignment| assignment.index);
            assignments.dedup_by_key(|assignment| assignment.index);
            for assignment in assignments.iter().rev() {
                views.remove(assignment.index);
            }
            *version = Some(self.send.waiting_version());
        }
        binding.assignments = assignments;
    }

    fn bind_all(
        &mut self,
        ctx: &mut Context<'_>,
        held_since: Option<Instant>,
        open_since: &[Instant],
        queue: &[PacketView],
        assignments: &[Assignment],
    ) {
        for assignment in assignments {
            let packet = &queue[assignment.index];
            let reason = assignment.reason(packet);
            for id in assignment.paths.iter() {
                let path = &mut ctx.paths[id.index()];
                if !path.has_bound() && !path.is_woken_late(ctx.now, held_since) {
                    path.leave_idleness_since(ctx.now, open_since[id.index()]);
                }
                path.bind_next(PacketView { reason, ..*packet });
                self.send.on_bound(packet.frame.0);
            }
            self.placement(ctx).race(packet, assignment.paths);
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
        let queue = self.queue.as_ref()?;
        // A short segment is cut only for a path that is ready.
        let is_short_left = self.send.next_new(segment_bytes(sizes, paths)).is_some()
            && !paths.iter().any(Path::has_bound);
        if !self.send.has_waiting() && !is_short_left {
            return None;
        }
        queue.binding.waiting_is_held_until(paths)
    }

    /// Records, at a report, the time since which the window lets packets of `max_bytes` go.
    pub(super) fn record_open_window(
        &mut self,
        now: Instant,
        path: &Path,
        bytes_in_flight: u64,
        max_bytes: u32,
    ) {
        if let Some(queue) = &mut self.queue {
            let window = path.control().congestion_window;
            let bytes = bytes_in_flight + u64::from(max_bytes);
            if window.is_some_and(|window| bytes > window) {
                queue.open_since[path.id.index()] = now;
            }
        }
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
