//! Individual accounts of recovery.

use super::*;
use crate::recovery::MtuDiscovery;

fn pair() -> Pair {
    Pair::new(LossDetection::PerPacket, FeedbackSchedule::EVERY_PACKET)
}

/// Sends `count` packets, a millisecond apart from `from` on. Those for which `arrives` returns a
/// delay arrive after it, and are reported one by one. Every report comes back 25 ms after it was
/// made.
fn exchange(pair: &mut Pair, from: u64, count: u64, arrives: impl Fn(u64) -> Option<u64>) {
    let first = pair.recovery.next_packet_number();
    let mut arrivals: Vec<(u64, u64)> = Vec::new();
    for index in 0..count {
        let sent_at = from + index;
        arrivals.extend(arrives(index).map(|after| (sent_at + after, first + index)));
    }
    arrivals.sort_unstable();
    let last = arrivals.last().map_or(from + count, |(when, _)| *when + 25);
    let mut reports = VecDeque::new();
    for millis in from..=last.max(from + count) {
        if millis < from + count {
            pair.send(at(millis), PACKET_BYTES);
        }
        for (_, number) in arrivals.iter().filter(|(when, _)| *when == millis) {
            pair.arrive(at(millis), *number);
            reports.push_back((millis + 25, pair.made_report(at(millis)).expect("a report")));
        }
        while let Some((_, report)) = reports.pop_front_if(|(when, _)| *when == millis) {
            pair.hear(at(millis), &report);
        }
    }
}

#[test]
fn a_packet_is_declared_lost_once_and_only_if_it_is_in_flight() {
    let mut pair = pair();
    exchange(&mut pair, 0, 3, |_| Some(25));
    pair.send(at(100), PACKET_BYTES);
    let Pair {
        recovery, digest, ..
    } = &mut pair;
    assert!(!recovery.declare_lost(at(200), 2, digest), "it has arrived");
    assert!(recovery.declare_lost(at(200), 3, digest));
    assert!(
        !recovery.declare_lost(at(200), 3, digest),
        "it was declared before"
    );
    assert!(
        !recovery.declare_lost(at(200), 4, digest),
        "it was never sent"
    );
    assert_eq!(pair.recovery.bytes_in_flight(), 0);
}

#[test]
fn what_duplicate_acknowledgements_stand_for_is_not_in_flight_but_outstanding() {
    let mut pair = pair();
    for millis in 0..3 {
        pair.send(at(millis), PACKET_BYTES);
    }
    for (departed_bytes, in_flight) in [(0, 3_000), (2_000, 1_000), (9_000, 0)] {
        pair.recovery.set_departed_bytes(departed_bytes);
        assert_eq!(pair.recovery.bytes_in_flight(), in_flight);
        assert_eq!(pair.recovery.outstanding_bytes(), 3_000);
    }
}

#[test]
fn packets_below_the_largest_reported_one_are_passed_over() {
    let mut pair = pair();
    assert!(!pair.recovery.is_passed_over(0));
    exchange(&mut pair, 0, 5, |index| (index == 3).then_some(25));
    let passed_over = [0, 2, 3, 4].map(|number| pair.recovery.is_passed_over(number));
    assert_eq!(passed_over, [true, true, false, false]);
}

#[test]
fn all_lost_bytes_are_reported() {
    let mut pair = pair();
    exchange(&mut pair, 0, 10, |index| (index % 5 > 1).then_some(25));
    let feedback = pair
        .recovery
        .feedback(PathId(0), &pair.digest, at(9), false);
    assert_eq!(feedback.lost_bytes, 4_000);
    assert_eq!(feedback.delivered_bytes, 6_000);
}

#[test]
fn an_answer_is_overdue_after_the_round_trip_and_the_receivers_delay() {
    let mut pair = pair();
    pair.recovery
        .set_max_feedback_delay(Duration::from_millis(10));
    let usual = Duration::from_millis(50 + 10);
    exchange(&mut pair, 0, 100, |_| Some(25));
    assert_eq!(pair.recovery.usual_answer_time(), usual);
    assert_eq!(
        pair.recovery.overdue(at(9_000), usual),
        Duration::ZERO,
        "nothing is awaited"
    );
    pair.send(at(1_000), PACKET_BYTES);
    pair.send(at(1_020), PACKET_BYTES);
    assert_eq!(
        [1_050, 1_060, 1_075].map(|millis| pair.recovery.overdue(at(millis), usual).as_micros()),
        [0, 0, 15_000]
    );
}

