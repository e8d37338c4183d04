//! What the main thread does while a proxy runs: it tells what happens to the sessions.

use core::time::Duration as StdDuration;
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;

use anabranch_net::{Clock, DatagramClient, Ended, Event, Events, Snapshot, StreamClient};
use anabranch_secure::Cargo;
use anabranch_units::{Duration, Lateness};

use crate::path_news::{PathNews, session_news};
use crate::print;
use crate::slowness::Slowness;
use crate::stop::Stop;
use crate::summary::{self, End, Meter};
use crate::tunnel;

/// How often it looks.
const LOOK_INTERVAL: StdDuration = StdDuration::from_millis(50);

/// One of the proxy's clients.
pub(super) enum Client {
    Streams(Arc<StreamClient>),
    Datagrams(DatagramClient),
}

impl Client {
    fn cargo(&self) -> Cargo {
        match self {
            Client::Streams(_) => Cargo::Streams,
            Client::Datagrams(_) => Cargo::Datagrams,
        }
    }

    fn snapshot(&self) -> Snapshot {
        match self {
            Client::Streams(client) => client.snapshot(),
            Client::Datagrams(client) => client.snapshot(),
        }
    }

    fn lateness(&self) -> Lateness {
        match self {
            Client::Streams(client) => client.lateness(),
            Client::Datagrams(client) => client.lateness(),
        }
    }

    fn close(&self) {
        match self {
            Client::Streams(client) => client.close(),
            Client::Datagrams(client) => client.close(),
        }
    }
}

/// A client with what it has told.
struct Watched {
    client: Client,
    events: Events,
    path_news: PathNews,
    meter: Meter,
    ended: Option<Ended>,
}

/// The clients, which end together.
pub(super) struct Watch {
    names: Vec<String>,
    stop: Stop,
    clock: Clock,
    stats: Option<Duration>,
    slowness: Slowness,
    all: Vec<Watched>,
}

impl Watch {
    /// Of no clients yet; `names` are the paths'.
    pub(super) fn new(
        names: Vec<String>,
        stop: Stop,
        clock: Clock,
        stats: Option<Duration>,
    ) -> Self {
        Watch {
            names,
            stop,
            clock,
            stats,
            slowness: Slowness::default(),
            all: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, client: Client, events: Events) {
        self.all.push(Watched {
            client,
            events,
            path_news: PathNews::default(),
            meter: Meter::new(self.stats, self.clock.now()),
            ended: None,
        });
    }

    /// Tells what happens until all sessions are over for good. Returns why the first one was.
    pub(super) fn until_end(&mut self) -> Ended {
        let mut first = None;
        loop {
            for index in 0..self.all.len() {
                self.look(index);
                let ended = self.all[index].ended.clone();
                first = first.or(ended);
            }
            let is_open = |watched: &&Watched| watched.ended.is_none();
            let mut open = self.all.iter().filter(is_open).peekable();
            if open.peek().is_none() {
                return first.unwrap_or(Ended::Closed);
            }
            if first.is_some() || self.stop.is_stopped() {
                open.for_each(|watched| watched.client.close());
            }
            let lateness = self.all.iter().map(|watched| watched.client.lateness());
            let lateness = lateness.fold(self.stop.lateness(&self.clock), Lateness::max);
            let told = self.slowness.news(self.clock.now(), lateness);
            told.into_iter().for_each(print::note);
            self.wait();
        }
    }

    /// Tells what the sessions did that there were.
    pub(super) fn tell_counts(&self) {
        for watched in &self.all {
            let snapshot = watched.client.snapshot();
            if snapshot.connected_at.is_some() {
                let table = summary::table(End::Tunnel, &snapshot, &self.names);
                print::note(table);
            }
        }
    }

    /// Waits for a while, or for an event of the first that is open.
    fn wait(&mut self) {
        let open = self.all.iter().position(|watched| watched.ended.is_none());
        if let Some(index) = open
            && let Ok(event) = self.all[index].events.recv_timeout(LOOK_INTERVAL)
        {
            self.tell(index, event);
        }
    }

    /// Which of several is spoken of.
    fn label(&self, index: usize) -> String {
        match self.all.len() {
            1 => String::new(),
            _ => format!("{}: ", tunnel::name(self.all[index].client.cargo())),
        }
    }

    fn tell(&mut self, index: usize, event: Event) {
        let label = self.label(index);
        let watched = &mut self.all[index];
        match event {
            Event::Ended(ended) => watched.ended = Some(ended),
            Event::PathState { path, state } => {
                watched.path_news.on_change(path, state, self.clock.now());
            }
            Event::Connected { peer, .. } => {
                print::note(format_args!("{label}connected to {peer}"));
            }
            event => {
                let news = session_news(&event, &self.names, "server");
                let told = news.map(|news| format!("{label}{news}"));
                told.into_iter().for_each(print::note);
            }
        }
    }

    /// Tells what is new of one of them.
    fn look(&mut self, index: usize) {
        while self.all[index].ended.is_none() {
            match self.all[index].events.try_recv() {
                Ok(event) => self.tell(index, event),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.all[index].ended = Some(Ended::Closed),
            }
        }
        let label = self.label(index);
        let watched = &mut self.all[index];
        let now = self.clock.now();
        while let Some((path, state)) = watched.path_news.next(now) {
            let name = &self.names[path];
            print::note(format_args!("{label}path {path} ({name}): {state:?}"));
        }
        if watched.ended.is_none() && watched.meter.is_due(now) {
            let snapshot = watched.client.snapshot();
            let line = watched.meter.line(End::Tunnel, snapshot, &self.names);
            print::note(format_args!("{label}{line}"));
        }
    }
}
