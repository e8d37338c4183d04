//! Contract of every registered controller, whatever it optimises: one property model for all.

use anabranch_core::control::{ControlParameters, Controller, ControllerConfig, RateKind};
use anabranch_core::recovery::LossDetection;
use anabranch_core::{PathId, PathView};
use anabranch_units::options::{AlgorithmOption, OptionValues};
use anabranch_units::{DataRate, Duration, Ecn, Instant, Seed};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::conformance::{MAX_CE_COUNT, Player, Step, sends_something};
use super::testing::{Bed, Link, Outcome, PACKET_BYTES, Source};
use super::{CONTROLLERS, by_name, template};

/// All registered controllers and their initial parameters.
fn controllers() -> Vec<Controller> {
    let registered = CONTROLLERS.iter().map(|entry| by_name(entry.name).unwrap());
    let template = Controller::new("template", RateKind::Bandwidth, template::build);
    registered.chain([template]).collect()
}

fn any_step() -> impl Strategy<Value = Step> {
    let spurious = prop_oneof![3 => Just(0_usize), 1 => 0_usize..6];
    // A peer may claim absurd values.
    let ce_count = prop_oneof![60 => Just(0_u64), 30 => 0_u64..12, 1 => Just(MAX_CE_COUNT)];
    let report = (
        0_usize..12,
        0_usize..4,
        spurious,
        0_u64..20_000,
        any::<bool>(),
        any::<bool>(),
        ce_count,
    );
    prop_oneof![
        6 => (1_u32..=1_500).prop_map(|bytes| Step::Send { bytes }),
        4 => (0_u64..400_000).prop_map(|micros| Step::Wait { micros }),
        6 => report.prop_map(
            |(acked, lost, spurious, rate_kilobits, is_app_limited, has_rtt, ce_count)| {
                Step::Report {
                    acked, lost, spurious, rate_kilobits, is_app_limited, has_rtt, ce_count,
                }
            },
        ),
        1 => Just(Step::Retransmission),
        1 => Just(Step::Silence),
        1 => Just(Step::Own),
        1 => Just(Step::Penalty),
        1 => Just(Step::Wait { micros: 15_000_000 }),
    ]
}

/// Plays steps, and returns the controller's answer to each.
fn answers(
    controller: &Controller,
    config: &ControllerConfig,
    steps: &[Step],
) -> Result<Vec<(ControlParameters, &'static str)>, TestCaseError> {
    let name = controller.name();
    let mut player = Player::new(controller.build(config));
    let mut answers = Vec::new();
    for step in steps {
        player.play(step);
        let (control, state) = (player.controller.control(), player.controller.state());
        prop_assert!(sends_something(&control, config), "{name}: {control:?}");
        prop_assert!(player.controller.feedback_schedule().every_packets > 0);
        prop_assert!(!state.is_empty());
        let is_marking_allowed = config.is_ecn_capable || control.ecn == Ecn::NotEct;
        prop_assert!(is_marking_allowed, "{name}: {control:?}");
        answers.push((control, state));
    }
    Ok(answers)
}

