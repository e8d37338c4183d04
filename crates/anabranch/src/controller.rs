//! Congestion controllers: how fast a path may send.
//!
//! [`CONTROLLERS`] lists those of the library, and [`by_name`] returns one, with options behind its
//! name. One's own implements [`CongestionController`] and needs no registration:
//!
//! ```
//! use anabranch::controller::{
//!     CongestionController, ControlParameters, Controller, ControllerConfig, Feedback, RateKind,
//!     Timeout,
//! };
//! use anabranch::scheduler::SessionView;
//! use anabranch::units::Instant;
//! use anabranch::{DataRate, PathView};
//!
//! /// Sends at a constant rate, whatever happens.
//! #[derive(Debug)]
//! struct Constant(DataRate);
//!
//! impl CongestionController for Constant {
//!     fn on_feedback(&mut self, _: Instant, _: &Feedback<'_>, _: &SessionView, _: &[PathView]) {}
//!
//!     fn on_timeout(&mut self, _now: Instant, _cause: Timeout) {}
//!
//!     fn control(&self) -> ControlParameters {
//!         ControlParameters {
//!             pacing_rate: Some(self.0),
//!             ..ControlParameters::of(self.0)
//!         }
//!     }
//!
//!     fn state(&self) -> &'static str {
//!         "Constant"
//!     }
//! }
//!
//! let rate = DataRate::from_megabits_per_second(2);
//! let build = move |_: &ControllerConfig| Box::new(Constant(rate)) as _;
//! let constant = Controller::new("constant", RateKind::Bandwidth, build);
//! let path = constant.build(&ControllerConfig::default());
//! assert_eq!(path.control().pacing_rate, Some(rate));
//! ```

pub use anabranch_controllers::{
    CONTROLLERS, ControllerEntry, DEFAULT, UnknownController, by_name, default_controller,
};
pub use anabranch_core::control::{
    CongestionController, ControlParameters, Controller, ControllerConfig, RateKind, Timeout,
};
pub use anabranch_core::recovery::{
    AckedPacket, DeliverySnapshot, Feedback, FeedbackSchedule, HoleReports, PacketContent,
    RateSample, RttEstimator, SentPacket,
};
pub use anabranch_units::options::{AlgorithmOption, AlgorithmOptions, OptionError, OptionValues};
