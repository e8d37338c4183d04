//! One stream and the state that its samples show.

use crate::status::Flow;
use std::collections::BTreeMap;

use anabranch_core::{PathState, ReasonCounts, SendReason};
use anabranch_net::SessionKind;
use anabranch_net::{PathSnapshot, Snapshot};
use anabranch_units::{DataRate, Instant};

use super::meter::{RateMeter, Series};
use super::outage::Outage;
use super::picture::{Circumstances, Picture, PictureWatch};
use super::status::{Path, PathCounters, Reason, Stream, StreamCounters};
use super::stream_event::{NamedEvent, StreamEvent};
use super::{Foreign, StreamSnapshot};
use crate::names::{cargo_name, path_name, state_name};

/// Traffic between two samples, in bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bits {
    pub(super) sent: f64,
    pub(super) received: f64,
    pub(super) delivered: f64,
}

impl Bits {
    pub(super) fn plus(self, other: Bits) -> Bits {
        Bits {
            sent: self.sent + other.sent,
            received: self.received + other.received,
            delivered: self.delivered + other.delivered,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Tracked {
    name: String,
    /// Number of sessions so far.
    session: u64,
    /// Identity of the session; `None` before the first.
    identity: Option<Identity>,
    is_here: bool,
    is_reset: bool,
    last: Snapshot,
    foreign: Option<Foreign>,
    flows: Vec<Flow>,
    path_names: Vec<String>,
    sent: RateMeter,
    received: RateMeter,
    delivered: RateMeter,
    media: RateMeter,
    /// Bytes by send reason at the interval's start.
    reasons_before: ReasonCounts,
    paths: Vec<TrackedPath>,
    outage: Outage,
    picture: PictureWatch,
    slow_seconds: u64,
}

/// Start of the counters, and the number of earlier sessions that they include.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    connected_at: Instant,
    past_sessions: u64,
}

#[derive(Debug, Default)]
struct TrackedPath {
    succession: u64,
    sent: RateMeter,
    received: RateMeter,
    rtt: Series,
    /// The least round-trip time so far in seconds.
    least_rtt_s: Option<f64>,
    state: Option<PathState>,
}

impl Tracked {
    pub(super) fn new(name: String) -> Self {
        Tracked {
            name,
            ..Tracked::default()
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the stream was in the last sample.
    pub(super) fn is_here(&self) -> bool {
        self.is_here
    }

    /// Records that the stream is missing from the sample.
    pub(super) fn on_gone(&mut self, events: &mut Vec<NamedEvent>) {
        if core::mem::take(&mut self.is_here) {
            self.end_session(events);
        }
    }

    fn end_session(&mut self, events: &mut Vec<NamedEvent>) {
        if self.identity.take().is_none() {
            return;
        }
        let session = self.session;
        self.outage = Outage::default();
        self.picture = PictureWatch::default();
        self.say(events, StreamEvent::SessionEnded { session });
    }

    fn say(&self, events: &mut Vec<NamedEvent>, stream_event: StreamEvent) {
        events.push((self.name.clone(), stream_event));
    }

    /// Takes a sample.
    pub(super) fn sample(
        &mut self,
        sample: StreamSnapshot,
        slow_seconds: u64,
        events: &mut Vec<NamedEvent>,
    ) -> Bits {
        let StreamSnapshot {
            path_names,
            snapshot,
            foreign,
            flows,
            ..
        } = sample;
        self.path_names = path_names;
        self.foreign = foreign;
        self.flows = flows;
        self.is_here = true;
        self.slow_seconds = slow_seconds;
        let mut since = self.last.at;
        if let Some(connected_at) = snapshot.connected_at {
            since = self.detect_session(connected_at, &snapshot, events);
        } else if self.foreign.is_some() {
            self.end_session(events);
        }
        let span_s = snapshot.at.saturating_since(since).as_secs_f64();
        let mut bits = Bits::default();
        self.paths
            .resize_with(snapshot.paths.len(), TrackedPath::default);
        for (index, path) in snapshot.paths.iter().enumerate() {
            let tracked = &mut self.paths[index];
            if tracked.succession != path.succession {
                *tracked = TrackedPath {
                    succession: path.succession,
                    ..TrackedPath::default()
                };
            }
            bits.sent += tracked.sent.see(sent_bytes(path), span_s) * span_s;
            let received = path.counters.received_bytes;
            bits.received += tracked.received.see(received, span_s) * span_s;
            let rtt_of_link = path.link.as_ref().and_then(|link| link.rtt);
            if let Some(rtt) = path.view.rtt.latest.or(rtt_of_link) {
                let rtt_s = rtt.as_secs_f64();
                tracked.rtt.add(rtt_s);
                // The transport also has samples between ours.
                let least = path
                    .view
                    .rtt
                    .least
                    .map_or(rtt_s, |least| least.as_secs_f64());
                let least = tracked.least_rtt_s.unwrap_or(least).min(least).min(rtt_s);
                tracked.least_rtt_s = Some(least);
            }
            let state = path.state();
            if tracked.state.replace(state) != Some(state) {
                let name = path_name(&self.path_names, index, path);
                let stream_event = StreamEvent::PathState {
                    path: index,
                    name,
                    state: state_name(state).to_owned(),
                };
                events.push((self.name.clone(), stream_event));
            }
        }
        self.media.see(snapshot.session.media_bytes_sent, span_s);
        bits.delivered = self.delivered.see(delivered_bytes(&snapshot), span_s) * span_s;
        self.sent.add(bits.sent, span_s);
        self.received.add(bits.received, span_s);
        self.detect_outage(&snapshot, events);
        self.last = snapshot;
        self.watch_picture(events);
        bits
    }

    /// The link states of other protocols are unknown, and a peer that has left is silent.
    fn detect_outage(&mut self, snapshot: &Snapshot, events: &mut Vec<NamedEvent>) {
        if snapshot.connected_at.is_some()
            && snapshot.peer_left_at.is_none()
            && self.foreign.is_none()
            && let Some(stream_event) = self.outage.see(snapshot)
        {
            self.say(events, stream_event);
        }
    }

    fn watch_picture(&mut self, events: &mut Vec<NamedEvent>) {
        let mut watch = core::mem::take(&mut self.picture);
        if let Some(picture) = watch.see(&self.last, self.circumstances()) {
            let Picture {
                state, cause, text, ..
            } = picture;
            self.say(events, StreamEvent::Picture { state, cause, text });
        }
        self.picture = watch;
    }

    fn is_connected(&self) -> bool {
        self.last.connected_at.is_some() && self.last.peer_left_at.is_none()
    }

    fn circumstances(&self) -> Circumstances<'_> {
        Circumstances {
            path_names: &self.path_names,
            outage: self.outage.present(),
            is_connected: self.is_connected(),
            heard_at: self.foreign.as_ref().and_then(|foreign| foreign.heard_at),
            slow_seconds: self.slow_seconds,
        }
    }

    /// Detects another session. Returns the start of the period that the counters now cover.
    fn detect_session(
        &mut self,
        connected_at: Instant,
        snapshot: &Snapshot,
        events: &mut Vec<NamedEvent>,
    ) -> Instant {
        let identity = Identity {
            connected_at,
            past_sessions: snapshot.past_sessions,
        };
        if self.identity == Some(identity) {
            return self.last.at;
        }
        let before = self.identity.replace(identity);
        if before.is_some() {
            let session = self.session;
            self.say(events, StreamEvent::SessionEnded { session });
        }
        self.session += 1;
        let session = self.session;
        self.say(events, StreamEvent::SessionBegan { session });
        // A sender's counters include its earlier sessions.
        if before.is_some_and(|before| before.connected_at == connected_at) {
            return self.last.at;
        }
        self.is_reset = true;
        self.outage = Outage::default();
        self.reasons_before = ReasonCounts::default();
        self.delivered.reset();
        self.media.reset();
        for path in &mut self.paths {
            path.sent.reset();
            path.received.reset();
            path.state = None;
        }
        connected_at
    }

    /// Ends the interval and returns its status.
    pub(super) fn state(&mut self) -> Stream {
        let snapshot = &self.last;
        let sent = snapshot.paths.iter().map(|path| path.counters.reasons);
        let reasons = sent.fold(ReasonCounts::default(), |sum, of| sum.plus(&of));
        let sent_shares = shares(&reasons, &self.reasons_before);
        self.reasons_before = reasons;
        let session = &snapshot.session;
        let counters = StreamCounters {
            frames_sent: session.frames_sent,
            frames_late: session.frames_late,
            frames_acked: session.frames_acked,
            frames_received: session.frames_received,
            frames_dropped: session.frames_dropped,
            delivered_bytes: delivered_bytes(snapshot),
            recovered_packets: session.recovered_fragments,
            rejected_datagrams: snapshot.edge.rejected_datagrams.iter().sum(),
        };
        let foreign = self.foreign.as_ref();
        let paths = snapshot.paths.iter().zip(&mut self.paths).enumerate().map(
            |(index, (path, tracked))| {
                let name = path_name(&self.path_names, index, path);
                let heard_at = foreign.and_then(|foreign| foreign.links_heard_at.get(index));
                Path {
                    silent_s: heard_at.map(|at| seconds_between(*at, snapshot.at)),
                    ..tracked.state(index, name, path)
                }
            },
        );
        let paths: Vec<Path> = paths.collect();
        let since = snapshot
            .connected_at
            .map(|at| snapshot.at.saturating_since(at));
        let carries = snapshot
            .session_kind
            .or(foreign.map(|_| SessionKind::Frames));
        Stream {
            name: self.name.clone(),
            peer: snapshot.peer.map(|peer| peer.to_string()),
            carries: carries.map(|session_kind| cargo_name(session_kind).to_owned()),
            protocol: foreign.map(|foreign| foreign.protocol.to_owned()),
            silent_s: foreign
                .and_then(|foreign| foreign.heard_at)
                .map(|at| seconds_between(at, snapshot.at)),
            connected: self.is_connected(),
            session: self.session,
            reset: core::mem::take(&mut self.is_reset),
            session_s: since.unwrap_or_default().as_secs_f64(),
            latency_s: snapshot.latency.map(|latency| latency.as_secs_f64()),
            picture: self.picture.picture(snapshot, self.circumstances()),
            target_rate_bps: snapshot.target_bitrate.bits_per_second(),
            media_rate_bps: self.media.take(),
            sent_rate_bps: self.sent.take(),
            received_rate_bps: self.received.take(),
            delivered_rate_bps: self.delivered.take(),
            sent_shares,
            counters,
            paths,
            flows: self.flows.clone(),
        }
    }
}

fn seconds_between(earlier: Instant, later: Instant) -> f64 {
    later.saturating_since(earlier).as_secs_f64()
}

impl TrackedPath {
    fn state(&mut self, index: usize, name: String, snapshot: &PathSnapshot) -> Path {
        let view = &snapshot.view;
        let counted = &snapshot.counters;
        let link = snapshot.link.as_ref();
        let bandwidth = link.map_or(view.bandwidth, |link| link.bandwidth);
        let max_rate = link.and_then(|link| link.max_rate);
        let cap = link.and_then(|link| link.cap);
        let lost = counted.lost_packets;
        let rtt = self.rtt.take();
        let reasons = counted.reasons.iter().map(|(reason, count)| {
            let count = Reason {
                packets: count.packets,
                bytes: count.bytes,
            };
            (reason.name().to_owned(), count)
        });
        Path {
            path: index,
            name,
            peer: snapshot.peer.map(|peer| peer.to_string()),
            state: state_name(snapshot.state()).to_owned(),
            standby: link.map_or(view.is_standby, |link| link.is_standby),
            silent_s: None,
            sent_rate_bps: self.sent.take(),
            received_rate_bps: self.received.take(),
            rtt_s: rtt,
            queueing_delay_s: rtt
                .map(|rtt| (rtt.min - self.least_rtt_s.unwrap_or(rtt.min)).max(0.0)),
            loss_ratio: link.map_or(view.risk.loss_ratio, |link| link.loss_ratio),
            bandwidth_bps: bandwidth.bits_per_second(),
            max_rate_bps: max_rate.map(DataRate::bits_per_second),
            cap_bytes: cap.map(|cap| cap.limit_bytes),
            cap_used_bytes: cap.map(|cap| cap.used_bytes),
            controller_state: snapshot.controller_state.to_owned(),
            in_flight_bytes: view.bytes_in_flight,
            queued_bytes: view.queued_bytes,
            congestion_window_bytes: view.congestion_window,
            carrier: snapshot.carrier.to_string(),
            mtu_bytes: view.mtu,
            last_error: snapshot.last_error.clone(),
            counters: PathCounters {
                sent_packets: counted.sent_packets + counted.control_packets,
                sent_bytes: sent_bytes(snapshot),
                received_packets: counted.received_packets,
                received_bytes: counted.received_bytes,
                acked_packets: counted.acked_packets,
                lost_packets: lost.saturating_sub(counted.spurious_losses),
                marked_packets: counted.marked_packets,
                retransmitted_packets: counted.retransmitted_packets,
                repair_packets: counted.repair_packets,
                padding_packets: counted.padding_packets,
                duplicate_packets: counted.duplicate_packets,
                unsent_datagrams: snapshot.unsent_datagrams,
            },
            sent_reasons: reasons.collect(),
        }
    }
}

/// Returns the share of each reason in the bytes sent since `before`.
fn shares(reasons: &ReasonCounts, before: &ReasonCounts) -> BTreeMap<String, f64> {
    let sent = SendReason::ALL.map(|reason| {
        let bytes = reasons.of(reason).bytes;
        (reason, bytes.saturating_sub(before.of(reason).bytes))
    });
    let total: u64 = sent.iter().map(|(_, bytes)| bytes).sum();
    let occur = sent.into_iter().filter(|(_, bytes)| *bytes > 0);
    occur
        .map(|(reason, bytes)| (reason.name().to_owned(), bytes as f64 / total as f64))
        .collect()
}

fn sent_bytes(path: &PathSnapshot) -> u64 {
    path.counters.sent_bytes + path.counters.control_bytes
}

fn delivered_bytes(snapshot: &Snapshot) -> u64 {
    snapshot.session.media_bytes_received + snapshot.session.stream_bytes_received
}

pub(super) const STATES: [PathState; 4] = [
    PathState::Active,
    PathState::Suspect,
    PathState::Out,
    PathState::Removed,
];
