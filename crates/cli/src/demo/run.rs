//! One run: starts, observes and ends the threads.

use core::sync::atomic::{AtomicBool, Ordering};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, Scope, ScopedJoinHandle};

use anabranch_controllers::default_controller;
use anabranch_core::media::SendFrameError;
use anabranch_core::{Config, Frame, MediaConfig, PathOptions, SourceLimits};
use anabranch_emu::Relay;
use anabranch_lab::metrics::Window;
use anabranch_mpegts_io::{Input, InputName, Unit, Wanted};
use anabranch_net::{
    ClientConfig, ClientPath, Clock, Ended, Event, Events, Receiver, Receptions, SendError, Sender,
    ServerConfig, Via,
};
use anabranch_schedulers::{default_scheduler, fec_policy};
use anabranch_secure::SecretKey;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Instant, Seed};
use anyhow::{Context, bail};

use super::judge::{self, Promise};
use super::ledger::Ledger;
use super::moment::Moment;
use super::monitor::Monitor;
use super::network::{self, LINKS};
use super::recording::{Recording, Source};
use super::view::View;
use super::viewer::{self, Viewer};

/// Time after the deadline in which the last frames are waited for. A frame that misses a fragment
/// is given up within it.
const SETTLE_WITHIN: Duration = Duration::from_secs(1);

/// Time between preliminary verdicts on the promises.
const JUDGE_INTERVAL: Duration = Duration::from_secs(1);

/// Settings of a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) duration: Duration,
    pub(super) seed: Seed,
    /// Input file; `None` for the camera.
    pub(super) input: Option<PathBuf>,
    pub(super) output: PathBuf,
    /// The policy of forward error correction.
    pub(super) fec: String,
    /// Age at which either end gives up a frame, unless it is a key frame.
    pub(super) deadline: Duration,
    /// Random loss on each link, in percent.
    pub(super) loss_percent: f64,
}

impl Plan {
    fn source(&self) -> Source {
        match self.input {
            None => Source::Camera,
            Some(_) => Source::File,
        }
    }

    /// Returns a description of the source.
    fn source_name(&self) -> String {
        match &self.input {
            None => "the camera, 640x360, 25 pictures/s, H.264".to_owned(),
            Some(path) => path.display().to_string(),
        }
    }

    fn input_name(&self) -> InputName {
        match &self.input {
            None => InputName::Test,
            Some(path) => InputName::File(path.clone()),
        }
    }
}

/// A session that is up, and its links.
struct Session {
    relay: Relay,
    receiver: Receiver,
    receptions: Receptions,
    sender: Sender,
    sender_events: Events,
}

/// Runs the demo to its end, or until it is interrupted.
///
/// # Errors
/// A file that cannot be read or written, a socket that cannot be opened, or a source that fails.
pub(super) fn run(plan: &Plan, view: &mut View, stop: &Stop) -> anyhow::Result<Recording> {
    // Files are opened first, so that their errors appear before anything starts.
    let clock = Clock::start();
    let input = Input::open(&plan.input_name(), Some(plan.duration), stop, &clock)?;
    let viewer = Viewer::open(plan.source(), &plan.output)?;
    let session = connect(plan, &clock, input.limits())?;
    let (sender, receiver) = (&session.sender, &session.receiver);
    let started_at = clock.now();
    let end_at = Instant::ZERO + plan.duration;
    let ledger = Ledger::default();
    let is_key_wanted = AtomicBool::new(false);
    let begun = Recording::begun(plan.source(), plan.deadline, started_at);
    let mut watch = Watch {
        monitor: Monitor::new(clock, sender, receiver, &session.relay, stop.clone(), begun),
        view,
        promises: Vec::new(),
        judge_at: started_at,
        sender_events: session.sender_events,
        ledger: &ledger,
        is_key_wanted: &is_key_wanted,
        end_at,
        source_name: plan.source_name(),
        ended: None,
    };
    let feed = Feed {
        clock,
        sender,
        ledger: &ledger,
        is_key_wanted: &is_key_wanted,
        stop,
        end_at,
    };
    let (ended_at, is_interrupted) = thread::scope(|scope| {
        let _closing = Closing(sender, receiver, stop);
        let source = spawn(scope, "source", || play(input, &feed));
        let (deliveries, delivered) = mpsc::channel();
        let ledger = &ledger;
        let receptions = session.receptions;
        let taker = spawn(scope, "viewer", move || {
            viewer::take(&receptions, clock, ledger, &deliveries);
            Ok(())
        });
        let checker = spawn(scope, "decoder", move || {
            viewer.check_all(&delivered, ledger)
        });
        let waited = watch.until(|| stop.is_stopped() || clock.now() >= end_at || is_over(&source));
        let is_interrupted = stop.is_stopped() || clock.now() < end_at && !is_over(&source);
        let ended_at = clock.now().min(end_at);
        stop.stop();
        let played = join(source);
        let settled = watch.settle(plan.deadline + SETTLE_WITHIN);
        // The ends are closed after any error; otherwise their threads would wait for ever.
        sender.close();
        let closed = watch.until(|| false);
        receiver.close();
        for result in [waited, played, settled, closed, join(taker), join(checker)] {
            result?;
        }
        Ok::<_, anyhow::Error>((ended_at, is_interrupted))
    })?;
    let recording = watch.finish()?;
    Ok(Recording {
        ended_at,
        is_interrupted,
        frames: ledger.frames(),
        ..recording
    })
}

