//! Summaries of sessions for people.

use core::fmt::Write;

use anabranch_core::{PathCounters, ReasonCounts};
use anabranch_net::SessionKind;
use anabranch_net::{Carrier, PathSnapshot, Snapshot};
use anabranch_observe::names::path_name;
use anabranch_units::{ByteCount, DataRate, Duration, Instant};

use crate::delivery::Delivery;
use crate::end::End;

/// Returns the final table. `names` are the paths', `outages` the cause of missing pictures.
pub(crate) fn table(
    end: End,
    snapshot: &Snapshot,
    names: &[String],
    outages: Option<String>,
) -> String {
    let duration = snapshot
        .connected_at
        .map_or(Duration::ZERO, |connected_at| {
            snapshot.at.saturating_since(connected_at)
        });
    let mut text = format!("session of {:.1} s", duration.as_secs_f64());
    if let Some(peer) = snapshot.peer {
        let _ = write!(text, " with {peer}");
    }
    match snapshot.past_sessions {
        0 => {}
        1 => text.push_str(", opened again once"),
        count => {
            let _ = write!(text, ", opened again {count} times");
        }
    }
    if let Some(away) = away_for(snapshot) {
        let _ = write!(text, "; the receiver went away {away} before its end");
    }
    text.push_str(&carried(end, snapshot, outages));
    // A share of 100 % is not printed.
    if let Some(share) = Delivery::of(end, snapshot, 0)
        .share()
        .filter(|share| *share < 1.0)
    {
        let _ = write!(text, "; {:.1} % in time", share * 100.0);
    }
    let total = snapshot
        .paths
        .iter()
        .map(|path| bytes_of(end, path))
        .sum::<u64>()
        .max(1);
    for (index, path) in snapshot.paths.iter().enumerate() {
        text.push_str(&path_line(end, path, &name_of(names, path, index), total));
    }
    text.push_str(&fec_line(end, snapshot));
    if end != End::Receiver {
        let shares = reason_shares(&reasons_since(None, snapshot));
        text.extend(shares.map(|shares| format!("\nsent: {shares}")));
    }
    text.push_str(&edge_line(snapshot));
    text
}

/// Describes the transferred data, as one end knows it.
fn carried(end: End, snapshot: &Snapshot, outages: Option<String>) -> String {
    let session = &snapshot.session;
    // Silence after the encoder has stopped does not count for its rate.
    let began_at = snapshot.connected_at.unwrap_or(snapshot.at);
    let until = snapshot.media_until.unwrap_or(snapshot.at);
    let duration = until.saturating_since(began_at);
    let outages = outages.map_or(String::new(), |outages| format!(" ({outages})"));
    match end {
        End::Sender => {
            let unknown = session
                .frames_sent
                .saturating_sub(session.frames_acked + session.frames_late);
            let unknown = match unknown {
                0 => String::new(),
                count => format!(", {count} unconfirmed"),
            };
            format!(
                "\nof {} pictures {} in time, {} late{outages}{unknown}",
                session.frames_sent, session.frames_acked, session.frames_late
            )
        }
        End::SrtlaSender => format!(
            "\npackets: {} sent, {} given up as late",
            session.frames_sent, session.frames_late
        ),
        End::Receiver => format!(
            "\nof {} pictures {} in time, {} late or lost{outages}; {} of media, {}",
            session.frames_received + session.frames_dropped,
            session.frames_received,
            session.frames_dropped,
            ByteCount(session.media_bytes_received),
            DataRate::from_bytes_per(
                session.media_bytes_received,
                at_least_a_millisecond(duration)
            ),
        ),
        End::Tunnel(datagrams) if snapshot.session_kind == Some(SessionKind::Datagrams) => format!(
            "\n{}: {} sent, {} given up as late; {} received, {} lost",
            datagrams.name(),
            session.frames_sent,
            session.frames_late,
            session.frames_received,
            session.frames_dropped,
        ),
        End::Tunnel(_) => format!(
            "\nstreams: {} received",
            ByteCount(session.stream_bytes_received)
        ),
    }
}

