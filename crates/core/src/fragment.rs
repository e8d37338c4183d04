//! Names of frames and their fragments, and edges of messages, by which all layers refer to them.

use core::fmt;
use core::ops::Range;

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

/// Which bytes of which frame a datagram carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentHeader {
    pub(crate) frame: FrameId,
    /// Position of the first byte in the frame.
    pub(crate) offset: u32,
    /// Whether the frame ends behind these bytes. Only then there may be none.
    pub(crate) ends_frame: bool,
    pub(crate) importance: Importance,
}

impl FragmentHeader {
    /// Returns whether a fragment may have this payload: only one that ends a frame with bytes may
    /// be empty.
    pub(crate) fn admits(&self, payload: &[u8]) -> bool {
        !payload.is_empty() || (self.ends_frame && self.offset > 0)
    }
}

/// Edges of its message that a segment has: both, unless it was cut again. Segments of a stream
/// without messages have both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edges {
    pub(crate) begins: bool,
    pub(crate) ends: bool,
}

impl Edges {
    pub(crate) const WHOLE: Edges = Edges {
        begins: true,
        ends: true,
    };

    /// Returns the edges of both parts of a segment that is cut.
    pub(crate) fn cut(self) -> (Edges, Edges) {
        let first = Edges {
            ends: false,
            ..self
        };
        let second = Edges {
            begins: false,
            ..self
        };
        (first, second)
    }

    /// Returns the edges of a part of the segment `whole`.
    pub(crate) fn of_part(self, whole: &Range<u64>, part: &Range<u64>) -> Edges {
        Edges {
            begins: self.begins && part.start == whole.start,
            ends: self.ends && part.end == whole.end,
        }
    }
}
