//! Parts of a stream that belong together, and the requests of the transport to an encoder.

use anabranch_core::Frame;
use anabranch_units::{DataRate, Importance, Instant};
use anabranch_video::arrival_times::ArrivalTimes;
use anabranch_video::null_packets;

/// A picture, or another part of a stream that belongs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// MPEG-TS.
    pub bytes: Vec<u8>,
    /// Importance for the decoding of other units.
    pub importance: Importance,
    /// Arrival times of its packets; `None`: unknown, so the receiver spaces them evenly.
    pub arrivals: Option<ArrivalTimes>,
}

impl Unit {
    /// Returns the frame that carries the unit, captured at `captured_at`, and the number of null
    /// packets that were left out of it.
    pub fn into_frame(mut self, captured_at: Instant) -> (Frame, u64) {
        let mut times = Vec::new();
        if let Some(arrivals) = &self.arrivals {
            arrivals.append_to(&mut times);
        }
        let null_count = null_packets::append_times(&mut self.bytes, &times);
        let frame = Frame {
            bytes: self.bytes.into(),
            importance: self.importance,
            captured_at,
            lifetime: None,
        };
        (frame, null_count)
    }
}

/// Requests of the transport to an encoder.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Target bitrate.
    pub bitrate: DataRate,
    /// Whether the next frame must be a key frame, after a loss or for a new viewer.
    pub is_key: bool,
}
