//! Sessions of media: frames that are worthless when late, over any number of paths.

mod admission;
mod fec;
mod feedback;
mod growing;
mod idle;
#[cfg(any(debug_assertions, feature = "invariants"))]
mod invariants;
mod last_try;
mod mtu;
mod notices;
mod padding_budget;
mod probing;
mod receive;
mod reconsider;
mod reinjection;
mod schedule;
mod silence;
mod standby;
mod target;
mod timeout;
mod transmit;
mod unanswered;

use std::sync::Arc;

use anabranch_units::{DataRate, Duration, Instant};

use super::binding::Binding;
use super::content::{Context, Hooks, Surroundings, Written};
use super::next_timer::{NextTimer, Timer};
use super::output::Output;
use super::{Closing, Event, Session, are_present};
use crate::config::{Config, ConfigError, SourceLimits};
use crate::fec::{Budget, FecPolicyFactory};
#[cfg(any(debug_assertions, feature = "invariants"))]
use crate::invariants::Checker;
use crate::media::{self, Frame, FrameId, LastCall, SendBuffer, SendFrameError};
use crate::path::Path;
use crate::path_view::{PathId, PathState, PathView};
use crate::recovery::{Digest, SentPacket};
use crate::send_reason::SendReason;
use crate::sender_rules::SenderRule;
use crate::wire::{self, WireFrame};
use admission::{Admission, Occasion};
use idle::Idle;
use receive::Reception;
use standby::Standby;
use target::{Capacity, Target};

/// A session of media: frames, worthless when late, over any number of paths.
pub type MediaSession = Session<Media>;

/// Media of one end: its send side, and the received part of the peer's media.
#[derive(Debug)]
pub struct Media {
    /// Whether metered paths help.
    standby: Standby,
    send_buffer: SendBuffer,
    target: Target,
    binding: Binding,
    /// Whether this end has ever sent media: only then does it pad.
    has_sent_media: bool,
    idle: Idle,
    admission: Admission,
    /// Allowance of padding for probes.
    probing: probing::Probing,
    notices: notices::Notices,
    /// Send side of forward error correction, if any.
    fec_sender: Option<Box<fec::Sender>>,
    /// Cost of repairs and retransmissions, and the allowance for repairs.
    budget: Budget,
    reception: Reception,
    scratch: Scratch,
}

/// Buffers that are used again and again, so that the steady state allocates nothing.
#[derive(Debug, Default)]
struct Scratch {
    last_calls: Vec<LastCall>,
    symbol_heads: Vec<[u8; media::SYMBOL_HEAD_BYTES]>,
}

/// Views by which frames are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Views {
    /// Views of this moment, with later decisions.
    Present,
    /// Views that have to be refreshed.
    Old,
}

impl MediaSession {
    /// Accepts a frame for sending. If it is worthless already, since it was handed over too late,
    /// it is given up at once: it takes a number, the receiver is notified, and it counts for
    /// neither the source's rate nor repairs.
    ///
    /// ```
    /// use anabranch_core::media::SendFrameError;
    /// use anabranch_core::{Config, Frame, MediaSession};
    /// use anabranch_units::{Importance, Instant, Seed};
    ///
    /// let controller = anabranch_controllers::default_controller();
    /// let config = Config::new(controller, anabranch_schedulers::default_scheduler());
    /// let now = Instant::ZERO;
    /// let mut session = MediaSession::new(config, Seed(1), now)?;
    /// let frame = |bytes: Vec<u8>| Frame::new(bytes, Importance::Key, now);
    /// let mut send = |bytes| session.send_frame(now, &frame(bytes));
    /// assert_eq!(send(vec![1; 10_000])?.0, 0);
    /// assert_eq!(send(Vec::new()), Err(SendFrameError::Empty));
    /// assert_eq!(send(vec![1; 10_000])?.0, 1, "a refused frame takes no number");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendFrameError`]; the frame is then not sent, and the next one takes its number.
    pub fn send_frame(&mut self, now: Instant, frame: &Frame) -> Result<FrameId, SendFrameError> {
        self.take_in(now, frame, true, true)
    }

