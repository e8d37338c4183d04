//! The transport's state machine and its verbs.
//!
//! Whoever drives it repeats: `handle_*` → [`Endpoint::poll_transmit`] until `None` →
//! [`Endpoint::poll_event`] until `None` → [`Endpoint::poll_timeout`], and waits for a datagram or
//! that moment. Time never goes back. Nothing that arrives from the network is an error.

mod admission;
mod fec;
mod idle;
#[cfg(any(debug_assertions, feature = "invariants"))]
mod invariants;
mod last_try;
mod mtu;
mod notices;
mod receive;
mod rescue;
mod retransmission;
mod standby;
mod stream;
mod target;
mod timeout;
mod transmit;

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_units::{DataRate, Ecn, Instant, Rng, Seed};

use crate::config::{Config, ConfigError, SessionKind, SourceLimits};
use crate::control::ControllerConfig;
use crate::counters::{PathCounters, SessionCounters};
use crate::fec::Budget;
use crate::media::{
    self, DropReason, Frame, FrameId, Halves, Reassembly, ReceivedFrame, SendBuffer,
    SendFrameError, SourceRate,
};
use crate::options::AlgorithmOptions;
use crate::path::{Path, PathOptions};
use crate::path_view::{PathId, PathState, PathView};
use crate::recovery::Digest;
use crate::scheduler::{self, Assignment, PacketView, Scheduler, SchedulerEvent};
use crate::send_reason::SendReason;
use crate::session_view::SessionView;
use crate::standby::Standby;
use crate::stream::Stream;
use crate::wire::{self, FeedbackReport};

pub use timeout::Timer;

/// One end of a session: sends and receives frames over all its paths.
#[derive(Debug)]
pub struct Endpoint {
    // For every call.
    paths: Vec<Path>,
    /// The stream, if the session carries one instead of media.
    stream: Option<Box<Stream>>,
    /// Whether metered paths help; `None` if there are none.
    standby: Option<Box<Standby>>,
    /// The path to be served next.
    next_path: usize,
    closing: Closing,
    send_buffer: SendBuffer,
    /// What a source gives that does not follow the target.
    source_rate: SourceRate,
    target_bitrate: DataRate,
    events: VecDeque<Event>,
    scheduler: Box<dyn Scheduler>,
    /// When the scheduler was last asked.
    scheduled_at: Instant,
    /// The most bytes on the wire of a packet.
    max_packet_bytes: u32,
    /// The encoder's share of what the paths carry.
    target_fraction: f64,
    /// Whether waiting packets may find a path that they did not find before.
    is_schedule_due: bool,
    /// Whether this end has ever sent media: only then does it pad.
    has_sent_media: bool,
    /// Whether the session is kept alive even before this end sends media.
    is_kept_alive: bool,
    has_peer_left: bool,
    reassembly: Reassembly,
    halves: Halves,
    /// Since when the scheduler has held packets.
    held_since: Option<Instant>,
    /// Whether frames have waited for too long, and something has waited ever since.
    is_overloaded: bool,
    /// When a path last went out or came back.
    path_changed_at: Instant,
    notices: notices::Notices,
    /// Shared by all who are set up alike: theirs are the same lines of the cache.
    config: Arc<Config>,
    // For packets of media, and for reports.
    last_captured_at: Instant,
    /// How much forward error correction this end sends, if any.
    fec_sender: Option<Box<fec::Sender>>,
    /// What the peer sends of it.
    fec_receiver: Option<Box<fec::Receiver>>,
    views: Vec<PathView>,
    scratch: Scratch,
    counters: SessionCounters,
    /// What repairs and retransmissions cost, and repairs may.
    budget: Budget,
    seed: Seed,
    rng: Rng,
}

