//! The decisions in which the three forms of Delay-BBR differ, each under a name.

use anabranch_units::Duration;

/// One form of Delay-BBR. All other behaviour is common to all forms.
#[derive(Debug)]
pub(super) struct Profile {
    /// Signal that is compared with the base.
    pub(super) delay_signal: SignalForm,
    /// Pacing gain in Startup; Drain has its inverse.
    pub(super) startup_gain: f64,
    /// Whether congestion by Algorithm 4 ends Startup too.
    pub(super) has_startup_delay_exit: bool,
    /// Equality of rates where text and code differ in it.
    pub(super) comparison: Comparison,
    /// Step of an acknowledgement's handling at which the bandwidth is updated.
    pub(super) bandwidth_update: BandwidthUpdate,
    /// Reaction to an expired least round-trip time.
    pub(super) expiry: Expiry,
    /// Course of a ProbeRTT that follows the expiry of the least round-trip time.
    pub(super) expiry_stay: ExpiryStay,
    /// Use of samples taken while the sender was application-limited.
    pub(super) app_limited_samples: AppLimitedSamples,
    /// Share of the send rate that a round in ProbeRTT for congestion must deliver. Below it the
    /// sample replaces the bandwidth estimate, and Drain follows; zero: never.
    pub(super) capacity_drop_ratio: f64,
    /// Whether a round that overflows the buffer replaces the bandwidth estimate and is followed by
    /// Drain.
    pub(super) answers_overflow: bool,
    /// Whether Drain slows the encoder too.
    pub(super) is_encoder_slowed_in_drain: bool,
    /// Least bandwidth-delay product, in packets of the largest size.
    pub(super) min_bdp_packets: u64,
    /// The minimum rate's reach.
    pub(super) min_rate_floor: MinRateFloor,
    /// State in which a path starts again after silence.
    pub(super) after_silence: AfterSilence,
    /// Schedule of the receiver's reports.
    pub(super) reports: Reports,
    /// Allowance before the first bandwidth sample.
    pub(super) start: Start,
}

/// Signal that is compared with the least round-trip time since the last back-off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SignalForm {
    /// Round-trip times smoothed by eq. 12.
    Smoothed {
        /// α: the weight of the new one, 0 to 1.
        weight: f64,
        /// Resolution to which they are cut.
        resolution: Duration,
    },
    /// Their floor, which jitter does not raise. Less than the margin, or the jitter, is noise.
    Floor {
        /// Noise that hosts may add.
        margin: Duration,
    },
}

/// Whether a value on the boundary belongs to the quiet side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// `<`, as printed.
    Strict,
    /// `<=`, as in the code.
    Inclusive,
}

impl Comparison {
    /// Whether `value` is below `bound`.
    pub(super) fn is_below<T: PartialOrd>(self, value: T, bound: T) -> bool {
        match self {
            Comparison::Strict => value < bound,
            Comparison::Inclusive => value <= bound,
        }
    }
}

/// Step of an acknowledgement's handling at which the bandwidth is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BandwidthUpdate {
    /// Before Algorithm 2, as the text has it.
    BeforeAlgorithm2,
    /// After Algorithm 5: it enters ProbeRTT with the estimate of the round before.
    AfterAlgorithm5,
}

/// Reaction to an expired least round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// Nothing: Algorithm 5 as printed.
    Keep,
    /// The least one of ProbeRTT replaces it; ProbeRTT lasts at most four round trips.
    Raise,
}

/// Course of a ProbeRTT entered to find the least round-trip time again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpiryStay {
    /// As for congestion: three quarters of the bandwidth until the excess has drained.
    AsForCongestion,
    /// Half the bandwidth for at least a full round. Flows that share a queue see their least
    /// round-trip times expire together, so it empties and shows them the path without it.
    HalfRateRound,
}

/// Use of samples taken while the sender was application-limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppLimitedSamples {
    /// The same as others.
    Count,
    /// They show a lower bound of the capacity, except in ProbeRTT for congestion.
    OnlyRaise,
}

/// States in which the minimum rate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MinRateFloor {
    /// In ProbeBW at gain 1.
    CruisingOnly,
    /// Always.
    Always,
}

/// State in which a path starts again after silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterSilence {
    /// In its earlier state, at the first acknowledgement.
    Resume,
    /// In Startup, at half the bandwidth; all delays are learnt again.
    Startup,
}

/// Schedule of the receiver's reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reports {
    /// Every packet.
    EveryPacket,
    /// A few at a time, and holes at once.
    Batches,
}

/// Allowance before the first bandwidth sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// 10 kB a round trip.
    TenKilobytes,
    /// The initial window at once (RFC 6928). Once the round-trip time is known, the start-up gain
    /// times the window per round trip (BBRInitPacingRate of draft-ietf-ccwg-bbr).
    InitialWindow,
}
