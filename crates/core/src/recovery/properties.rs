//! Guarantees of recovery as a whole: RFC 9002's loss rules, balanced accounts, and exact rate
//! samples. Everything here runs on real receivers and real reports.

mod counts;
mod rates;

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::wire::{self, FeedbackSchedule};

const PACKET_BYTES: u32 = 1_000;
const ROUND_TRIP: Duration = Duration::from_millis(50);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    InFlight,
    Acked,
    Lost,
}

/// A sender and its receiver, with accounts of all reports to the sender.
struct Pair {
    recovery: Recovery,
    digest: Digest,
    arrivals: Arrivals,
    last_reported_at: Instant,
    outcomes: Vec<(u32, Outcome)>,
}

impl Pair {
    fn new(rule: LossDetection, schedule: FeedbackSchedule) -> Self {
        let mut arrivals = Arrivals::new(false);
        arrivals.set_schedule(schedule);
        Pair {
            recovery: Recovery::new(rule, Instant::ZERO),
            digest: Digest::default(),
            arrivals,
            last_reported_at: Instant::ZERO,
            outcomes: Vec::new(),
        }
    }

    fn send(&mut self, now: Instant, bytes: u32) -> SentPacket {
        let packet = self.recovery.on_sent(now, bytes, PacketContent::Padding);
        self.outcomes.push((bytes, Outcome::InFlight));
        packet
    }

    fn arrive(&mut self, now: Instant, number: u64) {
        self.arrivals.on_received(now, number, now, false);
    }

    fn made_report(&mut self, now: Instant) -> Option<Vec<u8>> {
        let report = self.arrivals.report(now, PathId(0))?;
        let mut bytes = Vec::new();
        wire::write_untracked_header(&mut bytes);
        wire::write_feedback(report, &mut bytes);
        Some(bytes)
    }

    /// Delivers a report to the sender. Returns whether it contained anything new.
    fn hear(&mut self, now: Instant, bytes: &[u8]) -> bool {
        let mut report = FeedbackReport::default();
        let (_, mut frames) = wire::decode(bytes).expect("a report");
        frames.next(&mut report).expect("a frame").expect("whole");
        report.expand(self.recovery.next_packet_number(), self.last_reported_at);
        self.last_reported_at = self.last_reported_at.max(report.reported_at());
        let is_new = self
            .recovery
            .on_report(now, &report, true, &mut self.digest);
        self.enter();
        is_new
    }

    fn on_loss_timeout(&mut self, now: Instant) {
        self.recovery.on_loss_timeout(now, &mut self.digest);
        self.enter();
    }

    fn on_silence(&mut self) {
        self.recovery.on_silence(Instant::ZERO, &mut self.digest);
        self.enter();
    }

    /// Records the digest: no packet may change from an outcome that it does not have.
    fn enter(&mut self) {
        let spurious: Vec<u64> = self
            .digest
            .spurious
            .iter()
            .map(|packet| packet.sent.packet_number)
            .collect();
        for packet in &self.digest.acked {
            let number = packet.sent.packet_number;
            let before = if spurious.contains(&number) {
                Outcome::Lost
            } else {
                Outcome::InFlight
            };
            let outcome = &mut self.outcomes[number as usize].1;
            assert_eq!(*outcome, before, "acknowledged: {number}");
            *outcome = Outcome::Acked;
        }
        for packet in &self.digest.lost {
            let outcome = &mut self.outcomes[packet.packet_number as usize].1;
            assert_eq!(
                *outcome,
                Outcome::InFlight,
                "lost: {}",
                packet.packet_number
            );
            *outcome = Outcome::Lost;
        }
    }

    fn bytes_of(&self, outcome: Outcome) -> u64 {
        let those = self.outcomes.iter().filter(|entry| entry.1 == outcome);
        those.map(|entry| u64::from(entry.0)).sum()
    }

    fn numbers_of(&self, outcome: Outcome) -> Vec<u64> {
        let those = (0..)
            .zip(&self.outcomes)
            .filter(|(_, entry)| entry.1 == outcome);
        those.map(|(number, _)| number).collect()
    }

