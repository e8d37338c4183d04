//! Metrics that can be expected, compared and tabulated, by name. To add one, add an entry to
//! [`METRICS`].

use super::statistics::{FlowStatistics, LinkStatistics, Phase, Statistics};

/// A number that a run measures.
#[derive(Clone, Copy)]
pub struct Metric {
    /// The name used in `[expect]` and in reports.
    pub name: &'static str,
    /// Objects that it is measured of.
    pub scope: Scope,
    /// Unit of the values.
    pub unit: Unit,
    read: Reader,
}

#[derive(Clone, Copy)]
enum Reader {
    Run(fn(&Statistics) -> Option<f64>),
    Flow(fn(&FlowStatistics) -> Option<f64>),
    Link(fn(&LinkStatistics) -> Option<f64>),
}

/// Objects that a metric is measured of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only a run as a whole.
    Run,
    /// Each flow, and all together.
    Flow,
    /// Each flow, but not all together.
    EachFlow,
    /// Each link.
    Link,
}

/// Object that a metric is measured of, in one scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// All flows together.
    All,
    /// The flow of this index.
    Flow(usize),
    /// The link of this index.
    Link(usize),
}

/// Unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 0 to 1.
    Share,
    /// Milliseconds.
    Milliseconds,
    /// Bits per second.
    BitsPerSecond,
    /// Bytes.
    Bytes,
    /// A number without a unit.
    Number,
}

impl Metric {
    /// Returns its value; `None` if the run had nothing to measure it by.
    pub fn of(&self, statistics: &Statistics, subject: Subject) -> Option<f64> {
        match (self.read, subject) {
            (Reader::Run(read), Subject::All) => read(statistics),
            (Reader::Flow(read), Subject::All) => read(&statistics.total),
            (Reader::Flow(read), Subject::Flow(flow)) => read(statistics.flows.get(flow)?),
            (Reader::Link(read), Subject::Link(link)) => read(statistics.links.get(link)?),
            _ => None,
        }
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Metric) -> bool {
        self.name == other.name
    }
}