/// Describes packets and handshakes that never reached the transport, if there were any.
fn edge_line(snapshot: &Snapshot) -> String {
    let edge = &snapshot.edge;
    let rejected = edge.rejected_datagrams.iter().sum::<u64>() + edge.unknown_datagrams;
    if rejected + edge.refused_handshakes + edge.dropped_events == 0 {
        return String::new();
    }
    format!(
        "\ndropped at the door: {rejected} datagrams, {} handshakes, {} events",
        edge.refused_handshakes, edge.dropped_events
    )
}

/// Returns the time since the receiver announced that it goes away, if none has come since.
fn away_for(snapshot: &Snapshot) -> Option<String> {
    let span = snapshot.at.saturating_since(snapshot.peer_left_at?);
    Some(format!("{:.1} s", span.as_secs_f64()))
}

/// Describes cost or benefit of forward error correction, if there was any.
fn fec_line(end: End, snapshot: &Snapshot) -> String {
    let paths = snapshot.paths.iter().map(|path| &path.counters);
    let all = paths.fold(PathCounters::default(), |sum, path| sum.plus(path));
    let recovered = snapshot.session.recovered_fragments;
    match end {
        End::Sender | End::SrtlaSender if all.repair_bytes > 0 => format!(
            "\nrepairs: {}, {:.1} % of the rest",
            ByteCount(all.repair_bytes),
            repair_share(&all) * 100.0
        ),
        End::Receiver if recovered > 0 => format!("\nrepairs: {recovered} lost packets recovered"),
        _ => String::new(),
    }
}

/// Returns the bytes of repairs divided by all other sent bytes.
pub(crate) fn repair_share(sent: &PathCounters) -> f64 {
    let rest = sent.sent_bytes.saturating_sub(sent.repair_bytes);
    sent.repair_bytes as f64 / rest.max(1) as f64
}

/// Returns the share of lost packets, without those that arrived late.
pub(crate) fn loss_share(sent: &PathCounters) -> f64 {
    let lost = sent.lost_packets.saturating_sub(sent.spurious_losses);
    lost as f64 / sent.sent_packets.max(1) as f64
}

/// Returns the send reasons of datagrams since an earlier snapshot.
fn reasons_since(earlier: Option<&Snapshot>, snapshot: &Snapshot) -> ReasonCounts {
    let paths = snapshot.paths.iter().enumerate();
    let since = paths.map(|(index, path)| {
        let before = earlier
            .and_then(|earlier| earlier.paths.get(index))
            .and_then(|before| path.same_path(before))
            .map_or(ReasonCounts::default(), |path| path.counters.reasons);
        path.counters.reasons.since(&before)
    });
    since.fold(ReasonCounts::default(), |sum, counts| sum.plus(&counts))
}

/// Returns the shares of the reasons in all bytes sent; `None` if there are none.
fn reason_shares(reasons: &ReasonCounts) -> Option<String> {
    let total = reasons.sum(|_| true).bytes;
    let shares: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| {
            let percent = count.bytes as f64 * 100.0 / total as f64;
            format!("{reason} {percent:.1} %")
        })
        .collect();
    (total > 0).then(|| shares.join(", "))
}

