//! Evidence that a probe must find, and a packet's contribution to it.

use anabranch_core::recovery::AckedPacket;
use anabranch_units::Duration;

use super::probe_bw::{Ask, Echo, Need};
use super::profile::AppLimitedSamples;
use super::{DelayBbr, VERDICT_ROUNDS};

/// Backlog that is more than the wait for the pacer.
const LONG_BACKLOG: Duration = Duration::from_millis(60);

/// Largest excess over the least round-trip time without a queue.
const NO_QUEUE: Duration = Duration::from_millis(1);

impl DelayBbr {
    pub(super) fn ask(&self) -> Ask {
        Ask {
            need: self.probing_need(),
            estimate: self.bandwidth.max(),
            jitter: self.noise.jitter,
            probe_length: self.probe_length(),
        }
    }

    /// Returns the duration of a probe that gives evidence by itself: a sample lies entirely in it.
    fn probe_length(&self) -> Duration {
        self.min_rtt.or_initial() * 2 + self.report_delay()
    }

    /// Returns the evidence that probing must give. Probes must give it by themselves in three
    /// cases: padding is needed for them, media has a long backlog, or media waits although the
    /// path has had no queue, now or for long, so that it is not full. Other forms need no
    /// evidence.
    fn probing_need(&self) -> Need {
        let is_waiting = self.backlog_bytes > u64::from(self.config.max_packet_bytes);
        let unfilled_since = self.app_limited_round.max(self.queued_round);
        let is_unfilled = (self.has_no_queue() && is_waiting)
            || self.rounds.count > unfilled_since + VERDICT_ROUNDS;
        let is_long = self.batches.are_of_many() && self.waits_for(LONG_BACKLOG);
        if self.profile.app_limited_samples == AppLimitedSamples::Count {
            Need::Usual
        } else if self.is_media_urgent() {
            Need::Urgent
        } else if self.is_app_limited || is_long || is_unfilled {
            Need::Evident
        } else {
            Need::Usual
        }
    }

    /// Whether media is about to be late, in the forms that consider it.
    pub(super) fn is_media_urgent(&self) -> bool {
        self.profile.app_limited_samples != AppLimitedSamples::Count
            && self.waits_for(LONG_BACKLOG.max(self.deadline / 2))
    }

    /// Whether more media waits than the path carries in this time. Mostly the backlog is empty.
    fn waits_for(&self, span: Duration) -> bool {
        self.backlog_bytes > 0 && self.backlog_bytes > self.bandwidth.max().bytes_in(span)
    }

    pub(super) fn has_no_queue(&self) -> bool {
        self.floor <= self.min_rtt.or_initial() + NO_QUEUE + self.noise.jitter
    }

    /// Returns the packet's round-trip time for probes. Only packets of full size are compared.
    pub(super) fn echo(&mut self, packet: &AckedPacket) -> Option<Echo> {
        let is_full = packet.sent.bytes * 8 >= self.config.max_packet_bytes * 7;
        let is_recent = packet.sent.packet_number >= self.counts_from;
        if !is_full || !is_recent {
            return None;
        }
        let rtt = packet.rtt?;
        let least = self.min_rtt.on_full_rtt(rtt);
        Some(Echo {
            sent_at: packet.sent.sent_at,
            rtt,
            has_no_queue: rtt <= least + NO_QUEUE + self.noise.jitter,
        })
    }
}
