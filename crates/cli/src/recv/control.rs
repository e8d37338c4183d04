//! Changes of a receiver while it runs: latency, outputs, recordings, and the ends of sessions.
//! A sender is asked for changes of its own end.

mod remote;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::mpsc;

use anabranch_mpegts_io::OutputName;
use anabranch_net::{Reception, ReturnPath};
use anabranch_observe::control::{
    Asked, Change, ControlState, KeptOut, LatencyChange, Order, OutputChange, Refused, SessionEnd,
    StreamControl,
};
use anabranch_secure::PublicKey;
use anabranch_units::{Duration, Instant};
use ring::rand::{SecureRandom, SystemRandom};

use super::ReceivedStreams;
use super::outputs::Outputs;
use super::steering::Steering;
use crate::allowed::StreamName;
use crate::latency::Latency;
use crate::remote_control::Answer;
use remote::Asking;

/// Time for which a sender is kept out whose session was ended.
pub(crate) const KEEP_OUT: Duration = Duration::from_secs(60);
/// Outputs that may be added. A file would let the owner of a token write anywhere.
const SCHEMES: [&str; 3] = ["udp://", "srt://", "rist://"];
/// Ends of the names of parameters that name files of this machine.
const FILE_PARAMETER: &str = "_file=";
/// Changes of a receiver.
const CHANGES: [&str; 11] = [
    "path",
    "target",
    "latency",
    "output-add",
    "output-remove",
    "recording-start",
    "recording-stop",
    "session-end",
    "session-allow",
    "link",
    "reload",
];

/// A session that is open.
struct Live {
    peer: PublicKey,
    takes_requests: bool,
    latency: Option<Duration>,
    path: ReturnPath,
    steering: Steering,
}

/// A stream, and an answer of its sender.
type Answered = (StreamName, Answer);

/// State of the changes.
pub(super) struct Controlled {
    live: BTreeMap<StreamName, Live>,
    /// Folder of recordings.
    recordings: Option<PathBuf>,
    kept_out: BTreeMap<PublicKey, Instant>,
    /// Requests that senders have not answered yet.
    asking: Vec<Asking>,
    answers: (mpsc::Sender<Answered>, mpsc::Receiver<Answered>),
    next_id: u64,
}

impl Controlled {
    pub(super) fn new(recordings: Option<PathBuf>) -> Self {
        Controlled {
            live: BTreeMap::new(),
            recordings,
            kept_out: BTreeMap::new(),
            asking: Vec::new(),
            answers: mpsc::channel(),
            next_id: random_id(),
        }
    }

    /// Begins a session.
    pub(super) fn begin(&mut self, stream: &StreamName, reception: &Reception) -> Steering {
        let steering = Steering::new(stream.clone(), self.answers.0.clone());
        let live = Live {
            peer: reception.peer(),
            takes_requests: reception.takes_requests(),
            latency: reception.latency(),
            path: reception.return_path(),
            steering: steering.clone(),
        };
        self.live.insert(stream.clone(), live);
        steering
    }

    /// Ends the last session of a stream.
    pub(super) fn end(&mut self, stream: &StreamName) {
        self.live.remove(stream);
    }

    pub(super) fn is_kept_out(&self, key: &PublicKey) -> bool {
        self.kept_out.contains_key(key)
    }

    /// Returns the open session of a stream, or the only one.
    ///
    /// # Errors
    /// There is none, or there are several.
    fn session(&self, stream: Option<&str>) -> Result<(&StreamName, &Live), Refused> {
        let mut its = { self.live.iter() }
            .filter(|(name, _)| stream.is_none_or(|stream| name.as_str() == stream));
        let first = its.next().ok_or_else(|| {
            Refused::Unknown(match stream {
                Some(stream) => format!("{stream} has no session now"),
                None => "no sender of our own protocol has a session now".to_owned(),
            })
        })?;
        if its.next().is_some() {
            let names = self.live.keys().map(StreamName::as_str);
            return Err(which(names));
        }
        Ok(first)
    }
}

/// Returns the first number of requests, which a restarted receiver has not used before.
fn random_id() -> u64 {
    let mut bytes = [0; 4];
    // Without random numbers, the sender still compares the requests.
    let _ = SystemRandom::new().fill(&mut bytes);
    u32::from_le_bytes(bytes).into()
}

/// Returns the refusal of a request that leaves open which stream it is about.
fn which<'a>(names: impl Iterator<Item = &'a str>) -> Refused {
    let names: Vec<&str> = names.collect();
    Refused::Wrong(format!("name the stream: {}", names.join(", ")))
}

