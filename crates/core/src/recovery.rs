//! Recovery: sent, received and lost packets, and the path's delivery rate.
//!
//! One place digests feedback for all controllers, so that none tracks packets again. All state is
//! per path: packet numbers and round-trip times of different paths are never compared.

mod arrivals;
mod cross_path_acks;
mod delivery_rate;
mod digest;
mod feedback;
mod jitter;
mod loss;
mod packet;
mod path_mtu;
#[cfg(test)]
mod properties;
mod rack;
mod reordering;
mod rtt;
mod sent_packets;
mod silence;

use anabranch_units::{Duration, Instant};

use crate::path_view::PathId;
use crate::wire::FeedbackReport;

pub(crate) use arrivals::Arrivals;
pub use delivery_rate::RateSample;
pub(crate) use digest::Digest;
pub use feedback::Feedback;
use loss::Evidence;
pub use loss::LossDetection;
pub use packet::{AckedPacket, DeliverySnapshot, PacketContent, SentPacket};
pub use path_mtu::MtuDiscovery;
pub(crate) use path_mtu::PathMtu;
pub use rtt::RttEstimator;

pub use crate::wire::{FeedbackSchedule, HoleReports};

use cross_path_acks::CrossPathAcks;
use delivery_rate::DeliveryRate;
use rack::Rack;
use reordering::Reordering;
use sent_packets::{Acknowledged, SentPackets};

/// The sending side of one path's reliability.
#[derive(Debug)]
pub(crate) struct Recovery {
    loss_timer: Option<Instant>,
    last_acked_at: Instant,
    max_feedback_delay: Duration,
    sent: SentPackets,
    cross_path_acks: CrossPathAcks,
    rtt: RttEstimator,
    delivery: DeliveryRate,
    /// Bytes of segments that left the network according to duplicate acknowledgements, which do
    /// not identify them.
    departed_bytes: u64,
    loss_detection: LossDetection,
    rack: Rack,
    /// The search for the path's MTU, if there is one.
    mtu: Option<Box<PathMtu>>,
    reordering: Reordering,
    trusts_report_times: bool,
}

impl Recovery {
    pub(crate) fn new(loss_detection: LossDetection, now: Instant) -> Self {
        Recovery {
            sent: SentPackets::default(),
            cross_path_acks: CrossPathAcks::default(),
            rtt: RttEstimator::default(),
            delivery: DeliveryRate::new(now),
            loss_detection,
            loss_timer: None,
            rack: Rack::default(),
            mtu: None,
            reordering: Reordering::default(),
            trusts_report_times: false,
            departed_bytes: 0,
            last_acked_at: now,
            max_feedback_delay: Duration::ZERO,
        }
    }

    /// Continues the packet numbers of another path, whose packets are all settled or given up.
    pub(crate) fn succeed(&mut self, old: &Recovery) {
        self.sent = SentPackets::after(&old.sent);
    }

    /// Sets the time for which the receiver may hold a report back. A probe timeout includes it.
    pub(crate) fn set_max_feedback_delay(&mut self, delay: Duration) {
        self.max_feedback_delay = delay;
    }

    /// Sets whether a packet counts as lost if a later report should have listed it, though no
    /// later packet has arrived. The rule is quick, but mistakes a path that slows down for a lossy
    /// one.
    pub(crate) fn trust_report_times(&mut self, is_trusting: bool) {
        self.trusts_report_times = is_trusting && self.loss_detection == LossDetection::PerPacket;
    }

    pub(crate) fn loss_detection(&self) -> LossDetection {
        self.loss_detection
    }

    /// Starts the search for the path's MTU.
    pub(crate) fn search_mtu(&mut self, mtu: PathMtu) {
        self.mtu = Some(Box::new(mtu));
    }

    pub(crate) fn mtu(&self) -> Option<&PathMtu> {
        self.mtu.as_deref()
    }

    pub(crate) fn mtu_mut(&mut self) -> Option<&mut PathMtu> {
        self.mtu.as_deref_mut()
    }

