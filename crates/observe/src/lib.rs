//! Observation of a running program:
//!
//! - `--stats`: a line of JSON each second;
//! - `--metrics`: an HTTP endpoint;
//! - `--qlog`: a log of the session;
//! - `--on-event`: commands on events;
//! - a line for the service manager.
//!
//! All are made from samples, which a thread takes. Without any of them there is no thread.

mod access;
mod command;
mod connections;
pub mod control;
#[cfg(feature = "codec")]
pub mod drawing;
mod hosts;
mod hour;
pub mod http;
mod live;
mod meter;
pub mod metrics;
pub mod names;
mod noalbs;
mod open_error;
mod outage;
mod outage_cause;
mod outputs;
mod pages;
mod picture;
mod qlog;
mod recordings;
pub mod sampler;
mod server;
#[cfg(unix)]
pub mod service;
#[cfg(not(unix))]
#[path = "service/none.rs"]
pub mod service;
mod stats;
pub mod status;
mod stream_event;
mod thumbnail;
mod tracked;
mod tunnelled;
mod viewing;
pub mod words;

use core::time::Duration as StdDuration;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anabranch_net::{Clock, Event, PacketObserver, Snapshot};
use anabranch_units::{Duration, Importance, Instant};
use anabranch_viewers::Hub;

use command::Commands;
use control::{Controls, Order, Orders, desk};
use hour::Hour;
use http::{HttpAddress, Server};
use live::Live;
use outputs::Outputs;
use qlog::{OpenQlog, Qlog};
use recordings::Recordings;
use sampler::Sampler;
use server::{AccessRights, Metrics};
use stats::Stats;
use status::{Status, TunnelCounters};
use stream_event::Listeners;
use thumbnail::KeyFrames;
use viewing::Viewing;

pub use access::Token;
pub use anabranch_viewers::Feed;
pub use hosts::HostName;
pub use open_error::{OpenError, StartError};
pub use outage_cause::OutageCause;
pub use outputs::{ConnectionSnapshot, OutputSnapshot};
pub use picture::{Picture, PictureCause, PictureState};
pub use server::target_line;
pub use stats::StatsName;
pub use stream_event::{NamedEvent, StreamEvent};
pub use tunnelled::{Outcome, Transport, Tunnelled};

/// Interval between two statuses.
const INTERVAL: Duration = Duration::from_secs(1);
/// Interval between two samples. Ten a second distinguish a burst from an even flow.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Number of seconds that are kept for `anabranch top` …
const REMEMBERED_SECONDS: usize = 120;
/// … unless there are more streams than this. A second of one stream takes some kilobytes.
const MAX_REMEMBERED_STREAMS: usize = 8;
/// Maximum number of streams that are sampled ten times a second; more are sampled once. Each
/// sample delays its session by some microseconds.
const MAX_OFTEN_SAMPLED: usize = 32;

/// Files, addresses and commands of an observation. None of them is used by default.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// File of the statistics.
    pub stats: Option<StatsName>,
    /// Address of the HTTP endpoint.
    pub metrics: Option<HttpAddress>,
    /// Address of the dashboard, which answers as the HTTP endpoint does.
    pub dashboard: Option<HttpAddress>,
    /// Token that requests to the dashboard's address need.
    pub dashboard_token: Option<Token>,
    /// Token of those that may change the program while it runs.
    pub control_token: Option<Token>,
    /// Address of viewers by WHEP.
    pub whep: Option<HttpAddress>,
    /// Whether the program receives pictures, which the dashboard then shows.
    pub has_pictures: bool,
    /// Names of this machine in requests to it, beside its addresses and localhost.
    pub metrics_hosts: Vec<HostName>,
    /// File of the log of packets.
    pub qlog: Option<PathBuf>,
    /// Command that a shell runs on each event.
    pub on_event: Option<String>,
}

/// Writes a line on the program's standard output.
pub type WriteLine = fn(&str) -> io::Result<()>;

/// Use of standard output.
#[derive(Clone, Copy, Debug)]
pub enum StandardOutput {
    /// Text may be written to it, by this function.
    Free(WriteLine),
    /// It carries the received video.
    CarriesVideo,
}

/// State of one stream at one time.
#[derive(Clone, Debug)]
pub struct StreamSnapshot {
    /// Unique name among the program's streams.
    pub name: String,
    /// Names of its paths, if this end knows them.
    pub path_names: Vec<String>,
    /// State of its session.
    pub snapshot: Snapshot,
    /// Details of a stream by another protocol than ours.
    pub foreign: Option<Foreign>,
    /// UDP flows of a proxy.
    pub flows: Vec<status::Flow>,
}

