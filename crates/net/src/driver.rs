//! A session that is up: the transport's endpoint behind its packet protection, and each path's
//! route to the peer.

mod key_age;
mod links;
mod observed;
mod path;
mod reachability;
mod transmit;

use core::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_core::{
    Config, ConfigError, DatagramMeta, Event as CoreEvent, Frame, FrameId, PathId, PathOptions,
    PathState, Session as Endpoint, SourceLimits, media::SendFrameError,
};
use anabranch_secure::{Opened, PublicKey, Rejected, Session};
use anabranch_units::{DataRate, Duration, Instant, Seed};

use crate::clock::Clock;
use crate::event::{Ended, Event};
use crate::event_queue::EventSender;
use crate::load::{Frames, Load};
use crate::observer::PacketObserver;
use crate::outbox::Outbox;
use crate::port::Port;
use crate::route::{Address, Route, Token};
use crate::snapshot::{EdgeCounters, PathSnapshot, Snapshot};
use crate::socket::Arrival;
use key_age::KeyAge;
pub(crate) use links::LocalLink;
use links::{Reported, Reporter};
use observed::Observed;
use path::DriverPath;

/// Interval at which deadlines are adapted to the paths' delays. Chosen.
const FIT_INTERVAL: Duration = Duration::from_millis(100);

/// Content of a datagram that a session has opened.
pub(crate) struct Authentic<'a> {
    path: PathId,
    counter: u64,
    plaintext: &'a [u8],
}

/// Opens a datagram; the session counts failures.
pub(crate) fn open<'a>(session: &mut Session, datagram: &'a mut [u8]) -> Option<Authentic<'a>> {
    session.open(datagram).ok().map(Authentic::from)
}

impl<'a> From<Opened<'a>> for Authentic<'a> {
    fn from(opened: Opened<'a>) -> Self {
        Authentic {
            path: PathId(opened.path_id),
            counter: opened.counter,
            plaintext: opened.plaintext,
        }
    }
}

/// Set-up and state with which a session begins.
pub(crate) struct Beginning {
    pub(crate) config: Config,
    pub(crate) seed: Seed,
    pub(crate) session: Session,
    pub(crate) peer: PublicKey,
    /// Latency agreed on by both ends.
    pub(crate) latency: Option<Duration>,
    /// Whether the peer reads challenges with padding.
    pub(crate) pads_challenges: bool,
    /// Whether the peer takes requests for changes.
    pub(crate) takes_requests: bool,
    pub(crate) at: Instant,
    pub(crate) clock: Clock,
    pub(crate) observer: Option<Arc<dyn PacketObserver>>,
}

#[derive(Debug)]
pub(crate) struct Driver<L: Load> {
    endpoint: Endpoint<L::Content>,
    load: L,
    /// Reports of this end's paths.
    reporter: Reporter,
    /// Reports of the peer's paths.
    reported: Reported,
    session: Session,
    peer: PublicKey,
    latency: Option<Duration>,
    /// Time at which deadlines are next adapted to the latency and the paths' delays.
    fit_at: Option<Instant>,
    paths: Vec<DriverPath>,
    outbox: Outbox,
    observed: Observed,
    clock: Clock,
    connected_at: Instant,
    key_age: KeyAge,
    /// Latest time passed to the endpoint: it must never go back, and batches run ahead.
    time: Instant,
    heard_at: Instant,
    /// Number of received frames; the time of the newest follows.
    frames_received: u64,
    media_until: Instant,
    /// Time of the next turn, as the last one has planned it.
    due_at: Option<Instant>,
    /// Time of the first packet that needs an answer, since the peer was last heard.
    unanswered_since: Option<Instant>,
    /// Time at which a copy of a datagram was last opened.
    copy_heard_at: Instant,
    /// Time at which the receiver of this end's media announced that it leaves.
    peer_left_at: Option<Instant>,
    is_closed_by_peer: bool,
    is_replaced: bool,
    is_lied_to: bool,
    is_key_exhausted: bool,
    /// Whether the peer reads challenges with padding.
    pads_challenges: bool,
    /// Challenges of this end's addresses that need answers.
    answers: Vec<(PathId, Token)>,
    /// Questions whether a carrier works, which are answered by the same carrier.
    echoes: Vec<(PathId, Token, Address)>,
}

