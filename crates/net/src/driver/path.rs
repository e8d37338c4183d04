//! State of a session's path that the transport does not know.

use anabranch_units::Instant;

use super::transmit::FIRST_BYTES;
use crate::carrier::Carrier;
use crate::route::Route;

/// State of a path that the endpoint does not know.
#[derive(Debug)]
pub(super) struct DriverPath {
    pub(super) route: Option<Route>,
    /// Whether anything has arrived by it.
    pub(super) is_heard: bool,
    pub(super) heard_at: Instant,
    /// Carrier of the last authentic datagram.
    pub(super) carrier: Carrier,
    /// The only carrier whose challenges are answered; `None`: all.
    pub(super) answered_carrier: Option<Carrier>,
    pub(super) is_out: bool,
    /// Size of the last datagram of the transport; at first, of a first question.
    pub(super) sent_bytes: usize,
    pub(super) unsent_datagrams: u64,
    pub(super) last_error: Option<String>,
}

impl Default for DriverPath {
    fn default() -> Self {
        DriverPath {
            route: None,
            is_heard: false,
            heard_at: Instant::ZERO,
            carrier: Carrier::default(),
            answered_carrier: None,
            is_out: false,
            sent_bytes: FIRST_BYTES,
            unsent_datagrams: 0,
            last_error: None,
        }
    }
}

impl DriverPath {
    /// Returns whether this end has chosen its destination, and has received nothing by it.
    pub(super) fn is_new(&self) -> bool {
        !self.is_heard && self.route.as_ref().is_some_and(Route::is_proven)
    }
}
