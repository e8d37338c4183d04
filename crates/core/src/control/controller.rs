//! Choice of a session's controller, and its parameters.

use core::fmt;
use std::sync::Arc;

use anabranch_units::options::AlgorithmOptions;
use anabranch_units::{DataRate, Seed};

use super::CongestionController;

/// A congestion control algorithm with its options, from which each path of a session builds a
/// controller of its own. Cheap to clone. Two are equal if they have the same name.
#[derive(Clone)]
pub struct Controller {
    name: Arc<str>,
    rate: RateKind,
    build: Arc<Build>,
}

type Build = dyn Fn(&ControllerConfig) -> Box<dyn CongestionController> + Send + Sync;

impl Controller {
    /// Creates a controller whose instances, one for each path, come from `build`. `name`
    /// identifies it, options included, and `rate` is the meaning of its rate for an encoder.
    pub fn new(
        name: impl Into<Arc<str>>,
        rate: RateKind,
        build: impl Fn(&ControllerConfig) -> Box<dyn CongestionController> + Send + Sync + 'static,
    ) -> Self {
        Controller {
            name: name.into(),
            rate,
            build: Arc::new(build),
        }
    }

    /// Returns the name as the user wrote it, options included: `cubic:hystart=classic`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the meaning of the target rate for an encoder.
    pub fn rate(&self) -> RateKind {
        self.rate
    }

    /// Creates an instance for one path.
    pub fn build(&self, config: &ControllerConfig) -> Box<dyn CongestionController> {
        (self.build)(config)
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Controller").field(&self.name).finish()
    }
}

impl PartialEq for Controller {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Meaning of a controller's target rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateKind {
    /// The path's capacity, at which its queue would stand. An encoder that follows has peaks, and
    /// gets 0.8 of it (Zhang & Lei's code).
    Bandwidth,
    /// The rate that its source gives to an encoder, with a margin already left: the encoder gets
    /// all of it except for headers.
    Media,
}

impl RateKind {
    /// Returns the encoder's share of the rate if `payload_share` of the bytes on the wire are
    /// payload.
    pub fn encoder_share(self, payload_share: f64) -> f64 {
        match self {
            RateKind::Bandwidth => 0.8,
            RateKind::Media => payload_share,
        }
    }
}

/// Parameters of a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerConfig {
    /// Minimum rate of the controller.
    pub min_rate: DataRate,
    /// The rate above which it is of no use to go: the most that the media can use. NADA's RMAX,
    /// SCReAM's maximum. [`DataRate::MAX`] without one.
    pub max_rate: DataRate,
    /// The rate before anything is known.
    pub initial_rate: DataRate,
    /// The window before anything is known, in packets of [`ControllerConfig::max_packet_bytes`]
    /// (RFC 6928: 10; ns-2: 2).
    pub initial_window_packets: u32,
    /// The rate of `fixed`.
    pub fixed_rate: DataRate,
    /// The largest packet on the wire, in bytes; windows are counted in it.
    pub max_packet_bytes: u32,
    /// Whether packets may be sent with an ECT codepoint.
    pub is_ecn_capable: bool,
    /// Whether the session carries media, which a queue of its own would make late.
    pub is_media: bool,
    /// Whether reductions of a window are spread over a round trip (RFC 9937): in streams whose
    /// acknowledgements name packets.
    pub spreads_reductions: bool,
    /// The algorithm's own options, as in `cubic:hystart=classic`.
    pub options: AlgorithmOptions,
    /// The path's random stream.
    pub seed: Seed,
}

impl Default for ControllerConfig {
    fn default() -> Self {
        ControllerConfig {
            min_rate: DataRate::from_kilobits_per_second(50),
            max_rate: DataRate::MAX,
            initial_rate: DataRate::from_kilobits_per_second(300),
            initial_window_packets: 10,
            fixed_rate: DataRate::from_megabits_per_second(1),
            max_packet_bytes: 1_500,
            is_ecn_capable: false,
            is_media: false,
            spreads_reductions: false,
            options: AlgorithmOptions::default(),
            seed: Seed::default(),
        }
    }
}
