//! Programs in the namespaces of `link`.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration as StdDuration;

use anabranch_emu::Network;
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Time that a program has to end after it was asked to.
const PATIENCE: StdDuration = StdDuration::from_secs(3);
/// Interval at which the stop signals are looked at.
const PAUSE: StdDuration = StdDuration::from_millis(100);

/// The end of the network at which a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Near,
    Far,
}

/// A program that runs.
#[derive(Debug)]
pub(super) struct Running {
    id: Pid,
    ended: Receiver<std::io::Result<ExitStatus>>,
}

impl Running {
    /// Starts a program at an end of the network. If this program is killed, the kernel ends that
    /// one, too.
    ///
    /// # Errors
    /// The program `setpriv` cannot be run.
    pub(super) fn start(
        network: &Arc<Network>,
        end: End,
        words: &[OsString],
        environment: &[(&str, String)],
    ) -> anyhow::Result<Running> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(words);
        for (name, value) in environment {
            command.env(name, value);
        }
        if end == End::Far {
            // Ctrl-C and the keyboard belong to the near command.
            command.process_group(0).stdin(Stdio::null());
        }
        let (started, starts) = channel();
        let (ending, ended) = channel();
        let network = Arc::clone(network);
        // The kernel ends the program when the thread that started it has ended.
        let thread = std::thread::Builder::new().name("command".to_owned());
        thread.spawn(move || {
            let namespace = match end {
                End::Near => &network.near,
                End::Far => &network.far,
            };
            match namespace.enter().and_then(|()| command.spawn()) {
                Ok(mut child) => {
                    let _ = started.send(Ok(child.id()));
                    let _ = ending.send(child.wait());
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            }
        })?;
        let id = starts
            .recv()
            .context("the thread of the command has ended")?;
        let id = id.context("cannot run `setpriv`: install util-linux")?;
        let id = i32::try_from(id).ok().and_then(Pid::from_raw);
        Ok(Running {
            id: id.context("the command has no process number")?,
            ended,
        })
    }

    /// Waits until the program ends. A stop signal asks it to end.
    ///
    /// # Errors
    /// The operating system does not say how it ended.
    pub(super) fn wait(&self, stop: &StopSignals) -> anyhow::Result<ExitStatus> {
        loop {
            match self.ended.recv_timeout(PAUSE) {
                Ok(status) => return status.context("cannot wait for the command"),
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the command is lost"),
                Err(RecvTimeoutError::Timeout) if stop.is_set() => return self.stop(),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Asks the program to end, waits a little, and then ends it.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub(super) fn stop(&self) -> anyhow::Result<ExitStatus> {
        for signal in [Signal::TERM, Signal::KILL] {
            // It may have ended a moment ago.
            let _ = kill_process(self.id, signal);
            match self.ended.recv_timeout(PATIENCE) {
                Ok(status) => return status.context("cannot wait for the command"),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        anyhow::bail!("the command does not end")
    }
}

/// Returns the exit code of a command, by the convention of shells: 128 and the signal's number.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code();
    let code = code.or(status.signal().map(|signal| 128 + signal));
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

    fn is_set(&self) -> bool {
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
