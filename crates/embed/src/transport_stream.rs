//! MPEG-TS in pieces of any size, as frames.

use anabranch_video::mpeg_ts::{TransportUnit, TransportUnitSplitter};

/// Most bytes that a piece of a stream may have: more would be held at once.
pub(crate) const MAX_PIECE_BYTES: usize = 64 << 20;

/// Cuts a live transport stream into its pictures.
#[derive(Debug)]
pub(crate) struct TransportStream {
    splitter: TransportUnitSplitter,
}

impl Default for TransportStream {
    fn default() -> Self {
        TransportStream {
            splitter: TransportUnitSplitter::live(),
        }
    }
}

impl TransportStream {
    /// Takes the stream's next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.splitter.push(bytes);
    }

    /// Returns the next picture with its tables and sound, once it is whole.
    pub(crate) fn next(&mut self) -> Option<TransportUnit> {
        self.splitter.next_unit()
    }

    /// Returns the next part of the rest once the stream has ended.
    pub(crate) fn finish(&mut self) -> Option<TransportUnit> {
        self.splitter.finish()
    }

    /// Returns the part that has come of the incomplete picture, at the end of the stream.
    pub(crate) fn rest(&mut self) -> Option<TransportUnit> {
        self.splitter.flush()
    }
}