/// Details of a stream by another protocol, in addition to its snapshot.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// Name of the protocol.
    pub protocol: &'static str,
    /// Time of the last arrival; `None`: nothing has arrived.
    pub heard_at: Option<Instant>,
    /// Time of the last arrival by each link.
    pub links_heard_at: Vec<Instant>,
}

/// Files and sockets of the observation, opened before the sessions begin.
#[derive(Debug)]
pub struct Opened {
    stats: Option<Stats>,
    servers: Vec<(Server, AccessRights)>,
    orders: Option<Orders>,
    qlog: Option<OpenQlog>,
    on_event: Option<String>,
}

impl Options {
    /// Opens the requested files and sockets, so that errors are reported before the work begins.
    ///
    /// # Errors
    /// A file cannot be written, or an address cannot be used.
    pub fn open(&self, stdout: StandardOutput) -> Result<Opened, OpenError> {
        let stats = self.stats.as_ref().map(|name| Stats::open(name, stdout));
        let qlog = self.qlog.as_deref().map(OpenQlog::open);
        let control = self.control_token.clone().map(|token| (token, desk()));
        let (controls, orders) = control
            .map(|(token, (desk, orders))| (Controls::new(token, desk), orders))
            .unzip();
        Ok(Opened {
            stats: stats.transpose()?,
            servers: server::listen(self, controls)?,
            orders,
            qlog: qlog.transpose()?,
            on_event: self.on_event.clone(),
        })
    }
}

/// State that the threads share.
pub struct Shared {
    listeners: Listeners,
    key_frames: KeyFrames,
    tunnelled: Mutex<TunnelCounters>,
    slow_seconds: AtomicU64,
    outputs: Outputs,
    recordings: Recordings,
    viewing: Option<Viewing>,
    /// Statuses of the last seconds, the newest last. Never empty.
    recent: Mutex<VecDeque<Arc<Status>>>,
    hour: Mutex<Hour>,
    live: Arc<Live>,
}

impl Shared {
    /// Returns the state before the first status.
    fn new(clock: Clock) -> Shared {
        Shared {
            listeners: Listeners::new(clock),
            key_frames: KeyFrames::new(clock),
            tunnelled: Mutex::default(),
            slow_seconds: AtomicU64::new(0),
            outputs: Outputs::default(),
            recordings: Recordings::default(),
            viewing: None,
            recent: Mutex::default(),
            hour: Mutex::default(),
            live: Arc::default(),
        }
    }

    fn status(&self) -> Arc<Status> {
        self.recent().pop().unwrap_or_default()
    }

    /// Returns the name of the first stream.
    fn first_stream(&self) -> Option<String> {
        let status = self.status();
        status.streams.first().map(|stream| stream.name.clone())
    }

    /// Returns the agreed latency of a stream in seconds.
    fn latency_of(&self, stream: &str) -> Option<f64> {
        let status = self.status();
        let stream = status.streams.iter().find(|it| it.name == stream)?;
        stream.latency_s
    }

    /// Returns the statuses of the last seconds, the newest last.
    fn recent(&self) -> Vec<Arc<Status>> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().cloned().collect()
    }

    fn hour_json(&self) -> String {
        let hour = self.hour.lock().unwrap_or_else(PoisonError::into_inner);
        hour.json()
    }

    fn publish(&self, status: Arc<Status>) {
        {
            let mut hour = self.hour.lock().unwrap_or_else(PoisonError::into_inner);
            hour.add(&status);
        }
        self.live.publish(Arc::clone(&status));
        let kept = if status.streams.len() > MAX_REMEMBERED_STREAMS {
            1
        } else {
            REMEMBERED_SECONDS
        };
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        // No chart shows an output's past, and each may have many connections.
        if let Some(last) = recent.back_mut().filter(|last| !last.outputs.is_empty()) {
            Arc::make_mut(last).outputs.clear();
        }
        recent.push_back(status);
        let surplus = recent.len().saturating_sub(kept);
        recent.drain(..surplus);
    }
}

/// Observation of the program, until this is dropped.
#[derive(Default)]
pub struct Observation {
    /// `None`: no option asks for it.
    running: Option<Running>,
}

struct Running {
    shared: Arc<Shared>,
    stop: Option<mpsc::Sender<()>>,
    sampling: Option<thread::JoinHandle<()>>,
    logging: Option<(Qlog, thread::JoinHandle<()>)>,
    _commands: Option<Commands>,
    orders: Option<Orders>,
    _serving: Vec<http::Serving>,
}

