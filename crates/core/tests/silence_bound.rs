//! A sender that nobody answers has a bound (RFC 8085 §3.1).
//!
//! In any 100 ms after the last sign of life it sends at most a quarter more than in the busiest
//! 100 ms before, and a few questions. Then only questions are left, which become rarer.

use anabranch_core::{
    Config, Laboratory, MediaConfig, SendReason, SenderRule, SenderRules, Stream,
};
use anabranch_units::{DataRate, Duration, Instant, Rng, Seed};

use crate::support::{self, Load, Network, TestPath};

const SPAN: Duration = Duration::from_millis(100);
const FRAME_INTERVAL: Duration = Duration::from_millis(40);
const CUT_AT: Instant = Instant::from_secs(3);
const MEDIA_RATE: DataRate = DataRate::from_megabits_per_second(5);
const NEVER: Instant = Instant::from_secs(1_000);
/// Round-trip times in microseconds.
const ROUND_TRIPS: [u64; 7] = [50, 500, 1_000, 2_000, 3_000, 10_000, 100_000];
/// Bytes of a question or a notice in 100 ms on a path, and of a packet.
const QUESTION_BYTES: u64 = 200;
const PACKET_BYTES: u64 = 1_500;

/// When datagrams left, their bytes and reasons.
type Sent = Vec<(Instant, u64, SendReason)>;

/// Which direction of all paths fails.
#[derive(Clone, Copy, Debug)]
enum Cut {
    There,
    Back,
    Both,
}

impl Cut {
    const ALL: [Cut; 3] = [Cut::There, Cut::Back, Cut::Both];

