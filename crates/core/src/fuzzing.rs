//! Access to private parts for fuzz targets; exists only in their builds.

use anabranch_units::Instant;

use crate::wire::{self, FeedbackReport};

/// Reads `bytes` as a datagram to its end.
pub fn decode_datagram(bytes: &[u8]) {
    let Ok((_, mut frames)) = wire::decode(bytes) else {
        return;
    };
    let mut report = FeedbackReport::default();
    while let Some(frame) = frames.next(&mut report) {
        if let Ok(wire::WireFrame::Feedback { .. }) = frame {
            report.expand(1_000, Instant::from_secs(1));
            assert!(report.contains(report.largest()));
            for packet_number in 0..2_000 {
                let has_arrival_time = report.held_back(packet_number).is_some();
                assert!(!has_arrival_time || report.contains(packet_number));
            }
        }
    }
}
