//! `delay-bbr-text`: Algorithms 1 to 5 as printed, with as few decisions as they need to run.
//!
//! Decisions:
//! 1. Algorithm 3 line 2 prints rtt = sent − now: the sign is a slip.
//! 2. Algorithm 3 prints no mode for lines 11 to 17, but the prose says twice that the smoothed and
//!    the base round-trip time are those "during the ProbeBW phase": they are.
//! 3. α = 0.9 weighs the new sample, as eq. 12 prints it, though a filter of noise would weigh the
//!    old one.
//! 4. "2/ln 2" is the start-up gain, and its inverse that of Drain. The text gives both for BBR in
//!    general and neither for Delay-BBR.
//! 5. "Lasts for 3 times" is three rounds, a round being counted by packet number; growth is of the
//!    maximum over ten rounds, as in BBR.
//! 6. Eq. 13 is computed over one round trip and once per round, before Algorithm 2. Once per
//!    acknowledgement, as the prose can be read too, its maximum would be one of noise: the queue
//!    would never drain, which contradicts the authors' figures.
//! 7. kSimilarMinRtt has no value in print: 1.125, the code's.
//! 8. `<` as printed: similar round-trip times, and drained.
//! 9. Algorithm 5 never renews an expired least round-trip time: it is kept, and while it stays
//!    expired ProbeRTT is entered again at the acknowledgement after its end.
//! 10. The text does not say in which phase of the gain cycle ProbeBW begins: at random as in BBR.
//! 11. No minimum rate is printed; it is a property of the authors' experiments. It holds in
//!     ProbeBW at gain 1, as in their code. The rate is at least a packet per second everywhere.
//! 12. Ten packets of 1000 bytes per round trip before the first sample, as in the code.
//! 13. A silent path is paced at half its bandwidth until it answers: the text has no timeouts.

use core::f64::consts::LN_2;

use anabranch_units::Duration;

use super::profile::{
    AfterSilence, AppLimitedSamples, BandwidthUpdate, Comparison, Expiry, ExpiryStay, MinRateFloor,
    Profile, Reports, SignalForm, Start,
};

pub(super) static PROFILE: Profile = Profile {
    delay_signal: SignalForm::Smoothed {
        weight: 0.9,
        resolution: Duration::from_nanos(1),
    },
    startup_gain: 2.0 / LN_2,
    has_startup_delay_exit: false,
    comparison: Comparison::Strict,
    bandwidth_update: BandwidthUpdate::BeforeAlgorithm2,
    expiry: Expiry::Keep,
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
