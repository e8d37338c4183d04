//! One test for each rule of the file's head.

use super::*;
use crate::scheduler::testing::{Bed, path};
use crate::send_reason::SendReason;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

const SESSION: SessionView = SessionView {
    backlog_bytes: 0,
    target_bitrate: DataRate::ZERO,
    deadline: Duration::from_millis(500),
};

/// Paths that take one packet at a time, as pacers do, and their scheduler.
struct Paced {
    scheduler: Box<dyn Scheduler>,
    paths: Vec<PathView>,
}

impl Paced {
    fn new(mut paths: Vec<PathView>) -> Self {
        for path in &mut paths {
            path.sendable_bytes = 1_500;
        }
        Paced {
            scheduler: build(),
            paths,
        }
    }

    /// The packets in the order in which they are bound.
    fn order(&mut self, now: Instant, packets: &[PacketView]) -> Vec<usize> {
        let mut out = Vec::new();
        let queue = SendQueue::new(packets);
        self.scheduler
            .schedule(now, &queue, &SESSION, &self.paths, &mut out);
        out.iter().map(|assignment| assignment.index).collect()
    }

    /// Where each of these packets goes at that moment.
    fn schedule(&mut self, now: Instant, packets: &[PacketView]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let queue = SendQueue::new(packets);
        self.scheduler
            .schedule(now, &queue, &SESSION, &self.paths, &mut out);
        let mut places = vec![Vec::new(); packets.len()];
        for assignment in out {
            places[assignment.index] = assignment.paths.iter().map(|id| id.0).collect();
        }
        places
    }
}

#[test]
fn rule_1_a_packet_goes_where_queue_and_half_a_round_trip_end_first() {
    let mut bed = Paced::new(vec![path(0, 20, 8), path(1, 40, 8)]);
    bed.paths[0].queued_bytes = 9_000;
    // 10 + 9 ms against 20, then 10 + 10 against 20, and so on in turn.
    let places = bed.schedule(at(0), &Bed::frame(4, 1_000));
    assert_eq!(places, [vec![0], vec![0], vec![1], vec![0]]);
}

#[test]
fn rule_1_a_packets_own_bytes_do_not_count() {
    // 100 ms of the pacer's gap come after the packet.
    let mut bed = Paced::new(vec![path(0, 20, 1), path(1, 30, 100)]);
    bed.paths[0].bandwidth = DataRate::from_kilobits_per_second(80);
    bed.paths[0].pacing_rate = Some(bed.paths[0].bandwidth);
    let places = bed.schedule(at(0), &Bed::frame(2, 1_000));
    assert_eq!(places, [vec![0], vec![1]]);
}

#[test]
fn rule_2_an_overdue_acknowledgement_makes_a_path_dear() {
    let mut silent = path(0, 20, 8);
    silent.overdue = millis(30);
    let mut bed = Paced::new(vec![silent, path(1, 60, 8)]);
    assert_eq!(bed.schedule(at(0), &Bed::frame(1, 1_000)), [vec![1]]);
}

/// A path of 20 ms at least and 8 Mbit/s that now takes 80 ms and has 30 kB in flight, and one of
/// 150 ms; after 600 ms in which the first has delivered a packet of 1000 bytes each `gap`.
fn fading(gap_millis: u64) -> Paced {
    let mut fading = path(0, 80, 8);
    fading.min_rtt = Some(millis(20));
    fading.queueing_delay = fading.latest_rtt.unwrap() - millis(20);
    fading.bytes_in_flight = 30_000;
    let mut bed = Paced::new(vec![fading, path(1, 150, 8)]);
    for turn in 1..=600 / gap_millis {
        let acked = SchedulerEvent::Acked {
            path: PathId(0),
            bytes: 1_000,
        };
        bed.scheduler.on_event(at(turn * gap_millis), &acked);
    }
    bed
}

#[test]
fn rule_3_what_is_in_flight_on_a_path_that_slows_down_comes_first() {
    // 30 kB at 1 kB per 10 ms are 300 ms, at 1 kB per ms 30 ms.
    let one = Bed::frame(1, 1_000);
    assert_eq!(fading(10).schedule(at(600), &one), [vec![1]]);
    assert_eq!(fading(1).schedule(at(600), &one), [vec![0]]);
}

#[test]
fn rule_3_what_is_bound_to_a_path_that_slows_down_takes_as_long() {
    let mut slow = fading(2);
    slow.paths[0].bytes_in_flight = 5_000;
    let one = Bed::frame(1, 1_000);
    assert_eq!(slow.schedule(at(600), &one), [vec![0]], "40 ms");
    slow.paths[0].queued_bytes = 25_000;
    // 50 ms more at 500 kB/s, which 1 MB/s would make 25.
    assert_eq!(slow.schedule(at(600), &one), [vec![1]]);
}

