//! Programs in the namespaces of a network.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration as StdDuration;

use anabranch_units::Duration;
use rustix::process::{Pid, Signal, kill_process};

use crate::namespace::Namespace;
use crate::network::Network;

/// Time that a program has to end after it was asked to.
const PATIENCE: StdDuration = StdDuration::from_secs(3);
/// Unit of times in `/proc/PID/stat`, which is the same on all machines (`USER_HZ`, time(7)).
const TICK: Duration = Duration::from_millis(10);

/// An end of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end of the paths' interfaces.
    Near,
    /// The other end.
    Far,
}

impl Network {
    /// Returns the namespace of an end.
    pub fn namespace(&self, end: End) -> &Namespace {
        match end {
            End::Near => &self.near,
            End::Far => &self.far,
        }
    }
}

/// A program to be started.
#[derive(Debug, Default)]
pub struct ProgramConfig<'a> {
    /// The program's name or path, and its arguments.
    pub words: &'a [OsString],
    /// Variables of its environment beside those of this program.
    pub environment: &'a [(&'a str, String)],
    /// Whether the keyboard and Ctrl-C belong to it. Otherwise it has no input, and a process group
    /// of its own.
    pub has_terminal: bool,
    /// File of its output and its messages; `None`: those of this program.
    pub log: Option<File>,
}

/// Reasons for which a program does not run or does not end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// It did not start.
    #[error("cannot run `setpriv`: install util-linux")]
    Start(#[source] io::Error),
    /// The operating system does not say how it ended.
    #[error("cannot wait for the command")]
    Wait(#[source] io::Error),
    /// The thread that waited for it has ended.
    #[error("the command is lost")]
    Lost,
    /// It does not end, even when killed.
    #[error("the command does not end")]
    Endless,
}

/// A program that runs.
#[derive(Debug)]
pub struct Program {
    id: Pid,
    ended: Receiver<io::Result<ExitStatus>>,
}

impl Program {
    /// Starts a program at an end of the network. If this program is killed, the kernel ends that
    /// one, too.
    ///
    /// # Errors
    /// The program `setpriv` cannot be run. A missing program of `config` ends with code 127.
    pub fn start(
        network: &Arc<Network>,
        end: End,
        config: ProgramConfig<'_>,
    ) -> Result<Program, ProgramError> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        command.args(config.words);
        for (name, value) in config.environment {
            command.env(name, value);
        }
        if !config.has_terminal {
            command.process_group(0).stdin(Stdio::null());
        }
        if let Some(log) = config.log {
            let other = log.try_clone().map_err(ProgramError::Start)?;
            command.stdout(log).stderr(other);
        }
        let (started, starts) = channel();
        let (ending, ended) = channel();
        let network = Arc::clone(network);
        // The kernel ends the program when the thread that started it has ended.
        let thread = std::thread::Builder::new().name("command".to_owned());
        let spawned = thread.spawn(move || {
            let entered = network.namespace(end).enter();
            match entered.and_then(|()| command.spawn()) {
                Ok(mut child) => {
                    let _ = started.send(Ok(child.id()));
                    let _ = ending.send(child.wait());
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            }
        });
        spawned.map_err(ProgramError::Start)?;
        let id = starts
            .recv()
            .map_err(|_| ProgramError::Lost)?
            .map_err(ProgramError::Start)?;
        let id = i32::try_from(id).ok().and_then(Pid::from_raw);
        Ok(Program {
            id: id.ok_or(ProgramError::Lost)?,
            ended,
        })
    }

    /// Returns the number of its process.
    pub fn id(&self) -> i32 {
        self.id.as_raw_pid()
    }

    /// Waits at most `patience` for its end. Returns `None` if it goes on.
    ///
    /// # Errors
    /// The operating system does not say how it ended, or the end was reported before.
    pub fn wait_for(&self, patience: StdDuration) -> Result<Option<ExitStatus>, ProgramError> {
        match self.ended.recv_timeout(patience) {
            Ok(status) => status.map(Some).map_err(ProgramError::Wait),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(ProgramError::Lost),
        }
    }

    /// Asks the program to end, waits a little, and then ends it.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for), or it does not end.
    pub fn stop(&self) -> Result<ExitStatus, ProgramError> {
        self.signal(Signal::TERM);
        if let Some(status) = self.wait_for(PATIENCE)? {
            return Ok(status);
        }
        self.kill()
    }

    /// Ends the program at once, as a crash does.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub fn kill(&self) -> Result<ExitStatus, ProgramError> {
        self.signal(Signal::KILL);
        self.wait_for(PATIENCE)?.ok_or(ProgramError::Endless)
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        // It may have ended a moment ago.
        let _ = kill_process(self.id, signal);
    }

    /// Returns the processor time of the program and of its children that have ended; `None` if it
    /// has ended itself. It counts in hundredths of a second.
    pub fn processor_time(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).ok()?;
        processor_time(&stat)
    }

    /// Returns the memory that the program holds, in bytes; `None` if it has ended.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        resident_bytes(&status)
    }
}

/// Returns the processor time in a text of `/proc/PID/stat`.
fn processor_time(stat: &str) -> Option<Duration> {
    // The name before the third field may contain spaces and parentheses (proc(5)).
    let (_, rest) = stat.rsplit_once(')')?;
    let times: Vec<u64> = rest
        .split_whitespace()
        .skip(11)
        .take(4)
        .map_while(|ticks| ticks.parse().ok())
        .collect();
    (times.len() == 4).then(|| TICK * times.iter().sum::<u64>())
}

/// Returns the resident memory in a text of `/proc/PID/status`.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_read_from_proc() {
        let stat = "77 (a (b) c) S 12 77 0 0 -1 4194560 5 6 7 8 120 30 4 1 20 0 3 0 900";
        assert_eq!(processor_time(stat), Some(Duration::from_millis(1_550)));
        assert_eq!(processor_time("77 (a) S 12"), None);
        let status = "Name:\ta\nVmHWM:\t    2000 kB\nVmRSS:\t    1536 kB\n";
        assert_eq!(resident_bytes(status), Some(1_536 * 1_024));
        assert_eq!(resident_bytes("Name:\ta\nState:\tZ\n"), None);
    }
}
