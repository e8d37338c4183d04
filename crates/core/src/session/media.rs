//! Sessions of media: frames that are worthless when late, over any number of paths.

mod admission;
mod fec;
mod feedback;
mod idle;
#[cfg(any(debug_assertions, feature = "invariants"))]
mod invariants;
mod last_try;
mod mtu;
mod notices;
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

use super::timeout::{NextTimer, Timer};
use super::transmit::Written;
use super::{Closing, Event, Session, content::Hooks};
use crate::config::{Config, ConfigError, SourceLimits};
use crate::fec::Budget;
#[cfg(any(debug_assertions, feature = "invariants"))]
use crate::invariants::Checker;
use crate::media::{
    self, Demand, Frame, FrameId, Halves, LastCall, Outcome, Reassembly, SendBuffer,
    SendFrameError, SourceRate,
};
use crate::path::Path;
use crate::path_view::{PathId, PathState};
use crate::recovery::{Digest, SentPacket};
use crate::scheduler::{Assignment, Scheduler, SchedulerEvent};
use crate::send_reason::SendReason;
use crate::standby::Standby;
use crate::wire::{self, WireFrame};

/// A session of media: frames, worthless when late, over any number of paths.
pub type MediaSession = Session<Media>;

/// Media of one end: its send side, and the received part of the peer's media.
#[derive(Debug)]
pub struct Media {
    /// Whether metered paths help; `None` if there are none.
    standby: Option<Box<Standby>>,
    send_buffer: SendBuffer,
    /// Rate of a source that does not follow the target.
    source_rate: SourceRate,
    target_bitrate: DataRate,
    /// Inputs of the last target.
    demand: Option<Demand>,
    scheduler: Box<dyn Scheduler>,
    /// When the scheduler was last asked.
    scheduled_at: Instant,
    /// Encoder's share of the paths' bandwidth.
    target_fraction: f64,
    /// Whether waiting packets may find a path that they did not find before.
    is_schedule_due: bool,
    /// Whether this end has ever sent media: only then does it pad.
    has_sent_media: bool,
    /// Whether the session is kept alive even before this end sends media.
    is_kept_alive: bool,
    /// Time since which the scheduler has held packets.
    held_since: Option<Instant>,
    /// Whether frames have waited for too long, and the queue has not been empty since.
    is_overloaded: bool,
    /// When a path last went out or came back.
    path_changed_at: Instant,
    /// Allowance of padding for probes.
    probing: probing::Probing,
    notices: notices::Notices,
    /// Send side of forward error correction, if any.
    fec_sender: Option<Box<fec::Sender>>,
    /// Cost of repairs and retransmissions, and the allowance for repairs.
    budget: Budget,
    reassembly: Reassembly,
    halves: Halves,
    /// Latest known instant of the peer's clock, by which truncated times are expanded.
    peer_time: Instant,
    /// Receive side of the peer's forward error correction.
    fec_receiver: Option<Box<fec::Receiver>>,
    scratch: Scratch,
}

/// Buffers that are used again and again, so that the steady state allocates nothing.
#[derive(Debug, Default)]
struct Scratch {
    assignments: Vec<Assignment>,
    outcomes: Vec<Outcome>,
    last_calls: Vec<LastCall>,
    symbol_heads: Vec<[u8; media::SYMBOL_HEAD_BYTES]>,
}

