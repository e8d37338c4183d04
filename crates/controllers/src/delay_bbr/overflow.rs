//! Overflow of the buffer, shown by losses together with a long queue.

use anabranch_core::recovery::{AckedPacket, RateSample};
use anabranch_units::Duration;

use super::DELIVERED_AS_SENT;
use super::noise::Noise;
use super::probe_rtt::send_rate;

/// Least share of lost bytes in a round that shows an overflow. Delay is the main signal; this one
/// is for queues whose delay has been taken for the path's.
const LOSS_RATIO: f64 = 0.05;
/// Least round-trip time, as a multiple of the least ever. Below it the losses have no queue as
/// their cause.
const QUEUE_FACTOR: f64 = 1.25;
/// Rounds between an answer and the next look at losses.
const ROUNDS_TO_HELP: u64 = 4;
/// An answer has helped if it leaves less than this share of the losses.
const HELPFUL: f64 = 2.0 / 3.0;
/// Rounds in which losses that an answer did not lessen count as the path's own.
const ROUNDS_OF_PATIENCE: u64 = 40;

/// Distinguishes an overflowing buffer from a path that loses packets.
#[derive(Debug, Default)]
pub(super) struct Overflow {
    /// Least round-trip time ever seen on this path: no queue taken for it can raise it.
    least_rtt: Option<Duration>,
    stance: Stance,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stance {
    #[default]
    Watchful,
    /// The round before this one overflowed the buffer. Another flow may have caused one such
    /// round, and reacts itself: TCP fills a buffer and halves.
    Alarmed { round: u64 },
    /// An overflow has been answered; the effect shows in that round.
    Answered { until_round: u64, loss_ratio: f64 },
    /// The answer did not help: the path itself loses packets.
    Patient { until_round: u64 },
}

impl Overflow {
    pub(super) fn on_rtt(&mut self, rtt: Duration) {
        self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// Returns the path's least round-trip time if the round that `newest` has ended overflowed the
    /// buffer, after another. `lost_bytes` counts all losses.
    pub(super) fn on_round_end(
        &mut self,
        round: u64,
        newest: &AckedPacket,
        sample: &RateSample,
        lost_bytes: u64,
        noise: &Noise,
    ) -> Option<Duration> {
        let least = self.least_rtt?;
        let long = least.mul_f64(QUEUE_FACTOR).max(least + noise.jitter);
        let is_queue_long = noise.floor_of(newest.rtt?) > long;
        let lost_bytes = lost_bytes.saturating_sub(newest.sent.delivery.lost_bytes);
        let loss_ratio = lost_bytes as f64 / (lost_bytes + sample.delivered_bytes).max(1) as f64;
        let is_overflow = loss_ratio >= LOSS_RATIO && is_queue_long;
        self.stance = match self.stance {
            Stance::Answered { until_round, .. } | Stance::Patient { until_round }
                if round < until_round =>
            {
                return None;
            }
            Stance::Answered {
                loss_ratio: before, ..
            } if loss_ratio >= LOSS_RATIO.max(before * HELPFUL) => Stance::Patient {
                until_round: round + ROUNDS_OF_PATIENCE,
            },
            Stance::Alarmed { round: before } if is_overflow && round == before + 1 => {
                self.stance = Stance::Answered {
                    until_round: round + ROUNDS_TO_HELP,
                    loss_ratio,
                };
                return Some(least);
            }
            _ if is_overflow => Stance::Alarmed { round },
            _ => Stance::Watchful,
        };
        None
    }
}

/// Whether all bytes sent in the sample's interval were delivered: then the sample shows the send
/// rate, not the path.
pub(super) fn has_come_through(newest: &AckedPacket, sample: &RateSample) -> bool {
    let sent_rate = send_rate(&newest.sent);
    sample.min_of_send_and_ack_rate >= sent_rate.mul_f64(DELIVERED_AS_SENT)
}
