//! MPEG transport streams (ISO/IEC 13818-1, ITU-T H.222.0): writing one from access units, and
//! carrying one verbatim, split at the access units of its video.

mod clock;
mod elementary;
mod packet;
mod pes;
mod pictures;
mod splitter;
mod tables;
mod timeline;
mod writer;

pub use clock::TICKS_PER_SECOND;
pub use elementary::{ElementaryReader, ElementaryUnit, Track};
pub use pictures::{ExtractedPicture, PictureExtractor};
pub use splitter::{MAX_UNIT_LEN, PictureProgress, TransportUnit, TransportUnitSplitter};
pub use tables::{AudioCodec, VideoCodec};
pub use writer::TransportStreamWriter;

/// Length of a transport packet in bytes.
pub const PACKET_LEN: usize = 188;

/// The first byte of every transport packet.
pub const SYNC_BYTE: u8 = 0x47;
