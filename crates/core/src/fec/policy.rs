//! Policies of forward error correction: the trait.
//!
//! The policies themselves are in a crate of their own, `anabranch-schedulers`; the session is
//! handed a [`FecPolicyFactory`] and knows none of them.

use core::fmt::Debug;

use anabranch_units::{Importance, Instant};

use crate::factory::Factory;
use crate::fragment::FrameId;
use crate::path_view::PathView;
use crate::session_view::SessionView;

/// The policy of a configuration.
pub type FecPolicyFactory = Factory<dyn FecPolicy>;

/// Chooses the repairs of frames, from its inputs alone.
///
/// This one sends a repair with each key frame:
///
/// ```
/// use anabranch_core::fec::{FecPolicy, FecPolicyFactory, FrameToProtect, Protection};
/// use anabranch_core::{MediaConfig, PathView, SessionView};
/// use anabranch_units::Instant;
///
/// #[derive(Debug)]
/// struct KeyFrames;
///
/// impl FecPolicy for KeyFrames {
///     fn protect(
///         &mut self,
///         _now: Instant,
///         frame: &FrameToProtect,
///         _session: &SessionView,
///         _paths: &[PathView],
///     ) -> Protection {
///         Protection::of_frame(u16::from(frame.importance.is_key()))
///     }
/// }
///
/// let policy = FecPolicyFactory::new("key-frames", || Box::new(KeyFrames));
/// let media = MediaConfig { fec: Some(policy), ..MediaConfig::default() };
/// assert_ne!(media, MediaConfig::default());
/// ```
pub trait FecPolicy: Debug + Send {
    /// Returns the repairs of `frame`, which has just been queued. Called once for each frame, in
    /// the order of sending. The session sends fewer if the budget is spent.
    fn protect(
        &mut self,
        now: Instant,
        frame: &FrameToProtect,
        session: &SessionView,
        paths: &[PathView],
    ) -> Protection;
}

/// A frame that a policy is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameToProtect {
    /// Which frame.
    pub id: FrameId,
    /// Effect of its loss.
    pub importance: Importance,
    /// Number of its symbols, one a fragment; at least one.
    pub symbol_count: u16,
    /// Its bytes of payload.
    pub bytes: u32,
    /// When it is of no use any more, or, for a key frame, shown late.
    pub deadline: Instant,
}

/// The repairs that a frame gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Repairs over the frame's own symbols.
    pub frame_repairs: u16,
    /// Repairs over the last symbols, whatever their frames.
    pub window: Option<SlidingWindow>,
}

impl Protection {
    /// No repairs.
    pub const NONE: Protection = Protection {
        frame_repairs: 0,
        window: None,
    };

    /// Returns a protection of `repairs` repairs over the frame's own symbols.
    pub const fn of_frame(repairs: u16) -> Self {
        Protection {
            frame_repairs: repairs,
            window: None,
        }
    }

    /// Returns a protection by repairs over the last symbols.
    pub const fn of_window(window: SlidingWindow) -> Self {
        Protection {
            frame_repairs: 0,
            window: Some(window),
        }
    }

    /// Returns the number of all these repairs.
    pub fn repair_count(&self) -> u16 {
        let of_window = self.window.map_or(0, |window| window.repairs);
        self.frame_repairs.saturating_add(of_window)
    }
}

/// Repairs over the last symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    /// Number of symbols that each covers, those of the frame included.
    pub symbols: u16,
    /// Number of repairs.
    pub repairs: u16,
}
