//! One stream: the sessions of its sender, one after the other, and their way to its outputs.

use core::ops::ControlFlow;
use core::time::Duration as StdDuration;
use std::sync::PoisonError;

use anabranch_core::ReceivedFrame;
use anabranch_core::media::DropReason;
use anabranch_mpegts_io::{Piece, Playout};
use anabranch_net::{Ended, Event, Reception, Snapshot};
use anabranch_observe::Feed;
use anabranch_observe::names::path_name;
use anabranch_terminal::exit::Failure;
use anabranch_terminal::print;
use anabranch_terminal::turns::{LONGEST_WAIT, Turns, Wake, time_to};
use anabranch_units::Instant;
use anabranch_video::null_packets;
use anabranch_video::player::JitterBuffer;

use super::allowance::Share;
use super::outputs::Outputs;
use super::steering::Steering;
use super::stream_settings::StreamSettings;
use crate::allowed::StreamName;
use crate::delivery::Delivery;
use crate::end::End;
use crate::latency::describe_latency;
use crate::message;
use crate::outages::Outages;
use crate::overload::OverloadWatch;
use crate::path_reports::PathReports;
use crate::remote_control;
use crate::slowness::{self};
use crate::summary::{self, Meter};

/// Result of a session for the program.
pub(super) type Outcome = anyhow::Result<()>;

/// One session of a stream.
pub(super) struct Session<'a> {
    name: StreamName,
    share: Share,
    reception: &'a Reception,
    outputs: &'a Outputs,
    steering: Steering,
    settings: &'a StreamSettings,
    buffer: JitterBuffer,
    playout: Playout,
    /// Way to viewers in browsers.
    feed: Option<Feed>,
    meter: Meter,
    overload: OverloadWatch,
    messages: message::Printed,
    path_reports: PathReports,
    outages: Outages,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        name: StreamName,
        share: Share,
        reception: &'a Reception,
        outputs: &'a Outputs,
        steering: Steering,
        settings: &'a StreamSettings,
    ) -> Self {
        let now = settings.clock.now();
        let own = *settings
            .buffer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let buffer = own.unwrap_or_else(|| {
            reception
                .latency()
                .map_or(JitterBuffer::Off, JitterBuffer::Fixed)
        });
        outputs.begin_session(&name, now);
        let is_spread = outputs.are_watched();
        let feed = settings.observation.feed(name.as_str());
        Session {
            name,
            share,
            reception,
            outputs,
            steering,
            settings,
            buffer,
            playout: Playout::new(buffer, is_spread, now),
            feed,
            meter: Meter::new(settings.report, now),
            overload: OverloadWatch::new(End::Receiver),
            messages: message::Printed::default(),
            path_reports: PathReports::default(),
            outages: Outages::new(End::Receiver),
        }
    }

    /// Runs the session to its end. Returns its outcome if it ends the program's work for the
    /// stream, and `None` if another session takes its place or the program listens on.
    pub(super) fn run(mut self) -> Option<Outcome> {
        let peer = self.reception.peer();
        let latency = describe_latency(self.reception.latency());
        self.note(format_args!("connected to {peer}{latency}"));
        match self.run_turns() {
            Ok(Some(ended)) => self.end(ended),
            // The last event was taken, or the session's thread panicked.
            Ok(None) => Some(Ok(())),
            Err(error) => {
                self.summarize(&self.reception.snapshot());
                self.reception.close();
                Some(Err(error))
            }
        }
    }

    /// Takes an event of the session before its end.
    fn on_event(&mut self, event: Event) {
        let now = self.settings.clock.now();
        match event {
            Event::FrameReceived(frame) => {
                if let Some(text) = message::text(&frame.bytes) {
                    let lines = self.messages.lines(now, &text);
                    lines.for_each(|line| self.note(line));
                } else if remote_control::is_begun_by(&frame.bytes) {
                    self.steering.on_answer(&frame.bytes);
                } else {
                    self.take(now, frame);
                }
            }
            // A limit admits a frame when its length is known, and a message is read whole.
            Event::FramePart(part) => {
                let is_message = part.begin == 0
                    && (message::is_begun_by(&part.bytes)
                        || remote_control::is_begun_by(&part.bytes));
                if !self.share.is_limited() && !is_message {
                    self.playout.push_part(part);
                }
            }
            Event::FrameDropped { reason, .. } => {
                if reason == DropReason::Missing {
                    self.overload.on_missing_frame();
                }
                self.playout.on_dropped(now);
            }
            _ => {}
        }
    }

    /// Reports changes of paths, and an encoder that sends too much.
    fn report(&mut self, now: Instant, snapshot: &Snapshot) {
        for path in snapshot.paths.iter().filter(|path| path.link.is_some()) {
            self.path_reports.see(path.view.id, path.state(), now);
        }
        while let Some((index, state)) = self.path_reports.next(now) {
            let name = snapshot
                .paths
                .get(index)
                .map(|path| path_name(&[], index, path))
                .unwrap_or_default();
            self.note(format_args!("path {index} ({name}): {state:?}"));
            self.outages.on_state(index, &name, state, now);
        }
        self.outages.see(snapshot, now);
        let slowness = slowness::locked(&self.settings.slowness);
        let is_slow = slowness.was_slow_within(now, OverloadWatch::WINDOW);
        drop(slowness);
        if let Some(overload) = self.overload.due_report(now, snapshot)
            && !is_slow
        {
            self.note(overload);
            let name = self.name.as_str();
            self.settings
                .observation
                .on_stream_event(name, overload.happening());
        }
    }

    /// Takes a frame, if the limit of the stream's name admits it.
    fn take(&mut self, now: Instant, frame: ReceivedFrame) {
        let is_key = frame.importance.is_key();
        // Null packets count too: they take no room on the paths, but in the output.
        let bytes = null_packets::whole_len(&frame.bytes);
        match self.share.admit(now, bytes, is_key) {
            Ok(()) => {
                let StreamSettings { observation, .. } = self.settings;
                observation.on_frame(self.name.as_str(), frame.importance, &frame.bytes);
                // Without delay, its parts have left already.
                if let Some(feed) = &mut self.feed
                    && self.buffer == JitterBuffer::Off
                {
                    feed.push(&frame.bytes, true);
                }
                self.playout.push(now, frame);
            }
            Err(excess) => {
                self.playout.on_dropped(now);
                if let Some(excess) = excess {
                    let notice = message::frame(&excess.to_string(), now);
                    // Without room for the message, the sender gets the next one.
                    let _ = self.reception.return_path().send_frame(&notice);
                    print::warn(excess);
                }
            }
        }
    }

    /// Writes the bytes that are due.
    fn write_due(&mut self) -> anyhow::Result<()> {
        let StreamSettings { clock, stop, .. } = self.settings;
        while let Some(piece) = self.playout.pop(clock.now()) {
            self.show(&piece);
            self.outputs.write(piece, clock, stop)?;
        }
        if let Some(overflow) = self.playout.overflow() {
            print::warn(format_args!("{}: {overflow}", self.name.as_str()));
        }
        Ok(())
    }

    /// Passes bytes to viewers when they leave, as the outputs get them.
    fn show(&mut self, piece: &Piece) {
        if let Some(feed) = &mut self.feed
            && self.buffer != JitterBuffer::Off
        {
            feed.push(&piece.bytes, self.playout.has_ended_frame());
        }
    }

    /// Writes the rest of a session that is over, each piece at its time. When the program is
    /// stopped, it writes the rest at once.
    fn play_out(&mut self) -> anyhow::Result<()> {
        let StreamSettings { clock, stop, .. } = self.settings;
        while let Some(at) = self.playout.next_at() {
            stop.wait_until(clock, at);
            if let Some(piece) = self.playout.pop(at.max(clock.now())) {
                self.show(&piece);
                self.outputs.write(piece, clock, stop)?;
            }
        }
        Ok(())
    }

    fn end(mut self, ended: Ended) -> Option<Outcome> {
        let written = self.play_out();
        let snapshot = self.reception.snapshot();
        self.summarize(&snapshot);
        match written {
            Ok(()) => self.outcome(ended, &snapshot),
            error => Some(error),
        }
    }

    fn outcome(&self, ended: Ended, snapshot: &Snapshot) -> Option<Outcome> {
        let delivery = Delivery::of(End::Receiver, snapshot, 0);
        let is_stopped = self.settings.stop.is_stopped();
        match ended {
            // No error: a user who stops a session without frames knows it, and with
            // --keep-listening a single session does not decide.
            _ if is_stopped && (self.settings.keeps_listening || delivery.share().is_none()) => {
                Some(Ok(()))
            }
            _ if is_stopped => Some(self.outputs.check().and_then(|()| delivery.check())),
            Ended::Replaced => None,
            ended if self.settings.keeps_listening => {
                self.note(format_args!("session over: {ended}"));
                None
            }
            Ended::Closed | Ended::ClosedByPeer => {
                Some(self.outputs.check().and_then(|()| delivery.check()))
            }
            ended => Some(Err(Failure::PeerLost(ended.to_string()).into())),
        }
    }

    fn summarize(&mut self, snapshot: &Snapshot) {
        self.outages.see(snapshot, self.settings.clock.now());
        let outages = self.outages.text();
        self.note(summary::table(End::Receiver, snapshot, &[], outages));
        if self.buffer != JitterBuffer::Off {
            self.note(self.playout.summary());
        }
    }

    fn note(&self, line: impl core::fmt::Display) {
        if self.settings.shows_names {
            print::note(format_args!("{}: {line}", self.name.as_str()))
        } else {
            print::note(line)
        }
    }
}