    /// Cuts a path from then until `end`.
    fn apply(self, path: &mut TestPath, from: Instant, end: Instant) {
        match self {
            Cut::There => path.mtu = Some((from, 0)),
            Cut::Back => path.outage_back = Some((from, end)),
            Cut::Both => path.outage = Some((from, end)),
        }
    }
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn path(megabits_per_second: u64, rtt_micros: u64) -> TestPath {
    TestPath {
        delay: Duration::from_micros(rtt_micros / 2),
        ..TestPath::new(megabits_per_second, 0)
    }
}

/// Sends 5 Mbit/s of video until `end`.
fn film(network: &mut Network, end: Instant) {
    let mut index = 0;
    while network.now < end {
        network.send(25_000, index % 50 == 0);
        index += 1;
        network.run_until(network.now + FRAME_INTERVAL);
    }
}

/// Returns the most bytes that leave in [`SPAN`], of windows that begin within these instants.
fn busiest(left: &Sent, from: Instant, until: Instant) -> (u64, Instant) {
    let first = left.partition_point(|sent| sent.0 < from);
    let (mut end, mut bytes, mut most) = (first, 0, (0, from));
    for begin in first..left.len() {
        let (begins_at, begin_bytes, _) = left[begin];
        if begins_at > until {
            break;
        }
        while end < left.len() && left[end].0 < begins_at + SPAN {
            bytes += left[end].1;
            end += 1;
        }
        most = most.max((bytes, begins_at));
        bytes -= begin_bytes;
    }
    most
}

/// Checks the bound after the last sign of life. Returns what exceeds it.
fn check_bound<C: Load>(network: &Network<C>, name: &str) -> Result<(), String> {
    fn reasons(
        reason: &SendReason,
        worst_at: Instant,
        network_left: &[(Instant, u64, SendReason)],
    ) -> usize {
        let sent = network_left.iter();
        sent.filter(|sent| sent.0 >= worst_at && sent.2 == *reason)
            .filter(|sent| sent.0 < worst_at + SPAN)
            .count()
    }

    let heard_at = network.heard_at;
    let since = heard_at.saturating_sub(Duration::from_secs(2));
    let (before, _) = busiest(&network.left, since, heard_at.saturating_sub(SPAN));
    let (after, worst_at) = busiest(&network.left, heard_at, NEVER);
    let path_count = network.paths.len() as u64;
    let bound = before * 5 / 4 + path_count * QUESTION_BYTES + PACKET_BYTES;
    let reasons: Vec<_> = SendReason::ALL
        .iter()
        .map(|one| (one.name(), reasons(one, worst_at, &network.left)))
        .filter(|one| one.1 > 0)
        .collect();
    if after <= bound {
        Ok(())
    } else {
        Err(format!(
            "{name}: {after} B in 100 ms from {worst_at}, {before} B before {heard_at}: {reasons:?}"
        ))
    }
}

fn assert_questions_only<C: Load>(network: &Network<C>, since: Instant, name: &str) {
    fn is_question(reason: SendReason) -> bool {
        matches!(reason, SendReason::PathChallenge | SendReason::Control)
    }
    let later = network.left.iter().filter(|sent| sent.0 >= since);
    for (left_at, _, reason) in later {
        assert!(is_question(*reason), "{name}: {reason} at {left_at}");
    }
}

#[test]
fn silence_of_all_paths_draws_a_quarter_more_than_the_media_and_then_questions_alone() {
    for (megabits, deadline_millis) in [(20, 500), (1_000, 500), (20, 100), (1_000, 100)] {
        for (path_count, cut) in [1, 2]
            .into_iter()
            .flat_map(|n| Cut::ALL.map(|cut| (n, cut)))
        {
            for rtt in ROUND_TRIPS {
                let name = format!("{rtt} us, {path_count} paths, {cut:?}, {megabits} Mbit/s");
                let mut path = path(megabits, rtt);
                cut.apply(&mut path, CUT_AT, NEVER);
                let config = Config {
                    media: MediaConfig {
                        deadline: Duration::from_millis(deadline_millis),
                        ..MediaConfig::default()
                    },
                    ..support::usual()
                };
                let mut network = Network::new(config, vec![path; path_count]);
                film(&mut network, at(6_000));
                assert_eq!(check_bound(&network, &name), Ok(()));
                assert_questions_only(&network, at(4_500), &name);
            }
        }
    }
}

/// A random session whose paths carry more than it sends.
struct Draw(Rng);

impl Draw {
    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize].clone()
    }

    fn config(&mut self) -> Config {
        let millis = 60 + self.0.below(700);
        Config {
            scheduler: support::scheduler(self.of(&[
                "min-cost",
                "anabranch",
                "round-robin",
                "stms",
                "wrr",
            ])),
            controller: support::controller(
                self.of(&["live-bbr", "live-bbr", "cubic", "gcc", "fixed"]),
            ),
            media: MediaConfig {
                deadline: Duration::from_millis(millis),
                reassembly_wait: Duration::from_millis(millis),
                fec: support::fec(self.of(&["off", "off", "adaptive", "fixed:overhead=0.5"])),
                ..MediaConfig::default()
            },
            laboratory: Laboratory {
                fixed_rate: DataRate::from_megabits_per_second(20),
                rules: self.of(&[
                    SenderRules::ALL,
                    SenderRules::ALL.without(SenderRule::LastTries),
                ]),
                ..Laboratory::default()
            },
            ..support::usual()
        }
    }

    fn paths(&mut self) -> Vec<TestPath> {
        let count = 1 + self.0.below(4);
        (0..count).map(|_| self.path()).collect()
    }

    fn path(&mut self) -> TestPath {
        // From 50 us to 200 ms, evenly by decades.
        let rtt_micros = 50 << self.0.below(13);
        let mut path = path(self.of(&[15, 30, 1_000]), rtt_micros);
        path.loss = self.of(&[0.0, 0.0, 0.01, 0.05]);
        path.jitter = Duration::from_millis(self.of(&[0, 0, 0, 3, 20]));
        path
    }
}

/// Checks that packets other than those of media are a quarter of it in any 100 ms. By then those
/// copies have left that the last sign of life released, or that were saved up before an answer was
/// missed.
fn check_beside_media(network: &Network, path_rtt: Duration) -> Result<(), String> {
    let beside = network
        .left
        .iter()
        .filter(|sent| {
            !matches!(
                sent.2,
                SendReason::New | SendReason::Duplicate | SendReason::Repair
            )
        })
        .copied()
        .collect();
    let since = network.heard_at + Duration::from_millis(60) + path_rtt;
    let (bytes, worst_at) = busiest(&beside, since, NEVER);
    let media = MEDIA_RATE.bytes_in(SPAN);
    let bound = media / 4 + PACKET_BYTES + network.paths.len() as u64 * QUESTION_BYTES;
    if bytes <= bound {
        Ok(())
    } else {
        Err(format!("{bytes} B in 100 ms from {worst_at}"))
    }
}

#[test]
fn beside_the_media_random_sessions_send_a_quarter_of_it_into_silence() {
    let count = std::env::var("SILENCE_SEEDS").map_or(40, |count| count.parse().unwrap());
    for seed in 0..count {
        let mut draw = Draw(Seed(seed).derive("silence").rng());
        let config = draw.config();
        let cut = draw.of(&Cut::ALL);
        let mut paths = draw.paths();
        paths
            .iter_mut()
            .for_each(|path| cut.apply(path, CUT_AT, NEVER));
        let name = format!("seed {seed}: {cut:?}, {config:?} over {paths:?}");
        let rtt = paths
            .iter()
            .map(|path| path.delay * 2 + path.jitter * 2)
            .max();
        let mut network = Network::new(config, paths);
        network.reseed(Seed(seed));
        film(&mut network, at(6_000));
        let checked = check_beside_media(&network, rtt.unwrap());
        assert_eq!(checked, Ok(()), "{name}");
    }
}