/// Returns an output that may be added.
///
/// # Errors
/// It is a file, or its address is wrong.
fn addable(text: &str) -> Result<OutputName, Refused> {
    if !SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
        let text = "expected udp://…, srt://… or rist://…; files are made by a recording";
        return Err(Refused::Wrong(text.to_owned()));
    }
    if text.contains(FILE_PARAMETER) {
        let text = "a parameter must not name a file of the other machine: give its content";
        return Err(Refused::Wrong(text.to_owned()));
    }
    let name: OutputName = text.parse().map_err(Refused::Wrong)?;
    match name.check(None) {
        Ok(()) => Ok(name),
        Err(error) => Err(Refused::Wrong(format!("{:#}", anyhow::Error::from(error)))),
    }
}

impl ReceivedStreams<'_> {
    /// Answers the requests that wait, and lets senders in again whose time is over.
    pub(super) fn follow_orders(&mut self, now: Instant) {
        self.hear_answers(now);
        self.follow_signal(now);
        let observation = std::sync::Arc::clone(&self.settings.observation);
        while let Some(order) = observation.next_order() {
            self.answer(now, order);
        }
        let before = self.controlled.kept_out.len();
        self.controlled.kept_out.retain(|_, until| *until > now);
        if self.controlled.kept_out.len() != before {
            self.use_list(now);
        }
    }

    fn answer(&mut self, now: Instant, order: Order) {
        let change = match order.asked() {
            Asked::State => return order.show(self.control_state(now)),
            Asked::Links => {
                let links = self.links();
                return order.show_links(links);
            }
            Asked::Change(change) => change.clone(),
        };
        let outcome = match &change {
            Change::Path(_) | Change::Target(_) => {
                return self.ask_sender(now, change, order);
            }
            Change::Latency(latency) => return self.change_latency(now, latency, order),
            Change::OutputAdd(change) => self.add_output(change),
            Change::OutputRemove(change) => self.remove_output(change),
            Change::RecordingStart(change) => self.start_recording(change.stream.as_deref()),
            Change::RecordingStop(change) => self.stop_recording(change.stream.as_deref()),
            Change::SessionEnd(change) => self.end_session(now, change),
            Change::SessionAllow(change) => self.let_in(now, &change.stream),
            Change::Link(addition) => self.add_link(addition),
            Change::Reload(_) => self.reload(now),
        };
        order.settle(&self.settings.observation, outcome);
    }

    /// Returns a stream's outputs, or those of the only one.
    ///
    /// # Errors
    /// There is no such stream, or there are several.
    fn outputs_of(&self, stream: Option<&str>) -> Result<(StreamName, Outputs), Refused> {
        let mut all: Vec<(StreamName, Outputs)> = Vec::new();
        for (owner, worker) in &self.streams {
            match owner {
                Some(name) => all.push((name.clone(), worker.outputs.clone())),
                // All senders have the same outputs.
                None => {
                    let senders = self.allowed.all().iter();
                    let names = senders.map(|allowed| allowed.name.clone());
                    all.extend(names.map(|name| (name, worker.outputs.clone())));
                }
            }
        }
        let others = self.others.iter();
        all.extend(others.map(|other| (other.source.name.clone(), other.outputs.clone())));
        let names: Vec<String> = all
            .iter()
            .map(|(name, _)| name.as_str().to_owned())
            .collect();
        match stream {
            Some(stream) => {
                let its = all.into_iter().find(|(name, _)| name.as_str() == stream);
                its.ok_or_else(|| {
                    let known = names.join(", ");
                    Refused::Unknown(format!("there is no stream {stream}: there are {known}"))
                })
            }
            None if all.len() > 1 => Err(which(names.iter().map(String::as_str))),
            None => all.pop().ok_or_else(|| {
                Refused::Unknown("there is no stream yet: no sender has come".to_owned())
            }),
        }
    }

    fn add_output(&self, change: &OutputChange) -> Result<String, Refused> {
        let output = addable(&change.output)?;
        let (stream, outputs) = self.outputs_of(change.stream.as_deref())?;
        outputs
            .add(&output, None, &stream, &self.settings, false)
            .map_err(|error| Refused::NotNow(format!("{error:#}")))?;
        Ok(format!("output {output} of {} joins", stream.as_str()))
    }

    fn remove_output(&self, change: &OutputChange) -> Result<String, Refused> {
        let (stream, outputs) = self.outputs_of(change.stream.as_deref())?;
        let parsed = change.output.parse::<OutputName>();
        let shown = parsed.map_or_else(|_| change.output.clone(), |name| name.to_string());
        outputs
            .remove(&shown, &self.settings.clock)
            .map_err(|error| Refused::Unknown(format!("{error:#}")))?;
        Ok(format!("output {shown} of {} has left", stream.as_str()))
    }

    fn start_recording(&self, stream: Option<&str>) -> Result<String, Refused> {
        let Some(folder) = &self.controlled.recordings else {
            let text = "there is no folder for it: start the program with --recordings DIR";
            return Err(Refused::NotNow(text.to_owned()));
        };
        let (stream, outputs) = self.outputs_of(stream)?;
        let stream_name = stream.as_str();
        if let Some(recording) = outputs.recording() {
            return Err(Refused::NotNow(format!(
                "{stream_name} is recorded already, as {recording}"
            )));
        }
        let file = OutputName::File(folder.join(format!("{stream_name}-{{time}}.ts")));
        outputs
            .add(&file, self.rotation, &stream, &self.settings, true)
            .map_err(|error| Refused::NotNow(format!("{error:#}")))?;
        Ok(format!("{stream_name} is recorded as {file}"))
    }

    fn stop_recording(&self, stream: Option<&str>) -> Result<String, Refused> {
        let (stream, outputs) = self.outputs_of(stream)?;
        let stream = stream.as_str();
        let recording = outputs.recording().ok_or_else(|| {
            Refused::NotNow(format!("{stream} has no recording that was started here"))
        })?;
        outputs
            .remove(&recording, &self.settings.clock)
            .map_err(|error| Refused::NotNow(format!("{error:#}")))?;
        Ok(format!("the recording of {stream} has ended: {recording}"))
    }

    fn end_session(&mut self, now: Instant, change: &SessionEnd) -> Result<String, Refused> {
        let stream = &change.stream;
        let mut others = self.others.iter();
        if let Some(other) = others.find(|other| other.source.name.as_str() == stream) {
            return Err(Refused::NotNow(format!(
                "{stream} comes by {}: only sessions of our own protocol can be ended",
                other.source.input.protocol()
            )));
        }
        let keep_out = keep_out(change)?;
        let (_, live) = self.controlled.session(Some(stream))?;
        if keep_out.is_zero() {
            live.path.close();
            return Ok(format!(
                "the session of {stream} ends; its sender may return"
            ));
        }
        let peer = live.peer;
        self.controlled.kept_out.insert(peer, now + keep_out);
        self.use_list(now);
        Ok(format!(
            "the session of {stream} ends; its sender is kept out for {keep_out}"
        ))
    }

    fn let_in(&mut self, now: Instant, stream: &str) -> Result<String, Refused> {
        let names: BTreeMap<PublicKey, StreamName> = { self.controlled.kept_out.keys() }
            .map(|key| (*key, self.allowed.name_of(key)))
            .collect();
        let before = self.controlled.kept_out.len();
        self.controlled
            .kept_out
            .retain(|key, _| names.get(key).is_none_or(|name| name.as_str() != stream));
        if self.controlled.kept_out.len() == before {
            return Err(Refused::Unknown(format!("{stream} is not kept out")));
        }
        self.use_list(now);
        Ok(format!("{stream} is let in again"))
    }

    /// Changes the latency of this end, and asks senders that take requests to follow.
    fn change_latency(&mut self, now: Instant, change: &LatencyChange, order: Order) {
        let outcome = self.set_latency(change);
        let (latency, streams) = match outcome {
            Ok(changed) => changed,
            Err(refused) => return order.settle(&self.settings.observation, Err(refused)),
        };
        let (asked, others): (Vec<StreamName>, Vec<StreamName>) =
            streams.into_iter().partition(|stream| {
                let live = self.controlled.live.get(stream);
                live.is_some_and(|live| live.takes_requests)
            });
        let mut text = format!("latency {latency}");
        if !others.is_empty() {
            let names: Vec<&str> = others.iter().map(StreamName::as_str).collect();
            text += &format!(
                "; without --remote-control, the senders of {} send lost packets again for their \
                 own latency only",
                names.join(", ")
            );
        }
        let request = Change::Latency(LatencyChange {
            stream: None,
            latency: latency.to_string(),
        });
        match asked.as_slice() {
            [only] => self.ask(now, only.clone(), request, text, Some(order)),
            all => {
                for stream in all {
                    self.ask(now, stream.clone(), request.clone(), String::new(), None);
                }
                if !all.is_empty() {
                    text += &format!("; {} senders are asked to follow", all.len());
                }
                order.settle(&self.settings.observation, Ok(text));
            }
        }
    }

    /// Changes the latency at this end. Returns it, and the streams with sessions that follow.
    fn set_latency(
        &mut self,
        change: &LatencyChange,
    ) -> Result<(Duration, Vec<StreamName>), Refused> {
        let wanted: Latency = change
            .latency
            .parse()
            .map_err(|error| Refused::Wrong(format!("latency: {error}")))?;
        let Latency::Constant(latency) = wanted else {
            let text = "latency: expected a time, as \"800 ms\"";
            return Err(Refused::Wrong(text.to_owned()));
        };
        let Some(receiver) = self.receiver else {
            return Err(Refused::NotNow(
                "these streams come by other protocols, whose latency is in their --listen"
                    .to_owned(),
            ));
        };
        let streams: Vec<StreamName> = match change.stream.as_deref() {
            Some(stream) => vec![self.controlled.session(Some(stream))?.0.clone()],
            None => {
                receiver.set_latency(latency);
                let mut buffer = self.settings.buffer.lock();
                **buffer.as_mut().unwrap_or_else(PoisonError::get_mut) = None;
                self.controlled.live.keys().cloned().collect()
            }
        };
        for stream in &streams {
            if let Some(live) = self.controlled.live.get_mut(stream) {
                live.latency = Some(latency);
                live.path.set_latency(latency);
                live.steering.set_latency(latency);
            }
        }
        Ok((latency, streams))
    }

    fn stream_control(&self, stream: &StreamName, outputs: &Outputs) -> StreamControl {
        let live = self.controlled.live.get(stream);
        let latency = live.and_then(|live| live.latency);
        StreamControl {
            stream: stream.as_str().to_owned(),
            connected: live.is_some(),
            remote_control: live.is_some_and(|live| live.takes_requests),
            latency_s: latency.map(Duration::as_secs_f64),
            outputs: outputs.states(),
        }
    }

    fn control_state(&self, now: Instant) -> ControlState {
        let workers = self.streams.iter().flat_map(|(owner, worker)| {
            let names: Vec<StreamName> = match owner {
                Some(name) => vec![name.clone()],
                None => { self.allowed.all().iter() }
                    .map(|allowed| allowed.name.clone())
                    .collect(),
            };
            names
                .into_iter()
                .map(|name| self.stream_control(&name, &worker.outputs))
        });
        let others = self
            .others
            .iter()
            .map(|other| self.stream_control(&other.source.name, &other.outputs));
        let kept_out = self.controlled.kept_out.iter().map(|(key, until)| KeptOut {
            stream: self.allowed.name_of(key).as_str().to_owned(),
            for_s: until.saturating_since(now).as_secs_f64(),
        });
        ControlState {
            role: "recv".to_owned(),
            changes: CHANGES.map(str::to_owned).to_vec(),
            streams: workers.chain(others).collect(),
            kept_out: kept_out.collect(),
            ..ControlState::default()
        }
    }
}