#[test]
fn rule_3_what_is_lost_leaves_the_path_too() {
    let mut bed = fading(10);
    for turn in 0..600 {
        let lost = SchedulerEvent::Lost {
            path: PathId(0),
            bytes: 1_000,
        };
        bed.scheduler.on_event(at(turn), &lost);
    }
    assert_eq!(bed.schedule(at(600), &Bed::frame(1, 1_000)), [vec![0]]);
}

#[test]
fn rule_3_a_path_without_a_queue_is_not_slow_because_it_is_given_little() {
    let mut bed = fading(10);
    bed.paths[0].latest_rtt = Some(millis(30));
    bed.paths[0].queueing_delay = millis(10);
    assert_eq!(bed.schedule(at(600), &Bed::frame(1, 1_000)), [vec![0]]);
}

#[test]
fn rule_4_a_path_back_from_an_outage_proves_itself_with_copies() {
    let mut bed = Paced::new(vec![path(0, 20, 8), path(1, 100, 8)]);
    let returned = PathId(0);
    let down = SchedulerEvent::PathDown(returned);
    bed.scheduler.on_event(at(0), &down);
    bed.scheduler
        .on_event(at(50), &SchedulerEvent::PathUp(returned));
    let one = Bed::frame(1, 1_000);
    assert_eq!(bed.schedule(at(100), &one), [vec![0, 1]]);
    assert_eq!(bed.schedule(at(110), &one), [vec![1]], "one copy in 20 ms");
    assert_eq!(bed.schedule(at(121), &one), [vec![0, 1]]);
    for _ in 0..PROOFS {
        let acked = SchedulerEvent::Acked {
            path: returned,
            bytes: 1_000,
        };
        bed.scheduler.on_event(at(130), &acked);
    }
    assert_eq!(bed.schedule(at(140), &one), [vec![0]]);
}

#[test]
fn rule_4_a_path_that_has_to_prove_itself_is_better_than_none() {
    let mut bed = Paced::new(vec![path(0, 20, 8)]);
    bed.scheduler
        .on_event(at(0), &SchedulerEvent::PathDown(PathId(0)));
    assert_eq!(bed.schedule(at(1), &Bed::frame(1, 1_000)), [vec![0]]);
}

/// Two paths alike, of which the first is said to vary so much that it may miss a deadline.
fn risky() -> Paced {
    let mut risky = path(0, 40, 8);
    risky.rtt_variation = millis(50);
    Paced::new(vec![risky, path(1, 60, 8)])
}

fn due_at(millis: u64, importance: Importance) -> [PacketView; 1] {
    [PacketView {
        deadline: Some(at(millis)),
        importance,
        ..Bed::source(0, 1_000)
    }]
}

#[test]
fn rule_5_a_packet_likely_to_be_late_gets_a_copy_within_the_allowance() {
    let mut bed = risky();
    let late = due_at(80, Importance::Reference);
    assert_eq!(
        bed.schedule(at(0), &late),
        [vec![0]],
        "nothing has been earned"
    );
    for _ in 0..20 {
        bed.schedule(at(0), &due_at(500, Importance::Reference));
    }
    assert_eq!(
        bed.schedule(at(0), &late),
        [vec![0, 1]],
        "a twentieth of 21 packets"
    );
    assert_eq!(bed.schedule(at(0), &late), [vec![0]], "which is spent");
}

#[test]
fn rule_5_a_copy_waits_for_nothing_and_holds_nothing_up() {
    let mut bed = risky();
    for _ in 0..40 {
        bed.schedule(at(0), &due_at(500, Importance::Reference));
    }
    let late = due_at(80, Importance::Reference);
    bed.paths[1].sendable_bytes = 999;
    assert_eq!(bed.schedule(at(0), &late), [vec![0]]);
    bed.paths[1].sendable_bytes = 1_000;
    assert_eq!(bed.schedule(at(0), &late), [vec![0, 1]]);
}

#[test]
fn rule_5_disposable_frames_get_no_copy_and_wait_behind_others() {
    let mut bed = risky();
    for _ in 0..40 {
        bed.schedule(at(0), &due_at(500, Importance::Reference));
    }
    assert_eq!(
        bed.schedule(at(0), &due_at(80, Importance::Disposable)),
        [vec![0]]
    );
    let mut frames = [Bed::source(0, 1_000), Bed::source(1, 1_000)];
    frames[0].importance = Importance::Disposable;
    let mut one = Paced::new(vec![path(0, 40, 8)]);
    assert_eq!(one.order(at(0), &frames), [1, 0]);
}

#[test]
fn retransmissions_are_not_held() {
    let mut bed = Paced::new(vec![path(0, 20, 8), path(1, 400, 8)]);
    let again = PacketView {
        reason: SendReason::Lost,
        ..Bed::source(0, 1_000)
    };
    assert_eq!(
        bed.schedule(at(0), &[again; 3]),
        [vec![0], vec![0], vec![0]]
    );
}
