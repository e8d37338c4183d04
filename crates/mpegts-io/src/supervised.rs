//! Supervision of other programs that implement a protocol: starts, logs and restarts them, and
//! ends them with their user.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anabranch_net::Clock;
use anabranch_net::system::{Feature, ensure_has};
use anabranch_terminal::files::installed;
use anabranch_terminal::system::{ask_to_end, in_own_group};
use anabranch_units::{Duration, Instant};

use crate::claimed::Claim;
use crate::pipes;
use crate::tool_error::ToolError;

/// Runtime after which a program counts as working, so that it is restarted after [`FIRST_WAIT`].
const HAS_WORKED: Duration = Duration::from_secs(5);
/// Wait before a restart. Each run that is too short doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// Longest wait before a restart.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Time to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);
/// Time in which a line is not shown again. Lines that differ only in numbers are equal.
const REPETITION: Duration = Duration::from_secs(30);
/// Maximum number of different lines in that time, because senders control parts of some.
const MAX_SHOWN: usize = 16;
/// Maximum length of a shown line.
const MAX_LINE_BYTES: usize = 1_000;

/// Description of a program.
pub(super) struct Tool {
    pub(super) program: &'static str,
    /// Name in its lines, if it is not the program's.
    pub(super) label: Option<&'static str>,
    /// Debian's package of the program.
    pub(super) package: &'static str,
    pub(super) arguments: Vec<OsString>,
    /// Input that only this program may send to.
    pub(super) input: Option<Claim>,
    /// Socket that becomes its standard output. Without one, it prints there.
    pub(super) output: Option<UdpSocket>,
    /// Exit code after which it is not started again. Then an empty datagram leaves by `output`.
    pub(super) hopeless: Option<i32>,
    /// Texts that are masked in the program's output.
    pub(super) secrets: Vec<String>,
    /// Lines that contain one of these are not shown.
    pub(super) boring: &'static [&'static str],
    /// Lines that contain the first text are shown as the second.
    pub(super) instead: &'static [(&'static str, &'static str)],
}

/// A running tool, which ends when this is dropped.
pub(super) struct Supervised {
    program: &'static str,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    is_over: bool,
    has_given_up: bool,
    child: Option<Child>,
}

impl core::fmt::Debug for Supervised {
    /// Formats without arguments, because they may contain secrets.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Supervised").field(&self.program).finish()
    }
}

impl Supervised {
    /// Starts a tool for `purpose`.
    ///
    /// # Errors
    /// It is not installed, or cannot be started.
    pub(super) fn start(tool: Tool, purpose: &str) -> Result<Self, ToolError> {
        let Tool {
            program, package, ..
        } = tool;
        if tool.output.is_some() {
            ensure_has(Feature::InheritedSockets, purpose)?;
        }
        let Some(path) = installed(program) else {
            return Err(ToolError::NotInstalled {
                purpose: purpose.to_owned(),
                program,
                package,
            });
        };
        let shared = Arc::<Shared>::default();
        let keeper = Keeper {
            command: Line::of(path, &tool),
            tool,
            shared: Arc::clone(&shared),
            clock: Clock::start(),
        };
        // The kernel ends a tool together with the thread that started it, so the keeper's thread
        // starts the first one too.
        let (sender, started) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(program.to_owned())
            .spawn(move || keeper.run(&sender))
            .map_err(ToolError::Thread)?;
        let supervised = Supervised {
            program,
            shared,
            thread: Some(thread),
        };
        let started = started.recv().unwrap_or(Ok(()));
        started.map_err(|source| ToolError::Start { program, source })?;
        Ok(supervised)
    }

