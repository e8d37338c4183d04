//! The main thread of a server of tunnels, which reports events of its sessions.

use core::ops::ControlFlow;
use core::time::Duration as StdDuration;

use anabranch_net::{Clock, Event, Events, SessionKind};
use anabranch_observe::names::cargo_name;
use anabranch_observe::service;
use anabranch_secure::PublicKey;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_terminal::turns::{Turns, Wake};
use anabranch_units::Instant;

use super::Arguments;
use super::admission::Admission;
use crate::end::{Datagrams, End};
use crate::refusals::RefusalLines;
use crate::slowness::Slowness;
use crate::summary::{self, Meter};

/// The server until its end.
pub(super) struct Watch<'a> {
    arguments: &'a Arguments,
    admission: Admission<'a>,
    events: &'a Events,
    stop: &'a Stop,
    clock: &'a Clock,
    /// Content of the sessions.
    end: End,
    meters: Vec<((PublicKey, SessionKind), Meter)>,
    refusal_lines: RefusalLines,
    session_count: usize,
    pub(super) slowness: Slowness,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        arguments: &'a Arguments,
        admission: Admission<'a>,
        events: &'a Events,
        stop: &'a Stop,
        clock: &'a Clock,
    ) -> Self {
        let has_udp = admission.allowed.may_connect(&arguments.connect);
        let datagrams = Datagrams::of(has_udp, arguments.tun.options().is_wanted());
        Watch {
            arguments,
            admission,
            events,
            stop,
            clock,
            end: End::Tunnel(datagrams),
            meters: Vec::new(),
            refusal_lines: RefusalLines::default(),
            session_count: 0,
            slowness: Slowness::default(),
        }
    }

    fn on_event(&mut self, event: &Event) {
        match event {
            Event::Connected { peer, session_kind } => {
                self.admission.take_paired();
                print::note(format_args!(
                    "connected to {} ({peer}), for {}",
                    self.admission.allowed.name_of(peer).as_str(),
                    cargo_name(*session_kind)
                ));
                self.session_count += 1;
                let owner = (*peer, *session_kind);
                self.meters.retain(|(known, _)| *known != owner);
                let meter = Meter::new(self.arguments.report, self.clock.now());
                self.meters.push((owner, meter));
            }
            Event::Ended(ended) => {
                print::note(format_args!("a session is over: {ended}"));
                self.session_count = self.session_count.saturating_sub(1);
                if let Some(seen) = self.admission.server.take_ended() {
                    print::note(summary::table(self.end, &seen, &[], None));
                }
            }
            _ => {}
        }
    }

    /// Handles orders and refusals, and prints the reports that are due.
    fn tend(&mut self, now: Instant) {
        let server = self.admission.server;
        self.admission.take_paired();
        self.admission.tend(now);
        let lateness = server.lateness().max(self.stop.lateness(self.clock));
        let observation = self.admission.observation;
        self.slowness.watch(now, lateness, observation, "serve");
        for asked in server.take_refused_senders() {
            let line = self
                .refusal_lines
                .line(now, &asked, |_| "all places are taken".to_owned());
            line.into_iter().for_each(print::warn);
        }
        service::turn(now, self.stop.is_stopped());
        self.print_reports(now);
    }

    fn print_reports(&mut self, now: Instant) {
        let due: Vec<_> = self
            .meters
            .iter_mut()
            .filter_map(|(owner, meter)| {
                let is_due = meter.is_due(now);
                is_due.then_some((*owner, meter))
            })
            .collect();
        if due.is_empty() {
            return;
        }
        let snapshots = self.admission.server.snapshots();
        for ((peer, session_kind), meter) in due {
            let snapshot = snapshots
                .iter()
                .find(|seen| (seen.peer, seen.session_kind) == (Some(peer), Some(session_kind)));
            if let Some(snapshot) = snapshot {
                print::note(meter.line(self.end, snapshot.clone(), &[]));
            }
        }
    }
}

impl Turns for Watch<'_> {
    type Event = Event;
    type Outcome = ();

    fn wait(&mut self, patience: StdDuration) -> Wake<Event> {
        self.events.recv_timeout(patience).into()
    }

    fn turn(&mut self, wake: Wake<Event>) -> ControlFlow<()> {
        match wake {
            Wake::Event(event) => self.on_event(&event),
            Wake::Timeout if self.stop.is_stopped() => {
                self.admission.server.close();
                if self.session_count == 0 {
                    return ControlFlow::Break(());
                }
            }
            Wake::Timeout => {}
            Wake::Closed => return ControlFlow::Break(()),
        }
        self.tend(self.clock.now());
        ControlFlow::Continue(())
    }
}
