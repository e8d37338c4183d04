//! `live-bbr`: the rules of the authors' code, made fit for networks and sources that their
//! experiments do not have.
//!
//! Decisions, beyond those of `v5` where not named here:
//! 1. The floor of round-trip times takes the place of eq. 12: the least of packets sent within
//!    three times the path's jitter, which is measured (`recovery/jitter.rs`). A queue that stands
//!    lifts it, jitter does not. Where there is none it is the latest round-trip time.
//! 2. Congestion by Algorithm 4 ends Startup too, from its third round on. Without it the start of
//!    another flow fills the buffer for seconds, the flows that run learn the full queue as their
//!    base, and the published rules lock in there. The base learnt in Startup holds in ProbeBW
//!    until the first back-off: a base learnt only then may be that of a queue.
//!    It ends Startup only if less comes out than was sent, by more than jitter explains: before
//!    anything is known of jitter, a queue shows in both.
//! 3. Congestion needs 5 ms above the base as well, and the jitter: a fifth of a short round-trip
//!    time is the hosts' noise. All that compares round-trip times makes allowance for the jitter:
//!    whether a queue has been met, the end of a climb, an overflowing buffer.
//! 4. A sample taken while the sender had too little to send raises the bandwidth, but neither
//!    lowers nor ages it, nor says that the pipe is full; except in ProbeRTT for congestion, if
//!    less than 95 % of what was sent came through: then the path is full whatever the sender has.
//! 5. In ProbeRTT for congestion a sample of what was sent in it that shows less than two
//!    thirds of the rate at which that was sent replaces the estimate at once: capacity has gone,
//!    and ten rounds with a growing queue take seconds; even the end of one takes as long as the
//!    queue. The queue that has grown meanwhile is left to Drain, as Startup's is, and the encoder
//!    is slowed with it. A sample's interval is uncertain by the jitter: less than two thirds has
//!    to be beyond that doubt, and the estimate becomes the most that may have come through.
//! 6. Four packets count as drained: less cannot be told from the grain of packets. So does what
//!    the gain itself keeps in flight, where jitter makes round trips longer than the least by a
//!    third or more; else ProbeRTT would never end there.
//! 7. The minimum rate holds in every state. The path starts with the initial window at once, since
//!    live video does not wait for the first report; then with twice that window a round trip, the
//!    configured initial rate, or what a source gives that does not follow the target
//!    (`opening.rs`), whichever is most.
//! 8. A silent path starts again in Startup from half its bandwidth, with its delays learnt anew.
//! 9. A sender that has too little to send probes for two round trips, with padding, so that one
//!    sample lies in the probe from end to end; while that finds at least 5 % more, the next probe
//!    follows at once. Rounds that only overlap the probe never show more than the encoder sends.
//!    A sender whose media waits for more than 60 ms does the same, without padding, if reports
//!    are of two packets and more: with these a round is longer than a phase, and shows next to
//!    nothing of the probe. Where each packet is reported it would only make rates less steady
//!    (case 2: variation 0.094 in place of 0.088). So does one that for ten rounds has neither run
//!    out nor met a queue: the path is not full. While media waits for half of its lifetime or
//!    longer, a probe that found all that it asked for is followed by one with twice the excess,
//!    up to 1.44. And if what has left 40 ms into a probe meets no queue at all, by the least
//!    round-trip time of packets as large, the rate doubles at once and once more with each round
//!    trip, as in Startup, until the round-trip time grows by 5 ms; where nothing queues such a
//!    probe does not wait for its turn. What does not leave comes late, and at 11 % a probe a path
//!    that has come to carry four times as much is believed to after eight seconds, by doubled
//!    excesses after one.
//! 10. Reports come in batches, three a round trip and holes at once; each packet counts with its
//!     own round-trip time. A sender that has not run out for ten rounds, on any path, is reported
//!     to every 10 ms: it finds bandwidth by its rounds. With 40 ms at 200 ms of round trip these
//!     saw a third of a probe, the rate grew by 4 % a cycle instead of 7 %, and what a flow of Reno
//!     had left was taken in 40 s instead of 27.
//! 11. A ProbeRTT for expiry sends at half the bandwidth, for a full round at least. At three
//!     quarters, until each flow's own excess has drained, the queue does not empty: now and then
//!     (one run in forty of Zhang & Lei's case 1) the flows took its delay for the path's, one
//!     expiry after the other, and ended with a full queue.
//! 12. A second round on end that loses 5 % while the round-trip time is a quarter above the
//!     least ever seen overflows a buffer. What came through replaces the estimate, the least
//!     round-trip time ever counts again, and the excess drains. Where the sum of estimates stays
//!     above a capacity that has fallen, or that several flows at their minimum rates exceed, the
//!     rules before lock in at a full queue and lose a tenth to a third of all packets. If the
//!     losses stay after an answer, the path itself loses packets, and forty rounds pass before
//!     the next. While the excess drains, a round that delivered what was sent in it replaces no
//!     estimate: what is declared lost had left before, and the rate is that of draining. The
//!     rest of the answer stands: without it one flow among four (Zhang & Lei's configurations)
//!     loses a tenth to a half more.
//! 13. Where the jitter is 5 ms or more, one and a half times what the path holds is in flight at
//!     the most. Delay tells of a queue there only when it is longer than the jitter. BBR's window
//!     is twice as much; over `scenarios/cellular.toml`, whose capacity falls all the time, the
//!     mean delay is 49 ms with this window and 56 ms with BBR's. What the path holds goes by the
//!     least round-trip time since the last back-off: by an older one, a path that has become
//!     longer would be limited to less than it carries, which would then lower the estimate.

//! 14. A source with a rate of its own, which had no more to send when the delay grew, takes it for
//!     the path's as soon as draining does not shorten it. Until then it drained down to a product
//!     with the old round-trip time, for up to ten seconds: of media over a path whose delay steps
//!     by 40 ms every 3 s, 3 % came late. Others cannot tell so from those who fill what they
//!     leave (tried: three greedy flows then lock in at a full queue, and the delay of two
//!     encoders that follow grows by half).
//! 15. Trains, which have no pauses, sample a source with a rate of its own over an only path, too
//!     (`trains.rs`). By samples over a round trip, pictures of 2 Mbit/s found 4 of 6 Mbit/s. An
//!     encoder that follows is not: a train shows what the path carries while others pause, and
//!     where two encoders of RFC 8867's cases believed that, 0.6 % more of the frames came late.

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
