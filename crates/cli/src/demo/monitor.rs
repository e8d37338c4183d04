//! Watches both ends and the links while the demo runs.

use anabranch_emu::Relay;
use anabranch_net::{Clock, Event, Receiver, Sender};
use anabranch_units::{Duration, Instant, Lateness};

use super::network::{LINKS, SCRIPT, scripted};
use super::recording::{Happening, PathSample, Recording, Sample};
use crate::observe::Look;
use crate::observe::sampler::Sampler;
use crate::observe::status::Status;
use crate::path_news::state_name;
use crate::slowness::Slowness;
use crate::stop::Stop;

/// From one sample to the next: how exactly the return of the failed link is timed.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// From one status of the sender to the next: some ten frames.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);
/// What the stream is called on the screen.
const STREAM: &str = "video";

/// Collects samples and happenings.
#[derive(Debug)]
pub(super) struct Monitor<'a> {
    pub(super) clock: Clock,
    pub(super) sender: &'a Sender,
    pub(super) receiver: &'a Receiver,
    pub(super) relay: &'a Relay,
    /// What the source waits by.
    pub(super) stop: Stop,
    pub(super) slowness: Slowness,
    /// Samples and happenings so far.
    pub(super) recording: Recording,
    /// The sender as `anabranch top` would see it.
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

    /// When the next sample is due.
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
        if let Some(text) = self.slowness.news(now, self.lateness()) {
            self.recording.happenings.push(Happening { at: now, text });
        }
        let samples = &self.recording.samples;
        let before = samples.last().map_or(Instant::ZERO, |last| last.at);
        for (at, what) in SCRIPT {
            if before < at && at <= sample.at {
                let text = scripted(what);
                self.recording.happenings.push(Happening { at, text });
            }
        }
        self.recording.samples.push(sample);
    }

    /// The worst of all that must keep time: the source, both ends and the links.
    fn lateness(&self) -> Lateness {
        self.stop
            .lateness(&self.clock)
            .max(self.sender.lateness())
            .max(self.receiver.lateness())
            .max(self.relay.lateness())
    }

    fn sample(&mut self) -> Sample {
        let sender = self.sender.snapshot();
        // The receiver's is the later one: what it has counted by `at` was there by `at`.
        let receiver = self.receiver.snapshot();
        let at = self.clock.now();
        let paths = LINKS.iter().enumerate().map(|(index, link)| {
            let mut path = PathSample::default();
            if let Some(sent) = sender.paths.get(index) {
                path.state = sent.view.state;
                path.controller_state = sent.controller_state;
                path.bandwidth = sent.view.bandwidth;
                path.smoothed_rtt = sent.view.rtt.smoothed;
                path.loss_ratio = sent.view.risk.loss_ratio;
                path.sent = sent.counters;
            }
            if let Some(received) = receiver.paths.get(index) {
                path.received = received.counters;
            }
            let forward = self.relay.statistics(index).forward.link;
            path.link_queue = link.rate.time_for(forward.queued_bytes);
            path
        });
        let sample = Sample {
            at,
            target_bitrate: sender.target_bitrate,
            recovered_packets: receiver.session.recovered_fragments,
            paths: paths.collect(),
        };
        let look = Look {
            name: STREAM.to_owned(),
            path_names: LINKS.iter().map(|link| link.name.to_owned()).collect(),
            snapshot: sender,
            foreign: None,
        };
        // What happens to the paths, the sender tells by itself.
        let _ = self.sampler.sample(at, vec![look]);
        sample
    }

    /// Takes note of what the sender tells.
    pub(super) fn note(&mut self, event: &Event) {
        if let Event::PathState { path, state } = event {
            let name = LINKS.get(path.index()).map_or("?", |link| link.name);
            let text = format!("{name} {}", state_name(*state));
            let at = self.clock.now();
            self.recording.happenings.push(Happening { at, text });
        }
    }
}