impl Media {
    /// Returns the encoder's share of the paths' bandwidth for this configuration.
    fn target_fraction(config: &Config, header_bytes: u32) -> f64 {
        let payload_bytes = f64::from(config.fragment_bytes);
        let packet_bytes = u32::from(config.fragment_bytes) + config.overhead_bytes + header_bytes;
        let share = payload_bytes / f64::from(packet_bytes);
        let target_fraction = config.media.target_fraction;
        target_fraction.unwrap_or_else(|| config.controller.rate().encoder_share(share))
    }
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
        self.take_in(now, frame, true)
    }

    /// Takes a frame in that is new, or that another session has sent before.
    fn take_in(
        &mut self,
        now: Instant,
        frame: &Frame,
        is_new: bool,
    ) -> Result<FrameId, SendFrameError> {
        if self.closing != Closing::Open {
            return Err(SendFrameError::Closed);
        }
        self.expire_frames(now);
        self.update_fragment_bytes();
        if self.is_overloaded(now) {
            self.refresh_views(now);
            self.admit(now, None);
        }
        let id = self.content.send_buffer.push(frame)?;
        self.counters.frames_sent += 1;
        self.counters.media_bytes_sent += frame.bytes.len() as u64;
        if !self.content.has_sent_media {
            self.content.has_sent_media = true;
            self.content.probing.on_change(now);
        }
        self.content.probing.on_frame(now, frame.bytes.len());
        if self.is_given_up_on_arrival(now, id) {
            return Ok(id);
        }
        let interval = self.content.send_buffer.frame_interval();
        for path in &mut self.paths {
            path.on_frame(interval, self.config.media.deadline);
        }
        if let Some(standby) = &mut self.content.standby {
            standby.on_frame(now, frame.bytes.len());
        }
        self.content.is_schedule_due = true;
        if is_new {
            self.report_source_rate(now, frame.bytes.len());
        }
        self.protect(now, id, frame);
        if self.is_overloaded(now) {
            self.refresh_views(now);
            self.admit(now, Some(id));
        }
        Ok(id)
    }

    /// Sends the frames again that `before` has sent, that have not arrived and are not too late:
    /// the peer has lost that session. They do not count as sent by it, and it is over.
    pub fn go_on_from(&mut self, now: Instant, before: &mut MediaSession) {
        // The source did not make them all at once.
        self.content.source_rate = before.content.source_rate;
        for frame in before.take_unfinished_frames(now) {
            // The buffer of a new session has room for that of the old one.
            let _ = self.take_in(now, &frame, false);
        }
    }

    fn take_unfinished_frames(&mut self, now: Instant) -> Vec<Frame> {
        self.expire_frames(now);
        let frames = self.content.send_buffer.unfinished();
        for frame in &frames {
            self.counters.frames_sent -= 1;
            self.counters.media_bytes_sent -= frame.bytes.len() as u64;
        }
        self.closing = Closing::Closed;
        frames
    }

    /// Gives the newest frame up if its lifetime is over. Returns whether it was.
    fn is_given_up_on_arrival(&mut self, now: Instant, id: FrameId) -> bool {
        let is_late = |session: &Self| {
            let due_at = session.content.send_buffer.due_at(id);
            due_at.is_none_or(|due_at| due_at <= now)
        };
        if !is_late(self) {
            return false;
        }
        self.expire_frames(now);
        self.content.send_buffer.due_at(id).is_none()
    }

    /// Sets the deadline to `latency` after the fastest path's earliest delivery. Delays of paths
    /// change, so a caller with a fixed latency repeats the call from time to time.
    pub fn set_latency(&mut self, latency: Duration) {
        let is_kept = |path: &&Path| path.state() != PathState::Removed;
        let paths = self.paths.iter().filter(is_kept);
        let rtts = paths.filter_map(|path| path.recovery.rtt().min_rtt());
        // Ways there and back are taken for equally long.
        let deadline = latency + rtts.min().unwrap_or_default() / 2;
        Arc::make_mut(&mut self.config).media.deadline = deadline;
        self.content.send_buffer.set_deadline(deadline);
    }

    /// Returns the first frame of the peer that may still be handed out or given up. All before it
    /// have been.
    pub fn first_unsettled(&self) -> FrameId {
        self.content.reassembly.first_unsettled()
    }

    /// Returns the time from its capture until a frame is worthless.
    pub fn deadline(&self) -> Duration {
        self.config.media.deadline
    }

    /// Returns the bitrate requested from the encoder.
    pub fn target_bitrate(&self) -> DataRate {
        self.content.target_bitrate
    }

    /// Sets the patience with silent paths by the number of paths.
    fn set_patience(&mut self) {
        let deadline = self.config.media.deadline;
        let kept = |path: &&Path| path.state() != PathState::Removed;
        let is_only = self.paths.iter().filter(kept).count() <= 1;
        for path in &mut self.paths {
            path.liveness.set_patience(deadline, is_only);
        }
    }

    fn on_media_path_changed(&mut self, now: Instant, path: PathId) {
        self.content.path_changed_at = now;
        self.content.probing.on_change(now);
        let event = match self.paths[path.index()].state() {
            PathState::Active => {
                self.paths[path.index()].end_interruption(now);
                SchedulerEvent::PathUp(path)
            }
            _ => SchedulerEvent::PathDown(path),
        };
        self.content.scheduler.on_event(now, &event);
        self.content.is_schedule_due = true;
        self.refresh_views(now);
        self.update_standby(now);
        self.update_target(now);
    }
}