/// Recovery is as fast as without the bound: media or the next question finds the path.
#[test]
fn frames_after_an_outage_arrive_in_time() {
    for (path_count, rtt) in [1, 2]
        .into_iter()
        .flat_map(|n| ROUND_TRIPS.map(|rtt| (n, rtt)))
    {
        for outage_millis in [300, 700, 2_500] {
            let mut path = path(20, rtt);
            let back_at = CUT_AT + Duration::from_millis(outage_millis);
            Cut::Both.apply(&mut path, CUT_AT, back_at);
            let mut network = Network::new(support::usual(), vec![path; path_count]);
            film(&mut network, at(8_000));
            // The next question, its answer, and a frame's interval.
            let found_at = back_at + SPAN + Duration::from_micros(rtt) + FRAME_INTERVAL;
            let later = network
                .received
                .iter()
                .filter(|(_, frame)| frame.captured_at >= found_at);
            let expected = (at(8_000) - found_at).as_micros() / FRAME_INTERVAL.as_micros();
            let count = later.count() as u64;
            assert!(
                count + 4 >= expected,
                "{path_count}, {rtt}, {outage_millis}: {count} of {expected}"
            );
        }
    }
}

/// The other path has been idle: nothing but its answer shows that it lives.
#[test]
fn a_path_that_falls_silent_costs_no_frame_if_another_one_lives() {
    for (rtt, other_rtt) in [(500, 20_000), (20_000, 100_000), (100_000, 100_000)] {
        let mut failing = path(20, rtt);
        Cut::Both.apply(&mut failing, CUT_AT, NEVER);
        let mut network = Network::new(support::usual(), vec![failing, path(20, other_rtt)]);
        film(&mut network, at(6_000));
        network.run_until(at(7_000));
        assert_eq!(network.received.len(), 150, "{rtt} {other_rtt}");
    }
}

/// Its packets arrive, and reports on the other path acknowledge them. Nothing comes back on it.
#[test]
fn a_path_that_never_answers_is_asked_ever_less_often() {
    for rtt in ROUND_TRIPS {
        let mut deaf = path(20, rtt);
        Cut::Back.apply(&mut deaf, Instant::ZERO, NEVER);
        let mut network = Network::new(support::usual(), vec![path(20, rtt), deaf]);
        film(&mut network, at(8_000));
        let is_question =
            |reason| matches!(reason, SendReason::IdleProbe | SendReason::PathChallenge);
        let asked = network
            .left
            .iter()
            .filter(|sent| is_question(sent.2))
            .count();
        assert!(asked <= 100, "{rtt}: {asked} in 8 s");
    }
}

/// Writes a stream of 5 Mbit/s, or as much as there is room for.
fn write(network: &mut Network<Stream>, is_greedy: bool, end: Instant) {
    let bytes = vec![7; 25_000];
    while network.now < end {
        let mut room = true;
        while room {
            room = network.sender.write(network.now, &bytes).unwrap() == bytes.len() && is_greedy;
        }
        network.settle();
        network.run_until(network.now + FRAME_INTERVAL);
    }
}

#[test]
fn a_stream_that_nobody_answers_falls_to_its_retransmission_timer() {
    for (controller, is_greedy) in [("live-bbr", false), ("live-bbr", true), ("cubic", true)] {
        for (path_count, rtt) in [1, 2].into_iter().flat_map(|n| ROUND_TRIPS.map(|r| (n, r))) {
            let name = format!("{controller} {is_greedy}: {rtt} us, {path_count} paths");
            let mut path = path(20, rtt);
            Cut::Both.apply(&mut path, CUT_AT, NEVER);
            let config = Config {
                controller: support::controller(controller),
                ..support::usual()
            };
            let paths = vec![path; path_count];
            let mut network = Network::<Stream>::of_stream_over(config, paths);
            write(&mut network, is_greedy, at(15_000));
            assert_eq!(check_bound(&network, &name), Ok(()));
            let later = network.left.iter().filter(|sent| sent.0 >= at(5_000));
            let count = later.count();
            assert!(
                count <= 150 * path_count,
                "{name}: {count} datagrams in 10 s"
            );
        }
    }
}
