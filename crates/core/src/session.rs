//! A session's state machine and its verbs.
//!
//! [`Session`] is one end of it, over any number of paths. This module, `receive`, `transmit` and
//! `timeout` hold the behaviour of every session. Its [`Content`] is a type parameter: [`Media`] or
//! a [`Stream`], each with the state and the verbs that only it needs. `content` lists the hooks
//! that each of them implements.
//!
//! A driver repeats: `handle_*` → [`Session::poll_transmit`] until `None` → [`Session::poll_event`]
//! until `None` → [`Session::poll_timeout`]. It then waits for a datagram or for that moment. Time
//! never goes back. Nothing that arrives from the network is an error.

mod binding;
mod content;
#[cfg(any(debug_assertions, feature = "invariants"))]
mod invariants;
mod media;
mod next_timer;
mod output;
mod questions;
mod receive;
mod silence;
mod sizes;
mod stream;
mod timeout;
mod transmit;

use std::sync::Arc;

use anabranch_units::options::AlgorithmOptions;
use anabranch_units::{DataRate, Duration, Ecn, Instant, Seed};

use crate::config::{Config, ConfigError};
use crate::control::ControllerConfig;
use crate::counters::{PathCounters, SessionCounters};
use crate::media::{DropReason, FrameId, FramePart, ReceivedFrame};
use crate::path::{Path, PathOptions};
use crate::path_view::{PathId, PathState, PathView};
use crate::recovery::Digest;
use crate::send_reason::SendReason;
use crate::wire::FeedbackReport;

use content::{Context, view_paths};
use output::Output;
use questions::Questions;
use sizes::Sizes;

pub use content::Content;
pub use media::{Media, MediaSession};
pub use next_timer::Timer;
pub use stream::{Stream, StreamSession};

/// One end of a session: sends and receives its content over all its paths.
#[derive(Debug)]
pub struct Session<C> {
    content: C,
    paths: Vec<Path>,
    /// The path to be served next.
    next_path: usize,
    closing: Closing,
    /// Nothing arrives any more, though this end has not closed.
    has_peer_left: bool,
    output: Output,
    sizes: Sizes,
    /// Shared by all sessions with the same configuration, and with it the lines of the cache.
    config: Arc<Config>,
    views: Vec<PathView>,
    scratch: Scratch,
    seed: Seed,
    questions: Questions,
}

/// Buffers that are used again and again, so that the steady state allocates nothing.
#[derive(Debug, Default)]
struct Scratch {
    /// In boxes, so that lending them moves pointers.
    digest: Option<Box<Digest>>,
    report: Option<Box<FeedbackReport>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    Open,
    /// This end closes: it says so this many times more, next at this moment.
    Announcing {
        times: u8,
        next_at: Instant,
    },
    Closed,
}

impl Closing {
    /// Interval between announcements of the end.
    const INTERVAL: Duration = Duration::from_millis(50);

    fn is_open(self) -> bool {
        matches!(self, Closing::Open)
    }

    /// Returns whether the end is announced now, and counts it if so.
    fn is_announced(&mut self, now: Instant) -> bool {
        let Closing::Announcing { times, next_at } = *self else {
            return false;
        };
        if next_at > now {
            return false;
        }
        *self = match times {
            1 => Closing::Closed,
            _ => Closing::Announcing {
                times: times - 1,
                next_at: now + Closing::INTERVAL,
            },
        };
        true
    }
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
    /// Number of appended bytes.
    pub size: usize,
    /// The mark to send it with.
    pub ecn: Ecn,
    /// Why it leaves. The driver may find that the interface refuses a [`SendReason::MtuProbe`]
    /// ([`Session::on_datagram_too_large`]).
    pub reason: SendReason,
    /// The piece of media that it carries, if any: which fragment of which frame.
    pub fragment: Option<(FrameId, u16)>,
}

