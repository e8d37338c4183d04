//! Events, as lines between those of the statistics. Code that reacts to them subscribes.

use std::sync::{Mutex, PoisonError};

use anabranch_core::PathId;
use anabranch_net::{Clock, Event};
use serde::Serialize;

use super::outage_cause::OutageCause;
use super::picture::{PictureCause, PictureState};

/// Name of a stream, and its event.
pub type NamedEvent = (String, StreamEvent);

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum StreamEvent {
    /// A session has begun.
    SessionBegan {
        /// Number of the session, from 1.
        session: u64,
    },
    /// A session has ended.
    SessionEnded {
        /// Number of the session, from 1.
        session: u64,
    },
    /// A path has another state.
    PathState {
        /// Number of the path.
        path: usize,
        /// Name of the path.
        name: String,
        /// Name of the state.
        state: String,
    },
    /// The interface or address of a path is absent.
    PathAbsent {
        /// Number of the path.
        path: usize,
        /// Name of the path.
        name: String,
        /// Cause, as the system names it.
        reason: String,
    },
    /// The interface or address of a path is present again.
    PathPresent {
        /// Number of the path.
        path: usize,
        /// Name of the path.
        name: String,
    },
    /// A name of the receiver cannot be resolved now.
    NameUnresolved {
        /// The name.
        host: String,
        /// Cause, as the system names it.
        reason: String,
    },
    /// A name of the receiver can be resolved again, or has other addresses.
    NameResolved {
        /// The name.
        host: String,
        /// Its addresses.
        addresses: Vec<String>,
    },
    /// TCP answers, but UDP does not on any path.
    UdpBlocked {
        /// Address that answers by TCP.
        remote: String,
    },
    /// A path uses another carrier: `UDP` or `TCP`.
    PathCarrier {
        /// Number of the path.
        path: usize,
        /// Name of the path.
        name: String,
        /// Name of the carrier.
        carrier: String,
    },
    /// The peer is silent, so another session is requested.
    Reconnecting {
        /// Time since the peer's last datagram.
        silent_for_s: f64,
    },
    /// The peer has answered after a request for another session.
    Reconnected {
        /// Time since the peer's last datagram.
        silent_for_s: f64,
    },
    /// The peer has ended its program.
    PeerLeft,
    /// No path delivers packets.
    AllLinksDown,
    /// The links work, but no frame arrives.
    SourceGone,
    /// A path has carried the volume that its user allows.
    CapReached {
        /// Number of the path.
        path: usize,
        /// Name of the path.
        name: String,
    },
    /// An outage has ended.
    Recovered {
        /// Cause of the outage.
        from: OutageCause,
        /// Duration of the outage.
        lasted_s: f64,
    },
    /// The picture has another state.
    Picture {
        /// State of the last ten seconds.
        state: PictureState,
        /// Cause, if it is not fine.
        cause: Option<PictureCause>,
        /// State, numbers and cause in words.
        text: String,
    },
    /// An output cannot be written, and is retried.
    OutputFailed {
        /// Name of the output.
        output: String,
        /// Cause, as the system names it.
        reason: String,
    },
    /// An output that had failed is written again.
    OutputResumed {
        /// Name of the output.
        output: String,
        /// Duration of the failure.
        failed_for_s: f64,
        /// Bytes that were not written.
        left_out_bytes: u64,
    },
    /// A path is of little or no use, for a cause that its user can remove.
    PathProblem {
        /// Number of the path.
        path: usize,
        /// Name of the path.
        name: String,
        /// The path watch's name of the problem.
        problem: &'static str,
    },
    /// A peer's request was connected to a target.
    Connection {
        /// Public key of the peer.
        peer: String,
        /// `tcp` or `udp`.
        transport: &'static str,
        /// Requested host and port.
        target: String,
        /// Address of the connection.
        address: String,
        /// Number of suppressed events of the same peer before this one.
        left_out: u64,
    },
    /// A peer requested a target that no rule permits.
    ConnectionRefused {
        /// Public key of the peer.
        peer: String,
        /// `tcp` or `udp`.
        transport: &'static str,
        /// Requested host and port.
        target: String,
        /// Cause in words.
        reason: &'static str,
        /// Number of suppressed events of the same peer before this one.
        left_out: u64,
    },
    /// A peer requested a target that could not be connected to.
    ConnectionFailed {
        /// Public key of the peer.
        peer: String,
        /// `tcp` or `udp`.
        transport: &'static str,
        /// Requested host and port.
        target: String,
        /// Cause in words.
        reason: &'static str,
        /// Number of suppressed events of the same peer before this one.
        left_out: u64,
    },
    /// A change was asked for while the program runs.
    Control {
        /// Address of the client, or `receiver` for the other end of the session.
        by: String,
        /// Name of the change.
        change: &'static str,
        /// Whether it was made.
        done: bool,
        /// Outcome in words.
        text: String,
    },
    /// The machine is too slow to keep time. Its own delay then looks like one of the links.
    MachineSlow {
        /// Time in a second that due work waited for the processor.
        waited_s: f64,
        /// The longest of these waits.
        worst_s: f64,
        /// Seconds so far in which the machine was too slow.
        slow_seconds: u64,
    },
    /// The encoder sends more than the links carry, so frames are given up.
    Overload {
        /// Rate of the encoder's frames.
        encoder_bps: u64,
        /// Rate that the links carry.
        links_bps: u64,
        /// Frames given up in the last seconds.
        frames_given_up: u64,
        /// All frames of the last seconds.
        frames: u64,
    },
}

