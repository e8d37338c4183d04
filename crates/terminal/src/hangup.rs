//! SIGHUP: a terminal that closes stops the program; without a terminal, files are opened again.

use std::fs::{self, File};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGHUP;

/// Meaning of the signal for this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The controlling terminal has closed: the same as Ctrl-C.
    Stop,
    /// A service opens its files again.
    Reopen,
    /// It was ignored when the program began, as by `nohup`.
    Nothing,
}

impl Meaning {
    /// Returns the meaning, by the state in which the program was started.
    pub(crate) fn of_now() -> Meaning {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        // The device stands for the controlling terminal, and cannot be opened without one.
        Meaning::of(&status, File::open("/dev/tty").is_ok())
    }

    fn of(status: &str, has_terminal: bool) -> Meaning {
        let ignored = status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        let is_ignored = ignored.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1);
        if is_ignored {
            Meaning::Nothing
        } else if has_terminal {
            Meaning::Stop
        } else {
            Meaning::Reopen
        }
    }
}

/// Flag of one file, which the signal sets if it asks to open files again.
#[derive(Clone, Debug, Default)]
pub struct Reopen(Arc<AtomicBool>);

impl Reopen {
    /// Creates a flag that the signal sets.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn on_signal() -> io::Result<Self> {
        let reopen = Reopen::default();
        if Meaning::of_now() == Meaning::Reopen {
            signal_hook::flag::register(SIGHUP, Arc::clone(&reopen.0))?;
        }
        Ok(reopen)
    }

    /// Returns whether the signal has come since the last call.
    pub fn is_due(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }

    /// Sets the flag, as the signal does.
    pub fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_means_what_its_surroundings_say() {
        let usual = "Name:\tab\nSigIgn:\t0000000000001000\n";
        let of_nohup = "Name:\tab\nSigIgn:\t0000000000001001\n";
        for (status, has_terminal, expected) in [
            (usual, true, Meaning::Stop),
            (usual, false, Meaning::Reopen),
            (of_nohup, true, Meaning::Nothing),
            (of_nohup, false, Meaning::Nothing),
            ("", true, Meaning::Stop),
        ] {
            assert_eq!(Meaning::of(status, has_terminal), expected, "{status}");
        }
    }

    #[test]
    fn a_flag_is_due_once() {
        let reopen = Reopen::default();
        assert!(!reopen.is_due());
        reopen.ask();
        assert!(reopen.is_due() && !reopen.is_due());
    }
}
