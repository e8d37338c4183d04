//! One test for each rule of the file's head.

use super::*;
use crate::scheduler::testing::{Bed, path};

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

    /// Where each of these packets goes at that moment; no path: it is held.
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
fn rule_1_a_packet_that_no_ready_path_suits_is_held() {
    let mut bed = Paced::new(vec![path(0, 20, 8), path(1, 400, 8)]);
    let places = bed.schedule(at(0), &Bed::frame(3, 1_000));
    assert_eq!(
        places,
        [vec![0], vec![], vec![]],
        "200 ms is too far for a wait of 1 ms"
    );
}

#[test]
fn rule_1_a_second_path_takes_what_would_wait_as_long() {
    let mut bed = Paced::new(vec![path(0, 20, 1), path(1, 30, 1)]);
    let places = bed.schedule(at(0), &Bed::frame(2, 1_000));
    assert_eq!(places, [vec![0], vec![1]]);
}

#[test]
fn rule_2_the_whole_queueing_delay_counts() {
    let mut queued = path(0, 20, 8);
    queued.smoothed_rtt = Some(millis(80));
    // 10 + 60 ms against 60; half of 80 would be less than that.
    let mut bed = Paced::new(vec![queued, path(1, 120, 8)]);
    assert_eq!(bed.schedule(at(0), &Bed::frame(1, 1_000)), [vec![1]]);
}

#[test]
fn rule_2_an_overdue_acknowledgement_makes_a_path_dear() {
    let mut silent = path(0, 20, 8);
    silent.overdue = millis(30);
    let mut bed = Paced::new(vec![silent, path(1, 60, 8)]);
    assert_eq!(bed.schedule(at(0), &Bed::frame(1, 1_000)), [vec![1]]);
}

#[test]
fn rule_3_the_slack_grows_with_the_load_to_a_tenth_of_the_deadline() {
    let mut scheduler = Anabranch::default();
    scheduler.binding.begin(&[path(0, 20, 1), path(1, 20, 1)]);
    let mut slack = |bytes| {
        scheduler.media_rate = MediaRate::default();
        scheduler.media_rate.on_bound(at(0), bytes);
        scheduler.slack(&SESSION)
    };
    assert_eq!(slack(100_000), millis(5), "load 0.4");
    assert_eq!(slack(175_000), millis(25), "load 0.7");
    assert_eq!(slack(225_000), millis(50), "load 0.9");
}

#[test]
fn rule_3_at_full_load_a_slower_ready_path_is_kept_busy() {
    let spread = |load_bytes: u64| {
        let mut bed = Paced::new(vec![path(0, 20, 2), path(1, 60, 2)]);
        let mut packet = Bed::source(0, 1_000);
        for millis in 0..load_bytes / 1_000 {
            packet.frame.0 += 1;
            bed.schedule(at(millis), &[packet]);
        }
        bed.schedule(at(load_bytes / 1_000), &Bed::frame(2, 1_000))
    };
    assert_eq!(spread(200_000), [vec![0], vec![]]);
    assert_eq!(spread(450_000), [vec![0], vec![1]]);
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

#[test]
fn rule_4_a_path_idle_for_a_second_gets_a_copy_each_second() {
    let mut idle = path(1, 300, 8);
    idle.last_acked_at = Some(at(1_000));
    let mut bed = Paced::new(vec![path(0, 20, 8), idle]);
    let one = Bed::frame(1, 1_000);
    assert_eq!(bed.schedule(at(1_900), &one), [vec![0]]);
    assert_eq!(bed.schedule(at(2_000), &one), [vec![0, 1]]);
    assert_eq!(bed.schedule(at(2_500), &one), [vec![0]]);
    assert_eq!(bed.schedule(at(3_000), &one), [vec![0, 1]]);
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
    assert_eq!(one.schedule(at(0), &frames), [vec![], vec![0]]);
}

#[test]
fn retransmissions_are_not_held() {
    let mut bed = Paced::new(vec![path(0, 20, 8), path(1, 400, 8)]);
    let again = PacketView {
        kind: PacketKind::Retransmission,
        ..Bed::source(0, 1_000)
    };
    assert_eq!(
        bed.schedule(at(0), &[again; 3]),
        [vec![0], vec![0], vec![0]]
    );
}
