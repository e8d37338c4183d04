//! Settings that all streams share.

use std::sync::{Arc, Mutex};

use anabranch_net::Clock;
use anabranch_observe::Observation;
use anabranch_terminal::stop::Stop;
use anabranch_units::Duration;
use anabranch_video::player::JitterBuffer;

use crate::slowness::Slowness;

/// Settings that all streams share.
#[derive(Clone)]
pub(super) struct StreamSettings {
    /// This end's own choice, until the latency is changed.
    pub(super) buffer: Arc<Mutex<Option<JitterBuffer>>>,
    /// Interval of lines about paths.
    pub(super) report: Option<Duration>,
    pub(super) keeps_listening: bool,
    /// Whether messages begin with the stream's name.
    pub(super) shows_names: bool,
    pub(super) clock: Clock,
    pub(super) stop: Stop,
    pub(super) observation: Arc<Observation>,
    pub(super) slowness: Arc<Mutex<Slowness>>,
}
