//! Counters of flows, paths, frames and links while a window is open.

use anabranch_core::{PathCounters, ReasonCounts, SendReason};
use anabranch_link::DropCause;
use anabranch_sim::FlowId;
use anabranch_units::{Duration, Instant};
use anabranch_video::adaptive_player::AdaptiveCounts;
use anabranch_video::stored_player::StoredPlayerCounts;

use super::counters::Counters;
use super::histogram::Histogram;
use super::statistics::{
    AdaptiveStatistics, Distribution, DownloadStatistics, DropReport, FragmentStatistics,
    FrameStatistics, HeadOfLineStatistics, LinkStatistics, PlayerStatistics, ReasonTraffic,
    Traffic,
};
use super::variation::Variation;
use crate::scenario::FlowSpec;

/// Counters of a flow.
#[derive(Debug, Default)]
pub(super) struct FlowRecord {
    pub(super) frames: FrameRecord,
    pub(super) paths: Vec<PathRecord>,
    pub(super) fragments: FragmentRecord,
    pub(super) viewer: ViewerRecord,
    pub(super) rates: Variation,
    pub(super) stream: StreamRecord,
}

/// Counters of the first copies of packets of media; costs are counted by path.
#[derive(Clone, Debug, Default)]
pub(super) struct FragmentRecord {
    pub(super) out_of_order: u64,
    pub(super) gap_count: u64,
    pub(super) gaps: Duration,
    pub(super) path_switches: u64,
    pub(super) peak_bytes: u64,
    pub(super) peak_frames: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ViewerRecord {
    pub(super) displayed: u64,
    pub(super) late: u64,
    pub(super) skipped: u64,
    pub(super) freezes: u64,
    pub(super) frozen: Duration,
    /// Time from the first frame on.
    pub(super) watched: Duration,
    pub(super) start_up: Option<Duration>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct StreamRecord {
    pub(super) bytes: u64,
    /// Times from the beginnings of streams to their ends.
    pub(super) transfers: Histogram,
    /// Number of new segments that took another path than the one before.
    pub(super) path_switches: u64,
    /// Waiting times of bytes for missing ones before them.
    pub(super) head_of_line: HeadOfLineRecord,
    /// Viewer's counts when the window opened, and in it.
    viewer_baseline: StoredPlayerCounts,
    viewer: Option<StoredPlayerCounts>,
    /// The same of a viewer of adaptive bitrates.
    adaptive_baseline: AdaptiveCounts,
    adaptive: Option<AdaptiveCounts>,
}

/// Waiting times of readable bytes of streams, including bytes that never waited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeadOfLineRecord {
    bytes: u64,
    /// Sum over bytes.
    byte_nanos: u128,
    longest: Duration,
}

/// Counters of a flow's path.
#[derive(Clone, Debug, Default)]
pub(super) struct PathRecord {
    pub(super) sent_packets: u64,
    pub(super) sent_bytes: u64,
    pub(super) dropped_packets: u64,
    /// Bytes of the other direction.
    pub(super) feedback_bytes: u64,
    pub(super) delivered_packets: u64,
    pub(super) delivered_bytes: u64,
    /// First copies of packets of media that arrived, and the sum of their times since capture.
    pub(super) fragments: u64,
    pub(super) fragment_times: Duration,
    pub(super) delays: Histogram,
    pub(super) baseline: PathCounters,
    /// Sender's counts while the window was open.
    pub(super) retransmitted_packets: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) repair_packets: u64,
    pub(super) repair_bytes: u64,
    pub(super) timeouts: u64,
    pub(super) padding_bytes: u64,
    pub(super) tracked_bytes: u64,
    pub(super) reasons: ReasonCounts,
}

/// Counters of a flow's frames.
#[derive(Clone, Debug, Default)]
pub(super) struct FrameRecord {
    pub(super) complete: u64,
    pub(super) complete_bytes: u64,
    pub(super) decodable: u64,
    pub(super) on_time: u64,
    pub(super) decodable_on_time: u64,
    pub(super) shown_at: Option<Instant>,
    /// Duration and beginning of the longest gap.
    pub(super) longest_gap: Option<(Duration, Instant)>,
    /// Delays of complete frames.
    pub(super) delays: Histogram,
    /// The same over the fastest path's propagation delay, of frames that are judged.
    pub(super) excesses: Histogram,
    pub(super) captured: u64,
    pub(super) captured_bytes: u64,
    pub(super) judged: u64,
    pub(super) late: u64,
    /// Boxed, as they are few.
    pub(super) exceptions: Box<ExceptionalFrames>,
    /// Receiver's count when the window opened.
    pub(super) recovered_baseline: u64,
    pub(super) recovered_fragments: u64,
}