impl Driver<Frames> {
    /// Sets the limits of this end's encoder.
    pub(crate) fn set_source(&mut self, source: SourceLimits) {
        self.endpoint.set_source(source);
    }

    pub(crate) fn send_frame(
        &mut self,
        now: Instant,
        frame: &Frame,
    ) -> Result<FrameId, SendFrameError> {
        let now = self.pass_to(now);
        self.endpoint.send_frame(now, frame)
    }

    pub(crate) fn begin_frame(
        &mut self,
        now: Instant,
        frame: &Frame,
    ) -> Result<FrameId, SendFrameError> {
        let now = self.pass_to(now);
        self.endpoint.begin_frame(now, frame)
    }

    pub(crate) fn append(&mut self, now: Instant, bytes: &[u8]) -> Result<(), SendFrameError> {
        let now = self.pass_to(now);
        self.endpoint.append(now, bytes)
    }

    pub(crate) fn finish_frame(&mut self, now: Instant) {
        let now = self.pass_to(now);
        self.endpoint.finish_frame(now);
    }

    pub(crate) fn abandon_frame(&mut self, now: Instant) {
        let now = self.pass_to(now);
        self.endpoint.abandon_frame(now);
    }
}

impl<L: Load> Driver<L> {
    pub(crate) fn new(beginning: Beginning, load: L) -> Result<Self, ConfigError> {
        let Beginning {
            config,
            seed,
            session,
            peer,
            latency,
            pads_challenges,
            takes_requests: _,
            at,
            clock,
            observer,
        } = beginning;
        Ok(Driver {
            frames_received: 0,
            media_until: at,
            due_at: None,
            reporter: Reporter::default(),
            reported: Reported::default(),
            endpoint: Endpoint::new(config, seed, at)?,
            load,
            session,
            peer,
            latency,
            fit_at: None,
            paths: Vec::new(),
            outbox: Outbox::default(),
            observed: Observed::new(observer, peer, L::SESSION_KIND),
            clock,
            connected_at: at,
            key_age: KeyAge::new(at),
            time: at,
            heard_at: at,
            unanswered_since: None,
            copy_heard_at: Instant::ZERO,
            peer_left_at: None,
            is_closed_by_peer: false,
            is_replaced: false,
            is_lied_to: false,
            is_key_exhausted: false,
            pads_challenges,
            answers: Vec::new(),
            echoes: Vec::new(),
        })
    }

    /// Returns the driver if its owner hands in frames by its own calls.
    pub(crate) fn frames(&mut self) -> Option<&mut Driver<Frames>> {
        (self as &mut dyn Any).downcast_mut()
    }

    /// Returns the public key of the other end.
    pub(crate) fn peer(&self) -> PublicKey {
        self.peer
    }

    /// Returns the addresses that are proven to be the peer's.
    pub(crate) fn proven_addresses(&self) -> impl Iterator<Item = Address> {
        let routes = self.paths.iter().filter_map(|path| path.route.as_ref());
        routes.filter(|route| route.is_proven()).map(Route::address)
    }

    pub(crate) fn add_path(&mut self, now: Instant, route: Option<Route>, options: PathOptions) {
        let now = self.pass_to(now);
        if self.endpoint.add_path(now, options).is_some() {
            self.paths.push(DriverPath {
                route,
                ..DriverPath::default()
            });
        }
    }

    /// Gives the number of a path to another one, with this route.
    pub(crate) fn replace_path(
        &mut self,
        now: Instant,
        index: usize,
        route: Option<Route>,
        options: PathOptions,
    ) {
        let now = self.pass_to(now);
        if let Some(path) = self.paths.get_mut(index) {
            *path = DriverPath {
                route,
                ..DriverPath::default()
            };
            self.observed.forget(PathId(index as u8));
            self.endpoint
                .replace_path(now, PathId(index as u8), options);
        }
    }

