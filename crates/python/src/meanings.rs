//! Meanings of metrics, in a line each; `docs/scenarios.md` has them in full.

/// Returns the meaning of a metric.
///
/// # Panics
/// If there is none: the tests ask for all of them.
pub(crate) fn meaning(metric: &str) -> &'static str {
    let found = MEANINGS.iter().find(|(name, _)| *name == metric);
    found.expect("every metric has a meaning").1
}

const MEANINGS: &[(&str, &str)] = &[
    ("jain", "Jain's index over the sessions' throughput"),
    (
        "fairness",
        "smallest over largest throughput of the flows of adaptive media",
    ),
    (
        "fairness-1s",
        "the same over periods of 1 s in which all these flows run: the least",
    ),
    ("fairness-5s", "the same over periods of 5 s"),
    ("fairness-20s", "the same over periods of 20 s"),
    ("throughput", "bits on the wire delivered"),
    (
        "goodput",
        "bits of complete frames, or of a stream in order",
    ),
    ("send-rate", "bits on the wire sent"),
    (
        "rate-variation",
        "standard deviation over mean of the throughput's 1 s samples",
    ),
    (
        "receive-rate-min",
        "least of the throughput's 200 ms samples",
    ),
    (
        "receive-rate-max",
        "largest of the throughput's 200 ms samples",
    ),
    (
        "receive-rate-variation",
        "standard deviation over mean of the throughput's 200 ms samples",
    ),
    (
        "send-rate-variation",
        "standard deviation over mean of the send rate's 200 ms samples",
    ),
    (
        "oscillations",
        "number of falls of the 500 ms throughput from 125 % to 75 % of its mean",
    ),
    (
        "convergence-time",
        "time until the throughput stays within 25 % of its later mean",
    ),
    (
        "convergence-time-mean",
        "the same for every phase of an adaptive flow: the mean",
    ),
    (
        "convergence-time-max",
        "the same for every phase of an adaptive flow: the longest",
    ),
    ("settled-phases", "share of the phases that settle"),
    ("feedback-rate", "bits on the wire sent back"),
    ("feedback-overhead", "bytes sent back over bytes sent"),
    (
        "overhead",
        "bytes on the wire of both ends over bytes of the frames captured, less 1",
    ),
    ("loss", "packets dropped by links over packets sent"),
    ("retransmissions", "packets sent again over packets sent"),
    ("copies", "bytes of repeated copies over bytes sent"),
    (
        "repairs",
        "repairs of forward error correction over packets sent",
    ),
    (
        "recovered",
        "fragments that repairs recovered over packets dropped by links",
    ),
    ("timeouts", "expiries of streams' retransmission timers"),
    ("padding", "bytes of padding over bytes sent"),
    ("delay-mean", "mean one-way delay of packets"),
    ("delay-p50", "median one-way delay of packets"),
    (
        "delay-p95",
        "95th percentile of the one-way delay of packets",
    ),
    (
        "delay-p99",
        "99th percentile of the one-way delay of packets",
    ),
    ("frames-captured", "frames captured"),
    ("frames-complete", "frames complete at the receiver"),
    ("frames-late", "frames complete after their deadline"),
    ("frames-dropped", "frames given up by the receiver"),
    (
        "frames-complete-on-time",
        "frames complete within the deadline over frames captured",
    ),
    (
        "frame-delay-mean",
        "mean time from capture to the last fragment's arrival, of complete frames",
    ),
    ("frame-delay-p50", "its median"),
    ("frame-delay-p95", "its 95th percentile"),
    ("frame-delay-p99", "its 99th percentile"),
    ("frame-delay-max", "the longest"),
    (
        "frame-delay-all-mean",
        "mean frame delay; frames given up count until that moment",
    ),
    ("frame-delay-all-p95", "its 95th percentile"),
    (
        "frame-delay-excess-p95",
        "95th percentile of the frame delay beyond the fastest path's propagation",
    ),
    (
        "frame-delay-all-excess-p95",
        "the same of all frames; incomplete ones count with the deadline or more",
    ),
    (
        "frames-decodable",
        "frames complete with all that they need, over those with a known outcome",
    ),
    (
        "frames-decodable-on-time",
        "frames in time with all that they need, over frames captured",
    ),
    (
        "freezes",
        "gaps between displayed frames that a viewer notices (W3C freezeCount)",
    ),
    ("freeze-time", "their total duration"),
    (
        "stall-ratio",
        "time in which the picture stood still over the time watched",
    ),
    (
        "start-up-delay",
        "time from the flow's start to its first picture",
    ),
    (
        "reassembly-peak",
        "most bytes of media that the receiver held at a time",
    ),
    (
        "packet-gap-mean",
        "mean time between the arrivals of consecutive packets of a frame",
    ),
    (
        "out-of-order",
        "share of packets of media that arrive after a later one",
    ),
    (
        "path-switches",
        "number of new packets that took another path than the one before",
    ),
    (
        "head-of-line-mean",
        "mean waiting time of a stream's arrived bytes for missing ones",
    ),
    ("head-of-line-max", "longest such waiting time"),
    (
        "pictures-displayed",
        "pictures of a downloaded film that were displayed",
    ),
    (
        "pictures-discarded",
        "pictures of a downloaded film that came too late",
    ),
    (
        "underflows",
        "times at which the next picture was missing or the buffer ran out",
    ),
    (
        "segment-rate",
        "mean bitrate of an adaptive viewer's segments",
    ),
    (
        "rate-switches",
        "number of segments requested with another bitrate than the one before",
    ),
    (
        "aggregate-cost",
        "Zhang & Lei's q: sum over paths of share times mean time since capture",
    ),
    (
        "longest-gap",
        "longest time between two frames that can be shown",
    ),
    ("transfers", "streams that have arrived to their ends"),
    (
        "transfer-time-mean",
        "mean time from a stream's beginning to the arrival of its end",
    ),
    ("transfer-time-p95", "its 95th percentile"),
    (
        "utilisation",
        "share of the time in which the link was sending",
    ),
    ("link-throughput", "bits delivered by the link"),
    (
        "queue-mean",
        "mean bytes in the queue, the packet in service included",
    ),
    (
        "queue-max",
        "most bytes in the queue, since the start of the run",
    ),
    (
        "queue-wait-mean",
        "mean time from a packet's arrival to the begin of its transmission",
    ),
    ("drops-queue-full", "packets that a full queue dropped"),
    ("drops-random-loss", "packets lost by chance"),
    ("drops-outage", "packets lost in outages"),
    ("drops-early", "packets that the queue discipline dropped"),
    ("drops-too-large", "packets longer than the link's MTU"),
    ("marked", "packets that the queue discipline marked"),
];