    /// Takes a frame in, or its first bytes unless it `is_whole`. It is new, or another session has
    /// sent it before.
    fn take_in(
        &mut self,
        now: Instant,
        frame: &Frame,
        is_new: bool,
        is_whole: bool,
    ) -> Result<FrameId, SendFrameError> {
        if !self.closing.is_open() {
            return Err(SendFrameError::Closed);
        }
        self.content.expire_frames(now, &mut self.output);
        self.content.update_fragment_bytes(&self.sizes, &self.paths);
        let (content, mut ctx) = self.split(now);
        content.admit(&mut ctx, None, Views::Old);
        let id = if is_whole {
            self.content.send_buffer.push(frame)?
        } else {
            self.content.send_buffer.begin(now, frame)?
        };
        self.output.counters.frames_sent += 1;
        self.output.counters.media_bytes_sent += frame.bytes.len() as u64;
        if !self.content.has_sent_media {
            self.content.has_sent_media = true;
            self.content.idle.keep_alive();
            self.content.probing.on_change(now);
        }
        let content = &mut self.content;
        if content.send_buffer.due_at(id).is_none_or(|at| at <= now) {
            content.expire_frames(now, &mut self.output);
            if content.send_buffer.due_at(id).is_none() {
                return Ok(id);
            }
        }
        let interval = content.send_buffer.frame_interval();
        for path in &mut self.paths {
            path.on_frame(interval, self.config.media.deadline);
        }
        let byte_count = frame.bytes.len();
        content.probing.on_frame(now, byte_count);
        content.binding.request();
        if is_new {
            content.report_source_bytes(now, byte_count, &self.config, &mut self.paths);
        }
        content.budget.on_media(now, byte_count as u64);
        let (content, mut ctx) = self.split(now);
        if is_whole {
            content.protect(&mut ctx, id);
        }
        content.admit(&mut ctx, Some(id), Views::Old);
        Ok(id)
    }

    /// Sends the frames again that `before` has sent, that have not arrived and are not too late:
    /// the peer has lost that session. They do not count as sent by it, and it is over.
    pub fn go_on_from(&mut self, now: Instant, before: &mut MediaSession) {
        // The source did not make them all at once.
        let deadline = self.config.media.deadline;
        self.content
            .target
            .go_on_from(&before.content.target, deadline);
        before.content.expire_frames(now, &mut before.output);
        before.closing = Closing::Closed;
        let is_open = before.content.send_buffer.is_open();
        for (frame, is_growing) in before.content.send_buffer.unfinished() {
            before.output.counters.frames_sent -= 1;
            before.output.counters.media_bytes_sent -= frame.bytes.len() as u64;
            // The buffer of a new session has room for that of the old one.
            let _ = self.take_in(now, &frame, false, !is_growing);
        }
        if is_open {
            self.content.send_buffer.expect_end();
        }
    }

    /// Sets the deadline to `latency` after the fastest path's earliest delivery. Delays of paths
    /// change, so a caller with a fixed latency repeats the call from time to time. Incomplete
    /// frames of the peer delay others for as long as the latency.
    pub fn set_latency(&mut self, latency: Duration) {
        self.content.reception.reassembly.wait = latency;
        let kept = self.paths.iter().filter(|path| !path.is_removed());
        let rtts = kept.filter_map(|path| path.recovery.rtt().min_rtt());
        // Ways there and back are taken for equally long.
        let deadline = latency + rtts.min().unwrap_or_default() / 2;
        if deadline == self.config.media.deadline {
            return;
        }
        // All that was computed from the deadline follows it.
        Arc::make_mut(&mut self.config).media.deadline = deadline;
        self.content.send_buffer.set_deadline(deadline);
        self.content.target.set_deadline(deadline);
        set_patience(&mut self.paths, deadline);
    }

    /// Sets the limits of the encoder. Controllers keep the highest rate that they have had since
    /// their paths joined.
    pub fn set_source(&mut self, source: SourceLimits) {
        Arc::make_mut(&mut self.config).media.source = source;
        self.content.target.demand = None;
    }

    /// Returns the first frame of the peer that may still be handed out or given up. All before it
    /// have been.
    pub fn first_unsettled(&self) -> FrameId {
        self.content.reception.reassembly().first_unsettled()
    }

    /// Returns the time from its capture until a frame is worthless.
    pub fn deadline(&self) -> Duration {
        self.config.media.deadline
    }

