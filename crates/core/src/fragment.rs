//! Names of frames and of their fragments, by which all layers refer to them.

use core::fmt;

use anabranch_units::Importance;

/// Names a frame of a session: consecutive from zero in the order of sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u64);

impl fmt::Display for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A fragment of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentId {
    pub(crate) frame: FrameId,
    pub(crate) fragment: u16,
}

/// Which piece of which frame a datagram carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentHeader {
    pub(crate) frame: FrameId,
    pub(crate) fragment: u16,
    pub(crate) fragment_count: u16,
    pub(crate) importance: Importance,
}

/// One half of a fragment. The first one is a byte longer if their lengths differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The first.
    First,
    /// The rest.
    Second,
}

impl Half {
    /// Returns the other half.
    pub const fn other(self) -> Half {
        match self {
            Half::First => Half::Second,
            Half::Second => Half::First,
        }
    }

    /// Returns this half of a fragment's payload.
    pub(crate) fn of(self, payload: &[u8]) -> &[u8] {
        let (first, second) = payload.split_at(payload.len().div_ceil(2));
        match self {
            Half::First => first,
            Half::Second => second,
        }
    }
}