fn path_line(end: End, path: &PathSnapshot, name: &str, total: u64) -> String {
    let bytes = bytes_of(end, path);
    let share = bytes as f64 * 100.0 / total as f64;
    let mut text = format!("\n{name}: {}, {share:.0} %", ByteCount(bytes));
    if end != End::Receiver {
        let counters = &path.counters;
        let loss = loss_share(counters) * 100.0;
        let _ = write!(
            text,
            "; {} packets, {loss:.2} % lost, {} sent again; rtt {}",
            counters.sent_packets,
            counters.retransmitted_packets,
            rtt(path),
        );
        if let Some(mtu) = narrow_mtu(path) {
            let _ = write!(text, "; MTU {mtu}");
        }
        if counters.marked_packets > 0 {
            let _ = write!(text, "; {} marked", counters.marked_packets);
        }
        if counters.padding_packets > 0 {
            let _ = write!(text, "; {} padding", ByteCount(counters.padding_bytes));
        }
    } else {
        let _ = write!(text, "; {} packets", path.counters.received_packets);
    }
    if path.carrier == Carrier::Tcp {
        text.push_str("; by TCP");
    }
    if path.unsent_datagrams > 0 {
        // Little is sent to an address before it is validated.
        let reason = path
            .last_error
            .as_deref()
            .unwrap_or("no proof of its address");
        let _ = write!(text, "; {} not sent ({reason})", path.unsent_datagrams);
    }
    text
}

fn bytes_of(end: End, path: &PathSnapshot) -> u64 {
    match end {
        End::Sender | End::SrtlaSender => path.counters.sent_bytes + path.counters.control_bytes,
        End::Receiver => path.counters.received_bytes,
        End::Tunnel(_) => {
            let counters = &path.counters;
            counters.sent_bytes + counters.control_bytes + counters.received_bytes
        }
    }
}

fn name_of(names: &[String], path: &PathSnapshot, index: usize) -> String {
    let name = path_name(names, index, path);
    if name == index.to_string() {
        format!("path {index}")
    } else {
        format!("path {index} ({name})")
    }
}

/// Returns the path MTU, if it is known to be less than Ethernet's.
fn narrow_mtu(path: &PathSnapshot) -> Option<u32> {
    path.view.mtu.filter(|mtu| *mtu < 1_500)
}

fn rtt(path: &PathSnapshot) -> String {
    path.view.rtt.smoothed.map_or_else(
        || "unknown".to_owned(),
        |rtt| format!("{:.2} ms", rtt.as_millis_f64()),
    )
}

fn at_least_a_millisecond(span: Duration) -> Duration {
    span.max(Duration::from_millis(1))
}

/// Source of the lines of `--report`: the changes since the last line.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Interval; `None` without `--report`.
    interval: Option<Duration>,
    next_at: Instant,
    last: Option<Snapshot>,
}

impl Meter {
    /// Begins a session. The first line covers a whole interval, like every other.
    pub(crate) fn new(interval: Option<Duration>, now: Instant) -> Self {
        Meter {
            interval,
            next_at: now + interval.unwrap_or_default(),
            last: None,
        }
    }

