//! Measurements of a run over a window, as reports give them.

use anabranch_core::{ReasonCount, SendReason};
use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use super::rates::RateSamples;

/// All measurements of one window of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Jain's index over the sessions' throughput; `null` if nothing arrived. Raw datagrams, whose
    /// rate is fixed, are left out.
    pub jain_index: Option<f64>,
    /// Smallest over largest throughput of the flows of adaptive media; `null`: there are not two.
    pub fairness_ratio: Option<f64>,
    /// The same over periods of 1 s, 5 s and 20 s in which all these flows run: the least value.
    pub fairness_ratio_min: [Option<f64>; 3],
    /// All flows together. Delays and losses are over packets, not over flows.
    pub total: FlowStatistics,
    /// Each flow, in the scenario's order.
    pub flows: Vec<FlowStatistics>,
    /// Each link, in the order of names.
    pub links: Vec<LinkStatistics>,
}

/// Measurements of one flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowStatistics {
    /// Its name.
    pub name: String,
    /// Its controller.
    pub controller: String,
    /// Its scheduler.
    pub scheduler: String,
    /// Bits of complete frames, or of a stream in order, delivered per second of the window in
    /// which the flow ran.
    pub goodput_bits_per_second: f64,
    /// Coefficient of variation of the throughput's 1 s samples while the flow ran.
    pub rate_variation: Option<f64>,
    /// Variation of its rates; `null`: it does not run for two samples, or is all flows together.
    pub rates: Option<RateSamples>,
    /// Phases of a flow of adaptive media: the parts of 5 s and more between changes of its
    /// available rate, without its own pauses.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Its packets on all paths.
    pub traffic: Traffic,
    /// Bytes on the wire that both ends sent, over the bytes of the frames captured, less 1:
    /// headers, feedback, padding, retransmissions and repairs. `null`: no media.
    pub overhead_ratio: Option<f64>,
    /// Its frames.
    pub frames: FrameStatistics,
    /// Its packets of media; `null`: no media.
    pub fragments: Option<FragmentStatistics>,
    /// Its viewer's experience; `null`: no media.
    pub player: Option<PlayerStatistics>,
    /// Experience of the viewer of a film that is being downloaded; `null`: no such film.
    #[serde(default)]
    pub download: Option<DownloadStatistics>,
    /// Experience of a viewer of adaptive bitrates; `null`: no such viewer.
    #[serde(default)]
    pub adaptive: Option<AdaptiveStatistics>,
    /// Number of new segments of a stream that took another path than the one before.
    #[serde(default)]
    pub segment_path_switches: u64,
    /// Waiting times of arrived bytes of a stream for missing ones before them; `null`: no byte can
    /// be read, or it is no stream.
    #[serde(default)]
    pub head_of_line: Option<HeadOfLineStatistics>,
    /// Streams that have arrived to their ends.
    pub transfers: u64,
    /// Time from a stream's beginning to the arrival of its end.
    pub transfer_time_ms: Option<Distribution>,
    /// Its packets by path.
    pub paths: Vec<PathStatistics>,
}

/// Measurements of one flow on one of its paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathStatistics {
    /// The route that the path takes.
    pub route: String,
    /// Its packets.
    pub traffic: Traffic,
    /// Its share of the flow's arrived packets of media, α in Zhang & Lei's eq. 8; `null`: no
    /// media.
    pub media_ratio: Option<f64>,
    /// Mean time of these packets from their frame's capture to their arrival: λ in eq. 9.
    pub cost_ms: Option<f64>,
}

/// Packets of media, by the first copy that arrives before its frame is complete or given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FragmentStatistics {
    /// Mean time between the arrivals of consecutive packets of a frame, in either order.
    pub gap_mean_ms: Option<f64>,
    /// Share of packets that arrive after one that is later in the media.
    pub out_of_order_ratio: Option<f64>,
    /// Number of new packets that took another path than the one before.
    pub path_switches: u64,
    /// Zhang & Lei's q, eq. 8: the sum over paths of share times cost.
    pub aggregate_cost_ms: Option<f64>,
    /// Most bytes of media that the receiver has held at a time, since the start of the flow.
    pub reassembly_peak_bytes: u64,
    /// Most frames at a time, including frames of which nothing had arrived yet.
    pub reassembly_peak_frames: u64,
}

