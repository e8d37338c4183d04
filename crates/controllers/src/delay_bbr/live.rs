//! `live-bbr`: the rules of the authors' code, extended to networks and sources that their
//! experiments do not have.
//!
//! Decisions (where this list names none, those of `v5` hold):
//! 1. The floor of round-trip times replaces eq. 12: the least of packets sent within three times
//!    the path's jitter, which is measured (`recovery/jitter.rs`). A standing queue raises it,
//!    jitter does not. Without jitter it is the latest round-trip time.
//! 2. Congestion by Algorithm 4 ends Startup too, from its third round on. Without this rule the
//!    start of another flow fills the buffer for seconds, the running flows learn the full queue as
//!    their base, and the published rules lock in there. The base learnt in Startup holds in
//!    ProbeBW until the first back-off: a base learnt only then may be that of a queue. Congestion
//!    ends Startup only if the delivery rate is below the send rate, by more than jitter explains:
//!    before jitter is known, a queue shows in both.
//! 3. Congestion needs 5 ms above the base as well, and the jitter: a fifth of a short round-trip
//!    time is the hosts' noise. All comparisons of round-trip times allow for the jitter: whether a
//!    queue has been met, the end of a climb, an overflowing buffer.
//! 4. A sample taken while the sender was application-limited raises the bandwidth, but neither
//!    lowers nor ages it, nor shows that the pipe is full. The exception is ProbeRTT for
//!    congestion, if less than 95 % of the sent bytes were delivered: then the path is full
//!    whatever the sender has.
//! 5. In ProbeRTT for congestion, a sample of packets sent in it may show less than two thirds of
//!    their send rate. Such a sample replaces the estimate at once: capacity has gone, and ten
//!    rounds with a growing queue take seconds; even the end of one takes as long as the queue. The
//!    queue that has grown meanwhile is left to Drain, as Startup's is, and the encoder is slowed
//!    with it. The jitter makes a sample's interval uncertain: the rate must be below two thirds
//!    even with that doubt, and the estimate becomes the largest rate that it allows.
//! 6. Four packets count as drained, since packets are too coarse a unit for less. The same holds
//!    for the packets that the gain itself keeps in flight, where jitter makes round trips longer
//!    than the least by a third or more; otherwise ProbeRTT would never end there.
//! 7. The minimum rate holds in every state. The path starts with the initial window at once, since
//!    live video does not wait for the first report. Afterwards it sends the largest of three
//!    rates: twice that window per round trip, the configured initial rate, and the rate of a
//!    source that does not follow the target (`opening.rs`).
//! 8. A silent path starts again in Startup from half its bandwidth, and learns its delays again.
//! 9. A sender that is application-limited probes for two round trips, with padding, so that one
//!    sample lies entirely in the probe. While the probe finds at least 5 % more, the next one
//!    follows at once. Rounds that only overlap the probe never show more than the encoder sends. A
//!    sender with a backlog of more than 60 ms does the same, without padding, if reports are of
//!    two packets and more: with these a round is longer than a phase, and shows next to nothing of
//!    the probe. Where each packet is reported, it would only make rates less steady (case 2:
//!    variation 0.094 in place of 0.088). A sender that for ten rounds has neither run out nor met
//!    a queue probes so, too, since the path is not full. While the backlog takes half of the
//!    media's lifetime or longer, a probe that found its full rate is followed by one with twice
//!    the excess, up to 1.44. If packets sent 40 ms into a probe meet no queue at all, by the least
//!    round-trip time of packets as large, the rate doubles at once. It doubles again with each
//!    round trip, as in Startup, until the round-trip time grows by 5 ms; where nothing queues,
//!    such a probe does not wait for its turn. Packets in the backlog are late. At 11 % a probe,
//!    the estimate of a path whose capacity has quadrupled follows after eight seconds; with
//!    doubled excesses, after one.
//! 10. Reports come in batches, three a round trip and holes at once; each packet counts with its
//!     own round-trip time. A sender that has not run out for ten rounds, on any path, gets a
//!     report every 10 ms, since it finds bandwidth by its rounds. With 40 ms at 200 ms of round
//!     trip these saw a third of a probe. The rate grew by 4 % a cycle instead of 7 %, and took the
//!     bandwidth left by a flow of Reno in 40 s instead of 27.
//! 11. A ProbeRTT for expiry sends at half the bandwidth, for at least a full round. At three
//!     quarters, until each flow's own excess has drained, the queue does not empty. Then
//!     occasionally (one run in forty of Zhang & Lei's case 1) the flows took its delay for the
//!     path's, one expiry after the other, and ended with a full queue.
//! 12. Two consecutive rounds that lose 5 % while the round-trip time is a quarter above the least
//!     ever seen show that a buffer overflows. The delivered rate replaces the estimate, the least
//!     round-trip time ever counts again, and the excess drains. The sum of estimates may stay
//!     above a capacity that has fallen, or that several flows at their minimum rates exceed. There
//!     the rules above lock in at a full queue and lose a tenth to a third of all packets. If the
//!     losses stay after an answer, the path itself loses packets, and forty rounds pass before the
//!     next. While the excess drains, a round that delivered all that was sent in it replaces no
//!     estimate: packets declared lost were sent before, and the rate is that of draining. The rest
//!     of the answer stands: without it one flow among four (Zhang & Lei's configurations) loses a
//!     tenth to a half more.
//! 13. Where the jitter is 5 ms or more, packets in flight are limited to one and a half
//!     bandwidth-delay products. There the delay shows a queue only when it is longer than the
//!     jitter. BBR's window is twice the product; over `scenarios/cellular.toml`, whose capacity
//!     falls all the time, the mean delay is 49 ms with this window and 56 ms with BBR's. The
//!     product uses the least round-trip time since the last back-off. An older one would limit a
//!     path that has become longer to less than it carries, which would then lower the estimate.

