//! The state of a bonded stream in the form of a session's, for statistics and events. Packets of
//! SRT take the place of frames.

use anabranch_core::{PathCounters, PathId, PathRtt, PathState, PathView, Risk, SessionCounters};
use anabranch_net::{LinkReport as Shown, PathSnapshot, Snapshot};
use anabranch_srtla::{LinkReport, LinkState};
use anabranch_units::Instant;

use super::Bond;

/// Length of a packet of media on the wire, for the window in bytes.
const PACKET_BYTES: u64 = 1_360;

impl Bond {
    pub(super) fn state_at(&self, now: Instant) -> Snapshot {
        let links: Vec<LinkReport> = self.sender.links().collect();
        let free_suffice = links
            .iter()
            .any(|link| link.state == LinkState::Up && !link.options.is_metered);
        let counters = self.sender.counters();
        let delivered: u64 = links
            .iter()
            .map(|link| link.counters.delivered_packets)
            .sum();
        Snapshot {
            at: now,
            connected_at: self.connected_at,
            latency: self.connected_at.map(|_| self.sender.latency()),
            paths: self.paths(&links, free_suffice),
            session: SessionCounters {
                frames_sent: counters.taken_packets,
                media_bytes_sent: counters.taken_bytes,
                frames_late: counters.expired_packets,
                frames_acked: delivered.min(counters.taken_packets),
                ..SessionCounters::default()
            },
            target_bitrate: self.target(now),
            ..Snapshot::default()
        }
    }

    /// Returns the paths by their numbers. A removed one keeps its place.
    fn paths(&self, links: &[LinkReport], free_suffice: bool) -> Vec<PathSnapshot> {
        let mut paths = Vec::new();
        for link in links {
            paths.resize_with(usize::from(link.id.0), removed);
            paths.push(self.path(link, free_suffice));
        }
        paths
    }

    fn path(&self, link: &LinkReport, free_suffice: bool) -> PathSnapshot {
        let state = match link.state {
            LinkState::Up => PathState::Active,
            LinkState::Joining | LinkState::Out => PathState::Out,
        };
        let counters = path_counters(link);
        let is_known = link.counters.received_datagrams > 0;
        let rtt = is_known.then_some(link.rtt);
        let view = PathView {
            id: PathId(link.id.0),
            state,
            is_standby: link.options.is_metered && free_suffice,
            weight: link.options.weight,
            rtt: PathRtt {
                smoothed: rtt,
                latest: rtt,
                least: is_known.then_some(link.base_rtt),
                ..PathRtt::default()
            },
            bytes_in_flight: link.in_flight as u64 * PACKET_BYTES,
            pacing_rate: Some(link.rate),
            bandwidth: link.rate,
            risk: Risk {
                loss_ratio: link.counters.lost_packets as f64 / counters.sent_packets.max(1) as f64,
                ..Risk::default()
            },
            ..PathView::default()
        };
        let port = self.ports.get(link.id);
        PathSnapshot {
            controller_state: "delivery-rate",
            peer: port.and_then(|port| port.peer),
            unsent_datagrams: port.map_or(0, |port| port.unsent),
            last_error: port.and_then(|port| port.last_error.clone()),
            succession: port.map_or(0, |port| port.succession),
            link: port.map(|port| Shown {
                name: port.path.via.to_string(),
                state,
                is_standby: view.is_standby,
                is_metered: link.options.is_metered,
                rtt,
                loss_ratio: view.risk.loss_ratio,
                bandwidth: link.rate,
                max_rate: link.options.max_rate,
                cap: port.cap,
                ..Shown::default()
            }),
            counters,
            view,
            ..PathSnapshot::default()
        }
    }
}

/// Returns the state of a path that was removed.
fn removed() -> PathSnapshot {
    PathSnapshot {
        view: PathView {
            state: PathState::Removed,
            ..PathView::default()
        },
        ..PathSnapshot::default()
    }
}

fn path_counters(link: &LinkReport) -> PathCounters {
    let counted = &link.counters;
    PathCounters {
        sent_packets: counted.sent_datagrams,
        sent_bytes: counted.sent_bytes,
        acked_packets: counted.delivered_packets,
        lost_packets: counted.lost_packets,
        retransmitted_packets: counted.sent_again,
        retransmitted_bytes: counted.sent_again_bytes,
        received_packets: counted.received_datagrams,
        received_bytes: counted.received_bytes,
        ..PathCounters::default()
    }
}
