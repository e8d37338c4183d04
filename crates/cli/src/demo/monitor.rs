//! Watches both ends and the links while the demo runs.

use anabranch_emu::Relay;
use anabranch_net::{Clock, Event, Receiver, Sender};
use anabranch_units::{Duration, Instant, Lateness};

use super::network::{FAILING, LINKS, OUTAGE_AT, RETURN_AT};
use super::recording::{Happening, PathSample, Sample};
use crate::path_news::state_name;
use crate::slowness::Slowness;
use crate::stop::Stop;

/// From one sample to the next: how exactly the return of the failed link is timed.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

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
    pub(super) samples: Vec<Sample>,
    pub(super) happenings: Vec<Happening>,
    next_sample_at: Instant,
}

impl<'a> Monitor<'a> {
    pub(super) fn new(
        clock: Clock,
        sender: &'a Sender,
        receiver: &'a Receiver,
        relay: &'a Relay,
        stop: Stop,
    ) -> Self {
        Monitor {
            clock,
            sender,
            receiver,
            relay,
            stop,
            slowness: Slowness::default(),
            samples: Vec::new(),
            happenings: Vec::new(),
            next_sample_at: clock.now(),
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
        if let Some(text) = self.slowness.news(now, self.lateness()) {
            self.happenings.push(Happening { at: now, text });
        }
        let before = self.samples.last().map_or(Instant::ZERO, |last| last.at);
        for (at, what) in [(OUTAGE_AT, "goes down"), (RETURN_AT, "is back")] {
            if before < at && at <= sample.at {
                let text = format!("the {} link {what}", LINKS[FAILING].name);
                self.happenings.push(Happening { at, text });
            }
        }
        self.samples.push(sample);
    }

    /// The worst of all that must keep time: the source, both ends and the links.
    fn lateness(&self) -> Lateness {
        self.stop
            .lateness(&self.clock)
            .max(self.sender.lateness())
            .max(self.receiver.lateness())
            .max(self.relay.lateness())
    }

    fn sample(&self) -> Sample {
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
        Sample {
            at,
            target_bitrate: sender.target_bitrate,
            recovered_packets: receiver.session.recovered_fragments,
            paths: paths.collect(),
        }
    }

    /// Takes note of what the sender tells.
    pub(super) fn note(&mut self, event: &Event) {
        if let Event::PathState { path, state } = event {
            let name = LINKS.get(path.index()).map_or("?", |link| link.name);
            let text = format!("{name} {}", state_name(*state));
            let at = self.clock.now();
            self.happenings.push(Happening { at, text });
        }
    }
}