/// Experience of a viewer behind the flow's jitter buffer, by time of display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlayerStatistics {
    /// Frames displayed.
    pub displayed: u64,
    /// Frames that came after their time, displayed or skipped.
    pub late: u64,
    /// Frames that came so late that the next had arrived too.
    pub skipped: u64,
    /// Gaps of at least max(3·avg, avg + 150 ms), avg over the last 30 frames displayed (W3C).
    pub freezes: u64,
    /// Their total duration.
    pub freeze_time_ms: f64,
    /// Freeze time over the time from the first frame displayed to the end.
    pub stall_ratio: Option<f64>,
    /// Time from the flow's start to its first frame's display; of all flows, the longest.
    pub start_up_ms: Option<f64>,
}

/// Experience of the viewer of a film that is being downloaded
/// ([`anabranch_video::stored_player`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DownloadStatistics {
    /// Pictures displayed.
    pub displayed: u64,
    /// Pictures that came too late and were not displayed.
    pub discarded: u64,
    /// Number of times at which the next picture was missing when due, including the start.
    pub underflows: u64,
    /// Total time in which the picture stood still after the first.
    pub stall_time_ms: f64,
    /// Over the time that the flow ran.
    pub stall_ratio: Option<f64>,
    /// From the flow's start to the first picture.
    pub start_up_ms: Option<f64>,
}

/// Experience of a viewer of adaptive bitrates ([`anabranch_video::adaptive_player`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdaptiveStatistics {
    /// Complete segments.
    pub segments: u64,
    /// Mean of their bitrates; `null`: none has arrived.
    pub mean_rate_bits_per_second: Option<f64>,
    /// Segments requested with another bitrate than the one before.
    pub switches: u64,
    /// Number of times at which the buffer ran out.
    pub underflows: u64,
    /// Total time in which the picture stood still after the first.
    pub stall_time_ms: f64,
    /// Over the time that the flow ran.
    pub stall_ratio: Option<f64>,
    /// From the flow's start to the first picture.
    pub start_up_ms: Option<f64>,
}

/// Waiting times of arrived bytes of a stream for missing ones before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeadOfLineStatistics {
    /// Mean over all readable bytes, including bytes that never waited.
    pub mean_ms: f64,
    /// Longest waiting time of a byte.
    pub max_ms: f64,
}

/// Packets from senders to receivers. Bits and bytes are those on the wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Bits delivered per second of the window in which the flow ran.
    pub throughput_bits_per_second: f64,
    /// The same without padding, retransmissions and repairs: media and its headers.
    pub media_bits_per_second: f64,
    /// Bits sent per second of the window in which the flow ran.
    pub sent_bits_per_second: f64,
    /// Bits that the receiver sent back per second of that time.
    pub feedback_bits_per_second: f64,
    /// Bytes sent back over bytes sent.
    pub feedback_ratio: Option<f64>,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets delivered.
    pub packets_delivered: u64,
    /// Packets lost by links.
    pub packets_dropped: u64,
    /// Dropped over sent.
    pub loss_ratio: Option<f64>,
    /// Retransmitted fragments and segments.
    pub packets_retransmitted: u64,
    /// Retransmitted over sent, in packets.
    pub retransmission_ratio: Option<f64>,
    /// Repairs of forward error correction sent.
    #[serde(default)]
    pub packets_repair: u64,
    /// Repairs over sent, in packets.
    #[serde(default)]
    pub repair_ratio: Option<f64>,
    /// Bytes of repeated copies of fragments and segments, for any reason, over all sent bytes.
    #[serde(default)]
    pub copy_ratio: Option<f64>,
    /// Expiries of retransmission timers.
    pub timeouts: u64,
    /// Padding over all that was sent, in bytes.
    pub padding_ratio: Option<f64>,
    /// Packets that the sender's end of a session sent, by reason.
    #[serde(default)]
    pub reasons: Vec<ReasonTraffic>,
    /// One-way delay of the packets delivered.
    pub delay_ms: Option<Distribution>,
}

/// Packets that a session sent for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonTraffic {
    /// The reason, by [`SendReason::name`].
    pub reason: String,
    /// Packets sent.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

impl ReasonTraffic {
    pub(super) fn of((reason, count): (SendReason, ReasonCount)) -> ReasonTraffic {
        ReasonTraffic {
            reason: reason.name().to_owned(),
            packets: count.packets,
            bytes: count.bytes,
        }
    }
}