    /// Returns the bitrate requested from the encoder.
    pub fn target_bitrate(&self) -> DataRate {
        self.content.target.bitrate()
    }
}

impl Media {
    /// Gives up frames that cannot arrive in time, if the paths are overloaded. `new` is the frame
    /// that has just come, if one has.
    fn admit(&mut self, ctx: &mut Context<'_>, new: Option<FrameId>, views: Views) {
        let (admission, is_redundant) = (&mut self.admission, self.binding.is_redundant());
        if !admission.update(
            ctx.now,
            ctx.config,
            is_redundant,
            &self.send_buffer,
            ctx.paths,
        ) {
            return;
        }
        if views == Views::Old {
            ctx.refresh_views(self);
        }
        debug_assert!(are_present(ctx.views, ctx.paths, ctx.now));
        let occasion = Occasion {
            now: ctx.now,
            lifetime: ctx.config.media.deadline,
            new,
            payload_share: ctx.sizes.payload_share(),
        };
        for frame in admission::admit(&occasion, &mut self.send_buffer, ctx.paths, ctx.views) {
            self.notices.on_given_up(ctx.now, frame, ctx.output);
        }
    }

    /// Updates everything that follows the paths' rates, by the present views.
    fn follow_rates(&mut self, ctx: &mut Context<'_>) {
        if ctx.config.laboratory.rules.has(SenderRule::LastTries) {
            let lead = last_try::last_call_lead(ctx.views, ctx.sizes.max_packet_bytes);
            self.send_buffer.set_last_call_lead(lead);
        }
        self.update_standby(ctx.now, &ctx.config.media, ctx.paths, ctx.views);
        self.update_target(ctx);
    }

    /// Sets the encoder's target to the paths' present bandwidth, by the present views.
    fn update_target(&mut self, ctx: &mut Context<'_>) {
        debug_assert!(are_present(ctx.views, ctx.paths, ctx.now));
        let repair_share = self.fec_sender.is_some().then(|| ctx.sizes.payload_share());
        let capacity = Capacity {
            paths: ctx.paths,
            views: ctx.views,
            is_saving: self.standby.are_metered_in_reserve(ctx.paths),
            is_redundant: self.binding.is_redundant(),
            waiting_bytes: self.send_buffer.waiting_bytes(),
        };
        self.probing.on_rate(ctx.now, capacity.target_rate());
        let target = self
            .target
            .update(ctx.config, &capacity, repair_share, &mut self.budget);
        if let Some(target) = target {
            match ctx.output.events.back_mut() {
                Some(Event::TargetBitrate(last)) => *last = target,
                _ => ctx.output.events.push_back(Event::TargetBitrate(target)),
            }
        }
    }
}

/// Sets the patience with silent paths by the number of paths.
fn set_patience(paths: &mut [Path], deadline: Duration) {
    let kept = paths.iter().filter(|path| !path.is_removed());
    let is_only = kept.count() <= 1;
    for path in paths {
        path.liveness.set_patience(deadline, is_only);
    }
}

impl Hooks for Media {
    const IS_MEDIA: bool = true;

    fn new(config: &Config, now: Instant) -> Result<Self, ConfigError> {
        config.check_media()?;
        let fec_policy = config.media.fec.as_ref().map(FecPolicyFactory::build);
        let has_symbols = fec_policy.is_some();
        let header_bytes = wire::max_fragment_header_bytes(has_symbols);
        Ok(Media {
            binding: Binding::new(config.scheduler.build(), now),
            send_buffer: SendBuffer::new(
                config.fragment_bytes,
                config.overhead_bytes + header_bytes,
                config.media.deadline,
                has_symbols,
            ),
            fec_sender: fec_policy.map(fec::Sender::new),
            budget: Budget::new(now),
            reception: Reception::new(config, now),
            target: Target::new(config, header_bytes),
            admission: Admission::new(now),
            probing: probing::Probing::new(now, config.padding_bytes_per_minute),
            notices: notices::Notices::default(),
            has_sent_media: false,
            idle: Idle::default(),
            standby: Standby::default(),
            scratch: Scratch::default(),
        })
    }

    fn header_bytes(&self) -> u32 {
        wire::max_fragment_header_bytes(self.fec_sender.is_some())
    }

    fn max_rate(&self, config: &Config) -> DataRate {
        config.max_rate(self.target.fraction())
    }

