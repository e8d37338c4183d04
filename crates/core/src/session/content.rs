//! Where media sessions and stream sessions differ.

use core::fmt::Debug;

use anabranch_units::{DataRate, Instant};

use super::Session;
use super::next_timer::NextTimer;
use super::output::Output;
use super::questions::Questions;
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

/// The time, and the parts of a session that its content changes.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(super) now: Instant,
    pub(super) config: &'a Config,
    pub(super) sizes: &'a Sizes,
    pub(super) paths: &'a mut [Path],
    pub(super) views: &'a mut Vec<PathView>,
    pub(super) output: &'a mut Output,
    pub(super) questions: &'a mut Questions,
    /// The session's buffer for a digest, unless it is lent.
    pub(super) digest: &'a mut Option<Box<Digest>>,
}

impl Context<'_> {
    /// Replaces the views by those of this moment.
    pub(super) fn refresh_views(&mut self, content: &impl Hooks) {
        view_paths(self.now, content, self.sizes, self.paths, self.views);
    }
}

/// Replaces the views by those of this moment.
pub(super) fn view_paths(
    now: Instant,
    content: &impl Hooks,
    sizes: &Sizes,
    paths: &[Path],
    views: &mut Vec<PathView>,
) {
    let max_packet_bytes = u64::from(sizes.max_packet_bytes);
    views.clear();
    views.extend(paths.iter().map(|path| path.view(max_packet_bytes, now)));
    content.mark_views(paths, views);
}

/// The points at which [`Session`] calls its content. A hook takes the content, and the parts of
/// the session that it needs. Only the timers of a path start actions of the session itself, and
/// take all of it.
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
    fn on_path_added(&mut self, ctx: &mut Context<'_>, id: PathId);

    /// Sets whether the user pays for a path by volume from now on.
    fn on_metered(&mut self, _is_metered: bool) {}

    /// Handles a change of a path's state.
    fn on_path_changed(&mut self, ctx: &mut Context<'_>, id: PathId);

    /// Moves packets that are bound to a path back to the common queue.
    fn take_back(&mut self, paths: &mut [Path], id: PathId);

    /// Adds the content's own knowledge to views of the paths that have just been made.
    fn mark_views(&self, paths: &[Path], views: &mut [PathView]);

    /// Handles a wire frame that is not about paths or the end of the session. Returns false if the
    /// peer violates the protocol by it, which ends the session.
    fn on_frame(&mut self, ctx: &mut Context<'_>, on: PathId, frame: WireFrame<'_>) -> bool;

    /// Returns whether more packets are expected, since a frame has arrived in part.
    fn awaits_more(&self) -> bool {
        false
    }

    /// Records a report about a path, and passes it to the path's controller.
    fn on_report(&mut self, ctx: &mut Context<'_>, about: PathId, digest: &Digest);

    /// Acts on a report that [`Hooks::on_report`] has recorded, once the path's state follows it.
    fn act_on_report(&mut self, ctx: &mut Context<'_>, about: PathId, digest: &Digest);

    /// Handles lost packets of a path. `reason` is that of their retransmissions.
    fn on_losses(&mut self, ctx: &mut Context<'_>, id: PathId, digest: &Digest, reason: SendReason);

    /// Returns whether the session goes on without a peer that closes it.
    fn outlives_peer(&self, _config: &Config) -> bool {
        false
    }

    /// Handles the end of the session, after which nothing else will arrive.
    fn on_end(&mut self, _output: &mut Output) {}

    /// Prepares packets for sending. Returns false if a quick check finds nothing to send. The
    /// session `is_open` unless this end closes it.
    fn prepare(&mut self, ctx: &mut Context<'_>, is_open: bool) -> bool;

    /// Returns whether another attempt to send may succeed, although no datagram was written.
    fn is_stirred(&mut self, ctx: &mut Context<'_>, is_open: bool) -> bool;

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
        &mut self,
        ctx: &mut Context<'_>,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written>;

    /// Handles the departure of the packet that was written last.
    fn on_packet_sent(&mut self, ctx: &mut Context<'_>, id: PathId, packet: &SentPacket);

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

    /// Serves the timers of the receiving end.
    fn on_receive_timeout(&mut self, _now: Instant, _output: &mut Output) {}

    /// Serves those timers of an open session that come before the paths'.
    fn before_path_timeouts(&mut self, now: Instant, output: &mut Output);

    /// Serves those timers of an open session that depend on round-trip times, rates and windows,
    /// which the paths' timers change.
    fn after_path_timeouts(&mut self, ctx: &mut Context<'_>);

    /// Handles packets that a path's loss timer has declared lost.
    fn on_loss_timeout(&mut self, ctx: &mut Context<'_>, id: PathId, digest: &Digest);

    /// Handles an expired timer of a path's controller.
    fn on_controller_timeout(&mut self, _ctx: &mut Context<'_>) {}

    /// Serves those timers of a path that [`Hooks::consider_path`] names.
    fn on_path_timeout(session: &mut Session<Self>, now: Instant, id: PathId);

    /// Checks the invariants of the content.
    #[cfg(any(debug_assertions, feature = "invariants"))]
    fn check(&self, paths: &[Path], checker: &mut Checker);
}