/// Buffers that are used again and again, so that the steady state allocates nothing.
#[derive(Debug, Default)]
struct Scratch {
    /// In a box, so that lending it moves a pointer.
    digest: Option<Box<Digest>>,
    report: FeedbackReport,
    assignments: Vec<Assignment>,
    outcomes: Vec<media::Outcome>,
    last_calls: Vec<media::LastCall>,
    symbol_heads: Vec<[u8; media::SYMBOL_HEAD_BYTES]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    Open,
    /// This end closes: it says so this many times more, next at this moment.
    Telling {
        times: u8,
        next_at: Instant,
    },
    Closed,
}

/// Where a datagram came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramMeta {
    /// The path that it came on.
    pub path: PathId,
    /// When it arrived, by this end's clock: no later than the call, and earlier where the kernel
    /// took the time.
    pub received_at: Instant,
    /// Its mark of congestion.
    pub ecn: Ecn,
}

/// A datagram to be sent, its bytes having been appended to the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The path to send it on.
    pub path: PathId,
    /// How many bytes were appended.
    pub size: usize,
    /// The mark to send it with.
    pub ecn: Ecn,
    /// Why it leaves. The driver may find that the interface refuses a [`SendReason::MtuProbe`]
    /// ([`Endpoint::on_datagram_too_large`]).
    pub reason: SendReason,
    /// The piece of media that it carries, if any: which fragment of which frame.
    pub fragment: Option<(FrameId, u16)>,
}

/// What the application is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A frame has arrived whole; frames come in the order of their numbers.
    FrameReceived(ReceivedFrame),
    /// A frame was given up.
    FrameDropped {
        /// Which.
        id: FrameId,
        /// Where and why.
        reason: DropReason,
    },
    /// The encoder is asked for another bitrate.
    TargetBitrate(DataRate),
    /// A path is trusted more or less than before.
    PathState {
        /// Which path.
        path: PathId,
        /// Its state now.
        state: PathState,
    },
    /// There are bytes for [`Endpoint::read_stream`] where there were none.
    StreamReadable,
    /// There is room again for [`Endpoint::write_stream`], which had to refuse bytes.
    StreamWritable,
    /// The peer's stream has arrived to its end, though maybe not been read to it.
    StreamFinished,
    /// The peer has closed the session.
    Closed,
    /// The receiver of this end's media has gone away: nothing arrives in this session any more.
    /// Media may still be handed in, and is given up when it is too old, until the driver has
    /// another session or closes this one.
    PeerLeft,
    /// The peer has a session with another in place of this one, which is over.
    Replaced,
}

impl Event {
    /// The frame was given up at the sender.
    fn late(id: FrameId) -> Self {
        let reason = DropReason::Late;
        Event::FrameDropped { id, reason }
    }
}

impl Endpoint {
    /// An endpoint without paths. `seed` feeds its random choices; on a real network it must be
    /// unpredictable.
    ///
    /// # Errors
    /// [`ConfigError`] says what in `config` cannot work.
    pub fn new(
        config: impl Into<Arc<Config>>,
        seed: Seed,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        let config = config.into();
        config.check()?;
        let fec_policy = crate::fec::build(&config.media.fec)?;
        let has_symbols = fec_policy.is_some();
        let overhead_bytes = config.overhead_bytes + wire::max_fragment_header_bytes(has_symbols);
        let max_packet_bytes = match config.kind {
            SessionKind::Media => u32::from(config.fragment_bytes) + overhead_bytes,
            SessionKind::Stream => {
                let segment_bytes = u32::from(config.fragment_bytes) + config.overhead_bytes;
                segment_bytes + wire::SEGMENT_HEADER_BYTES as u32
            }
        };
        let payload_share = f64::from(config.fragment_bytes) / f64::from(max_packet_bytes);
        let target_fraction = config.media.target_fraction;
        let target_fraction = target_fraction
            .unwrap_or_else(|| config.controller.rate().encoder_share(payload_share));
        let target_bitrate = match config.media.source {
            SourceLimits::Fixed => DataRate::ZERO,
            SourceLimits::Adaptive { min, .. } => min,
        };
        Ok(Endpoint {
            seed,
            rng: seed.derive("endpoint").rng(),
            paths: Vec::new(),
            views: Vec::new(),
            scheduler: scheduler::build(&config.scheduler)?,
            send_buffer: SendBuffer::new(
                config.fragment_bytes,
                overhead_bytes,
                config.media.deadline,
                config.media.retransmission_copies,
                has_symbols,
            ),
            source_rate: SourceRate::new(config.media.deadline),
            fec_sender: fec_policy.map(fec::Sender::new),
            budget: Budget::new(now),
            fec_receiver: None,
            reassembly: Reassembly::new(config.media.reassembly_wait, config.media.keeps_bytes),
            halves: Halves::default(),
            stream: Self::new_stream(&config),
            events: VecDeque::new(),
            target_bitrate,
            target_fraction,
            max_packet_bytes,
            counters: SessionCounters::default(),
            closing: Closing::Open,
            is_schedule_due: false,
            scheduled_at: now,
            held_since: None,
            is_overloaded: false,
            path_changed_at: now,
            notices: notices::Notices::default(),
            has_sent_media: false,
            is_kept_alive: false,
            has_peer_left: false,
            standby: None,
            next_path: 0,
            last_captured_at: now,
            scratch: Scratch::default(),
            config,
        })
    }

