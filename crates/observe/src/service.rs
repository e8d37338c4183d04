//! Notifications of a service manager by sd_notify(3), if there is one.

use std::sync::{Mutex, OnceLock, PoisonError};

use anabranch_units::{Duration, Instant};
use sd_notify::NotifyState;

/// State of the notifications.
struct Manager {
    /// Watchdog interval; `None` if the manager has no watchdog.
    interval: Option<Duration>,
    turns: Mutex<Turns>,
}

#[derive(Default)]
struct Turns {
    alive_at: Instant,
    is_stopping: bool,
}

/// Returns the manager, if there is one.
fn manager() -> Option<&'static Manager> {
    static MANAGER: OnceLock<Option<Manager>> = OnceLock::new();
    MANAGER
        .get_or_init(|| {
            std::env::var_os("NOTIFY_SOCKET")?;
            // Half of the watchdog's timeout, as sd_watchdog_enabled(3) recommends.
            let patience = sd_notify::watchdog_enabled();
            let interval = patience.map(|span| Duration::from_micros(span.as_micros() as u64 / 2));
            Some(Manager {
                interval,
                turns: Mutex::default(),
            })
        })
        .as_ref()
}

/// Returns whether there is a service manager.
pub fn is_managed() -> bool {
    manager().is_some()
}

/// Reports that everything is open.
pub fn ready() {
    emit(&[NotifyState::Ready]);
}

/// Reports the status in one line.
pub fn status(line: &str) {
    emit(&[NotifyState::Status(line)]);
}

/// Reports that the main thread is alive, and once that the program stops.
pub fn turn(now: Instant, is_stopping: bool) {
    let Some(manager) = manager() else { return };
    let mut turns = manager.turns.lock().unwrap_or_else(PoisonError::into_inner);
    if is_stopping && !core::mem::replace(&mut turns.is_stopping, true) {
        emit(&[NotifyState::Stopping]);
    }
    if let Some(interval) = manager.interval
        && now >= turns.alive_at
    {
        turns.alive_at = now + interval;
        emit(&[NotifyState::Watchdog]);
    }
}

/// Notifies the manager, and ignores errors: the manager may have gone.
fn emit(state: &[NotifyState<'_>]) {
    if is_managed() {
        let _ = sd_notify::notify(state);
    }
}
