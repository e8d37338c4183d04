//! The network path model (§5.5): bandwidth, aggregation, and bounds by losses.

use anabranch_core::recovery::{Feedback, SentPacket};
use anabranch_units::{DataRate, Instant};

use super::{
    BETA, Bbr3, EXTRA_ACKED_ROUNDS, EXTRA_ACKED_ROUNDS_IN_STARTUP, LOSS_THRESHOLD, Sample, State,
    UNBOUNDED,
};

/// State that is restored after a spurious recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    pub(super) state: Option<State>,
    pub(super) bw_shortterm: DataRate,
    pub(super) inflight_shortterm: u64,
    pub(super) inflight_longterm: u64,
}

impl Default for Undo {
    fn default() -> Self {
        Undo {
            state: None,
            bw_shortterm: DataRate::MAX,
            inflight_shortterm: UNBOUNDED,
            inflight_longterm: UNBOUNDED,
        }
    }
}

impl Bbr3 {
    /// `UpdateRound`.
    pub(super) fn update_round(&mut self, sample: &Sample) {
        self.is_round_start = sample.prior_delivered >= self.next_round_delivered;
        if self.is_round_start {
            self.start_round();
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
            self.extra_acked.on_round(None);
        }
    }

    /// `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest_delivery_signals(&mut self, sample: &Sample) {
        self.is_loss_round_start = sample.prior_delivered >= self.loss_round_delivered;
        self.bw_latest = self.bw_latest.max(sample.delivery_rate);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        if self.is_loss_round_start {
            self.loss_round_delivered = self.delivered;
        }
    }

    /// `UpdateCongestionSignals`.
    pub(super) fn update_congestion_signals(&mut self, sample: &Sample) {
        let rate = sample.delivery_rate;
        if !rate.is_zero() && (rate >= self.max_bw.max() || !sample.is_app_limited) {
            self.max_bw.push(rate);
        }
        if !self.is_loss_round_start {
            return;
        }
        if self.is_loss_in_round && !self.is_probing_bw() {
            self.adapt_lower_bounds();
        }
        self.is_loss_in_round = false;
    }

    /// `InitLowerBounds` and `LossLowerBounds`.
    fn adapt_lower_bounds(&mut self) {
        if self.bw_shortterm == DataRate::MAX {
            self.bw_shortterm = self.max_bw.max();
        }
        if self.inflight_shortterm == UNBOUNDED {
            self.inflight_shortterm = self.cwnd;
        }
        self.bw_shortterm = self.bw_latest.max(self.bw_shortterm.mul_f64(BETA));
        let reduced = (BETA * self.inflight_shortterm as f64) as u64;
        self.inflight_shortterm = self.inflight_latest.max(reduced);
    }

    /// `ResetShortTermModel`.
    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = DataRate::MAX;
        self.inflight_shortterm = UNBOUNDED;
    }

    /// `ResetCongestionSignals`.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = DataRate::ZERO;
        self.inflight_latest = 0;
    }

    /// `UpdateACKAggregation`.
    pub(super) fn update_ack_aggregation(&mut self, now: Instant, sample: &Sample) {
        let interval = now.saturating_since(self.extra_acked_began_at);
        let mut expected = self.bw.bytes_in(interval);
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = 0;
            self.extra_acked_began_at = now;
            expected = 0;
        }
        self.extra_acked_delivered += sample.newly_acked;
        let extra = self.extra_acked_delivered.saturating_sub(expected);
        self.extra_acked.set_window(if self.full_bw.is_reached {
            EXTRA_ACKED_ROUNDS
        } else {
            EXTRA_ACKED_ROUNDS_IN_STARTUP
        });
        self.extra_acked.push(extra.min(self.cwnd));
    }

    /// Handles losses, and spurious ones.
    pub(super) fn on_losses(&mut self, now: Instant, feedback: &Feedback<'_>) {
        let lost = feedback.lost.iter();
        let newly_lost: u64 = lost.map(|packet| u64::from(packet.bytes)).sum();
        let mut lost_bytes = feedback.lost_bytes.saturating_sub(newly_lost);
        for packet in feedback.lost {
            lost_bytes += u64::from(packet.bytes);
            self.on_lost_packet(now, packet, lost_bytes);
        }
        let spurious_count = feedback.spurious.len() as u64;
        if spurious_count > 0 && self.recovery.on_spurious(spurious_count) {
            self.on_spurious_recovery();
        }
    }

    /// `HandleLostPacket`, with all bytes lost so far, this packet included.
    fn on_lost_packet(&mut self, now: Instant, packet: &SentPacket, lost_bytes: u64) {
        self.note_loss(packet);
        if !self.is_bw_probe_sample {
            return;
        }
        let lost = lost_bytes.saturating_sub(packet.delivery.lost_bytes);
        if is_inflight_too_high(lost, packet.bytes_in_flight) {
            let inflight = inflight_at_loss(packet, lost);
            self.on_inflight_too_high(now, inflight, packet.delivery.is_app_limited);
        }
    }

    /// `NoteLoss`, and `OnEnterFastRecovery`.
    fn note_loss(&mut self, packet: &SentPacket) {
        if !self.recovery.is_active() {
            self.save_state_upon_loss();
        }
        self.recovery.on_lost(1, self.next_packet_number);
        if !self.is_loss_in_round {
            self.loss_round_delivered = self.delivered;
        }
        self.is_loss_in_round = true;
        let number = packet.packet_number;
        let is_new_range = self.last_lost.is_none_or(|last| number != last + 1);
        self.lost_ranges_in_round = self
            .lost_ranges_in_round
            .saturating_add(u32::from(is_new_range));
        self.last_lost = Some(number);
    }

    /// `HandleInflightTooHigh`.
    pub(super) fn on_inflight_too_high(
        &mut self,
        now: Instant,
        inflight: u64,
        is_app_limited: bool,
    ) {
        self.is_prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !is_app_limited {
            let reduced = (BETA * self.target_inflight() as f64) as u64;
            self.inflight_longterm = inflight.max(reduced);
        }
        if self.state == State::ProbeBwUp {
            self.undo.state = Some(State::ProbeBwUp);
            self.start_probe_bw_down(now);
        }
    }

    /// `SaveStateUponLoss`.
    pub(super) fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo = Undo {
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// `HandleSpuriousLossDetection`.
    fn on_spurious_recovery(&mut self) {
        self.restore_cwnd();
        self.is_loss_in_round = false;
        self.reset_full_bw(DataRate::ZERO);
        self.bw_shortterm = self.bw_shortterm.max(self.undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo.inflight_longterm);
        match self.undo.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw.is_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::ProbeBwUp) if !matches!(self.state, State::ProbeBwUp | State::ProbeRtt) => {
                self.start_probe_bw_refill();
            }
            _ => {}
        }
    }
}

/// `IsInflightTooHigh`.
pub(super) fn is_inflight_too_high(lost: u64, tx_in_flight: u64) -> bool {
    lost as f64 > tx_in_flight as f64 * LOSS_THRESHOLD
}

/// `InflightAtLoss`: the bytes in flight when the losses crossed the threshold, perhaps within this
/// packet.
pub(super) fn inflight_at_loss(packet: &SentPacket, lost: u64) -> u64 {
    let size = u64::from(packet.bytes);
    let inflight_prev = packet.bytes_in_flight.saturating_sub(size) as f64;
    let lost_prev = lost.saturating_sub(size) as f64;
    let lost_prefix = (LOSS_THRESHOLD * inflight_prev - lost_prev) / (1.0 - LOSS_THRESHOLD);
    (inflight_prev + lost_prefix).max(0.0) as u64
}