    fn check_books(&self) {
        let in_flight = self.bytes_of(Outcome::InFlight);
        assert_eq!(self.recovery.bytes_in_flight(), in_flight);
        assert_eq!(
            self.recovery.delivered_bytes(),
            self.bytes_of(Outcome::Acked)
        );
        let outstanding: Vec<u64> = self
            .recovery
            .outstanding()
            .map(|packet| packet.packet_number)
            .collect();
        assert_eq!(outstanding, self.numbers_of(Outcome::InFlight));
        let oldest = self.recovery.silent_since().is_some();
        assert_eq!(oldest, in_flight > 0);
    }
}

/// Sends packets a millisecond apart. They arrive, reported one by one, a millisecond apart in this
/// order after a round trip of 50 ms. Returns the numbers declared lost on the way, and the ones
/// among them that arrive after all.
fn lost_and_late(rule: LossDetection, order: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let mut pair = Pair::new(rule, FeedbackSchedule::EVERY_PACKET);
    let count = order.iter().max().expect("a packet") + 1;
    for number in 0..count {
        pair.send(at(number), PACKET_BYTES);
    }
    let (mut lost, mut late) = (Vec::new(), Vec::new());
    for (arrival, number) in (0..).zip(order) {
        pair.arrive(at(25 + arrival), *number);
        let report = pair.made_report(at(25 + arrival)).expect("a report");
        pair.hear(at(50 + arrival), &report);
        lost.extend(pair.digest.lost.iter().map(|packet| packet.packet_number));
        let spurious = pair.digest.spurious.iter();
        late.extend(spurious.map(|packet| packet.sent.packet_number));
        pair.check_books();
    }
    (lost, late)
}

/// Returns the arrival order of ten packets of which the fifth is overtaken by `distance` later
/// ones.
fn overtaken_by(distance: usize) -> Vec<u64> {
    let mut order: Vec<u64> = (0..10).collect();
    order[4..=4 + distance].rotate_left(1);
    order
}

#[test]
fn per_packet_reordering_by_two_packets_is_no_loss_and_by_three_is() {
    assert_eq!(overtaken_by(2)[4..7], [5, 6, 4]);
    for distance in [1, 2] {
        let found = lost_and_late(LossDetection::PerPacket, &overtaken_by(distance));
        assert_eq!(found, (vec![], vec![]), "by {distance}");
    }
    for distance in [3, 4, 5] {
        let found = lost_and_late(LossDetection::PerPacket, &overtaken_by(distance));
        assert_eq!(found, (vec![4], vec![4]), "by {distance}");
    }
}

#[test]
fn per_packet_distance_counts_numbers_and_not_arrivals() {
    // The third later packet suffices, though the two before it are missing too.
    let found = lost_and_late(LossDetection::PerPacket, &[0, 1, 5]);
    assert_eq!(found, (vec![2], vec![]));
}

/// Sends 4,000 packets, a millisecond apart. Each third comes `late` after the usual 25 ms, and the
/// `lost` ones never. Reports leave every four packets. Returns the number of needless loss
/// declarations in each thousand, and the longest delay of a true one, from when its report was
/// due.
fn needless_and_delay(rule: LossDetection, late: u64, lost: &[u64]) -> ([usize; 4], Duration) {
    let schedule = FeedbackSchedule {
        every_packets: 4,
        max_delay: Duration::from_millis(10),
        ..FeedbackSchedule::EVERY_PACKET
    };
    let mut pair = Pair::new(rule, schedule);
    let mut sorted: Vec<(u64, u64)> = (0..4_000)
        .filter(|number| !lost.contains(number))
        .map(|number| (number + 25 + if number % 3 == 0 { late } else { 0 }, number))
        .collect();
    sorted.sort_unstable();
    let mut arrivals = sorted.into_iter().peekable();
    let mut reports: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
    let (mut needless, mut found_after) = ([0; 4], Duration::ZERO);
    for millis in 0..4_200 {
        if millis < 4_000 {
            pair.send(at(millis), PACKET_BYTES);
        }
        while let Some((_, number)) = arrivals.next_if(|(when, _)| *when == millis) {
            pair.arrive(at(millis), number);
        }
        if pair
            .arrivals
            .due_at()
            .is_some_and(|due_at| due_at <= at(millis))
        {
            let report = pair.made_report(at(millis)).expect("a report");
            reports.push_back((millis + 25, report));
        }
        let mut digests = Vec::new();
        if let Some((_, report)) = reports.pop_front_if(|(when, _)| *when == millis) {
            pair.hear(at(millis), &report);
            digests.extend(pair.digest.lost.iter().map(|packet| packet.packet_number));
        }
        if pair
            .recovery
            .loss_timer()
            .is_some_and(|due_at| due_at <= at(millis))
        {
            pair.on_loss_timeout(at(millis));
            digests.extend(pair.digest.lost.iter().map(|packet| packet.packet_number));
        }
        for number in digests {
            if lost.contains(&number) {
                found_after = found_after.max(at(millis) - at(number + 50));
            } else {
                needless[number as usize / 1_000] += 1;
            }
        }
    }
    (needless, found_after)
}