impl Opened {
    /// Returns the observer of packets for the sessions' configuration.
    pub fn packet_observer(&self) -> Option<Arc<dyn PacketObserver>> {
        let qlog = self.qlog.as_ref()?.qlog();
        Some(Arc::new(qlog))
    }

    /// Starts to sample by calls of `read`. `read` must not keep the sessions alive, since it is
    /// dropped with the returned observation.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        self,
        role: &'static str,
        clock: Clock,
        read: impl Fn() -> Vec<StreamSnapshot> + Send + 'static,
    ) -> Result<Observation, StartError> {
        let is_served = !self.servers.is_empty();
        let is_for_people = self.stats.is_some() || is_served || self.qlog.is_some();
        if !is_for_people && self.on_event.is_none() && !service::is_managed() {
            return Ok(Observation { running: None });
        }
        let mut sampler = Sampler::new(role, clock.now());
        let has_pictures = self.servers.iter().any(|(_, rights)| rights.has_pictures());
        let hub = has_pictures.then(|| Hub::start(clock)).transpose()?;
        let shared = Arc::new(Shared {
            viewing: hub.map(|hub| Viewing::new(hub, clock)),
            recent: Mutex::new([Arc::new(sampler.state(clock.now()))].into()),
            ..Shared::new(clock)
        });
        if is_served {
            shared.live.publish(shared.status());
            let live = Arc::clone(&shared.live);
            shared
                .listeners
                .subscribe(move |timed| live.on_event(timed));
        }
        let stats = self.stats.map(|stats| Arc::new(Mutex::new(stats)));
        if let Some(stats) = stats.clone() {
            shared
                .listeners
                .subscribe(move |timed| stats::write(&stats, timed));
        }
        let qlog = self.qlog.as_ref().map(OpenQlog::qlog);
        if let Some(qlog) = qlog.clone() {
            shared
                .listeners
                .subscribe(move |timed| qlog.on_stream_event(timed));
        }
        let commands = self
            .on_event
            .map(|command| Commands::start(command, role, clock, &shared.listeners))
            .transpose()?;
        let logging = self.qlog.map(|qlog| qlog.start(role, clock)).transpose()?;
        let serving = self
            .servers
            .into_iter()
            .map(|(server, rights)| {
                let shared = Arc::clone(&shared);
                server.start("metrics", Metrics { shared, rights })
            })
            .collect::<io::Result<_>>()?;
        let (stop, stopped) = mpsc::channel();
        let sinks = Sinks {
            shared: Arc::clone(&shared),
            stats,
            qlog: qlog.clone(),
        };
        let sampling = thread::Builder::new()
            .name("statistics".to_owned())
            .spawn(move || sinks.feed_until(&stopped, &clock, sampler, &read))?;
        let running = Running {
            shared,
            stop: Some(stop),
            sampling: Some(sampling),
            logging: qlog.zip(logging),
            _commands: commands,
            orders: self.orders,
            _serving: serving,
        };
        let running = Some(running);
        Ok(Observation { running })
    }
}

impl Observation {
    /// Reports an event of a stream's session.
    pub fn on_event(&self, stream: &str, event: &Event, path_names: &[String]) {
        let Some(running) = &self.running else { return };
        if let Some(stream_event) = StreamEvent::of(event, path_names) {
            running.shared.listeners.emit(stream, stream_event);
        }
    }

    /// Reports an event that only the program knows.
    pub fn on_stream_event(&self, stream: &str, stream_event: StreamEvent) {
        if let Some(running) = &self.running {
            running.shared.listeners.emit(stream, stream_event);
        }
    }

    /// Returns the next request for a change, which the caller answers.
    pub fn next_order(&self) -> Option<Order> {
        self.running.as_ref()?.orders.as_ref()?.next()
    }

    /// Reports the number of seconds so far in which the machine was too slow.
    pub fn on_slow_seconds(&self, count: u64) {
        if let Some(running) = &self.running {
            running.shared.slow_seconds.store(count, Ordering::Relaxed);
        }
    }

    /// Samples an output as long as the program observes. `read` must not keep the output open.
    pub fn watch_output(&self, read: impl Fn() -> OutputSnapshot + Send + 'static) {
        if let Some(running) = &self.running {
            running.shared.outputs.add(Box::new(read));
        }
    }

    /// Lists the files of an output, whose name may have words in braces, and lets them be
    /// downloaded.
    pub fn watch_recordings(&self, pattern: PathBuf) {
        if let Some(running) = &self.running {
            running.shared.recordings.add(pattern);
        }
    }

