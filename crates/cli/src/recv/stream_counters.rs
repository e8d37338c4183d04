//! Snapshots of streams for the statistics; for other protocols, from the counts of this file.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use anabranch_core::{PathCounters, PathState, PathView, SessionCounters};
use anabranch_mpegts_io::{Link, Links};
use anabranch_net::{Clock, PathSnapshot, Receiver, Snapshot};
use anabranch_observe::{Foreign, StreamSnapshot};
use anabranch_units::{Duration, Instant};

use crate::allowed::{self, Allowed, StreamName};

/// Pause after which another session begins.
const PAUSE_BETWEEN_SESSIONS: Duration = Duration::from_secs(10);
/// Silence after which a link is suspect: SRT and SRTLA send something each second.
pub(super) const SUSPECT_AFTER: Duration = Duration::from_secs(3);

/// Counters of a stream.
#[derive(Debug)]
pub(super) struct StreamCounters {
    name: StreamName,
    protocol: &'static str,
    links: Option<Links>,
    counts: Mutex<Counts>,
}

/// Counters of the current or last session.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    began_at: Instant,
    units: u64,
    bytes: u64,
    heard_at: Option<Instant>,
}

impl StreamCounters {
    pub(super) fn new(name: StreamName, protocol: &'static str, links: Option<Links>) -> Self {
        StreamCounters {
            name,
            protocol,
            links,
            counts: Mutex::default(),
        }
    }

    /// Counts received bytes. Returns whether a session begins with them.
    pub(super) fn add(&self, now: Instant, bytes: usize) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = !counts.is_session(now);
        if begins {
            *counts = Counts {
                began_at: now,
                ..Counts::default()
            };
        }
        counts.units += 1;
        counts.bytes += bytes as u64;
        counts.heard_at = Some(now);
        begins
    }

    /// Returns a snapshot in the form of our own streams: links are paths.
    fn snapshot(&self, now: Instant) -> StreamSnapshot {
        let counts = *self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let links = self.links.as_ref().map(Links::get).unwrap_or_default();
        let snapshot = Snapshot {
            at: now,
            connected_at: counts.is_session(now).then_some(counts.began_at),
            session: SessionCounters {
                frames_received: counts.units,
                media_bytes_received: counts.bytes,
                ..SessionCounters::default()
            },
            paths: links.iter().map(|link| path(link, now)).collect(),
            ..Snapshot::default()
        };
        StreamSnapshot {
            name: self.name.as_str().to_owned(),
            path_names: Vec::new(),
            snapshot,
            foreign: Some(Foreign {
                protocol: self.protocol,
                heard_at: counts.heard_at,
                links_heard_at: links.iter().map(|link| link.heard_at).collect(),
            }),
            flows: Vec::new(),
        }
    }
}

impl Counts {
    fn is_session(&self, now: Instant) -> bool {
        self.heard_at
            .is_some_and(|at| now.saturating_since(at) <= PAUSE_BETWEEN_SESSIONS)
    }
}

fn path(link: &Link, now: Instant) -> PathSnapshot {
    let silent_for = now.saturating_since(link.heard_at);
    let state = if !link.is_there {
        PathState::Out
    } else if silent_for < SUSPECT_AFTER {
        PathState::Active
    } else {
        PathState::Suspect
    };
    let mut view = PathView {
        state,
        ..PathView::default()
    };
    if let Some(quality) = link.quality {
        (view.rtt.smoothed, view.rtt.latest) = (quality.rtt, quality.rtt);
        view.rtt.variation = quality.rtt_variation;
        view.risk.loss_ratio = quality.loss_ratio;
    }
    PathSnapshot {
        view,
        counters: PathCounters {
            received_packets: link.datagram_count,
            received_bytes: link.bytes,
            lost_packets: link.quality.map_or(0, |quality| quality.missing_packets),
            ..PathCounters::default()
        },
        peer: Some(link.address),
        ..PathSnapshot::default()
    }
}

/// Counters of all streams by other protocols.
#[derive(Clone, Debug, Default)]
pub(super) struct AllCounters(Arc<Mutex<Vec<Arc<StreamCounters>>>>);

impl AllCounters {
    pub(super) fn add(&self, counters: Arc<StreamCounters>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(counters);
    }

    pub(super) fn snapshots(&self, clock: &Clock) -> Vec<StreamSnapshot> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock.now();
        all.iter().map(|counters| counters.snapshot(now)).collect()
    }
}

/// Returns a function that takes snapshots of all sessions, our own as long as the receiver exists.
pub(super) fn snapshots(
    receiver: Option<&Arc<Receiver>>,
    names: Arc<Mutex<Vec<Allowed>>>,
    all_counters: AllCounters,
    clock: Clock,
) -> impl Fn() -> Vec<StreamSnapshot> + Send + 'static + use<> {
    let receiver = receiver.map_or_else(Weak::new, Arc::downgrade);
    move || {
        let snapshots = receiver.upgrade().map(|receiver| receiver.snapshots());
        let names = names.lock().unwrap_or_else(PoisonError::into_inner);
        let native = snapshots
            .unwrap_or_default()
            .into_iter()
            .map(|snapshot| StreamSnapshot {
                name: snapshot.peer.map_or_else(String::new, |peer| {
                    allowed::name_of(&names, &peer).as_str().to_owned()
                }),
                path_names: Vec::new(),
                snapshot,
                foreign: None,
                flows: Vec::new(),
            });
        native.chain(all_counters.snapshots(&clock)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_mpegts_io::LinkQuality;

    #[test]
    fn a_caller_is_a_path_with_its_round_trip_and_loss() {
        let link = Link {
            address: ([192, 0, 2, 1], 5_000).into(),
            datagram_count: 90,
            bytes: 90_000,
            heard_at: Instant::from_secs(1),
            is_there: true,
            quality: Some(LinkQuality {
                rtt: Some(Duration::from_millis(40)),
                rtt_variation: Duration::from_millis(5),
                loss_ratio: 0.25,
                missing_packets: 30,
            }),
        };
        let path = path(&link, Instant::from_secs(2));
        assert_eq!(path.view.rtt.smoothed, Some(Duration::from_millis(40)));
        assert_eq!(
            (path.view.risk.loss_ratio, path.counters.lost_packets),
            (0.25, 30)
        );
    }

    /// Returns when the session began, and its bytes.
    fn session(counters: &StreamCounters, second: u64) -> (Option<Instant>, u64) {
        let snapshot = counters.snapshot(Instant::from_secs(second)).snapshot;
        let bytes = snapshot.session.media_bytes_received;
        (snapshot.connected_at, bytes)
    }

    #[test]
    fn a_pause_ends_a_session_and_the_counts_are_of_the_last() {
        let counters = StreamCounters::new("van".parse().unwrap(), "srt", None);
        let at = Instant::from_secs;
        assert_eq!(session(&counters, 1), (None, 0));
        assert!(counters.add(at(2), 100));
        assert!(!counters.add(at(11), 200));
        assert_eq!(session(&counters, 12), (Some(at(2)), 300));
        assert_eq!(session(&counters, 30), (None, 300));
        assert!(counters.add(at(31), 50));
        assert_eq!(session(&counters, 31), (Some(at(31)), 50));
    }
}
