//! Notifications of a service manager, on systems without `sd_notify(3)`: there are none.

use anabranch_units::Instant;

/// Returns false: no service manager takes notifications.
pub fn is_managed() -> bool {
    false
}

/// Does nothing.
pub fn ready() {}

/// Does nothing.
pub fn status(_line: &str) {}

/// Does nothing.
pub fn turn(_now: Instant, _is_stopping: bool) {}