/// Notification to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A frame has arrived whole; frames come in the order of their numbers.
    FrameReceived(ReceivedFrame),
    /// Bytes of the next frame, which is not whole yet; see
    /// [`HandOut::PartsInOrder`](crate::HandOut::PartsInOrder).
    FramePart(FramePart),
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
    /// There are bytes for [`StreamSession::read`] where there were none.
    StreamReadable,
    /// There is room again for [`StreamSession::write`], which had to refuse bytes.
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
    /// The peer has violated the protocol, and the session is over. The peer has acknowledged
    /// packets that were never sent, which would raise the rate above the network's capacity (RFC
    /// 9000 §21.4). Or it has sent a segment that contradicts others, or more than its window
    /// allows.
    PeerLies,
}

impl Event {
    /// Returns the event of a frame that was given up at the sender.
    fn late(id: FrameId) -> Self {
        let reason = DropReason::Late;
        Event::FrameDropped { id, reason }
    }
}

impl<C: Content> Session<C> {
    /// Creates a session without paths. `seed` feeds its random choices; on a real network it must
    /// be unpredictable.
    ///
    /// # Errors
    /// [`ConfigError`] names the part of `config` that cannot work.
    pub fn new(
        config: impl Into<Arc<Config>>,
        seed: Seed,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        let config = config.into();
        config.check()?;
        let content = C::new(&config, now)?;
        let sizes = Sizes::new(&config, content.header_bytes());
        Ok(Session {
            content,
            paths: Vec::new(),
            next_path: 0,
            closing: Closing::Open,
            has_peer_left: false,
            output: Output::default(),
            sizes,
            config,
            views: Vec::new(),
            scratch: Scratch::default(),
            seed,
            questions: Questions::new(seed.derive("endpoint").rng()),
        })
    }

    /// Adds a path, which may carry data at once: its driver vouches that it leads to the peer.
    /// Both ends must add their paths in the same order. `None` past [`PathId::LIMIT`] paths, or
    /// past the one that a stream has whose losses show in the order of its bytes alone.
    pub fn add_path(&mut self, now: Instant, options: PathOptions) -> Option<PathId> {
        if self.paths.len() == C::max_paths(&self.config) {
            return None;
        }
        let id = PathId(self.paths.len() as u8);
        let path = self.new_path(now, id, options);
        self.paths.push(path);
        self.on_path_added(now, id);
        Some(id)
    }

    /// Gives the number of a path to another one, which begins without estimates and counts.
    /// Packet numbers continue, so the peer need not know. Packets that are bound to the old path
    /// or in flight on it go to the others. Does nothing if there is no such path.
    pub fn replace_path(&mut self, now: Instant, id: PathId, options: PathOptions) {
        let Some(path) = self.paths.get_mut(id.index()) else {
            return;
        };
        if !path.is_removed() {
            path.liveness.remove();
            self.content.take_back(&mut self.paths, id);
            self.declare_silent(now, id, SendReason::PathRemoved);
            let (content, mut ctx) = self.split(now);
            content.on_path_changed(&mut ctx, id);
        }
        let path = self.new_path(now, id, options);
        let old = core::mem::replace(&mut self.paths[id.index()], path);
        self.paths[id.index()].succeed(old);
        self.on_path_added(now, id);
    }

    fn new_path(&self, now: Instant, id: PathId, options: PathOptions) -> Path {
        let controller = ControllerConfig {
            min_rate: self.config.min_rate,
            max_rate: self.content.max_rate(&self.config),
            initial_rate: options.initial_rate.unwrap_or(self.config.initial_rate),
            initial_window_packets: self.config.initial_window_packets,
            fixed_rate: self.config.laboratory.fixed_rate,
            max_packet_bytes: self.sizes.max_packet_bytes,
            is_ecn_capable: self.config.is_ecn_capable,
            is_media: C::IS_MEDIA,
            spreads_reductions: !C::IS_MEDIA && !self.config.has_cumulative_acks(),
            options: AlgorithmOptions::default(),
            seed: self.seed.derive(&format!("path/{id}/controller")),
        };
        let controller = self.config.controller.build(&controller);
        Path::new(id, now, &self.config, options, controller, !C::IS_MEDIA)
    }

    /// Removes a path. Packets bound to it or in flight on it move to the others.
    pub fn remove_path(&mut self, now: Instant, path: PathId) {
        if self.paths.get(path.index()).is_none_or(Path::is_removed) {
            return;
        }
        self.paths[path.index()].liveness.remove();
        self.content.take_back(&mut self.paths, path);
        self.declare_silent(now, path, SendReason::PathRemoved);
        self.on_path_changed(now, path);
    }