    /// Sends the datagrams of a path to another address from now on, by this end's choice.
    pub(crate) fn redirect(&mut self, index: usize, remote: SocketAddr) {
        if let Some(path) = self.paths.get_mut(index) {
            path.route = Some(Route::to(index, remote));
            path.is_heard = false;
        }
    }

    /// Returns whether anything has arrived by a path since it has its present destination.
    pub(crate) fn has_heard_path(&self, index: usize) -> bool {
        self.paths.get(index).is_some_and(|path| path.is_heard)
    }

    /// Returns whether a path has not answered from its destination, or no longer does.
    pub(crate) fn is_path_lost(&self, index: usize) -> bool {
        self.is_out(index) || !self.has_heard_path(index)
    }

    /// Takes a datagram from a peer whose paths and addresses this end chose.
    /// Returns whether it is authentic.
    pub(crate) fn receive(&mut self, now: Instant, arrival: &Arrival, datagram: &mut [u8]) -> bool {
        // Datagrams that a receiver sends while it leaves are no sign of life.
        if self.peer_left_at.is_none()
            && let Some(authentic) = open(&mut self.session, datagram)
        {
            self.take(now, arrival, &authentic);
            return true;
        }
        false
    }

    /// Takes a datagram from a peer that decides on the paths and may change its addresses. Returns
    /// whether it is authentic.
    pub(crate) fn receive_adopting(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &mut [u8],
    ) -> bool {
        let rejected = match self.session.open(datagram) {
            Ok(opened) => {
                self.adopt(now, arrival, &opened.into());
                return true;
            }
            Err(rejected) => rejected,
        };
        if rejected == Rejected::Replayed {
            self.hear_copy(now, arrival, datagram);
        }
        false
    }

    /// Does the same as [`receive_adopting`](Self::receive_adopting), with a datagram that the
    /// session has opened.
    pub(crate) fn adopt(&mut self, now: Instant, arrival: &Arrival, authentic: &Authentic<'_>) {
        // Both ends number their paths in the same order, whichever datagram arrives first.
        while self.paths.len() <= authentic.path.index() {
            self.add_path(now, None, PathOptions::default());
        }
        if !reachability::is_question(authentic.plaintext) {
            self.hear(now, arrival, authentic);
        }
        self.take(now, arrival, authentic);
    }

    fn take(&mut self, now: Instant, arrival: &Arrival, authentic: &Authentic<'_>) {
        // By the kernel's stamp: the machine may have let the thread wait, which is no delay of the
        // path. The stamp is never before the last turn.
        let now = self.pass_to(now.min(arrival.received_at));
        self.observed.on_received(now, authentic);
        let meta = DatagramMeta {
            path: authentic.path,
            received_at: arrival.received_at,
            ecn: arrival.ecn,
        };
        if !self.take_message(now, arrival, authentic)
            && !self.take_report(now, authentic.plaintext)
        {
            self.endpoint
                .handle_datagram(now, meta, authentic.plaintext);
        }
        if let Some(path) = self.paths.get_mut(authentic.path.index()) {
            path.is_heard = true;
            path.heard_at = now;
            path.carrier = arrival.carrier;
        }
        self.heard_at = now;
        self.unanswered_since = None;
    }

    /// Returns the rate that the path carried by its newest report; `None` without a report.
    pub(crate) fn reported_rate(&self, index: usize) -> Option<DataRate> {
        self.endpoint.reported_rate(PathId(index as u8))
    }

    /// Continues the session `before`, of which a restarted peer knows nothing.
    pub(crate) fn go_on_from(&mut self, now: Instant, before: &mut Driver<L>) {
        let now = self.pass_to(now);
        L::go_on(now, &mut before.endpoint, &mut self.endpoint);
    }