/// The session until its end: the reason, or `None` if there is none.
impl Turns for Session<'_> {
    type Event = Event;
    type Outcome = anyhow::Result<Option<Ended>>;

    fn wait(&mut self, patience: StdDuration) -> Wake<Event> {
        self.reception.events().recv_timeout(patience).into()
    }

    /// Returns the time until the next bytes are due.
    fn patience(&self) -> StdDuration {
        let due = self.playout.next_at();
        due.map_or(LONGEST_WAIT, |at| time_to(at, &self.settings.clock))
            .min(LONGEST_WAIT)
    }

    fn turn(&mut self, wake: Wake<Event>) -> ControlFlow<Self::Outcome> {
        match wake {
            Wake::Event(Event::Ended(ended)) => return ControlFlow::Break(Ok(Some(ended))),
            Wake::Event(event) => self.on_event(event),
            Wake::Timeout => {}
            Wake::Closed => return ControlFlow::Break(Ok(None)),
        }
        if let Err(error) = self.write_due() {
            return ControlFlow::Break(Err(error));
        }
        let now = self.settings.clock.now();
        if let Some(latency) = self.steering.take_latency() {
            self.buffer = JitterBuffer::Fixed(latency);
            self.playout.set_buffer(self.buffer);
        }
        if self.overload.is_due(now) {
            self.playout.set_spread(self.outputs.are_watched());
            self.report(now, &self.reception.snapshot());
        }
        if self.meter.is_due(self.settings.clock.now()) {
            let line = self
                .meter
                .line(End::Receiver, self.reception.snapshot(), &[]);
            self.note(line);
        }
        ControlFlow::Continue(())
    }
}