/// Frames that do not arrive, or arrive when it is too late to judge. Metrics of all frames combine
/// these with the usual ones, and so count each frame once.
#[derive(Clone, Debug, Default)]
pub(super) struct ExceptionalFrames {
    pub(super) dropped: u64,
    pub(super) abandoned: u64,
    /// Times of frames that the receiver gave up, until it did.
    pub(super) dropped_delays: Histogram,
    /// Times of complete but unjudged frames, over the fastest path's propagation delay.
    pub(super) unjudged_excesses: Histogram,
    /// Times of judged but incomplete frames, at least the deadline.
    pub(super) failed_excesses: Histogram,
}

#[derive(Clone, Debug, Default)]
pub(super) struct LinkRecord {
    pub(super) baseline: anabranch_link::LinkStatistics,
    pub(super) observed: Duration,
    pub(super) busy: Duration,
    pub(super) byte_nanos: u128,
    pub(super) delivered_bytes: u64,
    pub(super) offered_packets: u64,
    pub(super) waited: Duration,
    pub(super) started_packets: u64,
    pub(super) max_queued_bytes: u64,
    pub(super) drops: DropReport,
    pub(super) marked_packets: u64,
}

impl FlowRecord {
    /// Makes an empty record of a flow.
    pub(super) fn of(flow: &FlowSpec) -> FlowRecord {
        FlowRecord {
            paths: vec![PathRecord::default(); flow.paths.len()],
            ..FlowRecord::default()
        }
    }

    /// Returns the bytes of complete frames and of streams.
    pub(super) fn useful_bytes(&self) -> u64 {
        self.frames.complete_bytes + self.stream.bytes
    }

    pub(super) fn all_paths(&self) -> PathRecord {
        let mut all = PathRecord::default();
        self.paths.iter().for_each(|path| all.merge(path));
        all
    }
}

impl PathRecord {
    /// Adds the sender's counts since the window opened.
    pub(super) fn add(&mut self, counters: &PathCounters) {
        let since = &self.baseline;
        self.retransmitted_packets += counters.retransmitted_packets - since.retransmitted_packets;
        self.retransmitted_bytes += counters.retransmitted_bytes - since.retransmitted_bytes;
        self.repair_packets += counters.repair_packets - since.repair_packets;
        self.repair_bytes += counters.repair_bytes - since.repair_bytes;
        self.timeouts += counters.retransmission_timeouts - since.retransmission_timeouts;
        self.padding_bytes += counters.padding_bytes - since.padding_bytes;
        self.tracked_bytes += counters.sent_bytes - since.sent_bytes;
        let reasons = counters.reasons.since(&since.reasons);
        self.reasons = self.reasons.plus(&reasons);
    }

    pub(super) fn merge(&mut self, other: &PathRecord) {
        self.sent_packets += other.sent_packets;
        self.sent_bytes += other.sent_bytes;
        self.feedback_bytes += other.feedback_bytes;
        self.delivered_packets += other.delivered_packets;
        self.delivered_bytes += other.delivered_bytes;
        self.dropped_packets += other.dropped_packets;
        self.retransmitted_packets += other.retransmitted_packets;
        self.retransmitted_bytes += other.retransmitted_bytes;
        self.repair_packets += other.repair_packets;
        self.repair_bytes += other.repair_bytes;
        self.timeouts += other.timeouts;
        self.padding_bytes += other.padding_bytes;
        self.tracked_bytes += other.tracked_bytes;
        self.reasons = self.reasons.plus(&other.reasons);
        self.delays.merge(&other.delays);
        self.fragments += other.fragments;
        self.fragment_times += other.fragment_times;
    }

    /// Returns λ of Zhang & Lei's eq. 9, or over all paths q of eq. 8.
    pub(super) fn cost_ms(&self) -> Option<f64> {
        mean_ms(self.fragment_times, self.fragments)
    }