    pub(crate) fn close(&mut self, now: Instant) {
        let now = self.pass_to(now);
        self.endpoint.close(now);
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.endpoint.is_drained()
    }

    /// Returns whether the owner may have handed in data to be sent.
    pub(crate) fn may_have_data(&self) -> bool {
        self.load.may_have_data()
    }

    /// Makes frames worthless when they are later than the latency agreed on.
    pub(crate) fn follow_latency(&mut self) {
        self.fit_at = self.latency.map(|_| self.time);
    }

    /// Keeps the session alive while there is nothing to send.
    pub(crate) fn keep_alive(&mut self) {
        L::keep_alive(&mut self.endpoint);
    }

    /// Suspends a path that cannot be sent on for now: its packets go to other paths.
    pub(crate) fn suspend_path(&mut self, now: Instant, index: usize) {
        let now = self.pass_to(now);
        self.endpoint.suspend_path(now, PathId(index as u8));
    }

    /// Sets the user's options of a path.
    pub(crate) fn set_options(&mut self, now: Instant, index: usize, options: PathOptions) {
        self.pass_to(now);
        self.endpoint.set_options(PathId(index as u8), options);
        if let Some(link) = self.local_link_mut(index) {
            link.set_options(&options);
        }
    }

    /// Changes the latency, for the media of both ends.
    pub(crate) fn set_latency(&mut self, latency: Duration) {
        self.latency = Some(latency);
        L::set_latency(&mut self.endpoint, latency);
    }

    /// Returns the time at which the receiver of this end's media announced that it leaves, if it
    /// did.
    pub(crate) fn peer_left_at(&self) -> Option<Instant> {
        self.peer_left_at
    }

    /// Records that the peer has closed the session; its return is awaited.
    pub(crate) fn on_peer_left(&mut self, now: Instant) {
        self.load.end();
        self.peer_left_at.get_or_insert(now);
    }

    /// Returns whether the datagram proves that the peer does not know the session.
    pub(crate) fn is_reset(&self, datagram: &[u8]) -> bool {
        self.session.is_reset(datagram)
    }

    /// Ends the load together with its session.
    pub(crate) fn end_load(&mut self) {
        self.load.end();
    }

    /// Ends the session, of which only the keys remain.
    pub(crate) fn end(mut self) -> Session {
        self.load.end();
        self.session
    }

    /// Returns the start of the peer's silence, if it was sent data.
    pub(crate) fn unanswered_since(&self) -> Option<Instant> {
        self.unanswered_since
    }

    /// Returns the duration of the peer's silence, if it was sent data.
    pub(crate) fn unanswered_for(&self, now: Instant) -> Duration {
        self.unanswered_since
            .map_or(Duration::ZERO, |since| now.saturating_since(since))
    }