/// Guard that closes both ends and stops the source when it is dropped. If the main thread panics,
/// it would otherwise wait for their threads for ever.
struct Closing<'a>(&'a Sender, &'a Receiver, &'a Stop);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let Closing(sender, receiver, stop) = self;
            stop.stop();
            sender.close();
            receiver.close();
        }
    }
}

/// Starts the relay and both ends, and waits for the handshake.
fn connect(plan: &Plan, clock: &Clock, source: SourceLimits) -> anyhow::Result<Session> {
    let clock = *clock;
    let (sender_key, receiver_key) = (SecretKey::generate(), SecretKey::generate());
    let transport = Config {
        media: MediaConfig {
            source,
            deadline: plan.deadline,
            reassembly_wait: plan.deadline,
            fec: fec_policy(&plan.fec)?,
            ..MediaConfig::default()
        },
        ..Config::new(default_controller(), default_scheduler())
    };
    let peer_key = receiver_key.public_key();
    let (receiver, receptions) = Receiver::start(ServerConfig {
        transport: transport.clone(),
        clock,
        seed: Some(plan.seed.derive("receiver")),
        ..ServerConfig::new(
            (Ipv4Addr::LOCALHOST, 0).into(),
            receiver_key,
            vec![sender_key.public_key()],
        )
    })?;
    let links = network::relay(
        receiver.local_addr(),
        &clock,
        plan.seed.derive("links"),
        plan.loss_percent / 100.0,
    );
    let relay = Relay::start(links)?;
    let paths = (0..LINKS.len()).map(|link| ClientPath {
        via: Via::Address(Ipv4Addr::LOCALHOST.into()),
        remote: relay.listen_addr(link).into(),
        options: PathOptions::default(),
    });
    let (sender, sender_events) = Sender::start(ClientConfig {
        transport,
        clock,
        seed: Some(plan.seed.derive("sender")),
        ..ClientConfig::new(sender_key, peer_key, paths.collect())
    })?;
    match sender_events.recv().context("the sender is gone")? {
        Event::Connected { .. } => {}
        Event::Ended(ended) => bail!("no session: {ended}"),
        event => bail!("no session, but {event:?}"),
    }
    Ok(Session {
        relay,
        receiver,
        receptions,
        sender,
        sender_events,
    })
}

/// State that the source's thread works with.
struct Feed<'a> {
    clock: Clock,
    sender: &'a Sender,
    ledger: &'a Ledger,
    /// Set when a frame was given up: nothing can be displayed before the next key frame.
    is_key_wanted: &'a AtomicBool,
    stop: &'a Stop,
    /// End of the film; no picture is captured later.
    end_at: Instant,
}

/// Plays the input until it or the film ends.
fn play(input: Input, feed: &Feed<'_>) -> anyhow::Result<()> {
    let played = input.run(
        &feed.clock,
        feed.stop,
        || Wanted {
            bitrate: feed.sender.target_bitrate(),
            is_key: feed.is_key_wanted.swap(false, Ordering::Relaxed),
        },
        |unit, captured_at| captured_at < feed.end_at && feed.send(unit, captured_at),
    );
    Ok(played?)
}

impl Feed<'_> {
    /// Sends a unit as a frame. If there is no room, the ledger records that it was not sent.
    /// Returns whether the session is still up.
    fn send(&self, unit: Unit, captured_at: Instant) -> bool {
        let frame = Frame {
            bytes: unit.bytes.into(),
            importance: unit.importance,
            captured_at,
            lifetime: None,
        };
        self.ledger.on_sending(&frame);
        match self.sender.send_frame(&frame) {
            Ok(_) => true,
            Err(error) => {
                self.ledger.on_refused();
                self.is_key_wanted.store(true, Ordering::Relaxed);
                matches!(error, SendError::Transport(refused) if refused != SendFrameError::Closed)
            }
        }
    }
}