    /// Has another scheduler decide from now on, one that need not be registered.
    pub fn set_scheduler(&mut self, scheduler: Box<dyn Scheduler>) {
        self.scheduler = scheduler;
        self.is_schedule_due = true;
    }

    /// Adds a path, which may carry data at once: its driver vouches that it leads to the peer.
    /// Both ends must add their paths in the same order. `None` past [`PathId::LIMIT`] paths, or
    /// past the one that a stream has.
    pub fn add_path(&mut self, now: Instant, options: PathOptions) -> Option<PathId> {
        let limit = match self.config.kind {
            SessionKind::Media => PathId::LIMIT,
            SessionKind::Stream => 1,
        };
        if self.paths.len() == limit {
            return None;
        }
        let id = PathId(self.paths.len() as u8);
        let controller = ControllerConfig {
            min_rate: self.config.min_rate,
            max_rate: self.config.max_rate(self.target_fraction),
            initial_rate: self.config.initial_rate,
            initial_window_packets: self.config.initial_window_packets,
            fixed_rate: self.config.fixed_rate,
            max_packet_bytes: self.max_packet_bytes,
            is_ecn_capable: self.config.is_ecn_capable,
            is_media: self.config.kind == SessionKind::Media,
            options: AlgorithmOptions::default(),
            seed: self.seed.derive(&format!("path/{id}/controller")),
        };
        let controller = self.config.controller.build(&controller);
        let has_fec = self.fec_sender.is_some();
        self.paths.push(Path::new(
            id,
            now,
            &self.config,
            options,
            controller,
            has_fec,
        ));
        self.meet_meter(now, options.is_metered);
        if let Some(stream) = &mut self.stream {
            stream.add_path();
        }
        self.set_patience();
        self.on_path_changed(now, id);
        Some(id)
    }

    /// Takes a path out: what was bound to it or flies on it goes to the others.
    pub fn remove_path(&mut self, now: Instant, path: PathId) {
        if self
            .paths
            .get(path.index())
            .is_none_or(|path| path.state() == PathState::Removed)
        {
            return;
        }
        self.paths[path.index()].liveness.remove();
        self.set_patience();
        self.take_back(path);
        self.declare_silent(now, path, SendReason::PathRemoved);
        self.on_path_changed(now, path);
    }

    /// Has silent paths waited for as long as the number of paths suggests.
    fn set_patience(&mut self) {
        let deadline = self.config.media.deadline;
        let kept = |path: &&Path| path.state() != PathState::Removed;
        let is_only = self.paths.iter().filter(kept).count() <= 1;
        for path in &mut self.paths {
            path.liveness.set_patience(deadline, is_only);
        }
    }

