//! One path: glue of controller, pacer, recovery, queue and liveness.

mod bound;
mod control_frames;
mod fluid_model;
mod forecast;
mod interruption;
mod loss_history;
mod loss_interval;
mod mtu;
mod options;
mod schedule;

use anabranch_fec::LossProcess;
use anabranch_units::{DataRate, Duration, Instant};

use crate::config::{Config, PaddingPolicy, SourceLimits};
use crate::control::{CongestionController, ControlParameters, Timeout};
use crate::counters::PathCounters;
use crate::liveness::Liveness;
use crate::pacer::Pacer;
use crate::path_view::{PathId, PathRtt, PathState, PathView, Risk};
use crate::recovery::{
    Arrivals, Digest, MtuDiscovery, PacketContent, PathMtu, Recovery, SentPacket,
};
use crate::scheduler::{PacketKind, PacketView};
use crate::send_reason::SendReason;
use crate::sender_rules::{SenderRule, SenderRules};
use crate::session_view::SessionView;
use bound::Bound;
pub(crate) use fluid_model::FluidModel;
use forecast::Outflow;
use interruption::Interruption;
use loss_history::LossHistory;
use loss_interval::LossInterval;
pub use options::PathOptions;
use schedule::ScheduleExchange;

/// Inverse of the part of its lifetime by which a first transmission must precede its deadline.
pub(crate) const SPARE_LIFETIME: u64 = 16;

#[derive(Debug)]
pub(crate) struct Path {
    // State that every call uses: whether and when a packet leaves.
    control: ControlParameters,
    pub(crate) liveness: Liveness,
    pacer: Pacer,
    bound: Bound,
    pub(crate) controller: Box<dyn CongestionController>,
    padding_at: Instant,
    /// Whether padding was sent in the controller's present probe.
    pub(crate) is_padded: bool,
    /// Most bytes in flight until the path answers, after a retransmission timeout.
    loss_window: Option<u64>,
    pub(crate) id: PathId,
    /// Whether the window has kept a packet back since the last report.
    pub(crate) is_window_limited: bool,
    /// Whether the receiver acknowledges by the stream's order, until it receives a schedule.
    acks_follow_stream: bool,
    /// Whether the announcement of the end is due on this path.
    pub(crate) says_close: bool,
    /// Pending report to the peer: whether this path is suspect.
    pub(crate) pending_status: Option<bool>,
    /// The doubted path whose report this one repeats.
    pub(crate) report_elsewhere: Option<PathId>,
    /// The token to be echoed.
    pub(crate) response: Option<u64>,
    /// The path challenge that is due, and its reason.
    pub(crate) challenge: Option<(u64, SendReason)>,
    // For packets that leave, and reports on them.
    pub(crate) recovery: Recovery,
    /// When a tracked packet last left.
    pub(crate) last_sent_at: Instant,
    /// When a report last opened the window that had been full.
    window_open_since: Instant,
    pub(crate) schedule: ScheduleExchange,
    /// When the peer was last given this end's time on this path.
    send_time_at: Option<Instant>,
    /// When the peer last made a report on this path, by its clock.
    pub(crate) last_reported_at: Instant,
    loss_ratio: f64,
    loss_interval: LossInterval,
    outflow: Outflow,
    /// The last silence of the path.
    interruption: Option<Interruption>,
    /// Whether the controller's estimate counts alone, whatever comes out of the path.
    rules: SenderRules,
    /// Whether the source keeps its rate, and may leave a part of the path's capacity unused.
    has_fixed_source: bool,
    /// Target rate at the last rebinding, or at the last binding to queues that were all empty.
    rebinding_rate: DataRate,
    /// The estimate with the newest report. A silent path's controller lowers its own.
    pub(crate) reported_rate: Option<DataRate>,
    /// Loss process of media on this path. It is kept for forward error correction from the start,
    /// else from the first loss on.
    loss_history: Option<Box<LossHistory>>,
    /// Whether the repair of a loss that the next frame reveals would come too late.
    is_mending_urgent: bool,
    pub(crate) options: PathOptions,
    /// The path challenge that waits for its answer.
    pub(crate) expected_response: Option<u64>,
    /// Number of questions for a round-trip time that the path itself has not answered.
    pub(crate) unanswered_questions: u32,
    /// Counters of the path; those of received packets are its last fields.
    pub(crate) counters: PathCounters,
    // For packets that arrive.
    /// When anything last arrived on this path.
    pub(crate) last_heard_at: Instant,
    /// Until when the peer doubts that its path's feedback comes through.
    pub(crate) suspected_until: Instant,
    pub(crate) arrivals: Arrivals,
}

