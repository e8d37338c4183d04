//! Machines that are slow, and clocks that are wrong.

use anabranch_net::Ended;

use super::bed::{Bed, line, millis};

/// Streams 500 frames (2 Mbit/s) over lines of 10 and 6 Mbit/s between machines that `change` has
/// changed. Returns the numbers of the received frames.
fn stream(seed: u64, change: impl FnOnce(&Bed)) -> Vec<u64> {
    let bed = Bed::new(seed, &[line(10, 20), line(6, 30)]);
    change(&bed);
    bed.carry(500)
}

/// Returns the number of frames of 20 streams (10,000 frames) that a late sender or receiver costs.
fn lost_frames(probability: f64, [camera, studio]: [bool; 2]) -> usize {
    let lost = (1..=20).map(|seed| {
        let numbers = stream(seed, |bed| {
            if camera {
                bed.camera.set_lateness(millis(100), probability);
            }
            if studio {
                bed.studio.set_lateness(millis(100), probability);
            }
        });
        500 - numbers.len()
    });
    lost.sum()
}

#[test]
fn a_late_receiver_costs_no_frame() {
    for probability in [0.05, 0.3, 1.0] {
        assert_eq!(lost_frames(probability, [false, true]), 0, "{probability}");
    }
}

/// A sender without the processor for up to 100 ms at each turn has 20 turns a second, and a frame
/// comes every 20 ms. Its pacer must catch up, and no pause may be taken for a delay of the path.
#[test]
fn a_late_sender_costs_no_frame() {
    for probability in [0.05, 0.3, 1.0] {
        assert_eq!(lost_frames(probability, [true, true]), 0, "{probability}");
    }
}

/// Streams over a path of 42 ms and much room from a camera whose turns are interrupted for up to
/// 50 ms. Returns the longest smoothed round trip in milliseconds.
fn longest_rtt_beside_interruptions(seed: u64) -> f64 {
    let bed = Bed::new(seed, &[line(100, 20)]);
    bed.camera.set_interruptions(millis(50), 0.3);
    let (_receiver, _sessions) = bed.receiver();
    let (sender, _events) = bed.world.block_on(bed.connect());
    let rtts = (0..20).map(|step| {
        bed.world.block_on(bed.stream(&sender, 25 * step, 25));
        let smoothed = sender.snapshot().paths[0].view.rtt.smoothed;
        smoothed.map_or(0.0, |rtt| rtt.as_millis_f64())
    });
    let longest = rtts.fold(0.0, f64::max);
    assert_eq!(sender.finish(), Ended::Closed);
    longest
}

/// Between the reading of the clock and the sending, too, the machine may let a thread wait.
#[test]
fn an_interrupted_turn_is_no_delay_of_the_path() {
    for seed in 1..=10 {
        let longest = longest_rtt_beside_interruptions(seed);
        assert!(longest < 46.0, "seed {seed}: {longest:.1} ms");
    }
}

#[test]
fn wrong_clocks_cost_no_frame() {
    for rate in [0.999_5, 1.000_5] {
        let numbers = stream(1, |bed| {
            bed.camera.move_clock(millis(3_600_000));
            bed.camera.set_clock_rate(rate);
        });
        assert_eq!(numbers.len(), 500, "{rate}");
    }
}

#[test]
fn a_process_that_is_stopped_goes_on() {
    let bed = Bed::new(1, &[line(10, 20)]);
    let (receiver, _sessions) = bed.receiver();
    let (sender, _events) = bed.world.block_on(bed.connect());
    bed.world.block_on(bed.stream(&sender, 0, 50));
    bed.studio.stop();
    bed.world.block_on(bed.stream(&sender, 50, 100));
    bed.studio.go_on();
    bed.world.block_on(bed.stream(&sender, 150, 50));
    let received = receiver.snapshot().session.frames_received;
    assert!(received > 90, "{received}");
    assert_eq!(sender.snapshot().past_sessions, 0);
    assert_eq!(sender.finish(), Ended::Closed);
}
