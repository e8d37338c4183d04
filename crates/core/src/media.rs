//! The media session: frames in, fragments over the paths, frames out.

use core::fmt;

/// Names a frame of a session: consecutive from zero in the order of sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u64);

impl fmt::Display for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which piece of which frame a datagram carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentHeader {
    pub(crate) frame: FrameId,
    pub(crate) fragment: u16,
    pub(crate) fragment_count: u16,
    pub(crate) is_key: bool,
}