    /// Returns whether the tool has ended and is not started again.
    pub(super) fn has_given_up(&self) -> bool {
        self.shared.lock().has_given_up
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_over = true;
        self.shared.bell.notify_all();
        if let Some(child) = &mut state.child {
            ask_to_end(child);
        }
        let grace = GRACE.to_std();
        let waited = self
            .shared
            .bell
            .wait_timeout_while(state, grace, |state| state.child.is_some());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(child) = &mut state.child {
            let _ = child.kill();
        }
        drop(state);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State of the thread that supervises a tool.
struct Keeper {
    tool: Tool,
    command: Line,
    shared: Arc<Shared>,
    clock: Clock,
}

impl Keeper {
    fn run(self, sender: &std::sync::mpsc::Sender<io::Result<()>>) {
        let mut wait = FIRST_WAIT;
        let mut shown = Shown::default();
        loop {
            let since = self.clock.now();
            let ended = self.run_once(sender, &mut shown);
            let is_over = self.shared.lock().is_over;
            if is_over {
                return;
            }
            let ran_for = self.clock.now().saturating_since(since);
            wait = if ran_for >= HAS_WORKED {
                FIRST_WAIT
            } else {
                (wait + wait).min(LONGEST_WAIT)
            };
            if self.is_hopeless(&ended) {
                self.give_up();
                return;
            }
            let how = match &ended {
                Ok(status) if status.success() => "has ended".to_owned(),
                Ok(status) => format!("has ended: {status}"),
                Err(error) => format!("cannot be started: {error}"),
            };
            // A publisher that left is no fault.
            let is_reported = ran_for < HAS_WORKED || !ended.is_ok_and(|status| status.success());
            if is_reported {
                self.note(format_args!("{how}; it is started again"));
            }
            let state = self.shared.lock();
            let waited = self
                .shared
                .bell
                .wait_timeout_while(state, wait.to_std(), |state| !state.is_over);
            drop(waited);
        }
    }

    /// Returns whether no restart would help.
    fn is_hopeless(&self, ended: &io::Result<ExitStatus>) -> bool {
        let code = ended.as_ref().ok().and_then(ExitStatus::code);
        code.is_some() && code == self.tool.hopeless
    }

    /// Ends the input that the tool feeds.
    fn give_up(&self) {
        self.shared.lock().has_given_up = true;
        if let Some(output) = &self.tool.output {
            // The other end is closed only together with this tool.
            let _ = output.send(&[]);
        }
    }

    /// Starts the tool and shows its output until it ends.
    fn run_once(
        &self,
        sender: &std::sync::mpsc::Sender<io::Result<()>>,
        shown: &mut Shown,
    ) -> io::Result<ExitStatus> {
        let said = {
            let mut state = self.shared.lock();
            if state.is_over {
                return Err(io::ErrorKind::Interrupted.into());
            }
            match self.command.spawn(self.tool.output.as_ref()) {
                Ok((child, said)) => {
                    if let Some(input) = self.tool.input {
                        input.start(&child);
                    }
                    state.child = Some(child);
                    said
                }
                Err(error) => {
                    let same = io::Error::new(error.kind(), error.to_string());
                    // Only the result of the first start is awaited.
                    let _ = sender.send(Err(same));
                    return Err(error);
                }
            }
        };
        let _ = sender.send(Ok(()));
        self.show(said, shown);
        // The tool has closed its output: it is ending, or has ended.
        loop {
            let mut state = self.shared.lock();
            let Some(child) = &mut state.child else {
                return Err(io::ErrorKind::NotFound.into());
            };
            if let Some(status) = child.try_wait()? {
                state.child = None;
                self.shared.bell.notify_all();
                return Ok(status);
            }
            let pause = Duration::from_millis(10).to_std();
            drop(self.shared.bell.wait_timeout(state, pause));
        }
    }

    fn show(&self, said: PipeReader, shown: &mut Shown) {
        let mut said = BufReader::new(said);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match said.read_until(b'\n', &mut bytes) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
            bytes.truncate(MAX_LINE_BYTES);
            let text = String::from_utf8_lossy(&bytes);
            let Some(line) = self.tool.shown(text.trim()) else {
                continue;
            };
            if self.shared.lock().is_over {
                // An end that we requested is not shown.
                continue;
            }
            if shown.should_show(self.clock.now(), &line) {
                self.note(&line);
            }
        }
    }

    fn note(&self, line: impl core::fmt::Display) {
        let name = self.tool.label.unwrap_or(self.tool.program);
        log::info!("{name}: {line}");
    }
}

/// Lines that were shown recently, without their numbers.
#[derive(Default)]
struct Shown(Vec<(String, Instant)>);

impl Shown {
    /// Returns whether a line should be shown.
    fn should_show(&mut self, now: Instant, line: &str) -> bool {
        self.0
            .retain(|(_, at)| now.saturating_since(*at) < REPETITION);
        let plain: String = line.chars().filter(|c| !c.is_numeric()).collect();
        let should_show =
            self.0.len() < MAX_SHOWN && self.0.iter().all(|(before, _)| *before != plain);
        if should_show {
            self.0.push((plain, now));
        }
        should_show
    }
}

impl Tool {
    /// Returns the part of a line that is shown, if any.
    fn shown(&self, line: &str) -> Option<String> {
        if line.is_empty() || self.boring.iter().any(|part| line.contains(part)) {
            return None;
        }
        let mut instead = self.instead.iter();
        if let Some((_, text)) = instead.find(|(part, _)| line.contains(part)) {
            return Some((*text).to_owned());
        }
        let mut line = line.to_owned();
        for secret in self.secrets.iter().filter(|secret| !secret.is_empty()) {
            line = line.replace(secret, "…");
        }
        Some(line)
    }
}

/// A command line that can be run many times.
struct Line {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Line {
    /// Creates the command line, through `setpriv` if it is installed. With it, no tool survives a
    /// killed program.
    fn of(path: PathBuf, tool: &Tool) -> Self {
        let setpriv = if cfg!(target_os = "linux") {
            installed("setpriv")
        } else {
            None
        };
        let Some(setpriv) = setpriv else {
            return Line {
                program: path,
                arguments: tool.arguments.clone(),
            };
        };
        let mut arguments: Vec<OsString> = vec!["--pdeathsig".into(), "TERM".into()];
        arguments.push(path.into());
        arguments.extend(tool.arguments.iter().cloned());
        Line {
            program: setpriv,
            arguments,
        }
    }

