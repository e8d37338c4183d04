//! Changes of a sender while it runs, by its owner or, if the owner allows it, by its receiver.

use anabranch_core::{Frame, ReceivedFrame, SourceLimits};
use anabranch_net::Sender;
use anabranch_observe::Observation;
use anabranch_observe::control::{
    Asked, Change, ControlState, Order, Refused, Reload as ReloadOrder, TargetChange, TargetControl,
};
use anabranch_terminal::print;
use anabranch_units::{DataRate, Instant};

use super::path_manager::PathManager;
use super::{STREAM, Session};
use crate::Command;
use crate::config::{Reload, unchanged};
use crate::latency::Latency;
use crate::message;
use crate::remote_control::{self, Answer, Followed, Request};

/// Range of the target for an encoder that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TargetRange {
    min: DataRate,
    max: DataRate,
    /// The maximum of the start: controllers look for no more.
    most: DataRate,
}

impl TargetRange {
    /// Returns the range of an encoder, if it follows the target.
    pub(super) fn of(source: SourceLimits) -> Option<Self> {
        match source {
            SourceLimits::Fixed => None,
            SourceLimits::Adaptive { min, max } => Some(TargetRange {
                min,
                max,
                most: max,
            }),
        }
    }

    /// Returns the range after a change.
    ///
    /// # Errors
    /// A text is no bitrate, or the range is empty or exceeds that of the start.
    fn with(self, change: &TargetChange) -> Result<Self, Refused> {
        let min = rate("min", change.min.as_deref())?.unwrap_or(self.min);
        let max = rate("max", change.max.as_deref())?.unwrap_or(self.max);
        if change.min.is_none() && change.max.is_none() {
            let text = "there is no change: give min or max";
            return Err(Refused::Wrong(text.to_owned()));
        }
        if min.is_zero() || min > max {
            return Err(Refused::Wrong(format!(
                "the range would be {min} to {max}: min must be above zero and not above max"
            )));
        }
        if max > self.most {
            return Err(Refused::NotNow(format!(
                "at most {} can be asked for, the maximum of --encoder-range at the start: restart \
                 the sender with a wider range",
                self.most
            )));
        }
        Ok(TargetRange { min, max, ..self })
    }

    fn control(self) -> TargetControl {
        TargetControl {
            min_bps: self.min.bits_per_second(),
            max_bps: self.max.bits_per_second(),
            most_bps: self.most.bits_per_second(),
        }
    }
}

/// Parts of a sender that can be changed.
pub(super) struct Panel<'a> {
    pub(super) sender: &'a Sender,
    pub(super) paths: &'a mut PathManager,
    pub(super) range: &'a mut Option<TargetRange>,
    pub(super) reload: &'a mut Reload,
    /// Whether frames have a lifetime of their own instead of the latency.
    pub(super) keeps_lifetime: bool,
}

/// Requests of the receiver, if this end's owner allows them.
#[derive(Debug)]
pub(super) struct Remote {
    is_allowed: bool,
    followed: Followed,
}

/// Reads a bitrate of a change, if it has one.
fn rate(name: &str, text: Option<&str>) -> Result<Option<DataRate>, Refused> {
    let rate = text.map(str::parse::<DataRate>).transpose();
    rate.map_err(|error| Refused::Wrong(format!("{name}: {error}")))
}

impl Remote {
    pub(super) fn new(is_allowed: bool) -> Self {
        Remote {
            is_allowed,
            followed: Followed::default(),
        }
    }

    /// Follows a frame of the receiver that may be a request. Returns the answer, if there is one.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        frame: &[u8],
        panel: &mut Panel<'_>,
        observation: &Observation,
    ) -> Option<Frame> {
        if !self.is_allowed {
            return None;
        }
        let request: Request = remote_control::read(frame)?;
        let answer = match self.followed.known(now, &request).ok()? {
            Some(answer) => answer,
            None => {
                let outcome = panel.change_for_receiver(&request.change);
                let answer = Answer::of(request.id, &outcome);
                let change = request.change.clone();
                Order::of_peer(change, "the receiver".to_owned()).settle(observation, outcome);
                self.followed.remember(request, answer.clone());
                answer
            }
        };
        remote_control::frame(&answer, now)
    }
}