/// RFC 9002 §6.1.2: 9/8 of the round trip, and the path's known reordering.
#[test]
fn losses_are_found_out_after_the_time_threshold_and_the_reordering_window() {
    let mut orderly = pair();
    exchange(&mut orderly, 0, 300, |_| Some(25));
    let threshold = Duration::from_micros(56_250);
    assert_eq!(orderly.recovery.loss_delay(), threshold);
    let mut reordering = pair();
    exchange(&mut reordering, 0, 300, |index| {
        Some(if index % 3 == 0 { 45 } else { 25 })
    });
    let window = reordering.recovery.loss_delay() - reordering.recovery.rtt().time_threshold();
    assert!((20..=40).contains(&window.as_millis()), "{window}");
}

#[test]
fn a_loss_timeout_says_whether_anything_was_lost() {
    let mut pair = pair();
    exchange(&mut pair, 0, 100, |_| Some(25));
    // One that may only be late: the next two have come.
    exchange(&mut pair, 200, 3, |index| (index > 0).then_some(25));
    let due_at = pair.recovery.loss_timer().expect("it is waited for");
    let before = due_at.saturating_sub(Duration::from_micros(1));
    let Pair {
        recovery, digest, ..
    } = &mut pair;
    for (now, lost_count) in [(before, 0), (due_at, 1), (due_at, 0)] {
        assert_eq!(recovery.on_loss_timeout(now, digest), lost_count > 0);
        assert_eq!(digest.lost_count(), lost_count);
    }
}

/// Sends three packets that nothing follows, and a report that was made after they should have
/// come. Returns the number of known losses, and the bytes that remain in flight.
fn lost_at_the_end(rule: LossDetection, trusts: bool) -> (u64, u64) {
    let mut pair = Pair::new(rule, FeedbackSchedule::EVERY_PACKET);
    pair.recovery.trust_report_times(trusts);
    exchange(&mut pair, 0, 400, |_| Some(25));
    for millis in 500..503 {
        pair.send(at(millis), PACKET_BYTES);
    }
    // A packet sent at 502 was due at 527.
    let report = pair.made_report(at(545)).expect("a report");
    pair.hear(at(570), &report);
    pair.check_books();
    (pair.digest.lost_count(), pair.recovery.bytes_in_flight())
}

#[test]
fn trusted_late_report_declares_losses() {
    assert_eq!(lost_at_the_end(LossDetection::PerPacket, true), (3, 0));
    assert_eq!(lost_at_the_end(LossDetection::PerPacket, false), (0, 3_000));
    assert_eq!(lost_at_the_end(LossDetection::TcpSack, true), (0, 3_000));
}

#[test]
fn packets_acknowledged_beyond_the_oldest_outstanding_one_are_counted() {
    let mut pair = pair();
    for number in 0..10 {
        pair.send(at(number), PACKET_BYTES);
    }
    assert_eq!(pair.recovery.sent.acked_beyond_oldest(), 0);
    // Three would be a loss.
    for (number, expected) in [(0, 0), (2, 1), (3, 2), (1, 0), (5, 1), (6, 2), (4, 0)] {
        pair.arrive(at(25 + number), number);
        let report = pair.made_report(at(25 + number)).unwrap();
        pair.hear(at(50 + number), &report);
        assert_eq!(
            pair.recovery.sent.acked_beyond_oldest(),
            expected,
            "{number}"
        );
    }
}

#[test]
fn queueing_delay_is_recent_min_above_min_rtt() {
    let mut pair = pair();
    exchange(&mut pair, 0, 1_000, |_| Some(25));
    assert_eq!(pair.recovery.rtt().queueing_delay(), Duration::ZERO);
    exchange(&mut pair, 1_500, 1_000, |_| Some(65));
    let delay = pair.recovery.rtt().queueing_delay();
    assert!((35..=40).contains(&delay.as_millis()), "{delay}");
}

#[test]
fn lost_mtu_probes_are_no_losses() {
    let mut pair = pair();
    pair.recovery
        .search_mtu(PathMtu::new(MtuDiscovery::of_internet(28), at(0)));
    let carried = pair.recovery.carried_bytes();
    let probe = PacketContent::MtuProbe;
    for content in [probe, PacketContent::Padding, PacketContent::Padding] {
        pair.recovery.on_sent(at(0), carried + 1, content);
    }
    pair.recovery
        .on_sent(at(1), carried, PacketContent::Padding);
    pair.recovery.on_silence(at(900), &mut pair.digest);
    let Digest {
        lost, too_large, ..
    } = &pair.digest;
    assert_eq!((lost.len(), too_large.len()), (1, 3));
    assert_eq!(pair.digest.lost_count(), 3);
}

