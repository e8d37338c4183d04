//! `--on-event`: a command for each event. It must not delay anything: a separate thread runs a
//! limited number at a time, each for a limited time.

use core::ops::ControlFlow;
use core::time::Duration as StdDuration;
use std::collections::{BTreeSet, VecDeque};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread;

use anabranch_net::Clock;
use anabranch_terminal::system::{end_group, in_own_group, shell};
use anabranch_terminal::turns::{LONGEST_WAIT, Turns, Wake};
use anabranch_units::{Duration, Instant};

use super::open_error::StartError;
use super::stream_event::{Listeners, TimedEvent};

/// Maximum number of running commands.
const MAX_RUNNING: usize = 4;
/// Maximum number of waiting commands.
const MAX_WAITING: usize = 64;
/// Longest runtime of a command.
const LONGEST: Duration = Duration::from_secs(30);
/// Time that commands have when the program ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

enum Message {
    TimedEvent(Box<TimedEvent>),
    End,
}

/// Runner of commands, until it is dropped.
pub(super) struct Commands {
    messages: SyncSender<Message>,
    /// Whether the program ends.
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Commands {
    /// Starts the thread.
    pub(super) fn start(
        command: String,
        role: &'static str,
        clock: Clock,
        listeners: &Listeners,
    ) -> Result<Commands, StartError> {
        let (messages, received) = mpsc::sync_channel(MAX_WAITING);
        let sender = messages.clone();
        listeners.subscribe(move |timed| {
            if sender
                .try_send(Message::TimedEvent(Box::new(timed.clone())))
                .is_err()
            {
                log::warn!("--on-event: too many events at once; one is left out");
            }
        });
        let is_over = Arc::new(AtomicBool::new(false));
        let mut runner = Runner {
            messages: received,
            is_over: Arc::clone(&is_over),
            command,
            role,
            clock,
            down: BTreeSet::new(),
            over: BTreeSet::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
        };
        let thread = thread::Builder::new()
            .name("on-event".to_owned())
            .spawn(move || runner.run());
        Ok(Commands {
            messages,
            is_over,
            thread: Some(thread.map_err(StartError::Commands)?),
        })
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = self.messages.try_send(Message::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Runner {
    messages: mpsc::Receiver<Message>,
    is_over: Arc<AtomicBool>,
    command: String,
    role: &'static str,
    clock: Clock,
    /// Paths that are down, by stream.
    down: BTreeSet<(String, usize)>,
    /// Streams whose session has ended in an orderly way. Their paths are silent, but not down.
    over: BTreeSet<String>,
    waiting: VecDeque<Box<TimedEvent>>,
    running: Vec<(Child, Instant)>,
}

/// The work until the program ends.
impl Turns for Runner {
    type Event = Message;
    type Outcome = ();

    fn wait(&mut self, patience: StdDuration) -> Wake<Message> {
        if !self.is_idle() && self.is_over.load(Ordering::SeqCst) {
            return Wake::Closed;
        }
        if self.waiting.len() >= MAX_RUNNING {
            // The channel serves as the queue.
            thread::park_timeout(patience);
            return Wake::Timeout;
        }
        self.messages.recv_timeout(patience).into()
    }

    /// Returns the longest wait for an event: the end of a command is none.
    fn patience(&self) -> StdDuration {
        if self.is_idle() {
            StdDuration::MAX
        } else {
            LONGEST_WAIT
        }
    }

    fn turn(&mut self, wake: Wake<Message>) -> ControlFlow<()> {
        match wake {
            Wake::Event(Message::TimedEvent(timed)) => self.take(timed),
            Wake::Timeout => {}
            Wake::Event(Message::End) | Wake::Closed => return ControlFlow::Break(()),
        }
        self.tend(LONGEST);
        ControlFlow::Continue(())
    }
}

/// The commands that are left when the program ends.
struct Ending<'a> {
    runner: &'a mut Runner,
    until: Instant,
}

impl Turns for Ending<'_> {
    type Event = Message;
    type Outcome = ();

    fn wait(&mut self, patience: StdDuration) -> Wake<Message> {
        thread::park_timeout(patience);
        Wake::Timeout
    }

    fn turn(&mut self, _: Wake<Message>) -> ControlFlow<()> {
        if self.runner.is_idle() {
            return ControlFlow::Break(());
        }
        if self.runner.clock.now() >= self.until {
            self.runner.waiting.clear();
            self.runner.tend(Duration::ZERO);
            return ControlFlow::Break(());
        }
        self.runner.tend(LONGEST);
        ControlFlow::Continue(())
    }
}

impl Runner {
    fn run(&mut self) {
        self.run_turns();
        while let Ok(Message::TimedEvent(timed)) = self.messages.try_recv() {
            self.take(timed);
        }
        let until = self.clock.now() + SHUTDOWN_TIMEOUT;
        self.tend(LONGEST);
        if !self.is_idle() {
            let runner = self;
            Ending { runner, until }.run_turns();
        }
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Takes an event, if a command runs for it.
    fn take(&mut self, timed: Box<TimedEvent>) {
        if self.is_wanted(&timed) {
            self.waiting.push_back(timed);
        }
    }

    /// Returns whether a command runs for the event. A path counts as up only if it was down.
    fn is_wanted(&mut self, timed: &TimedEvent) -> bool {
        let word = timed.stream_event.word();
        let path_number = timed.stream_event.path().map(|(number, _)| number);
        let path = path_number.map(|number| (timed.stream.clone(), number));
        match word {
            "peer-left" | "ended" => {
                self.over.insert(timed.stream.clone());
            }
            "connected" => {
                self.over.remove(&timed.stream);
            }
            _ => {}
        }
        match (word, path) {
            ("path-down", _) if self.over.contains(&timed.stream) => false,
            ("path-down", Some(path)) => self.down.insert(path),
            ("path-up", Some(path)) => self.down.remove(&path),
            (word, _) => !word.is_empty(),
        }
    }

    /// Reaps commands that have ended, kills those that exceed `longest`, and starts others.
    fn tend(&mut self, longest: Duration) {
        let now = self.clock.now();
        self.running.retain_mut(|(child, started_at)| {
            if !matches!(child.try_wait(), Ok(None)) {
                return false;
            }
            let is_late = now.saturating_since(*started_at) >= longest;
            if is_late {
                log::warn!("--on-event: a command takes too long and is killed");
                end_group(child);
                let _ = child.wait();
            }
            !is_late
        });
        while self.running.len() < MAX_RUNNING
            && let Some(timed) = self.waiting.pop_front()
        {
            match self.start(&timed) {
                Ok(child) => self.running.push((child, now)),
                Err(error) => log::warn!("--on-event: {error}"),
            }
        }
    }

    fn start(&self, timed: &TimedEvent) -> std::io::Result<Child> {
        let mut command = shell(&self.command);
        // Names of peers and files are passed in variables, because a shell does not parse those.
        command.env("ANABRANCH_EVENT", timed.stream_event.word());
        command.env("ANABRANCH_STREAM", &timed.stream);
        command.env("ANABRANCH_ROLE", self.role);
        command.env("ANABRANCH_JSON", serde_json::to_string(timed)?);
        let (number, name) = match timed.stream_event.path() {
            Some((number, name)) => (number.to_string(), name),
            None => (String::new(), ""),
        };
        command.env("ANABRANCH_PATH", name);
        command.env("ANABRANCH_PATH_NUMBER", number);
        // Standard output may carry video. The process group is the unit that is killed.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        in_own_group(&mut command).spawn()
    }
}

// Needs a clock: real programs are started and ended.
#[cfg(test)]
mod real_time_tests {
    use super::*;
    use crate::stream_event::StreamEvent;

    fn path(state: &str) -> StreamEvent {
        StreamEvent::PathState {
            path: 1,
            name: "wwan0; exit".to_owned(),
            state: state.to_owned(),
        }
    }

    #[test]
    fn a_command_learns_what_happened_and_ends_before_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let clock = Clock::start();
        let listeners = Listeners::new(clock);
        let line = "$ANABRANCH_ROLE $ANABRANCH_EVENT $ANABRANCH_STREAM $ANABRANCH_PATH";
        let command = format!("echo \"{line}\" >> {}", log.display());
        let commands = Commands::start(command, "send", clock, &listeners).unwrap();
        for stream_event in [
            path("active"),
            path("suspect"),
            path("out"),
            path("active"),
            StreamEvent::PeerLeft,
            path("out"),
            StreamEvent::SessionEnded { session: 1 },
            path("removed"),
        ] {
            listeners.emit("camera", stream_event);
        }
        drop(commands);
        let text = std::fs::read_to_string(log).unwrap();
        let mut said: Vec<_> = text.lines().collect();
        // They run in parallel.
        said.sort_unstable();
        let expected = [
            "send ended camera ",
            "send path-down camera wwan0; exit",
            "send path-up camera wwan0; exit",
            "send peer-left camera ",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_flood_of_events_and_a_command_that_hangs_hold_up_nobody() {
        let clock = Clock::start();
        let listeners = Listeners::new(clock);
        let commands = Commands::start("sleep 60".to_owned(), "send", clock, &listeners).unwrap();
        let began_at = clock.now();
        for session in 0..1_000 {
            listeners.emit("camera", StreamEvent::SessionBegan { session });
        }
        let reported_at = clock.now();
        assert!(reported_at.saturating_since(began_at) < Duration::from_secs(2));
        drop(commands);
        assert!(
            clock.now().saturating_since(reported_at) < SHUTDOWN_TIMEOUT + Duration::from_secs(5)
        );
    }
}