type Handle<'scope> = std::io::Result<ScopedJoinHandle<'scope, anyhow::Result<()>>>;

fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> anyhow::Result<()> + Send + 'scope,
) -> Handle<'scope> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn_scoped(scope, work)
}

/// Returns whether a thread has ended, or was never started.
fn is_over(handle: &Handle<'_>) -> bool {
    handle.as_ref().map_or(true, ScopedJoinHandle::is_finished)
}

/// Joins the thread and returns its result. A panic has been printed and becomes an error like
/// others, since the remaining threads must be ended first.
fn join(handle: Handle<'_>) -> anyhow::Result<()> {
    let joined = handle.context("cannot start a thread")?.join();
    joined.unwrap_or_else(|_| bail!("a thread panicked"))
}

/// The main thread's part: takes samples and shows them.
struct Watch<'a> {
    monitor: Monitor<'a>,
    view: &'a mut View,
    /// Preliminary verdicts on the promises.
    promises: Vec<Promise>,
    judge_at: Instant,
    sender_events: Events,
    ledger: &'a Ledger,
    is_key_wanted: &'a AtomicBool,
    end_at: Instant,
    source_name: String,
    /// Reason why the sender's session ended, once it has.
    ended: Option<Ended>,
}

impl Watch<'_> {
    /// Watches until `is_over`, the user's request, or the end of the session.
    fn until(&mut self, is_over: impl Fn() -> bool) -> anyhow::Result<()> {
        while self.ended.is_none() && !is_over() && !self.view.follow_keys()? {
            let now = self.monitor.clock.now();
            let wait = self.monitor.next_sample_at().saturating_since(now);
            match self.sender_events.recv_timeout(wait.to_std()) {
                Ok(event) => self.record(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the sender is gone"),
            }
            self.monitor.sample_if_due();
            self.show()?;
        }
        Ok(())
    }

    /// Waits for frames in flight.
    fn settle(&mut self, patience: Duration) -> anyhow::Result<()> {
        let clock = self.monitor.clock;
        let give_up_at = clock.now() + patience;
        let ledger = self.ledger;
        self.until(|| ledger.is_settled() || clock.now() >= give_up_at)
    }

    /// Returns the recording of an orderly session, without frames and end time.
    fn finish(self) -> anyhow::Result<Recording> {
        if let Some(ended) = self.ended.filter(|ended| *ended != Ended::Closed) {
            bail!("the session ended early: {ended}");
        }
        Ok(Recording {
            slow_seconds: self.monitor.slowness.second_count(),
            ..self.monitor.recording
        })
    }

    fn record(&mut self, event: Event) {
        self.monitor.record(&event);
        match event {
            // The following frames refer to the dropped one; only a key frame helps.
            Event::FrameDropped { .. } => self.is_key_wanted.store(true, Ordering::Relaxed),
            Event::Ended(ended) => self.ended = Some(ended),
            _ => {}
        }
    }

    /// Judges the frames whose deadline has passed.
    fn judge(&mut self, now: Instant) {
        if now < self.judge_at {
            return;
        }
        self.judge_at = now + JUDGE_INTERVAL;
        let recording = &mut self.monitor.recording;
        recording.ended_at = now.saturating_sub(recording.deadline).min(self.end_at);
        let ended_at = recording.ended_at;
        recording
            .frames
            .retain(|frame| frame.captured_at < ended_at);
        if !recording.frames.is_empty() {
            self.promises = judge::judge(recording);
        }
    }

    fn show(&mut self) -> anyhow::Result<()> {
        let now = self.monitor.clock.now();
        if !self.view.is_due(now) || self.monitor.recording.samples.is_empty() {
            return Ok(());
        }
        let recording = &mut self.monitor.recording;
        recording.frames = self.ledger.frames();
        recording.ended_at = now;
        let whole = recording.whole();
        let frames = recording.frame_statistics(whole);
        let recent = recording.frame_statistics(Window {
            from: now.saturating_sub(Duration::from_secs(1)),
            ..whole
        });
        self.judge(now);
        if let Some(picture) = self.ledger.take_key_picture() {
            self.view.show_picture(picture);
        }
        let moment = Moment {
            now,
            end_at: self.end_at,
            source: &self.source_name,
            recording: &self.monitor.recording,
            status: &self.monitor.status,
            promises: &self.promises,
            frames,
            recent,
        };
        self.view.show(&moment).context("cannot show the demo")
    }
}

// Needs a clock: the demo runs in real time.
#[cfg(test)]
#[path = "real_time_run_tests.rs"]
mod real_time_timed_tests;