    fn on_path_added(&mut self, ctx: &mut Context<'_>, id: PathId) {
        let path = &mut ctx.paths[id.index()];
        if self.fec_sender.is_some() {
            path.start_loss_history();
        }
        self.standby.on_path_joined(path.is_metered());
    }

    fn on_metered(&mut self, is_metered: bool) {
        self.standby.on_path_joined(is_metered);
    }

    fn take_back(&mut self, paths: &mut [Path], id: PathId) {
        let (before, rest) = paths.split_at_mut(id.index());
        let (path, after) = rest.split_first_mut().expect("the path is one of them");
        for packet in path.unbind_all() {
            let mut others = before.iter().chain(after.iter());
            if !others.any(|other| other.has_bound_copy_of(&packet)) {
                self.send_buffer.unbind(packet);
            }
        }
        self.binding.request();
    }

    fn on_path_changed(&mut self, ctx: &mut Context<'_>, path: PathId) {
        set_patience(ctx.paths, ctx.config.media.deadline);
        self.admission.on_path_changed(ctx.now);
        self.probing.on_change(ctx.now);
        let changed = &mut ctx.paths[path.index()];
        if changed.state() == PathState::Active {
            changed.end_interruption(ctx.now);
        }
        self.binding.on_path_changed(ctx.now, changed);
        ctx.refresh_views(self);
        self.update_standby(ctx.now, &ctx.config.media, ctx.paths, ctx.views);
        self.update_target(ctx);
    }

    fn mark_views(&self, paths: &[Path], views: &mut [PathView]) {
        self.mark_standby(paths, views);
    }

    #[inline]
    fn on_frame(&mut self, ctx: &mut Context<'_>, on: PathId, frame: WireFrame<'_>) -> bool {
        self.receive_frame(ctx.now, &mut ctx.paths[on.index()], frame, ctx.output);
        true
    }

    #[inline]
    fn awaits_more(&self) -> bool {
        self.reception.reassembly().has_incomplete()
    }

    #[inline]
    fn on_report(&mut self, ctx: &mut Context<'_>, about: PathId, digest: &Digest) {
        self.record_report(ctx, about, digest);
    }

    fn act_on_report(&mut self, ctx: &mut Context<'_>, about: PathId, digest: &Digest) {
        ctx.refresh_views(self);
        self.follow_rates(ctx);
        self.answer_losses(ctx, about, digest, SendReason::Lost);
        self.rule(ctx).reconsider_unrepaired();
        self.reinject(ctx);
        self.admit(ctx, None, Views::Present);
    }

    fn on_losses(
        &mut self,
        ctx: &mut Context<'_>,
        id: PathId,
        digest: &Digest,
        reason: SendReason,
    ) {
        if !(digest.lost.is_empty() && digest.too_large.is_empty()) {
            ctx.refresh_views(self);
            self.answer_losses(ctx, id, digest, reason);
        }
    }

    fn outlives_peer(&self, config: &Config) -> bool {
        self.is_sender() && !config.media.ends_with_peer
    }

    fn on_end(&mut self, output: &mut Output) {
        self.reception.finish(output);
    }

    #[inline]
    fn prepare(&mut self, ctx: &mut Context<'_>, is_open: bool) -> bool {
        if self.binding.is_due() {
            self.schedule(ctx);
            self.idle.probe(ctx.now, ctx.paths, ctx.questions);
        }
        !is_open || !self.is_quiet(ctx.now, ctx.paths)
    }

    #[inline]
    fn is_stirred(&mut self, ctx: &mut Context<'_>, is_open: bool) -> bool {
        // If all packets of a path were dropped, waiting ones can use it, the receiver needs a
        // notice about the dropped frames, and the path may be idle.
        self.binding.is_due()
            || self
                .control_frames_path(ctx.now, is_open, ctx.paths)
                .is_some()
            || self.idle.probe(ctx.now, ctx.paths, ctx.questions)
    }

    #[inline]
    fn control_frames_path(&self, now: Instant, is_open: bool, paths: &[Path]) -> Option<PathId> {
        // A session that ends does not wait for a notice.
        if is_open {
            self.notices.due_on(now, paths)
        } else {
            None
        }
    }