//! 14. A source with a rate of its own, which was application-limited when the delay grew, accepts
//!     the new delay as the path's as soon as draining does not shorten it. Without this rule it
//!     drains down to a product with the old round-trip time, for up to ten seconds: of media over
//!     a path whose delay steps by 40 ms every 3 s, 3 % came late. Other sources cannot distinguish
//!     this from flows that fill the bandwidth that they leave (tried: three greedy flows then lock
//!     in at a full queue, and the delay of two encoders that follow grows by half).
//! 15. Trains, which have no pauses, sample a source with a rate of its own over an only path, too
//!     (`trains.rs`). By samples over a round trip, pictures of 2 Mbit/s found 4 of 6 Mbit/s. An
//!     encoder that follows the target is excluded: a train shows the path's capacity while others
//!     pause, and where two encoders of RFC 8867's cases believed that, 0.6 % more of the frames
//!     were late.

use anabranch_units::Duration;

use super::profile::{
    AfterSilence, AppLimitedSamples, BandwidthUpdate, Comparison, Expiry, ExpiryStay, MinRateFloor,
    Profile, Reports, SignalForm, Start,
};

pub(super) static PROFILE: Profile = Profile {
    delay_signal: SignalForm::Floor {
        margin: Duration::from_millis(5),
    },
    startup_gain: 2.0,
    has_startup_delay_exit: true,
    comparison: Comparison::Inclusive,
    bandwidth_update: BandwidthUpdate::AfterAlgorithm5,
    expiry: Expiry::Raise,
    expiry_stay: ExpiryStay::HalfRateRound,
    app_limited_samples: AppLimitedSamples::OnlyRaise,
    capacity_drop_ratio: 2.0 / 3.0,
    answers_overflow: true,
    is_encoder_slowed_in_drain: true,
    min_bdp_packets: 4,
    min_rate_floor: MinRateFloor::Always,
    after_silence: AfterSilence::Startup,
    reports: Reports::Batches,
    start: Start::InitialWindow,
};