#[test]
fn cumulative_ack_settles_covered_packets() {
    let mut pair = Pair::new(LossDetection::TcpCumulative, FeedbackSchedule::EVERY_PACKET);
    let mut packets: Vec<SentPacket> = (0..3).map(|n| pair.send(at(n), PACKET_BYTES)).collect();
    let left = packets.split_off(2);
    let Pair {
        recovery, digest, ..
    } = &mut pair;
    let sample = Some(Duration::from_millis(40));
    assert!(recovery.on_cumulative_ack(at(50), packets.drain(..), sample, |_| true, digest));
    assert_eq!(
        (recovery.bytes_in_flight(), recovery.delivered_bytes()),
        (1_000, 2_000)
    );
    assert_eq!(
        digest.acked.last().unwrap().rtt,
        Some(Duration::from_millis(49))
    );
    let outstanding: Vec<u64> = recovery
        .outstanding()
        .map(|packet| packet.packet_number)
        .collect();
    assert_eq!(outstanding, [left[0].packet_number]);
    assert!(!recovery.on_cumulative_ack(at(51), packets.drain(..), None, |_| true, digest));
}

/// `C.app_limited` (draft-ietf-ccwg-bbr §4.1.2.4): until all that was in flight then is delivered.
#[test]
fn samples_are_application_limited_until_more_is_delivered_than_was_in_flight() {
    let mut pair = pair();
    pair.send(at(0), PACKET_BYTES);
    pair.recovery.mark_app_limited();
    let mut is_limited = vec![pair.send(at(1), PACKET_BYTES).delivery.is_app_limited];
    for number in 0..2 {
        pair.arrive(at(25 + number), number);
        let report = pair.made_report(at(25 + number)).unwrap();
        pair.hear(at(50 + number), &report);
        is_limited.push(
            pair.send(at(50 + number), PACKET_BYTES)
                .delivery
                .is_app_limited,
        );
    }
    assert_eq!(is_limited, [true, true, false]);
}

/// RFC 6675 §5: recovery lasts until all that was sent before it is settled.
#[test]
fn recovery_ends_when_earlier_packets_are_settled() {
    let mut pair = Pair::new(LossDetection::TcpSack, FeedbackSchedule::EVERY_PACKET);
    for number in 0..8 {
        pair.send(at(number), PACKET_BYTES);
    }
    let states = [0, 2, 3, 4, 5, 6, 7].map(|number: u64| {
        pair.arrive(at(25 + number), number);
        let report = pair.made_report(at(25 + number)).unwrap();
        pair.hear(at(50 + number), &report);
        pair.recovery.is_in_recovery()
    });
    // The third packet beyond the second one shows its loss.
    assert_eq!(states, [false, false, false, true, true, true, false]);
}

#[test]
fn arrivals_again_are_none_and_a_segment_counts_only_where_a_stream_says_when_to_report() {
    let mut arrivals = Arrivals::new(true);
    arrivals.on_segment(at(1), ROUND_TRIP, 2);
    arrivals.report_at_once(at(1));
    assert_eq!(arrivals.due_at(), None, "nothing has come");
    let are_new = [0, 1, 1, 0, 2].map(|number| arrivals.on_received(at(2), number, at(2), false));
    assert_eq!(are_new, [true, true, false, false, true]);
    assert_eq!(arrivals.due_at(), None);
    arrivals.report_at_once(at(3));
    assert_eq!(arrivals.due_at(), Some(at(3)));
    let mut arrivals = Arrivals::new(true);
    arrivals.set_schedule(FeedbackSchedule::default());
    arrivals.on_received(at(2), 0, at(2), false);
    arrivals.on_segment(at(2), Duration::ZERO, 2);
    assert_eq!(
        arrivals.due_at(),
        Some(at(12)),
        "the sender has asked for a report after 10 ms"
    );
}

#[test]
fn a_lost_packet_is_remembered_for_three_round_trips_200_ms_at_least() {
    for (one_way, memory) in [(25, 200), (65, 270)] {
        let mut pair = pair();
        exchange(&mut pair, 0, 300, |_| Some(one_way));
        let round_trip = one_way + 25;
        assert_eq!(
            pair.recovery.rtt().smoothed(),
            Duration::from_millis(round_trip)
        );
        assert_eq!(pair.recovery.lost_memory(), Duration::from_millis(memory));
    }
}

#[test]
fn only_what_asks_the_path_is_a_probe() {
    let is_probe = [
        PacketContent::Challenge,
        PacketContent::MtuProbe,
        PacketContent::Padding,
    ];
    assert_eq!(is_probe.map(PacketContent::is_probe), [true, true, false]);
}
