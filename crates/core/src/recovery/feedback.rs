//! A controller's input from a digested report.

use anabranch_units::Instant;

use super::{AckedPacket, RateSample, RttEstimator, SentPacket};
use crate::path_view::PathId;

/// One feedback report, digested.
#[derive(Debug)]
pub struct Feedback<'a> {
    /// Which path it is about.
    pub path: PathId,
    /// Packets newly acknowledged, in the order of their numbers.
    pub acked: &'a [AckedPacket],
    /// Packets newly declared lost, in the order of their numbers. They have left flight.
    pub lost: &'a [SentPacket],
    /// Packets declared lost before that have arrived after all; they are in `acked` too.
    pub spurious: &'a [AckedPacket],
    /// The path's round-trip time, this report included.
    pub rtt: &'a RttEstimator,
    /// The delivery-rate sample of this report, if it gave a valid one.
    pub delivery: Option<RateSample>,
    /// Bytes in flight before this report.
    pub prior_bytes_in_flight: u64,
    /// Bytes in flight after this report.
    pub bytes_in_flight: u64,
    /// All bytes ever delivered on the path, this report included.
    pub delivered_bytes: u64,
    /// All bytes ever declared lost on the path, this report included.
    pub lost_bytes: u64,
    /// Whether the sender has had too little to send when the newest acknowledged packet left.
    pub is_app_limited: bool,
    /// Whether only the window kept the sender from sending since the last report.
    pub is_window_limited: bool,
    /// When the receiver made the report, by the receiver's clock.
    pub reported_at: Instant,
    /// Packets acknowledged by this report that carried the mark Congestion Experienced.
    pub ce_count: u64,
}