    pub(super) fn traffic(&self, seconds: f64) -> Traffic {
        let throughput_bits_per_second = per_second(self.delivered_bytes, seconds);
        let useless_bytes = self.padding_bytes + self.retransmitted_bytes + self.repair_bytes;
        let copied_bytes = self.reasons.sum(SendReason::is_copy).bytes;
        let useless_ratio = ratio(useless_bytes, self.tracked_bytes).unwrap_or(0.0);
        Traffic {
            throughput_bits_per_second,
            media_bits_per_second: throughput_bits_per_second * (1.0 - useless_ratio),
            sent_bits_per_second: per_second(self.sent_bytes, seconds),
            feedback_bits_per_second: per_second(self.feedback_bytes, seconds),
            feedback_ratio: ratio(self.feedback_bytes, self.sent_bytes),
            packets_sent: self.sent_packets,
            packets_delivered: self.delivered_packets,
            packets_dropped: self.dropped_packets,
            loss_ratio: ratio(self.dropped_packets, self.sent_packets),
            packets_retransmitted: self.retransmitted_packets,
            retransmission_ratio: ratio(self.retransmitted_packets, self.sent_packets),
            packets_repair: self.repair_packets,
            repair_ratio: ratio(self.repair_packets, self.sent_packets),
            copy_ratio: ratio(copied_bytes, self.tracked_bytes),
            timeouts: self.timeouts,
            padding_ratio: ratio(self.padding_bytes, self.tracked_bytes),
            reasons: self.reasons.iter().map(ReasonTraffic::of).collect(),
            delay_ms: Distribution::of(&self.delays),
        }
    }
}

/// A frame with its outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Time from its capture until it was complete, or until it was given up.
    pub(super) delay: Duration,
    /// Time until it was delivered, if it is complete.
    pub(super) out_delay: Duration,
    pub(super) is_complete: bool,
    /// Whether it is displayed: it has arrived with all frames that it needs.
    pub(super) is_displayed: bool,
    pub(super) size_bytes: u64,
    /// Whether it had all its time before the end.
    pub(super) has_time: bool,
}

impl FrameRecord {
    /// Records a captured frame. Only a frame that has all its time before the end is judged.
    pub(super) fn on_captured(&mut self, size_bytes: u64, has_time: bool) {
        self.captured += 1;
        self.captured_bytes += size_bytes;
        self.judged += u64::from(has_time);
    }

    /// Records the outcome of a captured frame. `base_delay` is the least possible delay.
    pub(super) fn on_outcome(&mut self, frame: &Outcome, deadline: Duration, base_delay: Duration) {
        let Outcome {
            delay, has_time, ..
        } = *frame;
        let exceptions = &mut self.exceptions;
        if !frame.is_complete {
            exceptions.dropped += 1;
            exceptions.dropped_delays.record_span(delay);
            if has_time {
                let excess = delay.max(deadline).saturating_sub(base_delay);
                exceptions.failed_excesses.record_span(excess);
            }
            return;
        }
        let excesses = if has_time {
            &mut self.excesses
        } else {
            &mut exceptions.unjudged_excesses
        };
        excesses.record_span(delay.saturating_sub(base_delay));
        self.delays.record_span(delay);
        self.complete += 1;
        self.complete_bytes += frame.size_bytes;
        self.decodable += u64::from(frame.is_displayed);
        self.late += u64::from(delay > deadline);
        self.on_time += u64::from(has_time && delay <= deadline);
        let is_out_in_time = has_time && frame.out_delay <= deadline;
        self.decodable_on_time += u64::from(is_out_in_time && frame.is_displayed);
    }

    /// Records a frame that can be shown now. The gap before it counts if the window is open.
    pub(super) fn show(&mut self, now: Instant, is_open: bool) {
        if is_open && let Some(shown_at) = self.shown_at {
            self.longest_gap = self.longest_gap.max(Some((now - shown_at, shown_at)));
        }
        self.shown_at = Some(now);
    }

    /// Closes the window. A picture that stands still until the end counts as a gap.
    pub(super) fn close(&mut self, opened_at: Instant, now: Instant) {
        if let Some(shown_at) = self.shown_at {
            let from = shown_at.max(opened_at);
            let gap = (now.saturating_since(from), from);
            self.longest_gap = self.longest_gap.max(Some(gap));
        }
    }

    pub(super) fn merge(&mut self, other: &FrameRecord) {
        self.captured += other.captured;
        self.captured_bytes += other.captured_bytes;
        self.decodable += other.decodable;
        self.complete += other.complete;
        self.late += other.late;
        self.complete_bytes += other.complete_bytes;
        self.judged += other.judged;
        self.on_time += other.on_time;
        self.decodable_on_time += other.decodable_on_time;
        self.recovered_fragments += other.recovered_fragments;
        self.delays.merge(&other.delays);
        self.excesses.merge(&other.excesses);
        self.exceptions.merge(&other.exceptions);
        self.longest_gap = self.longest_gap.max(other.longest_gap);
    }