/// Frames of video, by when they were captured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameStatistics {
    /// Frames captured and handed to the sender.
    pub captured: u64,
    /// Complete frames.
    pub complete: u64,
    /// Frames among them that were complete later than the flow's deadline after capture.
    pub late: u64,
    /// Frames given up by the receiver, partly arrived or not at all.
    pub dropped: u64,
    /// Frames given up by the sender.
    pub abandoned: u64,
    /// Lost fragments that repairs have recovered at the receiver.
    #[serde(default)]
    pub fragments_recovered: u64,
    /// Frames complete within the deadline, over captured frames; those captured too near the run's
    /// end to have had all their time do not count.
    pub complete_on_time_ratio: Option<f64>,
    /// Time from capture to the arrival of the last fragment, of complete frames.
    pub delay_ms: Option<Distribution>,
    /// The same, with frames given up by the receiver, from capture to that moment (Zhang & Lei
    /// count these).
    pub delay_with_dropped_ms: Option<Distribution>,
    /// The delay of complete frames less the propagation delay of the flow's fastest path.
    pub delay_excess_ms: Option<Distribution>,
    /// The same of all frames that had their time. Incomplete frames count with the deadline, or
    /// with the time until they were given up if that is longer.
    #[serde(default)]
    pub delay_excess_of_all_ms: Option<Distribution>,
    /// Frames complete with all frames that they need, over those whose outcome is known.
    pub decodable_ratio: Option<f64>,
    /// Frames delivered within the deadline, with all frames that they need, over captured frames;
    /// as for [`FrameStatistics::complete_on_time_ratio`], those captured too near the run's end do
    /// not count.
    #[serde(default)]
    pub decodable_on_time_ratio: Option<f64>,
    /// Longest time between two frames that could be shown: complete, and with them all since the
    /// last key frame if frames depend on one another.
    pub longest_gap_ms: Option<f64>,
    /// Beginning of that time.
    #[serde(default)]
    pub longest_gap_from_s: Option<f64>,
}

/// Measurements of one link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkStatistics {
    /// Its name.
    pub name: String,
    /// Share of the window in which it was sending; `null` for a link of unlimited rate.
    pub utilisation: Option<f64>,
    /// Bits delivered per second.
    pub throughput_bits_per_second: f64,
    /// Mean over time of the bytes queued, the packet in service included.
    pub queue_mean_bytes: f64,
    /// Most bytes queued at a time, since the start of the run.
    pub queue_max_bytes: u64,
    /// Mean time that a packet waits before its transmission begins.
    pub queue_wait_mean_ms: f64,
    /// Packets that came to it.
    pub packets_offered: u64,
    /// Packets lost, by cause.
    pub packets_dropped: DropReport,
    /// Packets on which its queue set "congestion experienced".
    pub packets_marked: u64,
}

/// Lost packets by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropReport {
    /// The queue was full.
    pub queue_full: u64,
    /// Chance.
    pub random_loss: u64,
    /// The link was down.
    pub outage: u64,
    /// The queue's discipline chose it.
    pub early_drop: u64,
    /// It was longer than the link's MTU.
    #[serde(default)]
    pub too_large: u64,
}

/// Mean and percentiles (nearest rank, within 0.4 %), in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Distribution {
    /// Returns the distribution of spans recorded in nanoseconds; `None` without any.
    pub(crate) fn of(histogram: &Histogram) -> Option<Distribution> {
        fn percentile(percent: u8, histogram: &Histogram) -> Option<f64> {
            histogram
                .percentile(percent)
                .map(|nanos| nanos as f64 / 1e6)
        }
        Some(Distribution {
            mean: histogram.mean()? / 1e6,
            p50: percentile(50, histogram)?,
            p95: percentile(95, histogram)?,
            p99: percentile(99, histogram)?,
            max: histogram.max() as f64 / 1e6,
        })
    }
}

/// Part of a flow's time in which nothing changes on its links.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its beginning.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Time from its beginning until the received rate, over 1 s, stayed within 25 % of its mean
    /// over the phase's second half; `null`: it did not settle.
    pub convergence_time_ms: Option<f64>,
}

impl Phase {
    /// Returns the time that counts in means: a phase that does not settle takes all of its time.
    fn counted_ms(&self) -> f64 {
        let length_ms = (self.to_s - self.from_s) * 1e3;
        self.convergence_time_ms.unwrap_or(length_ms)
    }

    /// Returns the mean convergence time of several phases.
    pub(super) fn mean_ms(phases: &[Phase]) -> Option<f64> {
        let sum: f64 = phases.iter().map(Phase::counted_ms).sum();
        (!phases.is_empty()).then(|| sum / phases.len() as f64)
    }

    /// Returns the longest convergence time of several phases.
    pub(super) fn longest_ms(phases: &[Phase]) -> Option<f64> {
        phases.iter().map(Phase::counted_ms).max_by(f64::total_cmp)
    }

    /// Returns the share of phases that settle.
    pub(super) fn settled_share(phases: &[Phase]) -> Option<f64> {
        let settled = phases
            .iter()
            .filter(|phase| phase.convergence_time_ms.is_some());
        (!phases.is_empty()).then(|| settled.count() as f64 / phases.len() as f64)
    }
}