    /// Reports a request of a tunnel's peer.
    pub fn on_tunnelled(&self, tunnelled: &Tunnelled<'_>) {
        let Some(running) = &self.running else { return };
        let (peer, target) = (tunnelled.peer.to_string(), tunnelled.target.to_owned());
        {
            let locked = running.shared.tunnelled.lock();
            let mut counters = locked.unwrap_or_else(PoisonError::into_inner);
            match tunnelled.outcome {
                Outcome::Connected(_) => counters.connected += 1,
                Outcome::Refused(_) => counters.refused += 1,
                Outcome::Failed(_) => counters.failed += 1,
            }
        }
        let Some(left_out) = tunnelled.left_out else {
            return;
        };
        let transport = tunnelled.transport.name();
        let stream = names::session_name(tunnelled.transport.session_kind(), tunnelled.peer);
        let stream_event = match tunnelled.outcome {
            Outcome::Connected(address) => StreamEvent::Connection {
                peer,
                transport,
                target,
                address: address.to_string(),
                left_out,
            },
            Outcome::Refused(reason) => StreamEvent::ConnectionRefused {
                peer,
                transport,
                target,
                reason,
                left_out,
            },
            Outcome::Failed(reason) => StreamEvent::ConnectionFailed {
                peer,
                transport,
                target,
                reason,
                left_out,
            },
        };
        running.shared.listeners.emit(&stream, stream_event);
    }

    /// Returns the way of a stream's pictures to its viewers; `None` without an address for them.
    pub fn feed(&self, stream: &str) -> Option<Feed> {
        let viewing = self.running.as_ref()?.shared.viewing.as_ref()?;
        Some(viewing.hub().feed(stream))
    }

    /// Takes a frame of a stream that has arrived, a unit of a transport stream.
    pub fn on_frame(&self, stream: &str, importance: Importance, bytes: &[u8]) {
        if let Some(running) = &self.running
            && importance == Importance::Key
        {
            running.shared.key_frames.on_key_frame(stream, bytes);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(sampling) = self.sampling.take() {
            let _ = sampling.join();
        }
        // Events before the last sample are logged, too.
        if let Some((qlog, logging)) = self.logging.take() {
            qlog.end();
            let _ = logging.join();
        }
    }
}

/// Destinations of the samples.
struct Sinks {
    shared: Arc<Shared>,
    stats: Option<Arc<Mutex<Stats>>>,
    qlog: Option<Qlog>,
}

impl Sinks {
    /// Samples until the sender of `stopped` is dropped.
    fn feed_until(
        &self,
        stopped: &mpsc::Receiver<()>,
        clock: &Clock,
        mut sampler: Sampler,
        read: &impl Fn() -> Vec<StreamSnapshot>,
    ) {
        let mut stated_at = clock.now();
        let mut next_at = stated_at;
        loop {
            let is_over = wait(stopped, clock, next_at);
            let now = clock.now();
            let snapshots = read();
            if let Some(qlog) = &self.qlog {
                qlog.on_snapshots(&snapshots);
            }
            sampler.on_slow_seconds(self.shared.slow_seconds.load(Ordering::Relaxed));
            self.emit(sampler.sample(now, snapshots));
            self.shared.outputs.sample(now);
            if now >= stated_at + INTERVAL || is_over {
                let mut status = sampler.state(now);
                let tunnelled = self.shared.tunnelled.lock();
                status.total.tunnelled = *tunnelled.unwrap_or_else(PoisonError::into_inner);
                status.outputs = self.shared.outputs.state();
                let status = Arc::new(status);
                self.shared.publish(Arc::clone(&status));
                service::status(&status.line());
                if let Some(stats) = &self.stats {
                    stats::write(stats, &*status);
                }
                // After the machine has slept, missed seconds are not made up for.
                let on_time = stated_at + INTERVAL;
                stated_at = if now.saturating_since(on_time) < INTERVAL {
                    on_time
                } else {
                    now
                };
            }
            if is_over {
                self.emit(sampler.end());
                return;
            }
            let pause = if sampler.stream_count() > MAX_OFTEN_SAMPLED {
                INTERVAL
            } else {
                SAMPLE_INTERVAL
            };
            next_at = (next_at + pause).max(now).min(stated_at + INTERVAL);
        }
    }

    fn emit(&self, events: Vec<NamedEvent>) {
        for (stream, stream_event) in events {
            self.shared.listeners.emit(&stream, stream_event);
        }
    }
}

/// Waits until `at`. Returns whether the observation ends.
fn wait(stopped: &mpsc::Receiver<()>, clock: &Clock, at: Instant) -> bool {
    let patience: StdDuration = at.saturating_since(clock.now()).to_std();
    match stopped.recv_timeout(patience) {
        Err(RecvTimeoutError::Timeout) => false,
        Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
    }
}