impl Path {
    /// Creates a path. `acks_follow_stream` is true if the receiver acknowledges by the order of a
    /// stream until it receives a schedule.
    pub(crate) fn new(
        id: PathId,
        now: Instant,
        config: &Config,
        options: PathOptions,
        controller: Box<dyn CongestionController>,
        acks_follow_stream: bool,
    ) -> Self {
        let control = options.limit(controller.control());
        let laboratory = &config.laboratory;
        let wanted = laboratory
            .feedback
            .unwrap_or_else(|| controller.feedback_schedule());
        let mut recovery = Recovery::new(config.loss_detection(!acks_follow_stream), now);
        recovery.set_max_feedback_delay(wanted.longest_delay());
        let arrivals = Arrivals::new(acks_follow_stream);
        let acks_follow_stream = acks_follow_stream && laboratory.feedback.is_none();
        let mut schedule = if acks_follow_stream && wanted.interval.is_none() {
            ScheduleExchange::known(wanted)
        } else {
            ScheduleExchange::new(wanted)
        };
        schedule.is_fixed = laboratory.feedback.is_some();
        Path {
            id,
            options,
            controller,
            control,
            pacer: Pacer::new(now),
            recovery,
            liveness: Liveness::new(),
            arrivals,
            schedule,
            send_time_at: None,
            bound: Bound::default(),
            is_window_limited: false,
            window_open_since: now,
            acks_follow_stream,
            padding_at: now,
            is_padded: false,
            loss_window: None,
            challenge: None,
            expected_response: None,
            unanswered_questions: 0,
            response: None,
            pending_status: None,
            report_elsewhere: None,
            says_close: false,
            last_reported_at: Instant::ZERO,
            suspected_until: Instant::ZERO,
            last_heard_at: now,
            last_sent_at: now,
            loss_ratio: 0.0,
            loss_interval: LossInterval::default(),
            outflow: Outflow::new(now),
            interruption: None,
            rules: laboratory.rules,
            has_fixed_source: config.media.source == SourceLimits::Fixed,
            rebinding_rate: DataRate::ZERO,
            reported_rate: None,
            loss_history: None,
            is_mending_urgent: false,
            counters: PathCounters::default(),
        }
    }

    /// Continues the packet numbers of the path that had this number before, in both directions.
    pub(crate) fn succeed(&mut self, old: Path) {
        self.recovery.succeed(&old.recovery);
        self.arrivals = old.arrivals;
        self.last_reported_at = old.last_reported_at;
        self.says_close = old.says_close;
    }

    /// Searches the path's MTU from now on.
    pub(crate) fn search_mtu(&mut self, now: Instant, limits: MtuDiscovery) {
        self.recovery.search_mtu(PathMtu::new(limits, now));
    }

    /// Records outcomes from now on, though nothing has been lost.
    pub(crate) fn start_loss_history(&mut self) {
        self.loss_history = Some(Box::default());
    }

    pub(crate) fn is_metered(&self) -> bool {
        self.options.is_metered
    }

    pub(crate) fn is_capped(&self) -> bool {
        self.options.is_capped
    }

    pub(crate) fn state(&self) -> PathState {
        self.liveness.state()
    }

    /// Returns the controller's last parameters, without a virtual call.
    pub(crate) fn control(&self) -> &ControlParameters {
        &self.control
    }

