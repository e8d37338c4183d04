//! Observes both ends and the links while the demo runs.

use anabranch_emu::Relay;
use anabranch_net::{Clock, Event, Receiver, Sender};
use anabranch_observe::StreamSnapshot;
use anabranch_observe::names::state_name;
use anabranch_observe::sampler::Sampler;
use anabranch_observe::status::Status;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Instant, Lateness};

use super::network::{LINKS, SCRIPT, names, scripted};
use super::recording::{Received, Recording, Sample, ViewEvent};
use crate::slowness::Slowness;

/// Time between samples, which is the resolution of the failed link's return.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// Time between status reports of the sender: about ten frames.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);
/// Name of the stream on the screen.
const STREAM: &str = "video";

/// Collector of samples and events.
#[derive(Debug)]
pub(super) struct Monitor<'a> {
    pub(super) clock: Clock,
    pub(super) sender: &'a Sender,
    pub(super) receiver: &'a Receiver,
    pub(super) relay: &'a Relay,
    /// Stop signal of the source.
    pub(super) stop: Stop,
    pub(super) slowness: Slowness,
    /// Samples and events so far.
    pub(super) recording: Recording,
    /// Status of the sender, as `anabranch top` would show it.
    pub(super) status: Status,
    sampler: Sampler,
    next_status_at: Instant,
    next_sample_at: Instant,
}

impl<'a> Monitor<'a> {
    pub(super) fn new(
        clock: Clock,
        sender: &'a Sender,
        receiver: &'a Receiver,
        relay: &'a Relay,
        stop: Stop,
        recording: Recording,
    ) -> Self {
        let now = clock.now();
        Monitor {
            clock,
            sender,
            receiver,
            relay,
            stop,
            slowness: Slowness::default(),
            recording,
            status: Status::default(),
            sampler: Sampler::new("demo", now),
            next_status_at: now + STATUS_INTERVAL,
            next_sample_at: now,
        }
    }

    /// Returns the time of the next sample.
    pub(super) fn next_sample_at(&self) -> Instant {
        self.next_sample_at
    }

    /// Takes a sample if it is due.
    pub(super) fn sample_if_due(&mut self) {
        let now = self.clock.now();
        if now < self.next_sample_at {
            return;
        }
        self.next_sample_at = (self.next_sample_at + SAMPLE_INTERVAL).max(now);
        let sample = self.sample();
        if now >= self.next_status_at {
            self.next_status_at = (self.next_status_at + STATUS_INTERVAL).max(now);
            self.status = self.sampler.state(now);
        }
        if let Some(report) = self.slowness.due_report(now, self.lateness()) {
            let text = report.to_string();
            self.recording.view_events.push(ViewEvent { at: now, text });
        }
        let samples = &self.recording.samples;
        let before = samples.last().map_or(Instant::ZERO, |last| last.at);
        for (at, what) in SCRIPT {
            if before < at && at <= sample.at {
                let text = scripted(what);
                self.recording.view_events.push(ViewEvent { at, text });
            }
        }
        self.recording.samples.push(sample);
    }

    /// Returns the worst lateness of all threads that must keep time: source, both ends and links.
    fn lateness(&self) -> Lateness {
        self.stop
            .lateness(&self.clock)
            .max(self.sender.lateness())
            .max(self.receiver.lateness())
            .max(self.relay.lateness())
    }

    fn sample(&mut self) -> Sample {
        let sender = self.sender.snapshot();
        // The receiver's snapshot is the later of the two, and precedes `at`. All of its counts
        // therefore happened before `at`.
        let receiver = self.receiver.snapshot();
        let at = self.clock.now();
        let mut received = [Received::default(); LINKS.len()];
        for (received, path) in received.iter_mut().zip(&receiver.paths) {
            received.bytes = path.counters.received_bytes;
            received.media_bytes = path.counters.received_media_bytes;
        }
        let stream = StreamSnapshot {
            name: STREAM.to_owned(),
            path_names: names(),
            snapshot: sender.clone(),
            foreign: None,
            flows: Vec::new(),
        };
        // The sender's events report path changes.
        let _ = self.sampler.sample(at, vec![stream]);
        let target_bitrate = sender.target_bitrate;
        (self.recording.sender, self.recording.receiver) = (sender, receiver);
        Sample {
            at,
            target_bitrate,
            received,
        }
    }

    /// Records an event of the sender.
    pub(super) fn record(&mut self, event: &Event) {
        if let Event::PathState { path, state } = event {
            let name = LINKS.get(path.index()).map_or("?", |link| link.name);
            let text = format!("{name} {}", state_name(*state));
            let at = self.clock.now();
            self.recording.view_events.push(ViewEvent { at, text });
        }
    }
}
