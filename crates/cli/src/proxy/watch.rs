//! The main thread of a running proxy, which reports events of the sessions.

use core::ops::ControlFlow;
use core::time::Duration as StdDuration;
use std::sync::Arc;

use anabranch_net::SessionKind;
use anabranch_net::{Clock, DatagramClient, Ended, Event, Events, Snapshot, StreamClient};
use anabranch_observe::names::cargo_name;
use anabranch_observe::service;
use anabranch_observe::{Observation, Opened, StreamSnapshot};
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_terminal::turns::{Turns, Wake};
use anabranch_tunnel::udp::FlowMeter;
use anabranch_units::{Duration, Lateness};

use super::flows::{self, Excess, flow};
use crate::end::End;
use crate::path_reports::{PathReports, session_message};
use crate::slowness::Slowness;
use crate::summary::{self, Meter};

/// A client of the proxy.
pub(super) enum Client {
    Streams(Arc<StreamClient>),
    /// With the meters of its UDP flows.
    Datagrams(Arc<DatagramClient>, Vec<FlowMeter>),
}

impl Client {
    fn session_kind(&self) -> SessionKind {
        match self {
            Client::Streams(_) => SessionKind::Streams,
            Client::Datagrams(..) => SessionKind::Datagrams,
        }
    }

    /// Returns the meters of UDP flows.
    fn meters(&self) -> &[FlowMeter] {
        match self {
            Client::Streams(_) => &[],
            Client::Datagrams(_, meters) => meters,
        }
    }

    fn snapshot(&self) -> Snapshot {
        match self {
            Client::Streams(client) => client.snapshot(),
            Client::Datagrams(client, _) => client.snapshot(),
        }
    }

    /// Returns a function that takes snapshots as long as the client exists.
    pub(super) fn snapshots(&self) -> Box<dyn Fn() -> Option<Snapshot> + Send + Sync> {
        match self {
            Client::Streams(client) => {
                let client = Arc::downgrade(client);
                Box::new(move || client.upgrade().map(|client| client.snapshot()))
            }
            Client::Datagrams(client, _) => {
                let client = Arc::downgrade(client);
                Box::new(move || client.upgrade().map(|client| client.snapshot()))
            }
        }
    }

    fn lateness(&self) -> Lateness {
        match self {
            Client::Streams(client) => client.lateness(),
            Client::Datagrams(client, _) => client.lateness(),
        }
    }

    fn close(&self) {
        match self {
            Client::Streams(client) => client.close(),
            Client::Datagrams(client, _) => client.close(),
        }
    }
}

/// A client with its reported state.
struct WatchedClient {
    client: Client,
    events: Events,
    path_reports: PathReports,
    meter: Meter,
    ended: Option<Ended>,
    excess: Excess,
}

/// The proxy's clients, which end together.
pub(super) struct Watch {
    end: End,
    observation: Option<Observation>,
    names: Vec<String>,
    stop: Stop,
    clock: Clock,
    stats: Option<Duration>,
    slowness: Slowness,
    all: Vec<WatchedClient>,
}