    pub(super) fn statistics(&self) -> FrameStatistics {
        FrameStatistics {
            captured: self.captured,
            complete: self.complete,
            late: self.late,
            dropped: self.exceptions.dropped,
            abandoned: self.exceptions.abandoned,
            fragments_recovered: self.recovered_fragments,
            complete_on_time_ratio: ratio(self.on_time, self.judged),
            delay_ms: Distribution::of(&self.delays),
            delay_with_dropped_ms: of_both(&self.delays, &self.exceptions.dropped_delays),
            delay_excess_ms: of_both(&self.excesses, &self.exceptions.unjudged_excesses),
            delay_excess_of_all_ms: of_both(&self.excesses, &self.exceptions.failed_excesses),
            decodable_ratio: ratio(self.decodable, self.complete + self.exceptions.dropped),
            decodable_on_time_ratio: ratio(self.decodable_on_time, self.judged),
            longest_gap_ms: self.longest_gap.map(|(gap, _)| gap.as_millis_f64()),
            longest_gap_from_s: self.longest_gap.map(|(_, from)| from.as_secs_f64()),
        }
    }
}

impl ExceptionalFrames {
    fn merge(&mut self, other: &ExceptionalFrames) {
        self.dropped += other.dropped;
        self.abandoned += other.abandoned;
        self.dropped_delays.merge(&other.dropped_delays);
        self.unjudged_excesses.merge(&other.unjudged_excesses);
        self.failed_excesses.merge(&other.failed_excesses);
    }
}

/// Returns the distribution of both histograms' samples together.
fn of_both(one: &Histogram, other: &Histogram) -> Option<Distribution> {
    let mut both = one.clone();
    both.merge(other);
    Distribution::of(&both)
}

impl FragmentRecord {
    pub(super) fn merge(&mut self, other: &FragmentRecord) {
        self.out_of_order += other.out_of_order;
        self.gap_count += other.gap_count;
        self.gaps += other.gaps;
        self.path_switches += other.path_switches;
        self.peak_bytes = self.peak_bytes.max(other.peak_bytes);
        self.peak_frames = self.peak_frames.max(other.peak_frames);
    }

    /// Returns the statistics. `all_paths` is the sum of the flow's paths.
    pub(super) fn statistics(&self, all_paths: &PathRecord) -> FragmentStatistics {
        FragmentStatistics {
            gap_mean_ms: mean_ms(self.gaps, self.gap_count),
            out_of_order_ratio: ratio(self.out_of_order, all_paths.fragments),
            path_switches: self.path_switches,
            aggregate_cost_ms: all_paths.cost_ms(),
            reassembly_peak_bytes: self.peak_bytes,
            reassembly_peak_frames: self.peak_frames,
        }
    }
}

impl HeadOfLineRecord {
    #[inline]
    pub(super) fn add(&mut self, bytes: u64, waited: Duration) {
        self.bytes += bytes;
        self.byte_nanos += u128::from(bytes) * u128::from(waited.as_nanos());
        self.longest = self.longest.max(waited);
    }

    pub(super) fn merge(&mut self, other: &HeadOfLineRecord) {
        self.bytes += other.bytes;
        self.byte_nanos += other.byte_nanos;
        self.longest = self.longest.max(other.longest);
    }

    pub(super) fn statistics(&self) -> Option<HeadOfLineStatistics> {
        (self.bytes > 0).then(|| HeadOfLineStatistics {
            mean_ms: self.byte_nanos as f64 / self.bytes as f64 / 1e6,
            max_ms: self.longest.as_millis_f64(),
        })
    }
}

impl StreamRecord {
    /// Opens a window.
    pub(super) fn open(&mut self, flow: FlowId, world: &impl Counters) {
        self.viewer_baseline = world.viewer_counts(flow).unwrap_or_default();
        self.adaptive_baseline = world.adaptive_counts(flow).unwrap_or_default();
    }

    /// Closes a window.
    pub(super) fn close(&mut self, flow: FlowId, world: &impl Counters) {
        let seen = world.viewer_counts(flow);
        self.viewer = seen.map(|seen| seen.since(&self.viewer_baseline));
        let seen = world.adaptive_counts(flow);
        self.adaptive = seen.map(|seen| seen.since(&self.adaptive_baseline));
    }