    /// Takes a frame in for sending.
    ///
    /// # Errors
    /// [`SendFrameError`]; the frame is then not sent, and the next one takes its number.
    pub fn send_frame(&mut self, now: Instant, frame: &Frame) -> Result<FrameId, SendFrameError> {
        if self.closing != Closing::Open {
            return Err(SendFrameError::Closed);
        }
        self.expire_frames(now);
        self.update_fragment_bytes();
        self.admit(now, None);
        let id = self.send_buffer.push(frame)?;
        let interval = self.send_buffer.frame_interval();
        for path in &mut self.paths {
            path.on_frame(interval, self.config.media.deadline);
        }
        self.counters.frames_sent += 1;
        self.has_sent_media = true;
        if let Some(standby) = &mut self.standby {
            standby.on_frame(now, frame.bytes.len());
        }
        self.is_schedule_due = true;
        self.tell_source_rate(now, frame.bytes.len());
        self.protect(now, id, frame);
        self.admit(now, Some(id));
        Ok(id)
    }

    /// The next thing to tell the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Ends the session: the peer is told three times over. Frames that still wait are not sent;
    /// ask [`Endpoint::is_drained`] before.
    pub fn close(&mut self, now: Instant) {
        if self.closing == Closing::Open {
            self.closing = Closing::Telling {
                times: 3,
                next_at: now,
            };
        }
    }

    /// Whether this end has told all it has to tell after [`Endpoint::close`], or the peer has
    /// closed.
    pub fn is_closed(&self) -> bool {
        self.closing == Closing::Closed
    }

    /// Whether every frame has been acknowledged or given up, and every byte of the stream, and its
    /// end if it has one, been acknowledged.
    pub fn is_drained(&self) -> bool {
        let is_stream_drained = |stream: &Stream| stream.send.is_drained();
        self.send_buffer.is_empty() && self.stream.as_deref().is_none_or(is_stream_drained)
    }

    /// All paths as they are now; the index is the path's number.
    pub fn paths(&mut self, now: Instant) -> &[PathView] {
        self.refresh_views(now);
        &self.views
    }

    /// A path's counts; `None` if there is no such path.
    pub fn path_counters(&self, path: PathId) -> Option<&PathCounters> {
        self.paths.get(path.index()).map(|path| &path.counters)
    }

    /// The session's counts.
    pub fn counters(&self) -> &SessionCounters {
        &self.counters
    }

    /// What the encoder is asked to produce.
    pub fn target_bitrate(&self) -> DataRate {
        self.target_bitrate
    }