    pub(crate) fn view(&self, max_packet_bytes: u64, now: Instant) -> PathView {
        let rtt = self.recovery.rtt();
        let losses = self.loss_history.as_deref().map(LossHistory::process);
        PathView {
            id: self.id,
            state: self.state(),
            is_standby: !self.control.is_usable,
            weight: self.options.weight,
            rtt: PathRtt {
                smoothed: rtt.has_sample().then(|| rtt.smoothed()),
                latest: rtt.latest(),
                least: rtt.min_rtt(),
                variation: rtt.variation(),
            },
            bytes_in_flight: self.recovery.bytes_in_flight(),
            queued_bytes: self.queued_bytes(),
            retransmission_bytes: self.bound_retransmission_bytes(),
            congestion_window: self.control.congestion_window,
            pacing_rate: self.control.pacing_rate,
            bandwidth: self.control.target_rate,
            sendable_bytes: self.sendable_bytes(max_packet_bytes, now),
            forecast: self.forecast(now),
            risk: Risk {
                loss_ratio: self.loss_ratio,
                recent_max_loss: losses.map_or(0.0, |losses| losses.recent_max(now)),
                loss_burst_packets: losses.map_or(1.0, LossProcess::burst_packets),
                media_share: 0.0,
                is_in_recovery: self.recovery.is_in_recovery(),
                loss_interval_bytes: self.loss_interval.bytes(self.recovery.delivered_bytes()),
            },
            mtu: self.recovery.mtu().and_then(PathMtu::found),
            is_mtu_too_small: self.recovery.mtu().is_some_and(PathMtu::is_below_base),
        }
    }

    /// Returns the free part of the window; at most one packet if the pacer alone limits.
    pub(crate) fn sendable_bytes(&self, max_packet_bytes: u64, now: Instant) -> u64 {
        if !self.state().is_usable() {
            return 0;
        }
        let committed = self.recovery.bytes_in_flight() + self.queued_bytes();
        let window = match self.window() {
            None => u64::MAX,
            // One packet always fits.
            Some(window) if committed == 0 => window.max(max_packet_bytes),
            Some(window) => window.saturating_sub(committed),
        };
        if self.control.pacing_rate.is_none() {
            return window;
        }
        let is_ready = !self.has_bound() && self.ready_at() <= now;
        if is_ready {
            window.min(max_packet_bytes)
        } else {
            0
        }
    }

    /// Returns whether a notice for the peer is due: a report, an answer, a challenge, the state of
    /// a path, or the end.
    pub(crate) fn has_notices(&self, now: Instant) -> bool {
        self.arrivals.due_at().is_some_and(|due_at| due_at <= now)
            || self.response.is_some()
            || self.challenge.is_some()
            || self.report_elsewhere.is_some()
            || self.pending_status.is_some()
            || self.says_close
    }

    /// Returns whether the path has been removed, and its number not been taken since.
    pub(crate) fn is_removed(&self) -> bool {
        self.state() == PathState::Removed
    }

    /// Returns whether an end has to look at the path. Only one that sends looks at those at rest.
    pub(crate) fn is_in_use(&self, is_sender: bool) -> bool {
        !self.is_removed() && (is_sender || !self.is_at_rest())
    }

    /// Returns whether nothing is sent here, and nothing is awaited.
    pub(crate) fn is_at_rest(&self) -> bool {
        let has_outstanding = self.recovery.outstanding_bytes() > 0;
        self.state() == PathState::Active && !has_outstanding && !self.has_bound()
    }

    /// Returns whether segments have left or are about to, and the path has not answered yet.
    pub(crate) fn has_unanswered_segments(&self) -> bool {
        self.state() == PathState::Active
            && !self.recovery.rtt().has_sample()
            && (self.has_bound() || self.recovery.has_outstanding_content())
    }

    /// Ends a period without data to send. Such a period says nothing about the path.
    pub(crate) fn leave_idleness(&mut self, now: Instant) {
        self.leave_idleness_since(now, self.window_open_since);
    }

    /// Does the same, if the window has let a packet go since that moment.
    pub(crate) fn leave_idleness_since(&mut self, now: Instant, window_open_since: Instant) {
        let could_send_since = self.ready_at().max(window_open_since);
        if could_send_since < now && self.has_window() {
            self.recovery.mark_app_limited();
            self.pacer.restart(now);
        }
    }

    /// Returns whether the packet, if it leaves now, arrives after its deadline, even if nothing
    /// else queues. In which direction the queues of the latest round trip were is unknown.
    pub(crate) fn is_too_late_for(
        &self,
        now: Instant,
        packet: &PacketView,
        lifetime: Duration,
    ) -> bool {
        self.rules.has(SenderRule::LateDrops)
            && self
                .min_one_way_delay()
                .is_some_and(|least| comes_late(now + least, packet, lifetime))
    }

    pub(crate) fn has_window(&self) -> bool {
        self.window()
            .is_none_or(|window| self.recovery.bytes_in_flight() < window)
    }

