//! The command of `link`: its end, and the signals that end it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use anabranch_emu::{Program, ProgramError};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Interval at which the stop signals are looked at.
const PAUSE: StdDuration = StdDuration::from_millis(100);

/// Waits until a program ends. A stop signal asks it to end.
///
/// # Errors
/// The operating system does not say how it ended.
pub(super) fn wait(program: &Program, stop: &StopSignals) -> Result<ExitStatus, ProgramError> {
    loop {
        if let Some(status) = program.wait_for(PAUSE)? {
            return Ok(status);
        }
        if stop.is_set() {
            return program.stop();
        }
    }
}

/// Returns the exit code of a command, by the convention of shells: 128 and the signal's number.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX)
}

/// Flag that SIGTERM and SIGHUP set, and SIGINT if it comes to this program alone. Ctrl-C at a
/// terminal also reaches the command, which may go on.
#[derive(Clone, Debug, Default)]
pub(super) struct StopSignals(Arc<AtomicBool>);

impl StopSignals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub(super) fn new(has_terminal: bool) -> std::io::Result<StopSignals> {
        let stop = StopSignals::default();
        for signal in [SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
        }
        // A handler, even without an effect, keeps the program alive.
        let of_interrupt = if has_terminal {
            Arc::default()
        } else {
            Arc::clone(&stop.0)
        };
        signal_hook::flag::register(SIGINT, of_interrupt)?;
        Ok(stop)
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_shells() {
        for (raw, code) in [(0, 0), (7 << 8, 7), (9, 137), (255 << 8, 255)] {
            assert_eq!(exit_code(ExitStatus::from_raw(raw)), code, "{raw}");
        }
    }
}