impl Hooks for Media {
    const IS_MEDIA: bool = true;

    fn new(config: &Config, now: Instant) -> Result<Self, ConfigError> {
        config.check_media()?;
        let fec_policy = crate::fec::build(&config.media.fec)?;
        let has_symbols = fec_policy.is_some();
        let header_bytes = wire::max_fragment_header_bytes(has_symbols);
        Ok(Media {
            scheduler: config.scheduler.build(),
            send_buffer: SendBuffer::new(
                config.fragment_bytes,
                config.overhead_bytes + header_bytes,
                config.media.deadline,
                has_symbols,
            ),
            source_rate: SourceRate::new(config.media.deadline),
            fec_sender: fec_policy.map(fec::Sender::new),
            budget: Budget::new(now),
            fec_receiver: None,
            reassembly: Reassembly::new(
                config.media.reassembly_wait,
                config.media.keeps_bytes,
                config.media.hand_out,
            ),
            halves: Halves::default(),
            target_bitrate: match config.media.source {
                SourceLimits::Fixed => DataRate::ZERO,
                SourceLimits::Adaptive { min, .. } => min,
            },
            demand: None,
            target_fraction: Media::target_fraction(config, header_bytes),
            is_schedule_due: false,
            scheduled_at: now,
            held_since: None,
            is_overloaded: false,
            path_changed_at: now,
            probing: probing::Probing::new(now),
            notices: notices::Notices::default(),
            has_sent_media: false,
            is_kept_alive: false,
            standby: None,
            peer_time: now,
            scratch: Scratch::default(),
        })
    }

    fn header_bytes(&self) -> u32 {
        wire::max_fragment_header_bytes(self.fec_sender.is_some())
    }

    fn max_rate(session: &MediaSession) -> DataRate {
        session.config.max_rate(session.content.target_fraction)
    }

    fn on_path_added(session: &mut MediaSession, now: Instant, id: PathId) {
        let path = &mut session.paths[id.index()];
        if let Some(limits) = session.config.mtu {
            path.search_mtu(now, limits);
        }
        if session.content.fec_sender.is_some() {
            path.start_loss_history();
        }
        let is_metered = path.is_metered();
        session.on_path_joined(now, is_metered);
        session.set_patience();
    }

    fn on_metered(session: &mut MediaSession, now: Instant, is_metered: bool) {
        session.on_path_joined(now, is_metered);
    }

    fn on_path_removed(session: &mut MediaSession, id: PathId) {
        session.set_patience();
        session.take_back(id);
    }

    fn take_back(session: &mut MediaSession, id: PathId) {
        session.take_back(id);
    }

    fn on_path_changed(session: &mut MediaSession, now: Instant, id: PathId) {
        session.on_media_path_changed(now, id);
    }

    fn mark_views(session: &mut MediaSession) {
        session.mark_standby();
    }

    #[inline]
    fn on_frame(session: &mut MediaSession, now: Instant, on: PathId, frame: WireFrame<'_>) {
        session.on_frame(now, on, frame);
    }

    #[inline]
    fn awaits_more(&self) -> bool {
        self.reassembly.has_incomplete()
    }

    #[inline]
    fn on_report(
        session: &mut MediaSession,
        now: Instant,
        on: PathId,
        about: PathId,
        digest: &Digest,
    ) {
        session.on_report(now, on, about, digest);
    }

    fn on_losses(
        session: &mut MediaSession,
        now: Instant,
        id: PathId,
        digest: &Digest,
        reason: SendReason,
    ) {
        session.on_losses(now, id, digest, reason);
    }

