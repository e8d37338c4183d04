use super::*;
use crate::recovery::LossDetection;
use crate::testing::{PathReceiver, PathSender};

const DEADLINE: Duration = Duration::from_millis(500);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a path that has answered a packet after each of these times in milliseconds. It is
/// silent since it was sent another one at the instant returned.
fn silent(rtts: &[u64]) -> (PathSender, Instant) {
    let mut now = Instant::ZERO;
    let mut sender = PathSender::new(LossDetection::PerPacket, now);
    let mut receiver = PathReceiver::default();
    for (number, rtt) in (0..).zip(rtts) {
        sender.on_sent(now, 1_000);
        let arrives_at = now + ms(*rtt) / 2;
        receiver.on_received(arrives_at, number, false);
        let report = receiver.report(arrives_at).unwrap();
        now += ms(*rtt);
        assert!(sender.on_report(now, &report));
    }
    now += ms(1_000);
    sender.on_sent(now, 1_000);
    (sender, now)
}

/// Returns the time of each alarm while the path stays silent for two seconds, in milliseconds.
fn alarms(rtts: &[u64], is_only: bool) -> Vec<(u64, Alarm)> {
    let (sender, since) = silent(rtts);
    let mut liveness = Liveness::new();
    liveness.set_patience(DEADLINE, is_only);
    let mut alarms = Vec::new();
    while let Some(at) = liveness.due_at(sender.recovery())
        && at < since + ms(2_000)
    {
        let before = at.saturating_sub(Duration::from_micros(1));
        assert_eq!(liveness.on_timeout(before, sender.recovery()), None);
        let alarm = liveness.on_timeout(at, sender.recovery()).unwrap();
        alarms.push(((at - since).as_micros().div_ceil(1_000), alarm));
    }
    alarms
}

fn out_after(rtts: &[u64], is_only: bool) -> u64 {
    let alarms = alarms(rtts, is_only);
    let out = alarms.iter().find(|(_, alarm)| *alarm == Alarm::Out);
    out.expect("out within two seconds").0
}

#[test]
fn a_path_is_out_after_three_round_trips_of_silence_200_ms_at_least() {
    assert_eq!(out_after(&[200; 100], false), 600);
    assert_eq!(out_after(&[100; 100], false), 300);
    assert_eq!(out_after(&[20; 100], false), 200);
}

#[test]
fn a_path_is_not_out_before_its_probe_timeout() {
    // RFC 9002 §5.3: SRTT 7/8 · 100 + 1/8 · 400 = 137.5 ms, RTTVAR 3/4 · 50 + 1/4 · 300 = 112.5 ms.
    // 137.5 + 4 · 112.5 is more than 3 · 137.5.
    assert_eq!(out_after(&[100, 400], false), 588);
}

#[test]
fn the_only_path_is_out_after_three_round_trips_a_second_at_least() {
    assert_eq!(out_after(&[20; 100], true), 1_000);
    assert_eq!(out_after(&[400; 100], true), 1_200);
}

#[test]
fn the_only_path_is_challenged_while_it_is_suspect_and_any_while_it_is_out() {
    fn times(alarms: &[(u64, Alarm)]) -> Vec<u64> {
        alarms.iter().map(|(at, _)| *at).collect::<Vec<_>>()
    }
    fn kinds(alarms: &[(u64, Alarm)]) -> Vec<Alarm> {
        alarms.iter().map(|(_, kind)| *kind).collect::<Vec<_>>()
    }
    let of_two = alarms(&[20; 100], false);
    assert_eq!(times(&of_two)[..4], [30, 200, 300, 400]);
    let [suspect, out, challenge] = [Alarm::Suspect, Alarm::Out, Alarm::Challenge];
    assert_eq!(kinds(&of_two)[..4], [suspect, out, challenge, challenge]);
    let of_one = alarms(&[20; 100], true);
    assert_eq!(times(&of_one)[..3], [30, 130, 230]);
    assert_eq!(kinds(&of_one)[..3], [suspect, challenge, challenge]);
    assert_eq!(times(&of_one)[10..13], [1_000, 1_100, 1_200]);
    assert_eq!(kinds(&of_one)[10..13], [out, challenge, challenge]);
}

#[test]
fn a_path_that_stays_out_is_challenged_ever_less_often() {
    let (sender, since) = silent(&[20; 100]);
    let mut liveness = Liveness::new();
    let mut challenged_at = Vec::new();
    while let Some(at) = liveness.due_at(sender.recovery())
        && at < since + ms(600_000)
    {
        liveness.on_timeout(at, sender.recovery());
        challenged_at.push(at);
    }
    let intervals: Vec<_> = challenged_at
        .windows(2)
        .map(|two| two[1] - two[0])
        .collect();
    assert!(intervals[..60].iter().all(|interval| *interval <= ms(100)));
    assert!(intervals.iter().all(|interval| *interval <= ms(2_000)));
    assert_eq!(intervals.last(), Some(&ms(2_000)));
    assert!(intervals.len() < 600, "{}", intervals.len());
}

#[test]
fn an_answer_ends_doubt_and_removal_ends_all() {
    let (sender, since) = silent(&[20; 100]);
    let mut liveness = Liveness::new();
    liveness.set_patience(DEADLINE, false);
    assert!(!liveness.on_answer(), "it was not suspect");
    let suspect_at = liveness.due_at(sender.recovery()).unwrap();
    assert_eq!(
        liveness.on_timeout(suspect_at, sender.recovery()),
        Some(Alarm::Suspect)
    );
    assert_eq!(liveness.suspect_since(), suspect_at);
    assert!(liveness.on_answer());
    assert_eq!(liveness.state(), PathState::Active);
    assert!(liveness.suspend(since), "the driver knows better");
    assert!(!liveness.suspend(since), "only once");
    assert_eq!(
        liveness.due_at(sender.recovery()),
        Some(since + MIN_INTERVAL)
    );
    liveness.remove();
    assert!(!liveness.on_answer() && !liveness.suspend(since));
    assert_eq!(liveness.due_at(sender.recovery()), None);
    assert_eq!(
        liveness.on_timeout(since + ms(9_000), sender.recovery()),
        None
    );
}