    /// Returns whether `bytes` more fit the window. One packet always does, or nothing could be
    /// sent.
    pub(crate) fn has_window_for(&self, bytes: u64) -> bool {
        self.has_window_beyond(bytes) || self.recovery.bytes_in_flight() == 0
    }

    /// Returns whether `bytes` more fit the window.
    pub(crate) fn has_window_beyond(&self, bytes: u64) -> bool {
        let in_flight = self.recovery.bytes_in_flight();
        self.window()
            .is_none_or(|window| in_flight + bytes <= window)
    }

    /// Returns the controller's window, within that of a path that has to answer first.
    fn window(&self) -> Option<u64> {
        match (self.control.congestion_window, self.loss_window) {
            (Some(window), Some(limit)) => Some(window.min(limit)),
            (window, limit) => window.or(limit),
        }
    }

    /// Limits the bytes in flight until the path answers, whatever its controller allows: a
    /// retransmission timer has expired (RFC 5681 §3.1: loss window). `None`: it has answered.
    pub(crate) fn set_loss_window(&mut self, bytes: Option<u64>) {
        self.loss_window = bytes;
    }

    pub(crate) fn set_lateness(&mut self, lateness: Duration) {
        if self.pacer.set_lateness(lateness) {
            // The pause says nothing about the path's rate.
            self.recovery.mark_app_limited();
        }
    }

    /// Returns when the pacer lets the next packet go.
    pub(crate) fn ready_at(&self) -> Instant {
        self.pacer
            .ready_at(self.control.pacing_rate, self.control.burst_bytes)
    }

    /// Returns when padding is due; `None` while it is not wanted.
    pub(crate) fn padding_due_at(
        &self,
        policy: PaddingPolicy,
        is_more_useful: bool,
    ) -> Option<Instant> {
        // The cheapest question first: it is asked after every event.
        let not_before = match policy {
            PaddingPolicy::Never => return None,
            PaddingPolicy::Always => Instant::ZERO,
            _ if self.control.padding_rate.is_zero() || !is_more_useful => return None,
            PaddingPolicy::WhileProbing | PaddingPolicy::Earned => self.padding_at,
        };
        if self.has_bound() || self.state() != PathState::Active || !self.has_window() {
            return None;
        }
        Some(self.ready_at().max(not_before))
    }

    /// Records a tracked packet of `bytes` bytes on the wire that leaves.
    pub(crate) fn on_sent(
        &mut self,
        now: Instant,
        bytes: u32,
        content: PacketContent,
    ) -> SentPacket {
        let packet = self.recovery.on_sent(now, bytes, content);
        self.last_sent_at = now;
        let control = &self.control;
        self.pacer
            .on_sent(now, bytes, control.pacing_rate, control.group_bytes);
        if !self.has_window() {
            self.pacer.end_group();
        }
        self.padding_at = match self.control.padding_rate {
            DataRate::ZERO => now,
            rate => now + rate.time_for(u64::from(bytes)),
        };
        // The controller does not learn of the answer to a probe of an idle path either.
        if !content.is_probe() || self.state() != PathState::Active {
            self.controller.on_sent(now, &packet);
            // The first packet after idleness may begin with another window, which must hold for
            // the second.
            if packet.bytes_in_flight <= u64::from(bytes) {
                self.control = self.options.limit(self.controller.control());
            }
        }
        packet
    }

    /// Returns whether the controller has to be shown the paths, of which the session has
    /// `path_count`.
    pub(crate) fn looks_at_paths(&self, path_count: usize) -> bool {
        match path_count {
            1 => self.controller.looks_at_only_path(),
            _ => self.controller.looks_at_paths(),
        }
    }

    /// Reports the findings of `digest` to the controller.
    pub(crate) fn on_feedback(
        &mut self,
        now: Instant,
        digest: &Digest,
        session: &SessionView,
        views: &[PathView],
    ) {
        if !self.schedule.is_known {
            for packet in &digest.acked {
                self.schedule.on_acked(packet.sent.packet_number);
            }
        }
        self.count_losses(digest);
        let window = self.control.congestion_window;
        if window.is_some_and(|window| digest.prior_bytes_in_flight >= window) {
            self.window_open_since = now;
        }
        let is_window_limited = core::mem::take(&mut self.is_window_limited);
        let feedback =
            self.recovery
                .feedback(self.id, digest, self.last_reported_at, is_window_limited);
        self.controller.on_feedback(now, &feedback, session, views);
        self.control = self.options.limit(self.controller.control());
        self.reported_rate = Some(self.control.target_rate);
        let rtt = self.recovery.rtt();
        if rtt.has_sample() {
            self.pacer
                .forget_old_rate(now, rtt.smoothed(), self.control.pacing_rate);
        }
        if !self.schedule.is_fixed {
            let mut wanted = self.controller.feedback_schedule();
            wanted.reports_pauses = self.is_mending_urgent;
            if self.acks_follow_stream && wanted.interval.is_none() {
                return;
            }
            self.schedule.want(wanted);
            self.recovery.set_max_feedback_delay(wanted.longest_delay());
        }
    }