    /// Returns whether a line is due.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        match self.interval {
            Some(interval) if now >= self.next_at => {
                self.next_at = now + interval;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn line(&mut self, end: End, snapshot: Snapshot, names: &[String]) -> String {
        let since = self
            .last
            .as_ref()
            .map_or(snapshot.connected_at, |last| Some(last.at));
        let span = since.map_or(Duration::ZERO, |since| snapshot.at.saturating_since(since));
        let began = snapshot.connected_at.unwrap_or(snapshot.at);
        let elapsed = snapshot.at.saturating_since(began).as_secs_f64();
        let session = &snapshot.session;
        let mut text = match end {
            End::Sender => format!(
                "{elapsed:.1} s: target {}, pictures {} sent {} late",
                snapshot.target_bitrate, session.frames_sent, session.frames_late
            ),
            End::SrtlaSender => format!(
                "{elapsed:.1} s: target {}, packets {} sent {} late",
                snapshot.target_bitrate, session.frames_sent, session.frames_late
            ),
            End::Receiver => format!(
                "{elapsed:.1} s: pictures {} in time {} late or lost",
                session.frames_received, session.frames_dropped
            ),
            End::Tunnel(_) => format!("{elapsed:.1} s:"),
        };
        if let Some(away) = away_for(&snapshot) {
            let _ = write!(text, ", no receiver for {away}");
        }
        for (index, path) in snapshot.paths.iter().enumerate() {
            let before = self
                .last
                .as_ref()
                .and_then(|last| last.paths.get(index))
                .and_then(|before| path.same_path(before));
            let bytes = bytes_of(end, path) - before.map_or(0, |before| bytes_of(end, before));
            let rate = DataRate::from_bytes_per(bytes, at_least_a_millisecond(span));
            let name = path_name(names, index, path);
            let _ = write!(text, " | {name} {:.2} Mbit/s", rate.megabits_per_second());
            if end != End::Receiver {
                let loss = path.view.risk.loss_ratio * 100.0;
                let _ = write!(
                    text,
                    " rtt {} loss {loss:.1} % {:?}",
                    rtt(path),
                    path.view.state
                );
                if let Some(mtu) = narrow_mtu(path) {
                    let _ = write!(text, " mtu {mtu}");
                }
            }
        }
        if end != End::Receiver {
            let shares = reason_shares(&reasons_since(self.last.as_ref(), &snapshot));
            text.extend(shares.map(|shares| format!(" | sent {shares}")));
        }
        self.last = Some(snapshot);
        text
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::SendReason;

    use super::*;
    use crate::end::Datagrams;

    #[test]
    fn packet_tunnel_counts_packets() {
        let snapshot = Snapshot {
            session_kind: Some(SessionKind::Datagrams),
            ..Snapshot::default()
        };
        for (has_udp, has_packets, word) in [
            (true, false, "\nUDP datagrams: 0 sent"),
            (false, true, "\npackets: 0 sent"),
            (true, true, "\nUDP datagrams and packets: 0 sent"),
        ] {
            let end = End::Tunnel(Datagrams::of(has_udp, has_packets));
            let shown = table(end, &snapshot, &[], None);
            assert!(shown.contains(word), "{shown}");
        }
    }

    #[test]
    fn silence_after_the_last_frame_lowers_no_rate() {
        let mut snapshot = Snapshot {
            at: Instant::from_secs(610),
            connected_at: Some(Instant::ZERO),
            media_until: Some(Instant::from_secs(10)),
            ..Snapshot::default()
        };
        snapshot.session.media_bytes_received = 2_500_000;
        let shown = table(End::Receiver, &snapshot, &[], None);
        assert!(shown.contains("session of 610.0 s"), "{shown}");
        assert!(shown.contains("2.5 MB of media, 2 Mbit/s"), "{shown}");
    }

    /// Returns a snapshot with one path, which has sent some bytes.
    fn snapshot_of(succession: u64, bytes: u64) -> Snapshot {
        let mut path = PathSnapshot {
            succession,
            ..PathSnapshot::default()
        };
        path.counters.reasons.add(SendReason::New, bytes);
        path.counters.sent_bytes = bytes;
        Snapshot {
            at: Instant::from_secs(succession),
            paths: vec![path],
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_report_counts_a_path_that_took_the_number_of_another_from_zero() {
        let mut meter = Meter::new(None, Instant::ZERO);
        meter.line(End::Sender, snapshot_of(0, 1_000_000), &[]);
        let names = ["enx1".to_owned()];
        let line = meter.line(End::Sender, snapshot_of(1, 125_000), &names);
        assert!(line.contains("enx1 1.00 Mbit/s"), "{line}");
    }

    #[test]
    fn reasons_are_listed_by_share_of_bytes() {
        let mut reasons = ReasonCounts::default();
        assert_eq!(reason_shares(&reasons), None);
        reasons.add(SendReason::New, 900);
        reasons.add(SendReason::PathCongested, 75);
        reasons.add(SendReason::Repair, 25);
        let shares = reason_shares(&reasons);
        let expected = "new 90.0 %, path-congested 7.5 %, repair 2.5 %";
        assert_eq!(shares.as_deref(), Some(expected));
    }
}
