//! ProbeBW (§5.3.3): DOWN, CRUISE, REFILL, UP.

use anabranch_units::{Duration, Instant};

use super::{AckPhase, Bbr3, HEADROOM, Sample, State, UNBOUNDED, is_inflight_too_high};

/// Least wait by the wall clock; up to a second is added.
const MIN_PROBE_WAIT: Duration = Duration::from_secs(2);
/// Reno's rounds between losses, capped.
const MAX_RENO_ROUNDS: u64 = 63;
/// Bound of `bw_probe_up_rounds`.
const MAX_UP_ROUNDS: u32 = 30;

impl Bbr3 {
    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_probe_bw_cycle_phase(&mut self, now: Instant, sample: &Sample) {
        if !self.full_bw.is_reached || self.adapt_long_term_model(sample) {
            return;
        }
        let state = self.state;
        match state {
            State::ProbeBwDown => {
                if self.is_time_to_probe(now) {
                    self.start_probe_bw_refill();
                } else if self.is_time_to_cruise() {
                    self.state = State::ProbeBwCruise;
                }
            }
            State::ProbeBwCruise if self.is_time_to_probe(now) => self.start_probe_bw_refill(),
            State::ProbeBwRefill if self.is_round_start => {
                self.is_bw_probe_sample = true;
                self.start_probe_bw_up(sample);
            }
            State::ProbeBwUp if self.is_time_to_go_down(sample) => {
                self.is_prev_probe_too_high = false;
                self.start_probe_bw_down(now);
            }
            _ => {}
        }
    }

    /// `StartProbeBW_DOWN`.
    pub(super) fn start_probe_bw_down(&mut self, now: Instant) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = UNBOUNDED;
        // `PickProbeWait`.
        self.rounds_since_probe_up = self.rng.below(2);
        self.bw_probe_wait = MIN_PROBE_WAIT + Duration::from_secs(1).mul_f64(self.rng.next_f64());
        self.cycle_at = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = State::ProbeBwDown;
    }

    /// `StartProbeBW_REFILL`.
    pub(super) fn start_probe_bw_refill(&mut self) {
        self.reset_short_term_model();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = 0;
        self.is_prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::ProbeBwRefill;
    }

    /// `StartProbeBW_UP`.
    fn start_probe_bw_up(&mut self, sample: &Sample) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.reset_full_bw(sample.delivery_rate);
        self.state = State::ProbeBwUp;
        self.raise_inflight_longterm_slope();
    }

    /// `IsTimeToProbeBW`: by the clock, or as often as Reno would lose.
    pub(super) fn is_time_to_probe(&self, now: Instant) -> bool {
        let reno_rounds = self.target_inflight() / self.packet_bytes;
        now > self.cycle_at + self.bw_probe_wait
            || self.rounds_since_probe_up >= reno_rounds.min(MAX_RENO_ROUNDS)
    }

    /// `IsTimeToCruise`.
    pub(super) fn is_time_to_cruise(&self) -> bool {
        self.bytes_in_flight <= self.inflight_with_headroom()
            && self.bytes_in_flight <= self.inflight(self.max_bw.max(), 1.0)
    }

    /// `IsTimeToGoDown`.
    fn is_time_to_go_down(&mut self, sample: &Sample) -> bool {
        if self.is_prev_probe_too_high && self.bytes_in_flight >= self.inflight_longterm {
            self.is_prev_probe_precautionary = true;
            return true;
        }
        if self.is_bound_by_inflight_longterm() {
            self.reset_full_bw(sample.delivery_rate);
            return false;
        }
        self.full_bw.is_now
    }

    fn is_bound_by_inflight_longterm(&self) -> bool {
        self.is_cwnd_limited.contains(&true) && self.cwnd >= self.inflight_longterm
    }

    /// `TargetInflight`.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp.min(self.cwnd)
    }

    /// `InflightWithHeadroom`.
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = (HEADROOM * self.inflight_longterm as f64) as u64;
        self.inflight_longterm
            .saturating_sub(headroom.max(self.packet_bytes))
            .max(self.min_pipe_cwnd())
    }

    /// `RaiseInflightLongtermSlope`.
    pub(super) fn raise_inflight_longterm_slope(&mut self) {
        let growth_this_round = 1_u64 << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(MAX_UP_ROUNDS);
        self.probe_up_acked_per_inc = (self.cwnd / growth_this_round).max(self.packet_bytes);
    }

    /// `ProbeInflightLongtermUpward`.
    fn probe_inflight_longterm_upward(&mut self, sample: &Sample) {
        if !self.is_bound_by_inflight_longterm() {
            return;
        }
        self.bw_probe_up_acked = self.bw_probe_up_acked.saturating_add(sample.newly_acked);
        let increments = self.bw_probe_up_acked / self.probe_up_acked_per_inc;
        self.bw_probe_up_acked %= self.probe_up_acked_per_inc;
        let grown = increments.saturating_mul(self.packet_bytes);
        self.inflight_longterm = self.inflight_longterm.saturating_add(grown);
        if self.is_round_start {
            self.raise_inflight_longterm_slope();
        }
    }

    /// `AdaptLongTermModel`. Returns whether it has decided on a transition.
    pub(super) fn adapt_long_term_model(&mut self, sample: &Sample) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.is_round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.is_round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.is_in_probe_bw() && !sample.is_app_limited {
                self.max_bw.on_round(None);
            }
            let is_safe = self.is_prev_probe_precautionary && !self.is_prev_probe_too_high;
            if self.is_in_probe_bw() && is_safe {
                self.start_probe_bw_refill();
                return true;
            }
        }
        if !is_inflight_too_high(sample.lost, sample.tx_in_flight)
            && self.inflight_longterm != UNBOUNDED
        {
            self.inflight_longterm = self.inflight_longterm.max(sample.tx_in_flight);
            if self.state == State::ProbeBwUp {
                self.probe_inflight_longterm_upward(sample);
            }
        }
        false
    }
}
