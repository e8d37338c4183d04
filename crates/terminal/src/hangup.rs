//! SIGHUP: a terminal that closes stops the program; without a terminal, files are opened again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::system;

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
        system::on_reopen_signal(&reopen.0)?;
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
    fn a_flag_is_due_once() {
        let reopen = Reopen::default();
        assert!(!reopen.is_due());
        reopen.ask();
        assert!(reopen.is_due() && !reopen.is_due());
    }
}