    /// Returns the largest packet that the path is known to carry; unlimited without a search.
    pub(crate) fn carried_bytes(&self) -> u32 {
        self.mtu().map_or(u32::MAX, PathMtu::carried)
    }

    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.sent
            .bytes_in_flight()
            .saturating_sub(self.departed_bytes)
    }

    /// Returns the bytes of packets that are neither acknowledged nor declared lost.
    pub(crate) fn outstanding_bytes(&self) -> u64 {
        self.sent.bytes_in_flight()
    }

    /// Returns whether any packet other than probes is neither acknowledged nor declared lost.
    pub(crate) fn has_outstanding_content(&self) -> bool {
        self.outstanding().any(|packet| !packet.content.is_probe())
    }

    /// Sets the number of bytes that duplicate acknowledgements have taken out of flight.
    pub(crate) fn set_departed_bytes(&mut self, bytes: u64) {
        self.departed_bytes = bytes;
    }

    /// Returns whether RACK is in recovery: it has seen a loss, and not yet all packets sent before
    /// it.
    pub(crate) fn is_in_recovery(&self) -> bool {
        self.rack.is_in_recovery()
    }

    pub(crate) fn delivered_bytes(&self) -> u64 {
        self.delivery.delivered_bytes()
    }

    /// Returns the bytes sent since the path began.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.delivery.sent_bytes()
    }

    pub(crate) fn next_packet_number(&self) -> u64 {
        self.sent.next_packet_number()
    }

    pub(crate) fn outstanding(&self) -> impl Iterator<Item = SentPacket> {
        self.sent.outstanding()
    }

    /// Returns when the oldest outstanding packet with this content was sent.
    pub(crate) fn first_outstanding_at(&self, content: PacketContent) -> Option<Instant> {
        self.sent.first_outstanding_at(content)
    }

    /// Records a packet that leaves now.
    pub(crate) fn on_sent(
        &mut self,
        now: Instant,
        bytes: u32,
        content: PacketContent,
    ) -> SentPacket {
        let delivery = self
            .delivery
            .on_sent(now, bytes, self.sent.bytes_in_flight());
        self.sent.push(now, bytes, content, delivery)
    }

    /// Marks packets in flight as application-limited: the sender has nothing more to send, though
    /// path and controller would allow it. Their samples say little about the path
    /// (draft-ietf-ccwg-bbr §4.1.2.4).
    pub(crate) fn mark_app_limited(&mut self) {
        self.delivery.mark_app_limited(self.sent.bytes_in_flight());
    }

    /// Digests a report. `is_same_path` is true if the report came back on its own path; only then
    /// does its arrival give round-trip times. Returns whether it contained anything new.
    pub(crate) fn on_report(
        &mut self,
        now: Instant,
        report: &FeedbackReport,
        is_same_path: bool,
        digest: &mut Digest,
    ) -> bool {
        digest.restart(self.bytes_in_flight());
        if is_same_path {
            self.sample_cross_path_acks(now, report);
        }
        let largest_before = self.sent.largest_acked();
        self.sent
            .acknowledge(report, &mut |acknowledged: Acknowledged| {
                let packet = &acknowledged.packet;
                if !is_same_path {
                    self.cross_path_acks
                        .record(packet.packet_number, packet.sent_at);
                }
                let rtt = match acknowledged.held_back {
                    Some(held) if is_same_path => rtt::sample(now, packet.sent_at, held),
                    _ => None,
                };
                digest.acked.push(AckedPacket {
                    sent: *packet,
                    received_at: acknowledged.received_at,
                    rtt,
                    delivered_bytes: self.delivery.on_acked(packet),
                });
                if let Some(mtu) = &mut self.mtu {
                    mtu.on_acked(now, packet);
                }
                if acknowledged.was_lost && packet.content != PacketContent::MtuProbe {
                    digest.mark_spurious();
                }
            });
        let Some(newest) = digest.acked.last() else {
            return is_same_path && self.on_report_of_nothing(now, report, digest);
        };
        self.last_acked_at = now;
        digest.is_app_limited = newest.sent.delivery.is_app_limited;
        if let Some(rtt) = newest.rtt {
            self.rtt.on_sample(now, rtt);
        }
        for packet in &digest.acked {
            if let Some(rtt) = packet.rtt {
                self.rtt.on_packet(packet.sent.sent_at, rtt);
            }
        }
        digest.delivery = self.delivery.sample(now, &newest.sent, self.rtt.min_rtt());
        digest.ce_count = self.sent.newly_ce_marked(report.ce_count);
        match self.loss_detection {
            LossDetection::PerPacket => {
                let reported_at = report.reported_at();
                self.reordering
                    .on_report(now, reported_at, &digest.acked, largest_before);
            }
            LossDetection::TcpSack => self.learn_reordering(largest_before, digest),
            LossDetection::GapImmediate | LossDetection::TcpCumulative => {}
        }
        if self.rack.is_in_recovery() {
            let oldest = self.sent.oldest_outstanding();
            let oldest_number = oldest.map(|packet| packet.packet_number);
            self.rack.on_progress(oldest_number);
        }
        self.detect_losses(now, is_same_path, digest);
        self.sent.forget_settled(now, self.lost_memory());
        true
    }

    /// Digests a report that acknowledges nothing new: when it was made may still show losses.
    /// Returns whether it does.
    #[cold]
    fn on_report_of_nothing(
        &mut self,
        now: Instant,
        report: &FeedbackReport,
        digest: &mut Digest,
    ) -> bool {
        if self.trusts_report_times {
            let reported_at = report.reported_at();
            self.reordering.on_report(now, reported_at, &[], None);
            self.detect_losses(now, true, digest);
        }
        !(digest.lost.is_empty() && digest.too_large.is_empty())
    }

    /// Digests that these packets have arrived, in the order of their numbers, as the stream's
    /// cumulative offset shows. `sample`
    /// is a round-trip time for the estimator, and `is_newest_timed` says whether that of the
    /// newest packet is beyond doubt. Returns whether there were any.
    pub(crate) fn on_cumulative_ack(
        &mut self,
        now: Instant,
        packets: impl Iterator<Item = SentPacket>,
        sample: Option<Duration>,
        is_newest_timed: impl FnOnce(u64) -> bool,
        digest: &mut Digest,
    ) -> bool {
        digest.restart(self.bytes_in_flight());
        for sent in packets {
            self.sent.settle_number(sent.packet_number);
            digest.acked.push(AckedPacket {
                sent,
                received_at: None,
                rtt: None,
                delivered_bytes: self.delivery.on_acked(&sent),
            });
        }
        let Some(newest) = digest.acked.last_mut() else {
            return false;
        };
        newest.rtt = is_newest_timed(newest.sent.packet_number)
            .then(|| now.saturating_since(newest.sent.sent_at));
        self.last_acked_at = now;
        digest.is_app_limited = newest.sent.delivery.is_app_limited;
        if let Some(sample) = sample {
            self.rtt.on_sample(now, sample);
        }
        digest.delivery = self.delivery.sample(now, &newest.sent, self.rtt.min_rtt());
        self.sent.forget_settled(now, self.lost_memory());
        true
    }

    /// Declares one packet lost. Returns whether it was in flight.
    pub(crate) fn declare_lost(
        &mut self,
        now: Instant,
        packet_number: u64,
        digest: &mut Digest,
    ) -> bool {
        digest.restart(self.bytes_in_flight());
        digest.lost.extend(self.sent.declare_lost(packet_number));
        self.on_lost(now, digest, false);
        !digest.lost.is_empty()
    }

    /// Returns a packet that has been sent and is not forgotten.
    pub(crate) fn sent_packet(&self, packet_number: u64) -> Option<SentPacket> {
        self.sent.packet(packet_number)
    }

    /// Returns whether reports have passed this packet over.
    pub(crate) fn is_passed_over(&self, packet_number: u64) -> bool {
        self.sent
            .largest_acked()
            .is_some_and(|largest| packet_number < largest)
    }

    fn learn_reordering(&mut self, largest_before: Option<u64>, digest: &Digest) {
        let next_packet_number = self.sent.next_packet_number();
        for packet in &digest.spurious {
            self.rack
                .on_spurious(packet.sent.packet_number, next_packet_number);
        }
        let oldest = digest.acked.first().map(|packet| packet.sent.packet_number);
        if largest_before.is_some_and(|largest| oldest.is_some_and(|oldest| oldest < largest)) {
            self.rack.on_reordering();
        }
    }

    /// Returns the controller's input for `digest`, the last one made.
    pub(crate) fn feedback<'a>(
        &'a self,
        path: PathId,
        digest: &'a Digest,
        reported_at: Instant,
        is_window_limited: bool,
    ) -> Feedback<'a> {
        Feedback {
            path,
            acked: &digest.acked,
            lost: &digest.lost,
            spurious: &digest.spurious,
            rtt: &self.rtt,
            delivery: digest.delivery,
            prior_bytes_in_flight: digest.prior_bytes_in_flight,
            bytes_in_flight: self.bytes_in_flight(),
            delivered_bytes: self.delivered_bytes(),
            lost_bytes: self.delivery.lost_bytes(),
            is_app_limited: digest.is_app_limited,
            is_window_limited,
            reported_at,
            ce_count: digest.ce_count,
        }
    }

    /// Returns when [`Recovery::on_loss_timeout`] is due.
    pub(crate) fn loss_timer(&self) -> Option<Instant> {
        self.loss_timer
    }

    /// Declares packets lost by the time threshold. Returns whether there were any.
    pub(crate) fn on_loss_timeout(&mut self, now: Instant, digest: &mut Digest) -> bool {
        digest.restart(self.bytes_in_flight());
        self.detect_losses(now, false, digest);
        !(digest.lost.is_empty() && digest.too_large.is_empty())
    }

    /// Declares all packets in flight lost, since the path is out. A packet that still arrives
    /// counts as a spurious loss.
    pub(crate) fn on_silence(&mut self, now: Instant, digest: &mut Digest) {
        digest.restart(self.bytes_in_flight());
        self.sent
            .declare_all_lost(|packet| digest.lost.push(*packet));
        self.loss_timer = None;
        self.departed_bytes = 0;
        self.on_lost(now, digest, true);
    }

    /// Forgets lost packets that will hardly arrive any more, so that memory is bounded on a path
    /// that never reports.
    pub(crate) fn forget_lost(&mut self, now: Instant) {
        self.sent.forget_settled(now, self.lost_memory());
    }
    /// Records an answer of the path, of any kind.
    pub(crate) fn on_heard(&mut self, now: Instant) {
        self.last_acked_at = now;
    }

    /// Returns SRTT + 4 RTTVAR + the receiver's delay (RFC 9002 §6.2.1).
    pub(crate) fn probe_timeout(&self) -> Duration {
        self.rtt.probe_timeout() + self.max_feedback_delay
    }

    /// Detects lost packets. `is_by_report` is true if a report has just come on this path. A
    /// report on another path does not show that this one is alive, so its missing packets may be
    /// due to silence.
    fn detect_losses(&mut self, now: Instant, is_by_report: bool, digest: &mut Digest) {
        self.loss_timer = None;
        // In the usual case nothing is missing.
        if self.sent.has_open_holes() || self.trusts_report_times {
            self.judge_missing(now, is_by_report, digest);
        }
    }

    #[inline(never)]
    fn judge_missing(&mut self, now: Instant, is_by_report: bool, digest: &mut Digest) {
        let reordering_window = match self.loss_detection {
            LossDetection::TcpSack => self
                .rack
                .reordering_window(&self.rtt, self.sent.acked_beyond_oldest()),
            _ => self.reordering_window(),
        };
        let evidence = Evidence {
            now,
            rtt: &self.rtt,
            reordering: &self.reordering,
            reordering_window,
            max_feedback_delay: self.max_feedback_delay,
        };
        self.loss_timer = self
            .sent
            .declare_losses(self.loss_detection, &evidence, |packet| {
                digest.lost.push(*packet);
            });
        if is_by_report && self.trusts_report_times {
            self.sent.declare_missing(
                |packet| self.reordering.is_missing(packet),
                |packet| digest.lost.push(*packet),
            );
        }
        self.on_lost(now, digest, false);
        if let Some(newest) = digest.lost.last() {
            let next_packet_number = self.sent.next_packet_number();
            digest.is_recovery_begun = self.rack.on_lost(newest.packet_number, next_packet_number);
        }
    }

    /// Returns the time to wait for a hole on this path beyond the time threshold.
    fn reordering_window(&self) -> Duration {
        let window = self.reordering.window();
        if window.is_zero() {
            window
        } else {
            window.min(self.rtt.probe_timeout())
        }
    }

    /// Returns the time from sending until a loss is detected, if later packets arrive.
    pub(crate) fn loss_delay(&self) -> Duration {
        self.rtt.time_threshold() + self.reordering_window()
    }

    fn on_lost(&mut self, now: Instant, digest: &mut Digest, is_silence: bool) {
        if let Some(mtu) = &mut self.mtu {
            for packet in &digest.lost {
                mtu.on_lost(now, packet, is_silence);
            }
            let carried = mtu.carried();
            digest
                .too_large
                .extend(digest.lost.extract_if(.., |packet| {
                    packet.bytes > carried || packet.content == PacketContent::MtuProbe
                }));
        }
        let lost_bytes = digest
            .lost
            .iter()
            .map(|packet| u64::from(packet.bytes))
            .sum();
        self.delivery.on_lost(lost_bytes);
    }

    /// Returns the time for which a lost packet is remembered in case it still arrives.
    fn lost_memory(&self) -> Duration {
        (self.rtt.smoothed() * 3).max(Duration::from_millis(200))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Returns a path whose round trips were of 40 ms and then of these in turn, reported within 40
    /// ms. One of its packets, sent at `sent_at`, is outstanding, and its last answer came at
    /// `heard_at`.
    fn path(rtts: [u64; 2], sent_at: u64, heard_at: u64) -> Recovery {
        let mut recovery = Recovery::new(LossDetection::PerPacket, Instant::ZERO);
        recovery.set_max_feedback_delay(Duration::from_millis(40));
        let least = Duration::from_millis(40);
        recovery.rtt.on_sample(Instant::ZERO, least);
        for round in 0..40 {
            let rtt = Duration::from_millis(rtts[round % 2]);
            recovery.rtt.on_sample(Instant::ZERO, rtt);
        }
        recovery.on_sent(at(sent_at), 1_000, PacketContent::Padding);
        recovery.on_heard(at(heard_at));
        recovery
    }

    /// Returns the milliseconds of silence after which the path is suspect.
    fn suspect_after(path: &Recovery, patience_millis: u64, heard_at: u64) -> u64 {
        let patience = Duration::from_millis(patience_millis);
        let at_instant = path.suspect_at(patience).unwrap();
        assert!(path.suspect_at_earliest().unwrap() <= at_instant);
        (at_instant - at(heard_at)).as_micros().div_ceil(1_000)
    }

    #[test]
    fn short_round_trips_make_a_path_suspect_after_a_probe_timeout() {
        // SRTT 40 ms, hardly a deviation, 10 ms of the host's and 40 of the receiver's.
        for (sent_at, heard_at) in [(1_000, 1_000), (990, 1_000), (700, 1_000)] {
            let path = path([40, 40], sent_at, heard_at);
            assert_eq!(suspect_after(&path, 125, heard_at), 90, "sent at {sent_at}");
        }
    }

    #[test]
    fn a_swollen_round_trip_does_not_hide_silence_beyond_the_patience() {
        // 390 ms and a mean deviation of 90 are a probe timeout of more than 750 ms. A packet sent
        // at 1000 was due at 1430.
        let path = path([300, 480], 1_000, 1_420);
        assert!(path.probe_timeout() > Duration::from_millis(750));
        let silence = suspect_after(&path, 125, 1_420);
        assert!((125..=160).contains(&silence), "{silence} ms");
        assert!(suspect_after(&path, 10_000, 1_420) > 750);
    }

    #[test]
    fn the_only_path_is_given_its_probe_timeout() {
        let path = path([300, 480], 1_000, 1_420);
        let suspect_at = path.suspect_at(Duration::MAX);
        assert_eq!(suspect_at, Some(at(1_420) + path.probe_timeout()));
    }

    #[test]
    fn bloated_path_has_a_round_trip_after_a_pause() {
        let path = path([300, 480], 5_000, 1_000);
        let waited = suspect_after(&path, 125, 5_000);
        assert!((390..=600).contains(&waited), "{waited} ms");
    }

    #[test]
    fn a_path_that_answers_is_not_suspect_for_a_packet_that_is_lost() {
        // The packet is overdue by seconds; the path answered a moment ago.
        let path = path([300, 480], 1_000, 4_000);
        assert_eq!(suspect_after(&path, 140, 4_000), 140);
    }

    #[test]
    fn before_the_first_sample_a_whole_probe_timeout_is_waited() {
        let mut path = Recovery::new(LossDetection::PerPacket, Instant::ZERO);
        path.on_sent(at(0), 1_000, PacketContent::Padding);
        let initial = path.probe_timeout().as_micros().div_ceil(1_000);
        assert!(initial > 900);
        assert_eq!(suspect_after(&path, 125, 0), initial);
    }

    #[test]
    fn no_patience_is_shorter_than_the_least_round_trip_and_two_reports() {
        let path = path([300, 480], 1_000, 4_000);
        assert_eq!(suspect_after(&path, 1, 4_000), 40 + 2 * 40 + 10);
    }
}
