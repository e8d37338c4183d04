//! Turns of a sender's main thread: until a receiver has answered, and until the session is over.

use core::ops::ControlFlow;
use core::time::Duration as StdDuration;

use anabranch_net::{Ended, Event};
use anabranch_observe::service;
use anabranch_terminal::print;
use anabranch_terminal::turns::{Turns, Wake};
use anabranch_units::Instant;

use super::{STREAM, Session};
use crate::end::End;
use crate::latency::describe_latency;
use crate::overload::OverloadWatch;

impl Session<'_> {
    /// Waits for the session. Returns the reason if there is none.
    pub(super) fn wait_connected(&mut self) -> Option<Ended> {
        self.tend_unanswered();
        Connecting(self).run_turns()
    }

    /// Prints events and statistics until the session is over.
    pub(super) fn wait_ended(&mut self) -> Ended {
        Running(self).run_turns()
    }

    /// Reports paths without an answer, and tends them.
    fn tend_unanswered(&mut self) {
        let (now, names) = (self.clock.now(), self.path_manager.shown_names());
        let problems = self.path_watch.without_answer(now, names);
        self.report_problems(&problems);
        service::turn(self.clock.now(), self.stop.is_stopped());
        self.tend_paths(self.clock.now());
    }

    /// Prints changes of paths, and everything that is due.
    fn report(&mut self, now: Instant) {
        self.send_messages(now);
        while let Some((path, state)) = self.path_reports.next(now) {
            let name = &self.path_manager.shown_names()[path];
            print::note(format_args!("path {path} ({name}): {state:?}"));
            self.outages.on_state(path, name, state, now);
        }
        let lateness = self.sender.lateness().max(self.stop.lateness(&self.clock));
        self.slowness
            .watch(now, lateness, &self.observation, STREAM);
        service::turn(now, self.stop.is_stopped());
        let is_slow = self.slowness.was_slow_within(now, OverloadWatch::WINDOW);
        if self.overload.is_due(now) {
            let seen = self.sender.snapshot();
            self.outages.see(&seen, now);
            if let Some(overload) = self.overload.due_report(now, &seen)
                && !is_slow
            {
                print::warn(overload);
                self.observation
                    .on_stream_event(STREAM, overload.happening());
            }
        }
        self.watch_paths(now);
        self.tend_paths(now);
        if self.meter.is_due(now) {
            let snapshot = self.sender.snapshot();
            let names = self.path_manager.shown_names();
            print::note(self.meter.line(End::Sender, snapshot, names));
        }
    }
}

/// The wait for a receiver's answer. Its outcome is the reason if there is no session.
struct Connecting<'s, 'a>(&'s mut Session<'a>);

impl Turns for Connecting<'_, '_> {
    type Event = Event;
    type Outcome = Option<Ended>;

    fn wait(&mut self, patience: StdDuration) -> Wake<Event> {
        self.0.events.recv_timeout(patience).into()
    }

    fn turn(&mut self, wake: Wake<Event>) -> ControlFlow<Option<Ended>> {
        let session = &mut *self.0;
        match wake {
            Wake::Event(Event::Connected { peer, .. }) => {
                let latency = describe_latency(session.sender.snapshot().latency);
                print::note(format_args!("connected to {peer}{latency}"));
                return ControlFlow::Break(None);
            }
            Wake::Event(Event::Ended(ended)) => return ControlFlow::Break(Some(ended)),
            Wake::Event(event) => {
                session.path_watch.on_event(&event);
                session.print_event(&event);
            }
            Wake::Timeout if session.stop.is_stopped() => session.sender.close(),
            Wake::Timeout => {}
            Wake::Closed => return ControlFlow::Break(Some(Ended::Closed)),
        }
        session.tend_unanswered();
        ControlFlow::Continue(())
    }
}

/// The session until its end. Its outcome is the reason of the end.
struct Running<'s, 'a>(&'s mut Session<'a>);

impl Turns for Running<'_, '_> {
    type Event = Event;
    type Outcome = Ended;

    fn wait(&mut self, patience: StdDuration) -> Wake<Event> {
        self.0.events.recv_timeout(patience).into()
    }

    fn turn(&mut self, wake: Wake<Event>) -> ControlFlow<Ended> {
        let session = &mut *self.0;
        match wake {
            Wake::Event(Event::Ended(ended)) => return ControlFlow::Break(ended),
            Wake::Event(Event::PathState { path, state }) => {
                let now = session.clock.now();
                session.path_reports.on_change(path, state, now);
            }
            Wake::Event(Event::FrameReceived(frame)) => session.take_frame(&frame),
            Wake::Event(event) => session.print_event(&event),
            Wake::Timeout => {}
            Wake::Closed => return ControlFlow::Break(Ended::Closed),
        }
        session.report(session.clock.now());
        ControlFlow::Continue(())
    }
}
