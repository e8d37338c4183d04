//! Rate samples of trains: packets that left without a pause between them.
//!
//! Ours, for `live-bbr` and sources with a rate of their own. A rate sample over a round trip
//! contains the pauses between pictures; a train contains none. Its rate is its bytes over the
//! longer of the times in which it was sent and in which it arrived: the spacing of arrivals that
//! were delayed together is no measurement. Jitter may have shortened that time, and is added.
//!
//! The ordinary sample, restricted to intervals without idleness, does not suffice: its interval of
//! acknowledgements begins when the sender stops being idle, a round trip before the first one.
//!
//! Where an encoder follows the target, trains show too much: the path's capacity while others
//! pause. Where there is another path, unsent packets can still take it: pictures wait for the rate
//! that samples over a round trip show.

use anabranch_core::recovery::{AckedPacket, Feedback, RttEstimator};
use anabranch_core::{PathState, PathView};
use anabranch_units::{DataRate, Duration, Instant};

use super::profile::AppLimitedSamples;
use super::{DELIVERED_AS_SENT, DelayBbr};

/// Packets of the newest train that have arrived.
#[derive(Clone, Copy, Debug)]
struct Train {
    /// Its number, modulo a few.
    number: u8,
    first_sent_at: Instant,
    last_sent_at: Instant,
    first_received_at: Instant,
    last_received_at: Instant,
    /// Bytes behind the first packet.
    bytes: u64,
    /// Bytes of the newest packets, whose arrival times were lost with a report.
    untimed_bytes: u64,
}

/// Sample that a train gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TrainSample {
    /// Least bandwidth of the path.
    rate: DataRate,
    /// Whether it was delivered slower than it was sent: the path was full meanwhile.
    is_slowed: bool,
}

impl Train {
    fn begin(packet: &AckedPacket, received_at: Instant) -> Self {
        Train {
            number: packet.sent.delivery.train,
            first_sent_at: packet.sent.sent_at,
            last_sent_at: packet.sent.sent_at,
            first_received_at: received_at,
            last_received_at: received_at,
            bytes: 0,
            untimed_bytes: 0,
        }
    }

    /// Whether the packet belongs to it, and is not too far behind its beginning.
    fn has(&self, packet: &AckedPacket, longest: Duration) -> bool {
        let lasts = packet.sent.sent_at.saturating_since(self.first_sent_at);
        packet.sent.delivery.train == self.number && lasts <= longest
    }

    fn extend(&mut self, packet: &AckedPacket, received_at: Instant) {
        // A packet that was declared lost is no part of a later train.
        if packet.sent.sent_at < self.last_sent_at {
            return;
        }
        self.bytes += u64::from(packet.sent.bytes) + core::mem::take(&mut self.untimed_bytes);
        self.last_sent_at = packet.sent.sent_at;
        self.first_received_at = self.first_received_at.min(received_at);
        self.last_received_at = self.last_received_at.max(received_at);
    }

    /// Returns the sample. `uncertainty` is the time by which jitter may have shortened it.
    fn sample(&self, uncertainty: Duration) -> TrainSample {
        let sent_in = self.last_sent_at.saturating_since(self.first_sent_at);
        let received_in = self
            .last_received_at
            .saturating_since(self.first_received_at);
        let longer = sent_in.max(received_in) + uncertainty;
        TrainSample {
            rate: DataRate::from_bytes_per(self.bytes, longer),
            is_slowed: received_in > sent_in.mul_f64(1.0 / DELIVERED_AS_SENT) + uncertainty,
        }
    }
}

/// Newest train of an application-limited sender.
#[derive(Debug, Default)]
pub(super) struct Trains {
    newest: Option<Train>,
    /// Whether a train of the current round was slowed.
    is_slowed: bool,
}

impl Trains {
    /// Adds a packet. A train that lasts for `longest` is a sufficient sample; later packets form
    /// another train.
    fn on_acked(&mut self, packet: &AckedPacket, longest: Duration) {
        let newest = self
            .newest
            .as_mut()
            .filter(|train| train.has(packet, longest));
        match (newest, packet.received_at) {
            (Some(train), Some(received_at)) => train.extend(packet, received_at),
            (Some(train), None) if packet.sent.sent_at >= train.last_sent_at => {
                train.untimed_bytes += u64::from(packet.sent.bytes);
            }
            (None, Some(received_at)) => self.newest = Some(Train::begin(packet, received_at)),
            (_, None) => {}
        }
    }

    /// Returns whether a train has been slowed since the last call.
    pub(super) fn take_slowed(&mut self) -> bool {
        core::mem::take(&mut self.is_slowed)
    }
}

impl DelayBbr {
    /// Records the samples of trains while the sender is application-limited.
    pub(super) fn on_trains(&mut self, feedback: &Feedback<'_>, paths: &[PathView]) {
        let is_ours = self.profile.app_limited_samples == AppLimitedSamples::OnlyRaise;
        if !is_ours || !self.opening.is_of_fixed_source() {
            return;
        }
        let is_only = paths
            .iter()
            .filter(|path| path.state == PathState::Active)
            .count()
            <= 1;
        if !feedback.is_app_limited || !is_only {
            self.trains.newest = None;
            return;
        }
        // Longer trains fill whole samples.
        let longest = self.min_rtt.or_initial();
        for packet in feedback.acked {
            self.trains.on_acked(packet, longest);
        }
        // The first flight is sent at once, so its train does not count.
        if self.bandwidth.max().is_zero() {
            return;
        }
        let Some(train) = self.trains.newest else {
            return;
        };
        let sample = train.sample(self.noise.jitter.max(RttEstimator::GRANULARITY));
        self.trains.is_slowed |= sample.is_slowed;
        self.bandwidth.raise(sample.rate);
    }
}
