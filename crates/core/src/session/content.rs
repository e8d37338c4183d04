//! Where media sessions and stream sessions differ.

use core::fmt::Debug;

use anabranch_units::{DataRate, Instant};

use super::Session;
use super::next_timer::NextTimer;
use super::output::Output;
use super::sizes::Sizes;
use crate::config::{Config, ConfigError};
#[cfg(any(debug_assertions, feature = "invariants"))]
use crate::invariants::Checker;
use crate::path::Path;
use crate::path_view::{PathId, PathView};
use crate::recovery::{Digest, PacketContent, SentPacket};
use crate::send_reason::SendReason;
use crate::wire::WireFrame;

/// Content of the next tracked packet, and its reason.
pub(super) type Written = (PacketContent, SendReason);

/// Content of a session: [`Media`](crate::Media) or a [`Stream`](crate::Stream).
#[allow(
    private_bounds,
    reason = "the hooks are not public, so that nobody else implements it"
)]
pub trait Content: Hooks {}

impl<C: Hooks> Content for C {}

/// The parts of a session that its content reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    pub(super) config: &'a Config,
    pub(super) sizes: &'a Sizes,
    pub(super) paths: &'a [Path],
}

/// The points at which [`Session`] calls its content. A hook takes the content, and the parts of
/// the session that it needs. Only hooks that start actions of the session itself take all of it.
pub(crate) trait Hooks: Sized + Debug {
    /// Whether this is media: worthless when late, and in frames.
    const IS_MEDIA: bool;

    /// Creates the content of a new session without paths; checks its part of the configuration.
    fn new(config: &Config, now: Instant) -> Result<Self, ConfigError>;

    /// Returns the maximum number of paths.
    fn max_paths(_config: &Config) -> usize {
        PathId::LIMIT
    }

    /// Returns the longest header of a packet, in bytes, without [`Config::overhead_bytes`].
    fn header_bytes(&self) -> u32;

    /// Returns the highest useful rate of a path's controller.
    fn max_rate(&self, config: &Config) -> DataRate;

    /// Handles a path that has been added, or has taken the number of another.
    fn on_path_added(session: &mut Session<Self>, now: Instant, id: PathId);

    /// Sets whether the user pays for a path by volume from now on.
    fn on_metered(&mut self, _is_metered: bool) {}

    /// Handles a change of a path's state.
    fn on_path_changed(_session: &mut Session<Self>, _now: Instant, _id: PathId) {}

    /// Moves packets that are bound to a path back to the common queue.
    fn take_back(&mut self, paths: &mut [Path], id: PathId);

    /// Adds the content's own knowledge to views of the paths that have just been made.
    fn mark_views(&self, paths: &[Path], views: &mut [PathView]);

    /// Handles a wire frame that is not about paths or the end of the session.
    fn on_frame(session: &mut Session<Self>, now: Instant, on: PathId, frame: WireFrame<'_>);

    /// Returns whether more packets are expected, since a frame has arrived in part.
    fn awaits_more(&self) -> bool {
        false
    }

    /// Handles a report about path `about` that arrived on path `on`. Calls
    /// [`Session::judge_answer`] once the controller knows the report.
    fn on_report(
        session: &mut Session<Self>,
        now: Instant,
        on: PathId,
        about: PathId,
        digest: &Digest,
    );

    /// Handles lost packets of a path. `reason` is that of their retransmissions.
    fn on_losses(
        session: &mut Session<Self>,
        now: Instant,
        id: PathId,
        digest: &Digest,
        reason: SendReason,
    );

    /// Handles the peer's announcement that it closes the session.
    fn on_peer_closes(session: &mut Session<Self>, now: Instant);

    /// Handles the end of the session, after which nothing else will arrive.
    fn on_end(&mut self, _output: &mut Output) {}

    /// Prepares packets for sending. Returns false if a quick check finds nothing to send.
    fn prepare(_session: &mut Session<Self>, _now: Instant) -> bool {
        true
    }

    /// Returns whether another attempt to send may succeed, although no datagram was written.
    fn is_stirred(_session: &mut Session<Self>, _now: Instant) -> bool {
        false
    }

    /// Returns the path on which [`Hooks::write_control_frames`] has something to write now.
    /// `is_open`: this end does not close the session.
    fn control_frames_path(&self, now: Instant, is_open: bool, paths: &[Path]) -> Option<PathId>;

    /// Returns whether the peer wants reports about packets.
    fn is_report_wanted(&self) -> bool {
        true
    }

    /// Writes wire frames that the peer must process before the report behind them.
    fn write_before_report(&mut self, _buf: &mut Vec<u8>) {}

    /// Writes wire frames of a datagram without packet number. `has_report`: a report precedes
    /// them. `has_control_frames`: [`Hooks::control_frames_path`] named this path.
    fn write_control_frames(
        &mut self,
        now: Instant,
        has_report: bool,
        has_control_frames: bool,
        buf: &mut Vec<u8>,
    );

    /// Writes the next packet with a packet number that may leave on a path.
    fn write_packet(
        session: &mut Session<Self>,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written>;

    /// Handles the departure of the packet that was written last.
    fn on_packet_sent(session: &mut Session<Self>, now: Instant, id: PathId, packet: &SentPacket);

    /// Returns whether all data handed in has been acknowledged or given up.
    fn is_drained(&self) -> bool;

    /// Returns whether this end sends. An end that only receives has fewer timers.
    fn is_sender(&self) -> bool;

    /// Returns when the pacer releases the next packet of a path; `None` if there is none.
    fn leaves_at(&self, around: &Surroundings<'_>, path: &Path) -> Option<Instant>;

    /// Adds the timers of a path in use.
    fn consider_path(&self, paths: &[Path], path: &Path, next: &mut NextTimer);

    /// Adds the timers of the sending end.
    fn consider_sending(&self, around: &Surroundings<'_>, next: &mut NextTimer);

    /// Adds the timers of the receiving end.
    fn consider_receiving(&self, _next: &mut NextTimer) {}

    /// Performs due actions. Calls [`Session::handle_path_timeouts`] while the session is open.
    fn handle_timeout(session: &mut Session<Self>, now: Instant);

    /// Handles packets that a path's loss timer has declared lost.
    fn on_loss_timeout(session: &mut Session<Self>, now: Instant, id: PathId, digest: &Digest);

    /// Handles an expired timer of a path's controller.
    fn on_controller_timeout(_session: &mut Session<Self>, _now: Instant) {}

    /// Serves those timers of a path that [`Hooks::consider_path`] names.
    fn on_path_timeout(session: &mut Session<Self>, now: Instant, id: PathId);

    /// Checks the invariants of the content.
    #[cfg(any(debug_assertions, feature = "invariants"))]
    fn check(&self, paths: &[Path], checker: &mut Checker);
}
