//! Samples the sessions several times a second and makes one status of each second.

use anabranch_units::Instant;

use super::StreamSnapshot;
use super::meter::RateMeter;
use super::status::{Status, Stream, Total, TunnelCounters};
use super::stream_event::{NamedEvent, unix_time_s};
use super::tracked::{Bits, Tracked};

/// All current and past streams.
#[derive(Debug, Default)]
pub struct Sampler {
    role: &'static str,
    streams: Vec<Tracked>,
    sampled_at: Instant,
    stated_at: Instant,
    sent: RateMeter,
    received: RateMeter,
    delivered: RateMeter,
    slow_seconds: u64,
}

impl Sampler {
    /// Creates a sampler of a program that has the role `send`, for example.
    pub fn new(role: &'static str, now: Instant) -> Self {
        Sampler {
            role,
            sampled_at: now,
            stated_at: now,
            ..Sampler::default()
        }
    }

    /// Sets the number of seconds so far in which the machine was too slow.
    pub(super) fn on_slow_seconds(&mut self, count: u64) {
        self.slow_seconds = count;
    }

    /// Takes a sample. Returns the events since the last one.
    pub fn sample(&mut self, now: Instant, snapshots: Vec<StreamSnapshot>) -> Vec<NamedEvent> {
        let span_s = now.saturating_since(self.sampled_at).as_secs_f64();
        self.sampled_at = now;
        let mut events = Vec::new();
        let mut sum = Bits::default();
        // A session that is over is missing from the sample.
        for stream in &mut self.streams {
            let is_there = snapshots
                .iter()
                .any(|snapshot| snapshot.name == stream.name());
            if !is_there {
                stream.on_gone(&mut events);
            }
        }
        for snapshot in snapshots {
            let known = self.streams.iter().position(|s| s.name() == snapshot.name);
            let index = known.unwrap_or_else(|| {
                self.streams.push(Tracked::new(snapshot.name.clone()));
                self.streams.len() - 1
            });
            let bits = self.streams[index].sample(snapshot, self.slow_seconds, &mut events);
            sum = sum.plus(bits);
        }
        self.sent.add(sum.sent, span_s);
        self.received.add(sum.received, span_s);
        self.delivered.add(sum.delivered, span_s);
        events
    }

    /// Ends all streams, because the program ends.
    pub(super) fn end(&mut self) -> Vec<NamedEvent> {
        let mut events = Vec::new();
        let all = self.streams.iter_mut();
        all.for_each(|stream| stream.on_gone(&mut events));
        events
    }

    /// Returns the number of streams in the last sample.
    pub(super) fn stream_count(&self) -> usize {
        self.streams
            .iter()
            .filter(|stream| stream.is_here())
            .count()
    }

    /// Ends the interval and returns its status.
    pub fn state(&mut self, now: Instant) -> Status {
        let interval = now.saturating_since(self.stated_at);
        self.stated_at = now;
        let here = self.streams.iter_mut().filter(|stream| stream.is_here());
        let streams: Vec<Stream> = here.map(Tracked::state).collect();
        Status {
            event: "stats".to_owned(),
            unix_time_s: unix_time_s(),
            uptime_s: now.as_secs_f64(),
            interval_s: interval.as_secs_f64(),
            role: self.role.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            slow_seconds: self.slow_seconds,
            total: Total {
                stream_count: streams.len(),
                sent_rate_bps: self.sent.take(),
                received_rate_bps: self.received.take(),
                delivered_rate_bps: self.delivered.take(),
                sent_bytes: streams.iter().map(Stream::sent_bytes).sum(),
                received_bytes: streams.iter().map(Stream::received_bytes).sum(),
                delivered_bytes: streams
                    .iter()
                    .map(|stream| stream.counters.delivered_bytes)
                    .sum(),
                tunnelled: TunnelCounters::default(),
            },
            streams,
            outputs: Vec::new(),
        }
    }
}