/// Returns the time for which a sender is kept out.
///
/// # Errors
/// The text is no time.
pub(crate) fn keep_out(change: &SessionEnd) -> Result<Duration, Refused> {
    let Some(text) = &change.keep_out else {
        return Ok(KEEP_OUT);
    };
    let time = text.parse();
    time.map_err(|error| Refused::Wrong(format!("keep_out: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_are_added_and_no_file_is_named() {
        for text in [
            "udp://127.0.0.1:6000",
            "srt://:9000?streamid=cam&latency=200",
        ] {
            addable(text).unwrap();
        }
        for (text, part) in [
            ("/etc/passwd", "files are made by a recording"),
            ("-", "expected udp"),
            (
                "srt://:9000?passphrase_file=/etc/shadow",
                "must not name a file",
            ),
            ("srt://:9000?latency=soon", "latency"),
            ("rist://nowhere?buffer=soon", "rist"),
        ] {
            let error = addable(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    fn end(keep_out: Option<&str>) -> SessionEnd {
        SessionEnd {
            stream: "camera".to_owned(),
            keep_out: keep_out.map(str::to_owned),
        }
    }

    #[test]
    fn a_sender_is_kept_out_for_a_minute_unless_another_time_is_given() {
        assert_eq!(keep_out(&end(None)), Ok(KEEP_OUT));
        assert_eq!(keep_out(&end(Some("0 s"))), Ok(Duration::ZERO));
        assert_eq!(keep_out(&end(Some("10 min"))), Ok(Duration::from_secs(600)));
        let error = keep_out(&end(Some("soon"))).unwrap_err().to_string();
        assert!(error.starts_with("keep_out: "), "{error}");
    }
}
