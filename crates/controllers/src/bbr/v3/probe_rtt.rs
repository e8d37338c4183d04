//! The least round-trip time, and ProbeRTT (§5.3.4).

use anabranch_units::{Duration, Instant};

use super::{AckPhase, Bbr3, PROBE_RTT_CWND_GAIN, Sample, State};
use crate::bbr::{MIN_RTT_EXPIRY, PROBE_RTT_DURATION};

/// `ProbeRTTInterval`.
const INTERVAL: Duration = Duration::from_secs(5);

/// `probe_rtt_…`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeRtt {
    pub(super) min_delay: Option<Duration>,
    pub(super) min_delay_at: Instant,
    pub(super) has_expired: bool,
    done_at: Option<Instant>,
    is_round_done: bool,
}

impl Bbr3 {
    /// `UpdateMinRTT`.
    pub(super) fn update_min_rtt(&mut self, now: Instant, sample: &Sample) {
        let probe_rtt = &mut self.probe_rtt;
        probe_rtt.has_expired =
            probe_rtt.min_delay.is_some() && now > probe_rtt.min_delay_at + INTERVAL;
        if let Some(rtt) = sample.rtt
            && (probe_rtt.has_expired || probe_rtt.min_delay.is_none_or(|least| rtt < least))
        {
            probe_rtt.min_delay = Some(rtt);
            probe_rtt.min_delay_at = now;
        }
        let has_expired = now > self.min_rtt_at + MIN_RTT_EXPIRY;
        let Some(delay) = self.probe_rtt.min_delay else {
            return;
        };
        if has_expired || self.min_rtt.is_none_or(|min_rtt| delay < min_rtt) {
            self.min_rtt = Some(delay);
            self.min_rtt_at = self.probe_rtt.min_delay_at;
        }
    }

    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, now: Instant, sample: &Sample) {
        let is_due = self.probe_rtt.has_expired && !self.is_idle_restart;
        if self.state != State::ProbeRtt && is_due {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt.done_at = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.stay_in_probe_rtt(now);
        }
        if sample.delivered > 0 {
            self.is_idle_restart = false;
        }
    }

    /// `HandleProbeRTT`.
    fn stay_in_probe_rtt(&mut self, now: Instant) {
        self.held_back.mark(self.next_packet_number);
        if self.probe_rtt.done_at.is_none() {
            if self.bytes_in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt.done_at = Some(now + PROBE_RTT_DURATION);
                self.probe_rtt.is_round_done = false;
                self.start_round();
            }
            return;
        }
        self.probe_rtt.is_round_done |= self.is_round_start;
        if self.probe_rtt.is_round_done {
            self.maybe_leave_probe_rtt(now);
        }
    }

    /// `CheckProbeRTTDone`.
    pub(super) fn maybe_leave_probe_rtt(&mut self, now: Instant) {
        if self.probe_rtt.done_at.is_none_or(|done_at| now <= done_at) {
            return;
        }
        self.probe_rtt.min_delay_at = now;
        self.restore_cwnd();
        self.reset_short_term_model();
        if self.full_bw.is_reached {
            self.start_probe_bw_down(now);
            self.state = State::ProbeBwCruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// `ProbeRTTCwnd`.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        let inflight = self.bdp_multiple(self.bw, PROBE_RTT_CWND_GAIN);
        inflight.max(self.min_pipe_cwnd())
    }
}