    /// Reports to the controller the rate of a source that does not follow the target.
    pub(crate) fn on_source_rate(&mut self, rate: DataRate) {
        self.controller.on_source_rate(rate);
        self.control = self.options.limit(self.controller.control());
    }

    /// Handles a silence, after which no packet is in flight on the path.
    pub(crate) fn on_silence(&mut self) {
        if let Some(loss_history) = &mut self.loss_history {
            loss_history.skip_until(self.recovery.next_packet_number());
        }
    }

    /// Records which packets arrived and which are lost.
    pub(crate) fn update_loss_history(&mut self, now: Instant, digest: &Digest) {
        if let Some(loss_history) = &mut self.loss_history {
            loss_history.on_digest(now, digest);
        } else if !digest.lost.is_empty() {
            let begun = LossHistory::from(self.recovery.next_packet_number());
            self.loss_history = Some(Box::new(begun));
        }
    }

    /// Records a frame that comes `interval` after the one before. Its packets reveal losses at the
    /// end of that earlier frame, whose repair takes one and a half round trips. If that is too
    /// late, the receiver is asked to report pauses, which reveal the losses earlier. The end of a
    /// frame leaves up to half an interval after its capture.
    pub(crate) fn on_frame(&mut self, interval: Duration, deadline: Duration) {
        let min_rtt = self.recovery.rtt().min_rtt();
        let mended_in = min_rtt.map(|rtt| rtt * 3 / 2 + interval * 3 / 2);
        self.is_mending_urgent = mended_in.is_some_and(|span| span > deadline);
        self.recovery.trust_report_times(self.is_mending_urgent);
    }

    /// Reports a timeout to the controller.
    pub(crate) fn on_timeout(&mut self, now: Instant, cause: Timeout) {
        self.controller.on_timeout(now, cause);
        self.control = self.options.limit(self.controller.control());
    }

    /// Reports to the controller that the peer has waited for this path.
    pub(crate) fn on_penalty(&mut self) {
        self.controller.on_penalty();
        self.control = self.options.limit(self.controller.control());
    }

    fn count_losses(&mut self, digest: &Digest) {
        // A window of about a hundred packets.
        const WEIGHT: f64 = 0.01;
        self.counters.lost_packets += digest.lost_count();
        self.counters.spurious_losses += digest.spurious.len() as u64;
        if digest.is_recovery_begun {
            self.loss_interval
                .on_recovery(self.recovery.delivered_bytes());
        }
        for _ in &digest.lost {
            self.loss_ratio += WEIGHT * (1.0 - self.loss_ratio);
        }
        for _ in &digest.acked {
            self.loss_ratio -= WEIGHT * self.loss_ratio;
        }
    }
}

/// Returns the least round-trip time of all active paths.
pub(crate) fn quickest_rtt(paths: &[Path]) -> Option<Duration> {
    let active = paths
        .iter()
        .filter(|path| path.state() == PathState::Active);
    active
        .filter_map(|path| path.recovery.rtt().min_rtt())
        .min()
}

/// Returns whether a packet that arrives at `arrives_at` is late. With a long backlog every packet
/// leaves as late as possible, and one misjudged round trip would make all of them late. First
/// transmissions and repairs must therefore keep a sixteenth of their lifetime to spare.
fn comes_late(arrives_at: Instant, packet: &PacketView, lifetime: Duration) -> bool {
    let margin = match packet.kind() {
        PacketKind::Retransmission => Duration::ZERO,
        PacketKind::Source | PacketKind::Repair => lifetime / SPARE_LIFETIME,
    };
    packet
        .deadline
        .is_some_and(|deadline| arrives_at + margin > deadline)
}

#[cfg(test)]
mod tests;