    /// Returns the time at which the peer was last heard.
    pub(crate) fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// Performs due steps, sends their datagrams, and reports events. Returns the reason if the
    /// session is over.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        ports: &[Port],
        events: &EventSender,
    ) -> Option<Ended> {
        let now = self.pass_to(now);
        let lateness = self.due_at.map(|due_at| now.saturating_since(due_at));
        self.endpoint
            .set_lateness(lateness.unwrap_or(Duration::ZERO));
        self.endpoint.handle_timeout(now);
        if let (Some(latency), Some(fit_at)) = (self.latency, self.fit_at)
            && now >= fit_at
        {
            L::set_latency(&mut self.endpoint, latency);
            self.fit_at = Some(now + FIT_INTERVAL);
        }
        if self.key_age.is_over(now, self.heard_at) {
            self.session.update_key();
        }
        self.advance_routes(now, ports);
        self.report_links(now, ports);
        // A load knows all arrivals before it looks at the session.
        self.report(now, events);
        self.load.exchange(now, &mut self.endpoint);
        loop {
            self.transmit(ports);
            self.report(now, events);
            if !self.load.exchange(self.time, &mut self.endpoint) {
                break;
            }
        }
        // One flush suffices: the session takes in less at a time than a system call carries.
        self.flush(ports);
        // Work that is due already is not the machine's fault.
        self.due_at = self.next_at().map(|next_at| next_at.max(now));
        if self.is_replaced {
            Some(Ended::Replaced)
        } else if self.is_closed_by_peer {
            Some(Ended::ClosedByPeer)
        } else if self.is_lied_to {
            Some(Ended::PeerLied)
        } else if self.is_key_exhausted {
            Some(Ended::KeyExhausted)
        } else {
            self.endpoint.is_closed().then_some(Ended::Closed)
        }
    }

    fn report(&mut self, now: Instant, events: &EventSender) {
        let frames_received = self.endpoint.counters().frames_received;
        if core::mem::replace(&mut self.frames_received, frames_received) != frames_received {
            self.media_until = now;
        }
        if self.observed.is_wanted() {
            for path in (0..self.paths.len()).map(|index| PathId(index as u8)) {
                if let Some(counters) = self.endpoint.path_counters(path) {
                    self.observed
                        .on_lost_count(now, path, counters.lost_packets);
                }
            }
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                CoreEvent::PathState { path, state } => {
                    if let Some(known) = self.paths.get_mut(path.index()) {
                        known.is_out = state == PathState::Out;
                    }
                    self.hasten_report();
                    events.emit(Event::PathState { path, state });
                }
                CoreEvent::Closed => self.is_closed_by_peer = true,
                CoreEvent::PeerLeft => self.peer_left_at = Some(now),
                CoreEvent::Replaced => self.is_replaced = true,
                CoreEvent::PeerLies => self.is_lied_to = true,
                event => self.load.on_event(event, events),
            }
        }
    }

    /// Returns the time for the next call of [`advance`](Self::advance).
    pub(crate) fn next_at(&self) -> Option<Instant> {
        let of_endpoint = self.endpoint.poll_timeout().map(|(at, _)| at);
        let others = [self.routes_next_at(), self.report_at(), self.load.due_at()];
        of_endpoint
            .into_iter()
            .chain(others.into_iter().flatten())
            .min()
    }

    /// Returns the bitrate requested of the encoder.
    pub(crate) fn target_bitrate(&self) -> DataRate {
        L::target_bitrate(&self.endpoint)
    }

    pub(crate) fn snapshot(&mut self, now: Instant) -> Snapshot {
        let now = self.pass_to(now);
        let views = self.endpoint.paths(now);
        let mut paths = views
            .into_iter()
            .zip(&self.paths)
            .map(|(view, path)| PathSnapshot {
                counters: self
                    .endpoint
                    .path_counters(view.id)
                    .copied()
                    .unwrap_or_default(),
                controller_state: self.endpoint.controller_state(view.id).unwrap_or_default(),
                view,
                peer: path.route.as_ref().map(|route| route.address().peer),
                carrier: path.carrier,
                unsent_datagrams: path.unsent_datagrams,
                last_error: path.last_error.clone(),
                succession: 0,
                link: None,
            })
            .collect();
        self.add_links(now, &mut paths);
        Snapshot {
            at: now,
            connected_at: Some(self.connected_at),
            past_sessions: 0,
            peer_left_at: self.peer_left_at,
            peer: Some(self.peer),
            session_kind: Some(L::SESSION_KIND),
            media_until: (self.frames_received > 0).then_some(self.media_until),
            latency: self.latency,
            paths,
            session: *self.endpoint.counters(),
            target_bitrate: L::target_bitrate(&self.endpoint),
            edge: EdgeCounters {
                rejected_datagrams: Rejected::ALL.map(|kind| self.session.rejected_count(kind)),
                ..EdgeCounters::default()
            },
        }
    }

    /// Returns the endpoint's time: `now`, but never before the last time passed to it.
    fn pass_to(&mut self, now: Instant) -> Instant {
        self.time = self.time.max(now);
        self.time
    }
}