impl Watch {
    /// Creates the watch without clients. `end` is their role, `names` are the paths'.
    pub(super) fn new(
        end: End,
        names: Vec<String>,
        stop: Stop,
        clock: Clock,
        stats: Option<Duration>,
    ) -> Self {
        Watch {
            end,
            observation: None,
            names,
            stop,
            clock,
            stats,
            slowness: Slowness::default(),
            all: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, client: Client, events: Events) {
        self.all.push(WatchedClient {
            client,
            events,
            path_reports: PathReports::default(),
            meter: Meter::new(self.stats, self.clock.now()),
            ended: None,
            excess: Excess::default(),
        });
    }

    /// Starts the observation of all clients that were added.
    pub(super) fn observe(&mut self, observed: Opened) -> anyhow::Result<()> {
        let snapshots = self.all.iter().map(|watched| {
            let name = cargo_name(watched.client.session_kind());
            (
                name,
                watched.client.snapshots(),
                watched.client.meters().to_vec(),
            )
        });
        let (snapshots, path_names): (Vec<_>, _) = (snapshots.collect(), self.names.clone());
        self.observation = Some(observed.start("proxy", self.clock, move || {
            let snapshots = snapshots
                .iter()
                .filter_map(|(name, take_snapshot, meters)| {
                    Some(StreamSnapshot {
                        name: (*name).to_owned(),
                        path_names: path_names.clone(),
                        snapshot: take_snapshot()?,
                        foreign: None,
                        flows: meters.iter().map(flow).collect(),
                    })
                });
            snapshots.collect()
        })?);
        Ok(())
    }

    /// Reports events until all sessions have ended. Returns the reason of the first end. Calls
    /// `on_turn` at each turn.
    pub(super) fn until_end(&mut self, on_turn: impl FnMut(&Stop)) -> Ended {
        UntilEnd {
            watch: self,
            on_turn,
            first: None,
        }
        .run_turns()
    }

    /// Returns the first client whose session is not over.
    fn first_open(&self) -> Option<usize> {
        self.all.iter().position(|watched| watched.ended.is_none())
    }

    /// Reports the machine's slowness, and that the program is alive.
    fn report_health(&mut self) {
        let lateness = self
            .all
            .iter()
            .map(|watched| watched.client.lateness())
            .fold(self.stop.lateness(&self.clock), Lateness::max);
        let now = self.clock.now();
        let unobserved = Observation::default();
        let observation = self.observation.as_ref().unwrap_or(&unobserved);
        self.slowness.watch(now, lateness, observation, "proxy");
        service::turn(now, self.stop.is_stopped());
    }

    /// Prints the summaries of all sessions.
    pub(super) fn print_counts(&self) {
        for watched in &self.all {
            let snapshot = watched.client.snapshot();
            if snapshot.connected_at.is_some() {
                let mut table = summary::table(self.end, &snapshot, &self.names, None);
                table.push_str(&flows::lines(&snapshot, watched.client.meters()));
                print::note(table);
            }
        }
        self.slowness.summary().into_iter().for_each(print::note);
    }

    /// Returns the beginning of a client's lines.
    fn label(&self, index: usize) -> String {
        match self.all.len() {
            1 => String::new(),
            _ => format!("{}: ", cargo_name(self.all[index].client.session_kind())),
        }
    }

    /// Reports an event of one client, or its end.
    fn on_wake(&mut self, index: usize, wake: Wake<Event>) {
        let label = self.label(index);
        let watched = &mut self.all[index];
        match wake {
            Wake::Event(Event::Ended(ended)) => watched.ended = Some(ended),
            Wake::Event(Event::PathState { path, state }) => {
                let now = self.clock.now();
                watched.path_reports.on_change(path, state, now);
            }
            Wake::Event(Event::Connected { peer, .. }) => {
                print::note(format_args!("{label}connected to {peer}"));
            }
            Wake::Event(event) => {
                if let Some(observation) = &self.observation {
                    let stream = cargo_name(watched.client.session_kind());
                    observation.on_event(stream, &event, &self.names);
                }
                if let Some((level, message)) = session_message(&event, &self.names, "server") {
                    print::say(level, format_args!("{label}{message}"));
                }
            }
            Wake::Timeout => {}
            Wake::Closed => watched.ended = Some(Ended::Closed),
        }
    }

    /// Reports the events of one client that have come, and everything that is due.
    fn report_events(&mut self, index: usize) {
        while self.all[index].ended.is_none() {
            let wake = Wake::from(self.all[index].events.recv_timeout(StdDuration::ZERO));
            if matches!(wake, Wake::Timeout) {
                break;
            }
            self.on_wake(index, wake);
        }
        let label = self.label(index);
        let watched = &mut self.all[index];
        let now = self.clock.now();
        let excess = watched.excess.line(now, watched.client.meters());
        excess.into_iter().for_each(print::warn);
        while let Some((path, state)) = watched.path_reports.next(now) {
            let name = &self.names[path];
            print::note(format_args!("{label}path {path} ({name}): {state:?}"));
        }
        if watched.ended.is_none() && watched.meter.is_due(now) {
            let snapshot = watched.client.snapshot();
            let line = watched.meter.line(self.end, snapshot, &self.names);
            print::note(format_args!("{label}{line}"));
        }
    }
}

/// The clients until their end. The outcome is the reason of the first end.
struct UntilEnd<'w, F> {
    watch: &'w mut Watch,
    on_turn: F,
    first: Option<Ended>,
}

impl<F: FnMut(&Stop)> Turns for UntilEnd<'_, F> {
    /// The client, and its event or its end.
    type Event = (usize, Wake<Event>);
    type Outcome = Ended;

    /// Waits for the first open client; the others are checked after its event.
    fn wait(&mut self, patience: StdDuration) -> Wake<Self::Event> {
        match self.watch.first_open() {
            Some(index) => {
                let events = &self.watch.all[index].events;
                Wake::Event((index, events.recv_timeout(patience).into()))
            }
            None => Wake::Closed,
        }
    }

    fn turn(&mut self, wake: Wake<Self::Event>) -> ControlFlow<Ended> {
        let watch = &mut *self.watch;
        if let Wake::Event((index, wake)) = wake {
            watch.on_wake(index, wake);
        }
        for index in 0..watch.all.len() {
            watch.report_events(index);
            let ended = watch.all[index].ended.clone();
            self.first = self.first.take().or(ended);
        }
        (self.on_turn)(&watch.stop);
        if watch.first_open().is_none() {
            return ControlFlow::Break(self.first.take().unwrap_or(Ended::Closed));
        }
        if self.first.is_some() || watch.stop.is_stopped() {
            for watched in watch.all.iter().filter(|watched| watched.ended.is_none()) {
                watched.client.close();
            }
        }
        watch.report_health();
        ControlFlow::Continue(())
    }
}