impl OutageCause {
    pub(super) fn stream_event(self) -> StreamEvent {
        match self {
            OutageCause::AllLinksDown => StreamEvent::AllLinksDown,
            OutageCause::SourceGone => StreamEvent::SourceGone,
        }
    }
}

impl StreamEvent {
    /// Returns the event's word for a command, if commands run for it.
    pub(super) fn word(&self) -> &'static str {
        match self {
            StreamEvent::SessionBegan { .. } => "connected",
            StreamEvent::SessionEnded { .. } => "ended",
            StreamEvent::PathState { state, .. } if state == "out" || state == "removed" => {
                "path-down"
            }
            StreamEvent::PathState { state, .. } if state == "active" => "path-up",
            StreamEvent::PathAbsent { .. } => "path-down",
            StreamEvent::AllLinksDown => "all-links-down",
            StreamEvent::SourceGone => "source-gone",
            StreamEvent::Recovered { .. } => "recovered",
            StreamEvent::UdpBlocked { .. } => "udp-blocked",
            StreamEvent::PeerLeft => "peer-left",
            StreamEvent::CapReached { .. } => "cap-reached",
            StreamEvent::Picture { state, .. } => state.word(),
            StreamEvent::OutputFailed { .. } => "output-failed",
            StreamEvent::OutputResumed { .. } => "output-resumed",
            StreamEvent::PathProblem { .. } => "path-problem",
            StreamEvent::MachineSlow { .. } => "machine-slow",
            StreamEvent::Control { .. } => "control",
            _ => "",
        }
    }

    /// Returns the path that the event is about, with its name.
    pub(super) fn path(&self) -> Option<(usize, &str)> {
        match self {
            StreamEvent::PathState { path, name, .. }
            | StreamEvent::PathAbsent { path, name, .. }
            | StreamEvent::CapReached { path, name }
            | StreamEvent::PathProblem { path, name, .. }
            | StreamEvent::PathCarrier { path, name, .. }
            | StreamEvent::PathPresent { path, name } => Some((*path, name)),
            _ => None,
        }
    }

    /// Converts an event of the network, unless the sampler detects it.
    pub(super) fn of(event: &Event, names: &[String]) -> Option<StreamEvent> {
        Some(match event {
            Event::PathAbsent { path, reason } => StreamEvent::PathAbsent {
                path: path.index(),
                name: name_of(*path, names),
                reason: reason.clone(),
            },
            Event::PathPresent { path } => StreamEvent::PathPresent {
                path: path.index(),
                name: name_of(*path, names),
            },
            Event::NameUnresolved { name, reason } => StreamEvent::NameUnresolved {
                host: name.clone(),
                reason: reason.clone(),
            },
            Event::NameResolved { name, addresses } => StreamEvent::NameResolved {
                host: name.clone(),
                addresses: addresses.iter().map(ToString::to_string).collect(),
            },
            Event::UdpBlocked { remote } => StreamEvent::UdpBlocked {
                remote: remote.to_string(),
            },
            Event::PathCarrier { path, carrier } => StreamEvent::PathCarrier {
                path: path.index(),
                name: name_of(*path, names),
                carrier: carrier.to_string(),
            },
            Event::Reconnecting { silent_for } => StreamEvent::Reconnecting {
                silent_for_s: silent_for.as_secs_f64(),
            },
            Event::Reconnected { silent_for } => StreamEvent::Reconnected {
                silent_for_s: silent_for.as_secs_f64(),
            },
            Event::ReceiverLeft => StreamEvent::PeerLeft,
            _ => return None,
        })
    }
}