    /// Returns the view of a viewer of adaptive bitrates in `seconds`; `None`: there is none.
    pub(super) fn adaptive(&self, seconds: f64) -> Option<AdaptiveStatistics> {
        let seen = self.adaptive?;
        let rate_sum = seen.rate_sum as f64;
        Some(AdaptiveStatistics {
            segments: seen.segments,
            mean_rate_bits_per_second: (seen.segments > 0).then(|| rate_sum / seen.segments as f64),
            switches: seen.switches,
            underflows: seen.underflows,
            stall_time_ms: seen.stalled.as_millis_f64(),
            stall_ratio: (seconds > 0.0).then(|| seen.stalled.as_secs_f64() / seconds),
            start_up_ms: seen.start_up.map(Duration::as_millis_f64),
        })
    }

    /// Returns the view of its film's viewer in `seconds`; `None`: it has none.
    pub(super) fn download(&self, seconds: f64) -> Option<DownloadStatistics> {
        let seen = self.viewer?;
        Some(DownloadStatistics {
            displayed: seen.displayed,
            discarded: seen.discarded,
            underflows: seen.underflows,
            stall_time_ms: seen.stalled.as_secs_f64() * 1e3,
            stall_ratio: (seconds > 0.0).then(|| seen.stalled.as_secs_f64() / seconds),
            start_up_ms: seen.start_up.map(|start_up| start_up.as_secs_f64() * 1e3),
        })
    }
}

impl ViewerRecord {
    pub(super) fn merge(&mut self, other: &ViewerRecord) {
        self.displayed += other.displayed;
        self.late += other.late;
        self.skipped += other.skipped;
        self.freezes += other.freezes;
        self.frozen += other.frozen;
        self.watched += other.watched;
        self.start_up = self.start_up.max(other.start_up);
    }

    pub(super) fn statistics(&self) -> PlayerStatistics {
        PlayerStatistics {
            displayed: self.displayed,
            late: self.late,
            skipped: self.skipped,
            freezes: self.freezes,
            freeze_time_ms: self.frozen.as_millis_f64(),
            stall_ratio: ratio(self.frozen.as_nanos(), self.watched.as_nanos()),
            start_up_ms: self.start_up.map(Duration::as_millis_f64),
        }
    }
}

impl LinkRecord {
    pub(super) fn add(&mut self, part: &anabranch_link::LinkStatistics) {
        self.observed += part.observed;
        self.busy += part.queue.busy;
        self.byte_nanos += part.queue.byte_nanos;
        self.delivered_bytes += part.delivered_bytes;
        self.offered_packets += part.offered_packets;
        self.waited += part.queue.waited;
        self.started_packets += part.queue.started_packets;
        self.max_queued_bytes = self.max_queued_bytes.max(part.queue.max_queued_bytes);
        self.drops.queue_full += part.dropped.of(DropCause::QueueFull);
        self.drops.random_loss += part.dropped.of(DropCause::RandomLoss);
        self.drops.outage += part.dropped.of(DropCause::Outage);
        self.drops.early_drop += part.dropped.of(DropCause::EarlyDrop);
        self.drops.too_large += part.dropped.of(DropCause::TooLarge);
        self.marked_packets += part.queue.marked_packets;
    }

    pub(super) fn statistics(&self, name: &str, has_rate: bool) -> LinkStatistics {
        let seconds = self.observed.as_secs_f64();
        let is_measured = has_rate && seconds > 0.0;
        LinkStatistics {
            name: name.to_owned(),
            utilisation: is_measured.then(|| self.busy.as_secs_f64() / seconds),
            throughput_bits_per_second: per_second(self.delivered_bytes, seconds),
            queue_mean_bytes: self.byte_nanos as f64 / (self.observed.as_nanos().max(1)) as f64,
            queue_max_bytes: self.max_queued_bytes,
            queue_wait_mean_ms: match self.started_packets {
                0 => 0.0,
                count => self.waited.as_millis_f64() / count as f64,
            },
            packets_offered: self.offered_packets,
            packets_dropped: self.drops,
            packets_marked: self.marked_packets,
        }
    }
}

fn mean_ms(sum: Duration, count: u64) -> Option<f64> {
    (count > 0).then(|| sum.as_millis_f64() / count as f64)
}

pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

pub(super) fn per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}
