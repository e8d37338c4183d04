//! What is lost with a frame of video.

/// How much depends on a frame, from most to least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Importance {
    /// Decoding can start here: all frames up to the next key frame need it.
    Key,
    /// Later frames are predicted from it.
    #[default]
    Reference,
    /// No other frame needs it, as most B-frames.
    Disposable,
}

impl Importance {
    /// What is known of a frame of which only this is known: other frames are taken for references.
    pub const fn key_if(is_key: bool) -> Self {
        match is_key {
            true => Importance::Key,
            false => Importance::Reference,
        }
    }

    /// Whether decoding can start here.
    pub const fn is_key(self) -> bool {
        matches!(self, Importance::Key)
    }
}
