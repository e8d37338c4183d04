//! Importance of a frame of video.

/// Importance of a frame for other frames, from most to least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Importance {
    /// Decoding can start here: all frames up to the next key frame need it.
    Key,
    /// Later frames are predicted from it.
    #[default]
    Reference,
    /// No other frame needs it, as with most B-frames.
    Disposable,
}

impl Importance {
    /// Returns the importance of a frame if only `is_key` is known: other frames count as
    /// references.
    pub const fn key_if(is_key: bool) -> Self {
        if is_key {
            Importance::Key
        } else {
            Importance::Reference
        }
    }

    /// Returns whether decoding can start here.
    pub const fn is_key(self) -> bool {
        matches!(self, Importance::Key)
    }
}
