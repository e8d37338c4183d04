//! The bytes of a frame at the sender.

use core::ops::Deref;

use bytes::Bytes;

/// All bytes of a frame, shared with their source, or those so far of a frame that grows.
#[derive(Debug)]
pub(super) enum Content {
    Whole(Bytes),
    Growing(Vec<u8>),
}

impl Default for Content {
    fn default() -> Self {
        Content::Whole(Bytes::new())
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Content::Whole(bytes) => bytes,
            Content::Growing(bytes) => bytes,
        }
    }
}

impl Content {
    pub(super) fn is_growing(&self) -> bool {
        matches!(self, Content::Growing(_))
    }

    /// Returns the bytes, shared if there are no more to come.
    pub(super) fn to_bytes(&self) -> Bytes {
        match self {
            Content::Whole(bytes) => bytes.clone(),
            Content::Growing(bytes) => Bytes::copy_from_slice(bytes),
        }
    }

    /// Appends to a frame that grows.
    pub(super) fn extend(&mut self, more: &[u8]) {
        if let Content::Growing(bytes) = self {
            bytes.extend_from_slice(more);
        }
    }

    /// Ends the growth.
    pub(super) fn finish(&mut self) {
        if let Content::Growing(bytes) = self {
            *self = Content::Whole(core::mem::take(bytes).into());
        }
    }
}