#[test]
fn per_packet_a_path_that_reorders_is_learned_and_its_losses_are_found_a_window_later() {
    let lost = [1_500, 2_001, 2_002, 2_950, 3_500];
    let (needless, found_after) = needless_and_delay(LossDetection::PerPacket, 20, &lost);
    // Before the first four have come and been reported, a round trip and 20 ms pass.
    assert!(needless[0] <= 30, "{needless:?}");
    assert_eq!(needless[1..], [0, 0, 0]);
    // 20 ms late, 5/4 of that, and up to the next report.
    assert!(
        found_after <= Duration::from_millis(25 + 10),
        "{found_after}"
    );
}

#[test]
fn per_packet_without_reordering_a_loss_is_found_with_the_report_of_the_third_packet_beyond() {
    let lost = [500, 1_500, 2_001, 2_002, 3_500];
    let (needless, found_after) = needless_and_delay(LossDetection::PerPacket, 0, &lost);
    assert_eq!(needless, [0; 4]);
    assert!(found_after <= Duration::from_millis(3 + 4), "{found_after}");
}

#[test]
fn gap_immediate_reordering_by_one_packet_is_a_loss() {
    let found = lost_and_late(LossDetection::GapImmediate, &overtaken_by(1));
    assert_eq!(found, (vec![4], vec![4]));
    let found = lost_and_late(LossDetection::GapImmediate, &[0, 3, 4]);
    assert_eq!(found, (vec![1, 2], vec![]));
}

#[test]
fn per_packet_a_hole_is_lost_nine_eighths_of_a_round_trip_after_it_was_sent() {
    let mut pair = Pair::new(LossDetection::PerPacket, FeedbackSchedule::EVERY_PACKET);
    for number in 0..3 {
        pair.send(at(number), PACKET_BYTES);
    }
    for number in [0, 2] {
        pair.arrive(at(25 + number), number);
        let report = pair.made_report(at(25 + number)).expect("a report");
        pair.hear(at(50 + number), &report);
    }
    let due_at = pair.recovery.loss_timer().expect("a hole");
    assert_eq!(due_at, at(1) + ROUND_TRIP * 9 / 8);
    pair.on_loss_timeout(due_at.saturating_sub(Duration::from_nanos(1)));
    assert_eq!(pair.numbers_of(Outcome::Lost), []);
    pair.on_loss_timeout(due_at);
    assert_eq!(pair.numbers_of(Outcome::Lost), [1]);
    assert_eq!(pair.recovery.loss_timer(), None);
}

#[test]
fn a_lost_tail_is_silence_after_a_probe_timeout() {
    let mut pair = Pair::new(LossDetection::PerPacket, FeedbackSchedule::EVERY_PACKET);
    for number in 0..8 {
        pair.send(at(number), PACKET_BYTES);
    }
    for number in 0..6 {
        pair.arrive(at(25 + number), number);
        let report = pair.made_report(at(25 + number)).expect("a report");
        pair.hear(at(50 + number), &report);
    }
    // Nothing later can show that packets 6 and 7 are missing.
    assert_eq!(pair.recovery.loss_timer(), None);
    let suspect_at = pair.recovery.suspect_at(Duration::MAX).expect("in flight");
    assert_eq!(suspect_at, at(55) + pair.recovery.probe_timeout());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send { bytes: u32 },
    Wait { millis: u64 },
    Arrive { pick: usize },
    Swallow { pick: usize },
    Report { is_heard: bool },
    Late { pick: usize },
    LossTimeout,
    Silence,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1_u32..=1_500).prop_map(|bytes| Step::Send { bytes }),
        4 => (0_u64..60).prop_map(|millis| Step::Wait { millis }),
        8 => (0_usize..6).prop_map(|pick| Step::Arrive { pick }),
        2 => (0_usize..6).prop_map(|pick| Step::Swallow { pick }),
        4 => any::<bool>().prop_map(|is_heard| Step::Report { is_heard }),
        2 => (0_usize..9).prop_map(|pick| Step::Late { pick }),
        3 => Just(Step::LossTimeout),
        1 => Just(Step::Silence),
    ]
}

