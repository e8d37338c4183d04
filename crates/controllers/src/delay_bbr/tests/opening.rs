//! The first round trips of a source that gives media at a rate of its own.

use super::super::opening::Opening;
use super::*;

const SOURCE: DataRate = DataRate::from_kilobits_per_second(4_000);

fn opened(profile: &'static Profile) -> Rig {
    let mut rig = Rig::new(profile);
    rig.bbr.on_source_rate(SOURCE);
    rig
}

#[test]
fn live_bbr_begins_at_the_source_rate_plus_a_quarter() {
    let mut rig = opened(&live::PROFILE);
    assert_eq!(rig.pacing_rate(), kbps(5_000));
    // Reports of a lower rate, since no more was sent, change nothing.
    for _ in 0..4 {
        rig.app_limited_round(600, kbps(500));
        assert_eq!(rig.pacing_rate(), kbps(5_000));
        assert_eq!(rig.bbr.control().target_rate, kbps(5_000), "believed");
    }
    rig.app_limited_round(600, kbps(4_400));
    assert_eq!(rig.pacing_rate(), kbps(5_500), "nothing more to find");
    rig.round(600, kbps(4_400));
    assert_eq!(rig.pacing_rate(), kbps(8_800), "Startup's gain");
}

#[test]
fn the_published_forms_begin_as_published() {
    for profile in [&v5::PROFILE, &text::PROFILE] {
        let before = Rig::new(profile).pacing_rate();
        assert_eq!(opened(profile).pacing_rate(), before);
    }
}

#[test]
fn a_queue_ends_it_a_quarter_and_20_ms_above_the_least_round_trip_time() {
    for (least, quiet, queued) in [(600, 750, 751), (30, 50, 51)] {
        let mut opening = Opening::default();
        opening.on_source_rate(SOURCE);
        opening.on_rtt(millis(least), Duration::ZERO);
        opening.on_rtt(millis(quiet), Duration::ZERO);
        assert_eq!(opening.rate(), kbps(5_000));
        opening.on_rtt(millis(queued), Duration::ZERO);
        assert_eq!(opening.rate(), DataRate::ZERO);
        opening.on_rtt(millis(least), Duration::ZERO);
        assert_eq!(opening.rate(), DataRate::ZERO, "for good");
    }
}

/// The first of 4 Mbit/s that an idle session sends over a path with 40 ms of jitter: the least
/// comes first.
#[test]
fn delays_that_may_be_jitter_are_no_queue_until_jitter_is_known() {
    let mut opening = Opening::default();
    opening.on_source_rate(SOURCE);
    for rtt in [85, 129, 121, 124, 108] {
        opening.on_rtt(millis(rtt), millis(85));
    }
    assert_eq!(opening.rate(), kbps(5_000));
    opening.on_rtt(millis(146), millis(85));
    assert_eq!(opening.rate(), DataRate::ZERO);
    let mut far = Opening::default();
    far.on_source_rate(SOURCE);
    for rtt in [350, 451] {
        far.on_rtt(millis(rtt), millis(350));
    }
    assert_eq!(far.rate(), DataRate::ZERO, "at most 60 ms are noise");
}

#[test]
fn losses_of_more_than_a_tenth_end_it_once_30_kb_are_settled() {
    let rate = |delivered_bytes, lost_bytes| {
        let mut opening = Opening::default();
        opening.on_source_rate(SOURCE);
        opening.on_report(&Feedback {
            path: PathId(0),
            acked: &[],
            lost: &[],
            spurious: &[],
            rtt: &RttEstimator::default(),
            delivery: None,
            prior_bytes_in_flight: 0,
            bytes_in_flight: 0,
            delivered_bytes,
            lost_bytes,
            is_app_limited: false,
            is_window_limited: false,
            reported_at: Instant::ZERO,
            ce_count: 0,
        });
        opening.rate()
    };
    assert_eq!(rate(10_000, 10_000), kbps(5_000), "one burst");
    assert_eq!(rate(90_000, 10_000), kbps(5_000));
    assert_eq!(rate(90_000, 11_000), DataRate::ZERO);
}

#[test]
fn a_buffer_that_overflows_ends_startup_with_the_first_sample() {
    // One that follows its target learns of no overflow.
    for (source_rate, state) in [(SOURCE, "Drain"), (DataRate::ZERO, "Startup")] {
        let mut rig = Rig::new(&live::PROFILE);
        rig.bbr.on_source_rate(source_rate);
        rig.round(40, kbps(1_000));
        // More packets in flight than the path holds without a queue.
        rig.send(60);
        rig.lost_bytes += 40_000;
        rig.now += millis(140);
        rig.ack(1, 140, kbps(1_000), false);
        assert_eq!(rig.bbr.state(), state, "{source_rate}");
        if state == "Drain" {
            assert_eq!(rig.bbr.bandwidth.max(), kbps(1_000));
        }
    }
}

#[test]
fn silent_path_restarts_at_half_its_rate() {
    let mut rig = opened(&live::PROFILE);
    rig.app_limited_round(600, kbps(100));
    rig.app_limited_round(600, kbps(1_000));
    assert_eq!(rig.pacing_rate(), kbps(5_000));
    rig.bbr.on_timeout(rig.now, SILENCE);
    assert_eq!(rig.pacing_rate(), kbps(500));
    rig.app_limited_round(600, kbps(100));
    assert_eq!(rig.pacing_rate(), kbps(1_000), "Startup's gain");
}

#[test]
fn outage_losses_do_not_end_the_opening() {
    let mut rig = opened(&live::PROFILE);
    rig.app_limited_round(40, kbps(1_000));
    rig.app_limited_round(40, kbps(1_000));
    rig.bbr.on_timeout(rig.now, SILENCE);
    rig.lost_bytes += 40_000;
    rig.app_limited_round(40, kbps(1_000));
    rig.send(60);
    rig.now += millis(80);
    rig.ack(1, 80, kbps(1_000), true);
    assert_eq!(rig.bbr.state(), "Startup");
}
