//! `delay-bbr`: behaviour of the authors' published sender (`bbr_sender_v5` of
//! SoonyangZhang/congestion-responce-experiment), where it differs from their text.
//!
//! Decisions:
//! 1. α = 0.95, and eq. 12 is computed in whole milliseconds, rounded down.
//! 2. Start-up gain 2, drain 1/2, where the text quotes BBR's 2/ln 2.
//! 3. One bandwidth sample per round, from the acknowledgement that ends it, enters the filter
//!    after Algorithm 5; the first round gives none.
//! 4. `<=` where the text prints `<`: similar round-trip times, and drained.
//! 5. An expired least round-trip time is replaced by the least one of ProbeRTT, which then lasts
//!    at most four of the old ones.
//! 6. The minimum rate holds in ProbeBW at gain 1 only; before the first acknowledgement the rate
//!    is the start-up gain times it.
//! 7. It ignores losses, and whether the sender had enough to send. It has no window.
//!
//! Additions to the code, which has no timeouts: a silent path is paced at half its bandwidth until
//! it answers, and no path below a packet per second. The code keeps BBR's three-sample filter;
//! here it is exact.

use anabranch_units::Duration;

use super::profile::{
    AfterSilence, AppLimitedSamples, BandwidthUpdate, Comparison, Expiry, ExpiryStay, MinRateFloor,
    Profile, Reports, SignalForm, Start,
};

pub(super) static PROFILE: Profile = Profile {
    delay_signal: SignalForm::Smoothed {
        weight: 0.95,
        resolution: Duration::from_millis(1),
    },
    startup_gain: 2.0,
    has_startup_delay_exit: false,
    comparison: Comparison::Inclusive,
    bandwidth_update: BandwidthUpdate::AfterAlgorithm5,
    expiry: Expiry::Raise,
    expiry_stay: ExpiryStay::AsForCongestion,
    app_limited_samples: AppLimitedSamples::Count,
    capacity_drop_ratio: 0.0,
    answers_overflow: false,
    is_encoder_slowed_in_drain: false,
    min_bdp_packets: 0,
    min_rate_floor: MinRateFloor::CruisingOnly,
    after_silence: AfterSilence::Resume,
    reports: Reports::EveryPacket,
    start: Start::TenKilobytes,
};