    fn on_peer_closes(session: &mut MediaSession, now: Instant) {
        let stays = session.content.is_sender() && !session.config.media.ends_with_peer;
        match stays {
            true => session.on_peer_left(now),
            false => session.end(Event::Closed),
        }
    }

    fn on_end(session: &mut MediaSession) {
        session.finish_reassembly();
    }

    #[inline]
    fn prepare(session: &mut MediaSession, now: Instant) -> bool {
        if session.content.is_schedule_due {
            session.schedule(now);
            session.probe_idle_paths(now);
        }
        !session.is_quiet(now)
    }

    #[inline]
    fn is_stirred(session: &mut MediaSession, now: Instant) -> bool {
        // If all packets of a path were dropped, waiting ones can use it, the receiver needs a
        // notice about the dropped frames, and the path may be idle.
        session.content.is_schedule_due
            || session.due_notice_on(now).is_some()
            || session.probe_idle_paths(now)
    }

    #[inline]
    fn control_frames_path(session: &MediaSession, now: Instant) -> Option<PathId> {
        session.due_notice_on(now)
    }

    #[inline]
    fn write_before_report(session: &mut MediaSession, buf: &mut Vec<u8>) {
        session.write_symbols_recovered(buf);
    }

    #[inline]
    fn write_control_frames(
        session: &mut MediaSession,
        now: Instant,
        _has_report: bool,
        has_control_frames: bool,
        buf: &mut Vec<u8>,
    ) {
        if has_control_frames {
            session.write_notice(now, buf);
        }
    }

    #[inline]
    fn write_packet(
        session: &mut MediaSession,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        session.write_next_packet(now, id, buf)
    }

    #[inline]
    fn on_packet_sent(session: &mut MediaSession, now: Instant, id: PathId, packet: &SentPacket) {
        session.on_packet_sent(now, id, packet);
    }

    fn is_drained(&self) -> bool {
        self.send_buffer.is_empty()
    }

    fn is_sender(&self) -> bool {
        self.has_sent_media || self.is_kept_alive
    }

    fn leaves_at(session: &MediaSession, path: &Path) -> Option<Instant> {
        match path.has_bound() {
            true => path.has_window().then(|| path.ready_at()),
            false => session.padding_due_at(path.id),
        }
    }

    fn consider_path(session: &MediaSession, path: &Path, next: &mut NextTimer) {
        if next.may_be(path.liveness.due_at_earliest(&path.recovery)) {
            next.consider(path.liveness.due_at(&path.recovery), Timer::PathSilence);
        }
        next.consider(session.idle_probe_at(path.id), Timer::PathSilence);
    }

    fn consider_sending(session: &MediaSession, next: &mut NextTimer) {
        let send_buffer = &session.content.send_buffer;
        next.consider(session.held_until(), Timer::Scheduler);
        next.consider(send_buffer.expires_at(), Timer::FrameDeadline);
        next.consider(session.notice_due().map(|(at, _)| at), Timer::Notice);
        next.consider(send_buffer.waits_until(), Timer::Repairs);
        next.consider(send_buffer.next_last_call(), Timer::LastCall);
    }

    fn consider_receiving(&self, next: &mut NextTimer) {
        next.consider(self.reassembly.expires_at(), Timer::Reassembly);
    }

    fn handle_timeout(session: &mut MediaSession, now: Instant) {
        session.handle_media_timeout(now);
    }

    fn on_loss_timeout(session: &mut MediaSession, now: Instant, id: PathId, digest: &Digest) {
        session.on_loss_timeout(now, id, digest);
    }

    fn on_controller_timeout(session: &mut MediaSession, now: Instant) {
        session.refresh_views(now);
        session.update_target(now);
    }

    fn on_path_timeout(session: &mut MediaSession, now: Instant, id: PathId) {
        session.probe_idle(now, id);
        session.on_silence_timeout(now, id);
    }

    #[cfg(any(debug_assertions, feature = "invariants"))]
    fn check(session: &MediaSession, checker: &mut Checker) {
        session.check_media(checker);
    }
}
