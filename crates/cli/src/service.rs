//! What a service manager is told: sd_notify(3). Without one, nothing is.

use std::sync::{Mutex, OnceLock, PoisonError};

use anabranch_units::{Duration, Instant};
use sd_notify::NotifyState;

/// What there is to tell the manager by.
struct Manager {
    /// How often it wants to hear that the program goes on; `None`: not at all.
    interval: Option<Duration>,
    turns: Mutex<Turns>,
}

#[derive(Default)]
struct Turns {
    alive_at: Instant,
    is_stopping: bool,
}

/// The manager, if there is one.
fn manager() -> Option<&'static Manager> {
    static MANAGER: OnceLock<Option<Manager>> = OnceLock::new();
    let found = || {
        std::env::var_os("NOTIFY_SOCKET")?;
        // Half of its patience, as sd_watchdog_enabled(3) recommends.
        let patience = sd_notify::watchdog_enabled();
        let interval = patience.map(|span| Duration::from_micros(span.as_micros() as u64 / 2));
        Some(Manager {
            interval,
            turns: Mutex::default(),
        })
    };
    MANAGER.get_or_init(found).as_ref()
}

/// Whether somebody wants to know how it goes.
pub(crate) fn is_managed() -> bool {
    manager().is_some()
}

/// All is open that was asked for.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// One line on how it goes.
pub(crate) fn status(line: &str) {
    tell(&[NotifyState::Status(line)]);
}

/// The main thread goes on.
pub(crate) fn turn(now: Instant, is_stopping: bool) {
    let Some(manager) = manager() else { return };
    let mut turns = manager.turns.lock().unwrap_or_else(PoisonError::into_inner);
    if is_stopping && !core::mem::replace(&mut turns.is_stopping, true) {
        tell(&[NotifyState::Stopping]);
    }
    if let Some(interval) = manager.interval
        && now >= turns.alive_at
    {
        turns.alive_at = now + interval;
        tell(&[NotifyState::Watchdog]);
    }
}

/// A manager that has gone has no use for it.
fn tell(state: &[NotifyState<'_>]) {
    if is_managed() {
        let _ = sd_notify::notify(state);
    }
}