proptest! {
    /// At all times sent = acknowledged + lost + in flight, packet by packet.
    #[test]
    fn conservation_sent_is_acked_lost_and_in_flight(
        steps in prop::collection::vec(any_step(), 1..200),
    ) {
        let rules = [
            LossDetection::PerPacket,
            LossDetection::GapImmediate,
            LossDetection::TcpSack,
        ];
        for rule in rules {
            let mut pair = Pair::new(rule, FeedbackSchedule::default());
            let (mut now, mut flying, mut unheard) = (at(0), Vec::new(), Vec::new());
            for step in &steps {
                match *step {
                    Step::Send { bytes } => flying.push(pair.send(now, bytes).packet_number),
                    Step::Wait { millis } => now += Duration::from_millis(millis),
                    Step::Arrive { pick } if pick < flying.len() => {
                        pair.arrive(now, flying.remove(pick));
                    }
                    Step::Swallow { pick } if pick < flying.len() => {
                        flying.remove(pick);
                    }
                    Step::Report { is_heard } => match pair.made_report(now) {
                        Some(report) if is_heard => {
                            pair.hear(now, &report);
                        }
                        report => unheard.extend(report),
                    },
                    // Reports overtake one another too.
                    Step::Late { pick } if pick < unheard.len() => {
                        let report: Vec<u8> = unheard.remove(pick);
                        pair.hear(now, &report);
                    }
                    Step::LossTimeout => pair.on_loss_timeout(now),
                    Step::Silence => pair.on_silence(),
                    Step::Arrive { .. } | Step::Swallow { .. } | Step::Late { .. } => {}
                }
                pair.check_books();
            }
        }
    }
}

#[test]
fn a_lost_packet_is_remembered_for_three_round_trips_and_200_ms_at_least() {
    for (waited, is_known) in [(200, true), (201, false)] {
        let mut pair = Pair::new(LossDetection::GapImmediate, FeedbackSchedule::EVERY_PACKET);
        for _ in 0..3 {
            pair.send(at(0), PACKET_BYTES);
        }
        for number in [1, 2] {
            pair.arrive(at(25), number);
        }
        let report = pair.made_report(at(25)).expect("a report");
        pair.hear(at(50), &report);
        assert_eq!(pair.numbers_of(Outcome::Lost), [0]);
        pair.recovery.forget_lost(at(waited));
        assert_eq!(pair.recovery.sent_packet(0).is_some(), is_known);
        pair.arrive(at(waited), 0);
        let report = pair.made_report(at(waited)).expect("a report");
        assert_eq!(pair.hear(at(waited), &report), is_known);
        assert_eq!(pair.numbers_of(Outcome::Lost).is_empty(), is_known);
    }
}

#[test]
fn marks_are_counted_once_and_an_old_report_takes_none_back() {
    let mut pair = Pair::new(LossDetection::PerPacket, FeedbackSchedule::EVERY_PACKET);
    let mut reports = Vec::new();
    for number in 0..4 {
        pair.send(at(number), PACKET_BYTES);
        pair.arrivals
            .on_received(at(25), number, at(25), number != 1);
        reports.push(pair.made_report(at(25)).expect("a report"));
    }
    let mut heard = Vec::new();
    for index in [0, 2, 1, 3] {
        if pair.hear(at(60), &reports[index]) {
            heard.push(pair.digest.ce_count);
        }
    }
    assert_eq!(heard, [1, 1, 1], "the second report has nothing new");
}