impl core::fmt::Debug for Metric {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

const fn run(name: &'static str, unit: Unit, read: fn(&Statistics) -> Option<f64>) -> Metric {
    Metric {
        name,
        scope: Scope::Run,
        unit,
        read: Reader::Run(read),
    }
}

const fn each_flow(
    name: &'static str,
    unit: Unit,
    read: fn(&FlowStatistics) -> Option<f64>,
) -> Metric {
    Metric {
        scope: Scope::EachFlow,
        ..flow(name, unit, read)
    }
}

const fn flow(name: &'static str, unit: Unit, read: fn(&FlowStatistics) -> Option<f64>) -> Metric {
    Metric {
        name,
        scope: Scope::Flow,
        unit,
        read: Reader::Flow(read),
    }
}

const fn link(name: &'static str, unit: Unit, read: fn(&LinkStatistics) -> Option<f64>) -> Metric {
    Metric {
        name,
        scope: Scope::Link,
        unit,
        read: Reader::Link(read),
    }
}

use Unit::{BitsPerSecond, Bytes, Milliseconds, Number, Share};

/// All metrics.
pub const METRICS: &[Metric] = &[
    run("jain", Share, |run| run.jain_index),
    run("fairness", Share, |run| run.fairness_ratio),
    run("fairness-1s", Share, |run| run.fairness_ratio_min[0]),
    run("fairness-5s", Share, |run| run.fairness_ratio_min[1]),
    run("fairness-20s", Share, |run| run.fairness_ratio_min[2]),
    flow("throughput", BitsPerSecond, |flow| {
        Some(flow.traffic.throughput_bits_per_second)
    }),
    flow("goodput", BitsPerSecond, |flow| {
        Some(flow.goodput_bits_per_second)
    }),
    flow("send-rate", BitsPerSecond, |flow| {
        Some(flow.traffic.sent_bits_per_second)
    }),
    each_flow("rate-variation", Number, |flow| flow.rate_variation),
    each_flow("receive-rate-min", BitsPerSecond, |flow| {
        flow.rates.map(|rates| rates.received_min_bits_per_second)
    }),
    each_flow("receive-rate-max", BitsPerSecond, |flow| {
        flow.rates.map(|rates| rates.received_max_bits_per_second)
    }),
    each_flow("receive-rate-variation", Number, |flow| {
        flow.rates?.received_variation
    }),
    each_flow("send-rate-variation", Number, |flow| {
        flow.rates?.sent_variation
    }),
    each_flow("oscillations", Number, |flow| {
        flow.rates.map(|rates| rates.oscillations as f64)
    }),
    each_flow("convergence-time", Milliseconds, |flow| {
        flow.rates?.convergence_time_ms
    }),
    each_flow("convergence-time-mean", Milliseconds, |flow| {
        Phase::mean_ms(&flow.phases)
    }),
    each_flow("convergence-time-max", Milliseconds, |flow| {
        Phase::longest_ms(&flow.phases)
    }),
    each_flow("settled-phases", Share, |flow| {
        Phase::settled_share(&flow.phases)
    }),
    flow("feedback-rate", BitsPerSecond, |flow| {
        Some(flow.traffic.feedback_bits_per_second)
    }),
    flow("feedback-overhead", Share, |flow| {
        flow.traffic.feedback_ratio
    }),
    flow("overhead", Share, |flow| flow.overhead_ratio),
    flow("loss", Share, |flow| flow.traffic.loss_ratio),
    flow("retransmissions", Share, |flow| {
        flow.traffic.retransmission_ratio
    }),
    flow("copies", Share, |flow| flow.traffic.copy_ratio),
    flow("repairs", Share, |flow| flow.traffic.repair_ratio),
    flow("recovered", Share, |flow| {
        let lost = flow.traffic.packets_dropped;
        (lost > 0).then(|| flow.frames.fragments_recovered as f64 / lost as f64)
    }),
    flow("timeouts", Number, |flow| {
        Some(flow.traffic.timeouts as f64)
    }),
    flow("padding", Share, |flow| flow.traffic.padding_ratio),
    flow("delay-mean", Milliseconds, |flow| {
        flow.traffic.delay_ms.map(|delay| delay.mean)
    }),
    flow("delay-p50", Milliseconds, |flow| {
        flow.traffic.delay_ms.map(|delay| delay.p50)
    }),
    flow("delay-p95", Milliseconds, |flow| {
        flow.traffic.delay_ms.map(|delay| delay.p95)
    }),
    flow("delay-p99", Milliseconds, |flow| {
        flow.traffic.delay_ms.map(|delay| delay.p99)
    }),
    flow("frames-captured", Number, |flow| {
        Some(flow.frames.captured as f64)
    }),
    flow("frames-complete", Number, |flow| {
        Some(flow.frames.complete as f64)
    }),
    flow("frames-late", Number, |flow| Some(flow.frames.late as f64)),
    flow("frames-dropped", Number, |flow| {
        Some(flow.frames.dropped as f64)
    }),
    flow("frames-complete-on-time", Share, |flow| {
        flow.frames.complete_on_time_ratio
    }),
    flow("frame-delay-mean", Milliseconds, |flow| {
        flow.frames.delay_ms.map(|delay| delay.mean)
    }),
    flow("frame-delay-p50", Milliseconds, |flow| {
        flow.frames.delay_ms.map(|delay| delay.p50)
    }),
    flow("frame-delay-p95", Milliseconds, |flow| {
        flow.frames.delay_ms.map(|delay| delay.p95)
    }),
    flow("frame-delay-p99", Milliseconds, |flow| {
        flow.frames.delay_ms.map(|delay| delay.p99)
    }),
    flow("frame-delay-max", Milliseconds, |flow| {
        flow.frames.delay_ms.map(|delay| delay.max)
    }),
    flow("frame-delay-all-mean", Milliseconds, |flow| {
        flow.frames.delay_with_dropped_ms.map(|delay| delay.mean)
    }),
    flow("frame-delay-all-p95", Milliseconds, |flow| {
        flow.frames.delay_with_dropped_ms.map(|delay| delay.p95)
    }),
    flow("frame-delay-excess-p95", Milliseconds, |flow| {
        flow.frames.delay_excess_ms.map(|delay| delay.p95)
    }),
    flow("frame-delay-all-excess-p95", Milliseconds, |flow| {
        flow.frames.delay_excess_of_all_ms.map(|delay| delay.p95)
    }),
    flow("frames-decodable", Share, |flow| {
        flow.frames.decodable_ratio
    }),
    flow("frames-decodable-on-time", Share, |flow| {
        flow.frames.decodable_on_time_ratio
    }),
    flow("freezes", Number, |flow| {
        flow.player.map(|player| player.freezes as f64)
    }),
    flow("freeze-time", Milliseconds, |flow| {
        flow.player.map(|player| player.freeze_time_ms)
    }),
    flow("stall-ratio", Share, |flow| {
        match (flow.download, flow.adaptive) {
            (Some(download), _) => download.stall_ratio,
            (_, Some(adaptive)) => adaptive.stall_ratio,
            _ => flow.player?.stall_ratio,
        }
    }),
    flow("start-up-delay", Milliseconds, |flow| {
        match (flow.download, flow.adaptive) {
            (Some(download), _) => download.start_up_ms,
            (_, Some(adaptive)) => adaptive.start_up_ms,
            _ => flow.player?.start_up_ms,
        }
    }),
    flow("reassembly-peak", Bytes, |flow| {
        flow.fragments
            .map(|fragments| fragments.reassembly_peak_bytes as f64)
    }),
    flow("packet-gap-mean", Milliseconds, |flow| {
        flow.fragments?.gap_mean_ms
    }),
    flow("out-of-order", Share, |flow| {
        flow.fragments?.out_of_order_ratio
    }),
    flow("path-switches", Number, |flow| {
        let of_media = flow.fragments.map(|fragments| fragments.path_switches);
        Some(of_media.unwrap_or(flow.segment_path_switches) as f64)
    }),
    flow("head-of-line-mean", Milliseconds, |flow| {
        flow.head_of_line.map(|line| line.mean_ms)
    }),
    flow("head-of-line-max", Milliseconds, |flow| {
        flow.head_of_line.map(|line| line.max_ms)
    }),
    each_flow("pictures-displayed", Number, |flow| {
        flow.download.map(|download| download.displayed as f64)
    }),
    each_flow("pictures-discarded", Number, |flow| {
        flow.download.map(|download| download.discarded as f64)
    }),
    each_flow("underflows", Number, |flow| {
        let of_download = flow.download.map(|download| download.underflows);
        let of_adaptive = flow.adaptive.map(|adaptive| adaptive.underflows);
        of_download.or(of_adaptive).map(|count| count as f64)
    }),
    each_flow("segment-rate", BitsPerSecond, |flow| {
        flow.adaptive?.mean_rate_bits_per_second
    }),
    each_flow("rate-switches", Number, |flow| {
        flow.adaptive.map(|adaptive| adaptive.switches as f64)
    }),
    flow("aggregate-cost", Milliseconds, |flow| {
        flow.fragments?.aggregate_cost_ms
    }),
    flow("longest-gap", Milliseconds, |flow| {
        flow.frames.longest_gap_ms
    }),
    flow("transfers", Number, |flow| Some(flow.transfers as f64)),
    flow("transfer-time-mean", Milliseconds, |flow| {
        flow.transfer_time_ms.map(|time| time.mean)
    }),
    flow("transfer-time-p95", Milliseconds, |flow| {
        flow.transfer_time_ms.map(|time| time.p95)
    }),
    link("utilisation", Share, |link| link.utilisation),
    link("link-throughput", BitsPerSecond, |link| {
        Some(link.throughput_bits_per_second)
    }),
    link("queue-mean", Bytes, |link| Some(link.queue_mean_bytes)),
    link("queue-max", Bytes, |link| Some(link.queue_max_bytes as f64)),
    link("queue-wait-mean", Milliseconds, |link| {
        Some(link.queue_wait_mean_ms)
    }),
    link("drops-queue-full", Number, |link| {
        Some(link.packets_dropped.queue_full as f64)
    }),
    link("drops-random-loss", Number, |link| {
        Some(link.packets_dropped.random_loss as f64)
    }),
    link("drops-outage", Number, |link| {
        Some(link.packets_dropped.outage as f64)
    }),
    link("drops-early", Number, |link| {
        Some(link.packets_dropped.early_drop as f64)
    }),
    link("drops-too-large", Number, |link| {
        Some(link.packets_dropped.too_large as f64)
    }),
    link("marked", Number, |link| Some(link.packets_marked as f64)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (index, metric) in METRICS.iter().enumerate() {
            assert!(
                METRICS[..index]
                    .iter()
                    .all(|other| other.name != metric.name),
                "{metric:?}"
            );
        }
    }
}