/// Returns test values of an option: each word, or both ends of the range.
fn settings(option: &AlgorithmOption) -> Vec<String> {
    let values: Vec<String> = match option.values {
        OptionValues::Words(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        OptionValues::Number { min, max, .. } => vec![min.to_string(), max.to_string()],
    };
    values
        .into_iter()
        .map(|value| format!("{}={value}", option.name))
        .collect()
}

/// Returns every controller with each of its settings in turn, and once with all of its options at
/// a time, picked by `picks`.
fn with_options(picks: &[usize]) -> Vec<String> {
    let mut names = Vec::new();
    for entry in CONTROLLERS {
        let mut all = String::from(entry.name);
        for (option, pick) in entry.options.iter().zip(picks.iter().cycle()) {
            let settings = settings(option);
            all = format!("{all}:{}", settings[pick % settings.len()]);
            names.extend(
                settings
                    .into_iter()
                    .map(|setting| format!("{}:{setting}", entry.name)),
            );
        }
        if entry.options.len() > 1 {
            names.push(all);
        }
    }
    names
}

proptest! {
    #[test]
    fn contract_always_sends_something(
        steps in prop::collection::vec(any_step(), 1..300),
        seed in any::<u64>(),
        max_packet_bytes in 200_u32..9_000,
        is_ecn_capable in any::<bool>(),
    ) {
        let config = ControllerConfig {
            seed: Seed(seed), max_packet_bytes, is_ecn_capable, ..Default::default()
        };
        for controller in controllers() {
            answers(&controller, &config, &steps)?;
        }
    }

    #[test]
    fn contract_same_calls_same_answers(
        steps in prop::collection::vec(any_step(), 1..200),
        seed in any::<u64>(),
        is_ecn_capable in any::<bool>(),
    ) {
        let config = ControllerConfig { seed: Seed(seed), is_ecn_capable, ..Default::default() };
        for controller in controllers() {
            let [first, second] = [(); 2].map(|()| answers(&controller, &config, &steps));
            prop_assert_eq!(first?, second?, "{}", controller.name());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn contract_paths_that_are_not_looked_at_change_nothing(
        steps in prop::collection::vec(any_step(), 1..200),
        seed in any::<u64>(),
    ) {
        let config = ControllerConfig { seed: Seed(seed), ..Default::default() };
        let path = |id, megabits| PathView {
            id: PathId(id),
            bandwidth: DataRate::from_megabits_per_second(megabits),
            ..PathView::default()
        };
        let mut count = 0;
        for controller in controllers() {
            let mut players = [(); 2].map(|()| Player::new(controller.build(&config)));
            let player = &players[0].controller;
            players[1].paths = match (player.looks_at_paths(), player.looks_at_only_path()) {
                (true, true) => continue,
                (true, false) => vec![path(0, 3)],
                (false, _) => vec![path(0, 3), path(1, 8)],
            };
            count += 1;
            for step in &steps {
                let [none, two] = players.each_mut().map(|player| {
                    player.play(step);
                    player.controller.control()
                });
                prop_assert_eq!(none, two, "{}", controller.name());
            }
        }
        prop_assert!(count >= 12, "{}", count);
    }

    #[test]
    fn contract_holds_whatever_options_are_set(
        steps in prop::collection::vec(any_step(), 1..200),
        seed in any::<u64>(),
        is_ecn_capable in any::<bool>(),
        picks in prop::collection::vec(any::<usize>(), 8),
    ) {
        let config = ControllerConfig { seed: Seed(seed), is_ecn_capable, ..Default::default() };
        for name in with_options(&picks) {
            let controller = by_name(&name).unwrap();
            let [first, second] = [(); 2].map(|()| answers(&controller, &config, &steps));
            prop_assert_eq!(first?, second?, "{}", name);
        }
    }
}

#[test]
fn contract_options_every_word_and_both_ends_are_tried() {
    let names = with_options(&[0]);
    for name in [
        "cubic:hystart=off",
        "copa:delta=0.01",
        "copa:delta=10",
        "live-bbr:cycle=bbr",
    ] {
        assert!(names.iter().any(|known| known == name), "{names:?}");
    }
    let expected: usize = CONTROLLERS
        .iter()
        .map(|entry| -> usize {
            let each = entry.options.iter().map(|option| settings(option).len());
            each.sum::<usize>() + usize::from(entry.options.len() > 1)
        })
        .sum();
    assert_eq!(names.len(), expected);
}

/// Runs one flow over 3 Mbit/s and 2 × 30 ms, with an outage from the 10th to the 14th second.
fn over_a_blackout(controller: &Controller, seed: u64) -> Outcome {
    let rate = DataRate::from_megabits_per_second(3);
    let link = Link::new(rate, Duration::from_millis(30), Duration::from_millis(200))
        .then(Instant::from_secs(10), DataRate::ZERO)
        .then(Instant::from_secs(14), rate);
    let config = ControllerConfig {
        max_packet_bytes: PACKET_BYTES,
        seed: Seed(seed),
        ..ControllerConfig::default()
    };
    let controller = controller.build(&config);
    let (from, to) = (Instant::ZERO, Instant::from_secs(40));
    let loss = LossDetection::PerPacket;
    Bed::new(link)
        .flow(controller, Source::Greedy, loss, from, to)
        .run(to)
        .remove(0)
}

#[test]
fn contract_recovers_after_a_blackout() {
    for controller in controllers() {
        let name = controller.name();
        for seed in 1..=5 {
            let outcome = over_a_blackout(&controller, seed);
            let (before, after) = (outcome.rate_between(5, 10), outcome.rate_between(25, 40));
            assert!(
                after >= before.mul_f64(0.9),
                "{name}, seed {seed}: {before} before, {after} after"
            );
            assert_eq!(outcome.delivered_between(11, 14), 0, "{name}");
        }
    }
}

#[test]
fn contract_the_same_seed_gives_the_same_run() {
    for controller in controllers() {
        assert_eq!(
            over_a_blackout(&controller, 3),
            over_a_blackout(&controller, 3)
        );
    }
}

#[test]
fn contract_every_name_is_unique_and_an_unknown_one_lists_them() {
    let error = by_name("tahoe").unwrap_err().to_string();
    for entry in CONTROLLERS {
        assert!(error.contains(entry.name), "{error}");
        assert_eq!(
            CONTROLLERS
                .iter()
                .filter(|other| other.name == entry.name)
                .count(),
            1
        );
    }
}