    /// Starts the command, and returns its lines. With `output`, standard output goes there.
    fn spawn(&self, output: Option<&UdpSocket>) -> io::Result<(Child, PipeReader)> {
        let (said, says) = io::pipe()?;
        let output = pipes::output_for(output, &says)?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null());
        command.stdout(output).stderr(says);
        // Ctrl-C reaches this program alone, which then ends its tools.
        let child = in_own_group(&mut command).spawn()?;
        Ok((child, said))
    }
}

#[cfg(test)]
mod tests;

// Needs a clock: real programs are started again.
#[cfg(test)]
mod real_time_tests {
    use std::fs;

    use super::tests::shell;
    use super::*;
    use anabranch_terminal::stop::Stop;
    use rustix::process::Pid;

    #[test]
    fn a_tool_that_ends_is_started_again_and_the_last_one_ends_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let (runs, ends) = (folder.path().join("runs"), folder.path().join("ends"));
        // The first two end at once, the third on SIGTERM.
        let script = format!(
            "trap 'echo >> {1}; exit' TERM; echo $$ >> {0}; \
             test $(wc -l < {0}) -lt 3 && exit 1; while true; do sleep 0.05; done",
            runs.display(),
            ends.display()
        );
        let supervised = Supervised::start(shell(script), "a test").unwrap();
        let (clock, stop) = (Clock::start(), Stop::new().unwrap());
        let give_up_at = clock.now() + Duration::from_secs(20);
        let pids = loop {
            let text = fs::read_to_string(&runs).unwrap_or_default();
            let pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
            if pids.len() == 3 {
                break pids;
            }
            assert!(clock.now() < give_up_at, "{pids:?}");
            stop.wait_until(&clock, clock.now() + Duration::from_millis(20));
        };
        drop(supervised);
        assert!(ends.exists(), "it was asked to end");
        for pid in pids {
            let pid = Pid::from_raw(pid).unwrap();
            assert!(rustix::process::test_kill_process(pid).is_err());
        }
    }
}
