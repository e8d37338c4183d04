//! What sessions of media and of streams do each in their own way.

use core::fmt::Debug;

use anabranch_units::{DataRate, Instant};

use super::Session;
use super::timeout::NextTimer;
use super::transmit::Written;
use crate::config::{Config, ConfigError};
#[cfg(any(debug_assertions, feature = "invariants"))]
use crate::invariants::Checker;
use crate::path::Path;
use crate::path_view::PathId;
use crate::recovery::{Digest, SentPacket};
use crate::send_reason::SendReason;
use crate::wire::WireFrame;

/// What a session carries: [`Media`](crate::Media) or a [`Stream`](crate::Stream). There is no
/// other.
#[allow(
    private_bounds,
    reason = "what a content does is between it and its session"
)]
pub trait Content: Hooks {}

impl<C: Hooks> Content for C {}

/// What [`Session`] asks its content to do.
pub(crate) trait Hooks: Sized + Debug {
    /// Whether it is media, which is worthless when late.
    const IS_MEDIA: bool;
    /// The most paths that it uses.
    const MAX_PATHS: usize;

    fn new(config: &Config, now: Instant) -> Result<Self, ConfigError>;

    /// What a packet of it has beside its payload and what the network adds, at the most.
    fn header_bytes(&self) -> u32;

    /// The rate above which it is of no use that a path's controller goes.
    fn max_rate(session: &Session<Self>) -> DataRate;

    /// The path has just been added.
    fn on_path_added(session: &mut Session<Self>, now: Instant, id: PathId);

    /// The path has just been removed, and what flies on it has not yet been given up.
    fn on_path_removed(_session: &mut Session<Self>, _id: PathId) {}

    /// The path's state is another one.
    fn on_path_changed(_session: &mut Session<Self>, _now: Instant, _id: PathId) {}

    /// The views of all paths are new.
    fn mark_views(_session: &mut Session<Self>) {}

    /// Takes in what a datagram tells that is not about paths or the session.
    fn on_frame(session: &mut Session<Self>, now: Instant, on: PathId, frame: WireFrame<'_>);

    /// Whether something has arrived in part.
    fn awaits_more(&self) -> bool {
        false
    }

    /// A report about path `about` has come in on path `on`.
    fn on_report(
        session: &mut Session<Self>,
        now: Instant,
        on: PathId,
        about: PathId,
        digest: &Digest,
    );

    /// Packets on a path are taken for lost. `reason` is why they may be sent again.
    fn on_losses(
        session: &mut Session<Self>,
        now: Instant,
        id: PathId,
        digest: &Digest,
        reason: SendReason,
    );

    /// The peer closes the session.
    fn on_peer_closes(session: &mut Session<Self>, now: Instant);

    /// Nothing arrives any more.
    fn on_end(_session: &mut Session<Self>) {}

    /// Prepares what may leave. Returns false if nothing does, at a glance.
    fn prepare(_session: &mut Session<Self>, _now: Instant) -> bool {
        true
    }

    /// Whether something may leave after all, though nothing has.
    fn is_stirred(_session: &Session<Self>, _now: Instant) -> bool {
        false
    }

    /// The path on which the peer is to be told something without a packet number.
    fn news_on(session: &Session<Self>, now: Instant) -> Option<PathId>;

    /// Whether the peer wants reports on packets.
    fn is_report_wanted(&self) -> bool {
        true
    }

    /// Writes what the peer is to know before it reads a report.
    fn write_before_report(_session: &mut Session<Self>, _buf: &mut Vec<u8>) {}

    /// Writes what is to be told, after a report if `has_report`, and whether `has_news`.
    fn write_news(
        session: &mut Session<Self>,
        now: Instant,
        has_report: bool,
        has_news: bool,
        buf: &mut Vec<u8>,
    );

    /// Writes the next packet with a number that may leave on a path.
    fn write_packet(
        session: &mut Session<Self>,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written>;

    /// It has left.
    fn on_packet_sent(session: &mut Session<Self>, now: Instant, id: PathId, packet: &SentPacket);

    /// Whether everything that was handed in has come to its end.
    fn is_drained(&self) -> bool;

    /// Whether this end sends: one that only receives has few timers.
    fn is_sender(&self) -> bool;

    /// When the pacer lets go what is ready for the path.
    fn leaves_at(session: &Session<Self>, path: &Path) -> Option<Instant>;

    /// The timers of a path in use.
    fn consider_path(session: &Session<Self>, path: &Path, next: &mut NextTimer);

    /// The timers of the sending end.
    fn consider_sending(session: &Session<Self>, next: &mut NextTimer);

    /// The timers of the receiving end.
    fn consider_receiving(&self, _next: &mut NextTimer) {}

    /// Does what is due: [`Session::handle_path_timeouts`] among it, while the session is open.
    fn handle_timeout(session: &mut Session<Self>, now: Instant);

    /// Packets on a path are taken for lost, since nothing was heard of them.
    fn on_loss_timeout(session: &mut Session<Self>, now: Instant, id: PathId, digest: &Digest);

    /// A path's controller was told that a time has come which it had asked for.
    fn on_controller_timeout(_session: &mut Session<Self>, _now: Instant) {}

    /// Serves the path's timers that are not all sessions'.
    fn on_path_timeout(session: &mut Session<Self>, now: Instant, id: PathId);

    /// Checks the invariants of what is carried.
    #[cfg(any(debug_assertions, feature = "invariants"))]
    fn check(session: &Session<Self>, checker: &mut Checker);
}
