//! Reports of `link`: the links at its start, and packets, losses and lateness at its end.

use core::fmt::Write;

use anabranch_emu::{
    DirectionStatistics, Ends, InterfaceKind, MAX_RELEASE_ERROR, Network, ReleaseErrors,
};
use anabranch_link::DropCause;

/// Returns the first line: how packets pass, and how exactly.
pub(super) fn first_line(kind: InterfaceKind, is_user: bool, is_real_time: bool) -> String {
    let kind = match kind {
        InterfaceKind::Tun => "TUN interfaces",
        InterfaceKind::VirtualEthernet => "virtual Ethernet and packet sockets",
    };
    let user = if is_user {
        "in a user namespace"
    } else {
        "as root"
    };
    let schedule = if is_real_time {
        "SCHED_FIFO granted"
    } else {
        "SCHED_FIFO refused: packets are late when other programs run"
    };
    format!("{kind} {user}; {schedule}")
}

/// Returns the line about a path.
pub(super) fn path_line(network: &Network, path_index: usize, name: &str) -> String {
    let Ends { near, far } = network.addresses.v4(path_index);
    let mut line = format!("path{path_index}");
    if name != line {
        let _ = write!(line, " ({name})");
    }
    let _ = write!(line, ": {near} to {far}");
    if network.has_v6 {
        let Ends { near, far } = network.addresses.v6(path_index);
        let _ = write!(line, ", {near} to {far}");
    }
    line
}

/// Returns the line about one direction's packets.
pub(super) fn direction_line(direction: &DirectionStatistics) -> String {
    let link = &direction.link;
    let mut line = format!(
        "{} packets in, {} out",
        link.offered_packets + direction.overflow_packets,
        link.delivered_packets - direction.unsent_packets,
    );
    for cause in DropCause::ALL {
        append_count(&mut line, cause.name(), link.dropped.of(cause));
    }
    append_count(&mut line, "buffer full", direction.overflow_packets);
    append_count(&mut line, "refused by the kernel", direction.unsent_packets);
    append_count(&mut line, "still on the link", link.held_packets);
    if link.queue.marked_packets > 0 {
        let _ = write!(line, "; {} marked (ECN)", link.queue.marked_packets);
    }
    let _ = write!(
        line,
        "; waited {:.1} ms on average, {:.1} ms at most",
        link.queue.mean_wait().as_millis_f64(),
        link.queue.max_wait.as_millis_f64(),
    );
    line
}

fn append_count(line: &mut String, name: &str, count: u64) {
    if count > 0 {
        let _ = write!(line, ", {count} {name}");
    }
}

/// Returns the line about lateness.
pub(super) fn lateness_line(errors: &ReleaseErrors) -> String {
    format!(
        "release error: median {:.2} ms, 99th percentile {:.2} ms, at most {:.2} ms, {} packets",
        errors.p50.as_millis_f64(),
        errors.p99.as_millis_f64(),
        errors.max.as_millis_f64(),
        errors.packet_count,
    )
}

/// Returns the reason for which measurements are void, if there is one. `unread` packets did not
/// reach the links, and in `slow_second_count` seconds the machine was too slow.
pub(super) fn distrust(
    errors: &ReleaseErrors,
    unread: u64,
    slow_second_count: u64,
) -> Option<String> {
    let mut reasons = Vec::new();
    if errors.p99 > MAX_RELEASE_ERROR {
        reasons.push(format!(
            "one packet in a hundred left {:.2} ms late or more, above {MAX_RELEASE_ERROR}",
            errors.p99.as_millis_f64()
        ));
    }
    if unread > 0 {
        reasons.push(format!("{unread} packets were lost before the links"));
    }
    if slow_second_count > 0 {
        reasons.push(format!(
            "the machine was too slow to keep time in {slow_second_count} s"
        ));
    }
    (!reasons.is_empty()).then(|| format!("not to be trusted: {}", reasons.join("; ")))
}

/// Returns the packets that interfaces of this name's beginning have dropped before a program read
/// them, from the text of `/proc/net/dev`.
pub(super) fn unread_packets(devices: &str, prefix: &str) -> u64 {
    let mut sum = 0;
    for line in devices.lines() {
        let Some((name, counters)) = line.split_once(':') else {
            continue;
        };
        if name.trim().starts_with(prefix) {
            // The fourth counter of sent packets, behind eight of received ones (proc(5)).
            let dropped = counters.split_whitespace().nth(11);
            sum += dropped.and_then(|count| count.parse().ok()).unwrap_or(0);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use anabranch_link::LinkStatistics;
    use anabranch_units::Duration;

    use super::*;

    #[test]
    fn the_first_line_says_how_packets_pass_and_how_exactly() {
        let line = first_line(InterfaceKind::Tun, false, true);
        assert_eq!(line, "TUN interfaces as root; SCHED_FIFO granted");
        let line = first_line(InterfaceKind::VirtualEthernet, true, false);
        assert!(
            line.contains("packet sockets in a user namespace; SCHED_FIFO refused"),
            "{line}"
        );
    }

    #[test]
    fn a_direction_names_each_cause_of_loss() {
        let direction = DirectionStatistics {
            link: LinkStatistics {
                offered_packets: 10,
                delivered_packets: 7,
                held_packets: 2,
                ..LinkStatistics::default()
            },
            overflow_packets: 1,
            unsent_packets: 1,
        };
        let expected = "11 packets in, 6 out, 1 buffer full, 1 refused by the kernel, 2 still on \
                        the link; waited 0.0 ms on average, 0.0 ms at most";
        assert_eq!(direction_line(&direction), expected);
    }

    #[test]
    fn a_late_run_is_not_to_be_trusted() {
        let micros = Duration::from_micros;
        let errors = ReleaseErrors {
            packet_count: 100,
            p50: micros(30),
            p99: micros(500),
            max: micros(6_070),
        };
        let expected = "release error: median 0.03 ms, 99th percentile 0.50 ms, at most 6.07 ms, \
                        100 packets";
        assert_eq!(lateness_line(&errors), expected);
        assert_eq!(distrust(&errors, 0, 0), None);
        let late = ReleaseErrors {
            p99: micros(510),
            ..errors
        };
        for (text, reason) in [
            (distrust(&late, 0, 0), "left 0.51 ms late"),
            (distrust(&errors, 3, 0), "3 packets were lost before"),
            (distrust(&errors, 0, 4), "too slow to keep time in 4 s"),
        ] {
            let text = text.unwrap();
            assert!(
                text.starts_with("not to be trusted: ") && text.contains(reason),
                "{text}"
            );
        }
    }

    #[test]
    fn unread_packets_are_drops_of_the_interfaces() {
        let devices = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo:       0       0    0    9    0     0          0         0        0       0    0    9    0
 path0:     588       7    1    2    3     0          0         0      588       7    0    5    0
 path1:     588       7    1    2    3     0          0         0      588       7    0    6    0
";
        assert_eq!(unread_packets(devices, "path"), 11);
        assert_eq!(unread_packets("", "path"), 0);
    }
}