    #[inline]
    fn write_before_report(&mut self, buf: &mut Vec<u8>) {
        self.reception.write_symbols_recovered(buf);
    }

    #[inline]
    fn write_control_frames(
        &mut self,
        now: Instant,
        _has_report: bool,
        has_control_frames: bool,
        buf: &mut Vec<u8>,
    ) {
        if has_control_frames {
            self.notices.write(now, buf);
        }
    }

    #[inline]
    fn write_packet(
        &mut self,
        ctx: &mut Context<'_>,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        let (now, overhead_bytes) = (ctx.now, ctx.config.overhead_bytes);
        let is_media_next =
            |path: &Path| path.has_bound() && path.ready_at() <= now && path.has_window();
        ctx.paths[id.index()]
            .write_due_mtu_probe(now, is_media_next, overhead_bytes, buf)
            .or_else(|| ctx.paths[id.index()].write_challenge(buf))
            .or_else(|| self.write_media(ctx, id, buf))
            .or_else(|| self.write_padding(ctx, id, buf))
    }

    #[inline]
    fn on_packet_sent(&mut self, ctx: &mut Context<'_>, id: PathId, packet: &SentPacket) {
        self.record_departure(ctx.now, &mut ctx.paths[id.index()], packet);
    }

    fn is_drained(&self) -> bool {
        self.send_buffer.is_empty()
    }

    fn is_sender(&self) -> bool {
        self.idle.is_kept_alive()
    }

    fn leaves_at(&self, around: &Surroundings<'_>, path: &Path) -> Option<Instant> {
        if path.has_bound() {
            path.has_window().then(|| path.ready_at())
        } else {
            self.padding_due_at(path.id, around.config, around.paths)
        }
    }

    fn consider_path(&self, paths: &[Path], path: &Path, next: &mut NextTimer) {
        if next.may_be(path.liveness.due_at_earliest(&path.recovery)) {
            next.consider(path.liveness.due_at(&path.recovery), Timer::PathSilence);
        }
        let probe_at = self.idle.probe_at(path, paths.len());
        next.consider(probe_at, Timer::PathSilence);
    }

    fn consider_sending(&self, around: &Surroundings<'_>, next: &mut NextTimer) {
        let send_buffer = &self.send_buffer;
        let held_until = self.binding.held_until(send_buffer, around.paths);
        next.consider(held_until, Timer::Scheduler);
        next.consider(send_buffer.expires_at(), Timer::FrameDeadline);
        let notice = self.notices.due(around.paths);
        next.consider(notice.map(|(at, _)| at), Timer::Notice);
        next.consider(send_buffer.tail_due_at(), Timer::Tail);
        next.consider(send_buffer.waits_until(), Timer::Repairs);
        next.consider(send_buffer.next_last_call(), Timer::LastCall);
    }

    fn consider_receiving(&self, next: &mut NextTimer) {
        next.consider(self.reception.reassembly().expires_at(), Timer::Reassembly);
    }

    fn on_receive_timeout(&mut self, now: Instant, output: &mut Output) {
        self.reception.deliver_due(now, output);
    }

    fn before_path_timeouts(&mut self, now: Instant, output: &mut Output) {
        self.serve_frame_timers(now, output);
    }

    fn after_path_timeouts(&mut self, ctx: &mut Context<'_>) {
        self.serve_copy_timers(ctx);
    }

    fn on_loss_timeout(&mut self, ctx: &mut Context<'_>, id: PathId, digest: &Digest) {
        self.notify_controller(ctx, id, digest);
        ctx.refresh_views(self);
        self.follow_rates(ctx);
        self.answer_losses(ctx, id, digest, SendReason::Lost);
    }

    fn on_controller_timeout(&mut self, ctx: &mut Context<'_>) {
        ctx.refresh_views(self);
        self.update_target(ctx);
    }

    fn on_path_timeout(session: &mut MediaSession, now: Instant, id: PathId) {
        let path_count = session.paths.len();
        let path = &mut session.paths[id.index()];
        let idle = &session.content.idle;
        idle.probe_one(now, path, path_count, &mut session.questions);
        session.on_silence_timeout(now, id);
    }

    #[cfg(any(debug_assertions, feature = "invariants"))]
    fn check(&self, paths: &[Path], checker: &mut Checker) {
        self.check_parts(paths, checker);
    }
}