    /// Handles the driver's failure to send a datagram of `size` bytes, as [`Transmit::size`]
    /// counts them, since the interface refuses this size. Returns whether the path's MTU explains
    /// it, which is respected from now on; else the path is of no use.
    pub fn on_datagram_too_large(&mut self, now: Instant, path: PathId, size: usize) -> bool {
        let bytes = size as u32 + self.config.overhead_bytes;
        let is_above_base = self.config.mtu.is_some_and(|mtu| bytes > mtu.base_bytes);
        let path = self.paths.get_mut(path.index());
        match path.and_then(|path| path.recovery.mtu_mut()) {
            Some(mtu) => {
                mtu.on_too_large(now, bytes);
                is_above_base
            }
            None => false,
        }
    }

    /// Returns the next notification for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.output.events.pop_front()
    }

    /// Ends the session and announces the end to the peer three times. Unsent data is discarded;
    /// ask [`Session::is_drained`] before.
    pub fn close(&mut self, now: Instant) {
        if self.closing.is_open() {
            self.closing = Closing::Announcing {
                times: 3,
                next_at: now,
            };
        }
    }

    /// Returns whether all announcements of [`Session::close`] have been sent, or the peer has
    /// closed.
    pub fn is_closed(&self) -> bool {
        self.closing == Closing::Closed
    }

    /// Returns whether every frame has been acknowledged or given up; or every byte of the stream,
    /// and its end if it has one, been acknowledged.
    pub fn is_drained(&self) -> bool {
        self.content.is_drained()
    }

    /// Returns the present state of all paths; the index is the path's number.
    pub fn paths(&self, now: Instant) -> Vec<PathView> {
        let mut views = Vec::new();
        view_paths(now, &self.content, &self.sizes, &self.paths, &mut views);
        views
    }

    /// Returns the rate that a path carried by its newest report; `None` if none has come.
    pub fn reported_rate(&self, path: PathId) -> Option<DataRate> {
        self.paths.get(path.index())?.reported_rate
    }

    /// Returns a path's counts; `None` if there is no such path.
    pub fn path_counters(&self, path: PathId) -> Option<&PathCounters> {
        self.paths.get(path.index()).map(|path| &path.counters)
    }

    /// Returns the session's counts.
    pub fn counters(&self) -> &SessionCounters {
        &self.output.counters
    }

    /// Returns the phase of a path's controller by its source's own name; `None` if there is no
    /// such path.
    pub fn controller_state(&self, path: PathId) -> Option<&'static str> {
        self.paths
            .get(path.index())
            .map(|path| path.controller.state())
    }

    /// Returns the content, and the parts of the session that it changes.
    fn split(&mut self, now: Instant) -> (&mut C, Context<'_>) {
        let ctx = Context {
            now,
            config: &self.config,
            sizes: &self.sizes,
            paths: &mut self.paths,
            views: &mut self.views,
            output: &mut self.output,
            questions: &mut self.questions,
            digest: &mut self.scratch.digest,
        };
        (&mut self.content, ctx)
    }

    fn on_path_added(&mut self, now: Instant, id: PathId) {
        if let Some(limits) = self.config.mtu {
            self.paths[id.index()].search_mtu(now, limits);
        }
        let (content, mut ctx) = self.split(now);
        content.on_path_added(&mut ctx, id);
        self.on_path_changed(now, id);
    }

    fn on_path_changed(&mut self, now: Instant, path: PathId) {
        let state = self.paths[path.index()].state();
        self.output
            .events
            .push_back(Event::PathState { path, state });
        let (content, mut ctx) = self.split(now);
        content.on_path_changed(&mut ctx, path);
    }
}

/// Returns whether the views are of this moment, for decisions that go by them.
fn are_present(views: &[PathView], paths: &[Path], now: Instant) -> bool {
    let mut made_at = views.iter().map(|view| view.forecast.made_at);
    views.len() == paths.len() && made_at.all(|made_at| made_at == now)
}