impl Panel<'_> {
    /// Answers all requests that wait.
    pub(super) fn follow(&mut self, observation: &Observation) {
        if self.reload.is_due() {
            let order = Order::of_peer(Change::Reload(ReloadOrder {}), "SIGHUP".to_owned());
            let outcome = self.reload();
            order.settle(observation, outcome);
        }
        while let Some(order) = observation.next_order() {
            self.answer(order, observation);
        }
    }

    fn answer(&mut self, order: Order, observation: &Observation) {
        match order.asked() {
            Asked::State => order.show(self.state()),
            Asked::Links => order.show_links(Err(Refused::no_links())),
            Asked::Change(change) => {
                let outcome = self.change(&change.clone());
                order.settle(observation, outcome);
            }
        }
    }

    fn state(&self) -> ControlState {
        let target = self.range.map(TargetRange::control);
        let names = ["path", "reload"]
            .into_iter()
            .chain(target.as_ref().map(|_| "target"));
        ControlState {
            role: "send".to_owned(),
            changes: names.map(str::to_owned).collect(),
            paths: self.paths.controls(),
            target,
            ..ControlState::default()
        }
    }

    /// Makes a change. Returns it in words.
    ///
    /// # Errors
    /// It is refused, and nothing has changed.
    pub(super) fn change(&mut self, change: &Change) -> Result<String, Refused> {
        if let Some(stream) = change.stream().filter(|stream| *stream != STREAM) {
            return Err(Refused::Unknown(format!(
                "a sender has no stream {stream}: leave the stream out"
            )));
        }
        match change {
            Change::Path(change) => self.paths.change(change, self.sender),
            Change::Target(change) => self.set_range(change),
            Change::Reload(_) => self.reload(),
            change => Err(Refused::NotNow(format!(
                "a sender has no {}: its receiver may have",
                change.name()
            ))),
        }
    }

    /// Makes a change that the receiver asks for.
    ///
    /// # Errors
    /// It is refused, and nothing has changed.
    fn change_for_receiver(&mut self, change: &Change) -> Result<String, Refused> {
        match change {
            Change::Path(_) | Change::Target(_) => self.change(change),
            Change::Latency(change) => self.set_latency(&change.latency),
            change => Err(Refused::NotNow(format!(
                "a receiver may not ask for {}",
                change.name()
            ))),
        }
    }

    fn set_latency(&self, text: &str) -> Result<String, Refused> {
        if self.keeps_lifetime {
            let text = "its frames have a lifetime of their own: --frame-lifetime";
            return Err(Refused::NotNow(text.to_owned()));
        }
        match text.parse() {
            Ok(Latency::Constant(latency)) => {
                self.sender.set_latency(latency);
                Ok(format!("latency {latency}"))
            }
            _ => Err(Refused::Wrong("latency: expected a time".to_owned())),
        }
    }

    /// Reads the file of --config again.
    fn reload(&mut self) -> Result<String, Refused> {
        let reread = self.reload.reread().map_err(unchanged)?;
        let Command::Send(arguments) = &reread.command else {
            return Err(Refused::NotNow("the command is another one".to_owned()));
        };
        let changes = arguments.paths.changes().map_err(unchanged)?;
        let mut live = Vec::new();
        if reread.has_changed("encoder_range")
            && let Some((min, max)) = arguments.encoder.range()
        {
            let (min, max) = (Some(min.to_string()), Some(max.to_string()));
            let stream = None;
            self.set_range(&TargetChange { stream, min, max })?;
            live.push("encoder_range");
        }
        if reread.has_changed("via") && self.paths.has_names_of(&changes) {
            for change in &changes {
                self.paths.change(change, self.sender)?;
            }
            live.push("via");
        }
        Ok(self.reload.adopt(reread, &live))
    }

    fn set_range(&mut self, change: &TargetChange) -> Result<String, Refused> {
        let Some(range) = *self.range else {
            return Err(Refused::NotNow(
                "the encoder does not follow a target: start the sender with --encoder-range \
                 MIN..MAX"
                    .to_owned(),
            ));
        };
        let range = range.with(change)?;
        *self.range = Some(range);
        let TargetRange { min, max, .. } = range;
        self.sender.set_source(SourceLimits::Adaptive { min, max });
        Ok(format!("target from {min} to {max}"))
    }
}

impl Session<'_> {
    /// Answers requests for changes that wait.
    pub(super) fn follow_orders(&mut self) {
        let (mut panel, _, observation) = self.panel();
        panel.follow(observation);
    }

    /// Returns the parts that can be changed, the receiver's right, and the observer of changes.
    fn panel(&mut self) -> (Panel<'_>, &mut Remote, &Observation) {
        let panel = Panel {
            sender: self.sender,
            paths: &mut self.path_manager,
            range: &mut self.range,
            reload: &mut self.reload,
            keeps_lifetime: self.keeps_lifetime,
        };
        (panel, &mut self.remote, &self.observation)
    }

    /// Follows a request of the receiver, if the owner allows it, and answers.
    fn follow_receiver(&mut self, frame: &[u8]) {
        let now = self.clock.now();
        let (mut panel, remote, observation) = self.panel();
        let answer = remote.follow(now, frame, &mut panel, observation);
        if let Some(answer) = answer {
            self.outbox.push(answer, self.sender);
        }
    }

    /// Takes a frame of the receiver: a message, a request, or a part of the return feed.
    pub(super) fn take_frame(&mut self, frame: &ReceivedFrame) {
        if let Some(text) = message::text(&frame.bytes) {
            let lines = self.printed.lines(self.clock.now(), &text);
            lines.for_each(print::note);
        } else if remote_control::is_begun_by(&frame.bytes) {
            self.follow_receiver(&frame.bytes);
        } else if let Some(feed) = &self.return_feed {
            feed.push(frame.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: fn(u64) -> DataRate = DataRate::from_megabits_per_second;

    fn change(min: Option<&str>, max: Option<&str>) -> TargetChange {
        TargetChange {
            stream: None,
            min: min.map(str::to_owned),
            max: max.map(str::to_owned),
        }
    }

    #[test]
    fn a_range_may_be_narrowed_and_widened_up_to_that_of_the_start() {
        let source = SourceLimits::Adaptive {
            min: MBIT(1),
            max: MBIT(6),
        };
        let range = TargetRange::of(source).unwrap();
        let narrow = range.with(&change(None, Some("3Mbit/s"))).unwrap();
        assert_eq!((narrow.min, narrow.max), (MBIT(1), MBIT(3)));
        let wide = narrow.with(&change(Some("500kbit/s"), Some("6Mbit/s")));
        assert_eq!(wide.unwrap().max, MBIT(6));
        for (min, max, part) in [
            (None, None, "give min or max"),
            (Some("fast"), None, "min: "),
            (Some("4Mbit/s"), None, "not above max"),
            (Some("0"), None, "above zero"),
            (None, Some("7Mbit/s"), "restart the sender"),
        ] {
            let error = narrow.with(&change(min, max)).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(TargetRange::of(SourceLimits::Fixed), None);
    }
}