fn name_of(path: PathId, names: &[String]) -> String {
    names.get(path.index()).cloned().unwrap_or_default()
}

/// An event with its time and stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedEvent {
    #[serde(flatten)]
    pub stream_event: StreamEvent,
    /// Seconds since 1970.
    pub unix_time_s: f64,
    /// Seconds since the program's start.
    pub uptime_s: f64,
    /// The stream's name.
    pub stream: String,
}

type Listener = Box<dyn FnMut(&TimedEvent) + Send>;

/// Subscribers of events.
pub struct Listeners {
    clock: Clock,
    all: Mutex<Vec<Listener>>,
}

impl Listeners {
    pub(super) fn new(clock: Clock) -> Self {
        Listeners {
            clock,
            all: Mutex::default(),
        }
    }

    /// Adds a subscriber.
    pub fn subscribe(&self, listener: impl FnMut(&TimedEvent) + Send + 'static) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Box::new(listener));
    }

    pub(super) fn emit(&self, stream: &str, stream_event: StreamEvent) {
        let timed = TimedEvent {
            stream_event,
            unix_time_s: unix_time_s(),
            uptime_s: self.clock.now().as_secs_f64(),
            stream: stream.to_owned(),
        };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        for listener in all.iter_mut() {
            listener(&timed);
        }
    }
}

/// Returns the seconds since 1970, by the wall clock.
#[allow(
    clippy::disallowed_methods,
    reason = "other programs' logs count by the wall clock"
)]
pub(super) fn unix_time_s() -> f64 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn all_listeners_get_the_stream_event() {
        let listeners = Listeners::new(Clock::start());
        let (sender, heard) = mpsc::channel();
        for _ in 0..2 {
            let sender = sender.clone();
            listeners.subscribe(move |timed| sender.send(timed.clone()).unwrap());
        }
        let state = StreamEvent::PathState {
            path: 1,
            name: "wwan0".to_owned(),
            state: "out".to_owned(),
        };
        listeners.emit("camera", state);
        let timed = heard.try_recv().unwrap();
        assert_eq!(heard.try_recv().unwrap(), timed);
        let line = serde_json::to_value(&timed).unwrap();
        let expected = [
            ("event", "path-state"),
            ("name", "wwan0"),
            ("state", "out"),
            ("stream", "camera"),
        ];
        for (field, value) in expected {
            assert_eq!(line[field], value, "{line}");
        }
        assert!(line["unix_time_s"].as_f64().unwrap() > 1e9, "{line}");
    }
}