    /// The phase of a path's controller by its source's own name; `None` if there is no such path.
    pub fn controller_state(&self, path: PathId) -> Option<&'static str> {
        self.paths
            .get(path.index())
            .map(|path| path.controller.state())
    }

    fn refresh_views(&mut self, now: Instant) {
        let max_packet_bytes = u64::from(self.max_packet_bytes);
        self.views.clear();
        self.views.extend(
            self.paths
                .iter()
                .map(|path| path.view(max_packet_bytes, now)),
        );
        if self.are_metered_in_reserve() {
            for view in &mut self.views {
                view.is_standby = view.is_metered;
            }
        }
    }

    fn session_view(&self) -> SessionView {
        SessionView {
            backlog_bytes: self.backlog_bytes(),
            target_bitrate: self.target_bitrate,
            deadline: self.config.media.deadline,
        }
    }

    fn backlog_bytes(&self) -> u64 {
        let stream = |stream: &Stream| stream.send.waiting_bytes();
        let of_stream = self.stream.as_deref().map_or(0, stream);
        self.send_buffer.waiting_bytes()
            + of_stream
            + self.paths.iter().map(Path::queued_bytes).sum::<u64>()
    }

    /// Lets the scheduler bind what waits.
    fn schedule(&mut self, now: Instant) {
        self.is_schedule_due = false;
        self.scheduled_at = now;
        // Every acknowledgement makes it due, but mostly nothing waits.
        if self.send_buffer.has_waiting() {
            self.bind_waiting(now);
        } else {
            self.held_since = None;
        }
    }

    fn bind_waiting(&mut self, now: Instant) {
        self.update_standby(now);
        match &self.paths[..] {
            // Of a single path no list is kept: one on the stack is in the cache.
            [only] => {
                let mut views = [only.view(u64::from(self.max_packet_bytes), now)];
                self.bind_to(now, &mut views);
            }
            _ => {
                self.refresh_views(now);
                let mut views = core::mem::take(&mut self.views);
                self.bind_to(now, &mut views);
                self.views = views;
            }
        }
    }

    /// Lets the scheduler bind what waits to the paths that are viewed.
    fn bind_to(&mut self, now: Instant, views: &mut [PathView]) {
        views.iter_mut().for_each(PathView::apply_weight);
        let session = self.session_view();
        let mut assignments = core::mem::take(&mut self.scratch.assignments);
        assignments.clear();
        let queue = scheduler::SendQueue::new(self.send_buffer.waiting());
        self.scheduler
            .schedule(now, &queue, &session, views, &mut assignments);
        self.note_symbols(views, &assignments);
        if self.paths.len() > 1 && !self.paths.iter().any(Path::has_bound) {
            self.paths.iter_mut().for_each(Path::note_rate);
        }
        let waiting = self.send_buffer.waiting();
        for assignment in &assignments {
            let packet = &waiting[assignment.index];
            for id in assignment.paths.iter() {
                let reason = assignment.reason_on(id, packet);
                let packet = PacketView { reason, ..*packet };
                self.paths[id.index()].bind(now, packet, self.held_since);
            }
        }
        assignments.sort_unstable_by_key(|assignment| assignment.index);
        let mut bound = assignments.iter().peekable();
        self.send_buffer
            .retain_waiting(|index| bound.next_if(|bound| bound.index == index).is_some());
        self.scratch.assignments = assignments;
        self.bind_repairs(now, views);
        self.held_since = match self.send_buffer.waiting() {
            [] => None,
            _ => self.held_since.or(Some(now)),
        };
    }

    /// When a path that a scheduler may have been waiting for becomes ready: an empty one, whose
    /// pacer was not ready when the scheduler was last asked.
    fn held_until(&self) -> Option<Instant> {
        if !self.send_buffer.has_waiting() {
            return None;
        }
        let ready = self
            .paths
            .iter()
            .filter(|path| path.state().is_usable() && !path.has_bound());
        let ready = ready.filter(|path| path.has_window()).map(Path::ready_at);
        let ready = ready.filter(|ready_at| *ready_at > self.scheduled_at).min();
        [ready, self.scheduler.wake_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Brings all that is bound to `path` back to where the scheduler finds it.
    fn take_back(&mut self, path: PathId) {
        let (before, rest) = self.paths.split_at_mut(path.index());
        let (path, after) = rest.split_first_mut().expect("the path is one of them");
        for packet in path.unbind_all() {
            let mut others = before.iter().chain(after.iter());
            if !others.any(|other| other.has_bound_copy_of(&packet)) {
                self.send_buffer.unbind(packet);
            }
        }
        self.is_schedule_due = true;
    }

    /// The best active path other than `path`.
    fn best_other_path(&self, path: PathId) -> Option<PathId> {
        self.paths
            .iter()
            .filter(|other| other.id != path && other.state() == PathState::Active)
            .min_by_key(|other| other.recovery.rtt().smoothed())
            .map(|other| other.id)
    }

    fn on_path_changed(&mut self, now: Instant, path: PathId) {
        self.path_changed_at = now;
        let state = self.paths[path.index()].state();
        let event = match state {
            PathState::Active => SchedulerEvent::PathUp(path),
            _ => SchedulerEvent::PathDown(path),
        };
        self.scheduler.on_event(now, &event);
        self.events.push_back(Event::PathState { path, state });
        self.is_schedule_due = true;
        self.update_standby(now);
        self.update_target(now);
    }

    fn expire_frames(&mut self, now: Instant) {
        let mut late = Vec::new();
        self.send_buffer.expire(now, |id| late.push(id));
        late.into_iter().for_each(|id| self.on_given_up(now, id));
    }
}
