//! Reinjection of a stream's segments as the session sees it: when segments in flight on one path
//! are sent on another as well.
//!
//! The session's own policy is [`Reinjection::Tail`]. Published ones are in a crate of their own,
//! `anabranch-schedulers`; the session is handed a [`ReinjectorFactory`] and knows none of them.

use core::fmt::Debug;

use anabranch_units::{Duration, Instant};

use crate::factory::Factory;
use crate::path_view::{PathId, PathSet, PathView};

/// When a segment that is in flight on one path is sent on another as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reinjection {
    /// Never.
    Off,
    /// When nothing else can be sent: a path with room takes a copy of each segment in flight that
    /// it delivers earlier, by the forecasts of both, and bound segments move there for the same
    /// reason. While no path has answered, the first segments leave on all paths. Copies of
    /// segments that are not overdue have a budget.
    #[default]
    Tail,
    /// When a published algorithm asks for it.
    By(ReinjectorFactory),
}

/// The reinjector of a configuration.
pub type ReinjectorFactory = Factory<dyn Reinjector>;

/// Asks for copies of segments that are in flight.
///
/// This one copies the awaited segment to the first path that has room:
///
/// ```
/// use anabranch_core::reinjection::{
///     Occasion, Reinjection, Reinjector, ReinjectorFactory, Request, Segments,
/// };
/// use anabranch_core::PathView;
/// use anabranch_units::Instant;
///
/// #[derive(Debug)]
/// struct Awaited;
///
/// impl Reinjector for Awaited {
///     fn reinject(
///         &mut self,
///         _now: Instant,
///         _occasion: Occasion,
///         segments: &Segments,
///         paths: &[PathView],
///         out: &mut Vec<Request>,
///     ) {
///         let Some(awaited) = segments.awaited else {
///             return;
///         };
///         let free = |path: &&PathView| path.sendable_bytes > 0;
///         if let Some(path) = paths.iter().find(free) {
///             out.push(Request::Copy { by: path.id, below: awaited.end });
///         }
///     }
/// }
///
/// let awaited = ReinjectorFactory::new("awaited", || Box::new(Awaited));
/// assert_ne!(Reinjection::By(awaited), Reinjection::Off);
/// ```
pub trait Reinjector: Debug + Send {
    /// Asks for copies on paths that have room, in the order of `out`. It is called with several
    /// paths only, while one of them has room.
    fn reinject(
        &mut self,
        now: Instant,
        occasion: Occasion,
        segments: &Segments,
        paths: &[PathView],
        out: &mut Vec<Request>,
    );

    /// Returns whether it is called before new segments are bound, too ([`Occasion::NewSegments`]).
    fn precedes_new_segments(&self) -> bool {
        false
    }

    /// Records that the receiver's application can play for `left` without further data. Returns
    /// whether it may ask for copies now.
    fn on_play_time_left(&mut self, _now: Instant, _left: Duration, _paths: &[PathView]) -> bool {
        false
    }
}

/// Why a [`Reinjector`] is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Nothing else can be sent, though a path has room.
    NothingElse,
    /// New or lost segments are about to be bound to paths.
    NewSegments,
}

/// State of a stream's segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Everything below this offset has arrived.
    pub acked_offset: u64,
    /// The first offset that waits or has never been bound to a path; `None` if there is none.
    pub unsent_offset: Option<u64>,
    /// Whether only the peer's full window keeps bytes back.
    pub is_window_full: bool,
    /// The first segment that has not arrived, if its only copy is in flight.
    pub awaited: Option<Awaited>,
    /// The most bytes of a packet on the wire.
    pub max_packet_bytes: u32,
}

/// Segment for which the receiver waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The offset behind it.
    pub end: u64,
    /// Path on which its copy is in flight.
    pub in_flight_on: PathSet,
}

/// A request of a [`Reinjector`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Copies, as far as the path has room, of segments in flight on other paths alone. A segment
    /// is copied once.
    Copy {
        /// The path that takes the copies.
        by: PathId,
        /// Only segments that begin below this offset are copied.
        below: u64,
    },
    /// A penalty of a path that delays data for which the peer's full window waits. Its controller
    /// gets it by [`on_penalty`](crate::control::CongestionController::on_penalty).
    Penalise(PathId),
}
