//! Dominance over random networks: an endpoint with more must not lose frames to one with less.

use anabranch_lab::dominance::{Variant, judge, measure};
use anabranch_lab::{SENDER_RULES, in_parallel};

/// Number of the first network; the sixty from there on served no development.
const FIRST: u64 = 6_001;
const COUNT: u64 = 60;

/// Seeds of each network. One network's figure differs by up to ten points from seed to seed.
const SEEDS: u64 = 3;

/// Budgets in points: mean and largest shortfall by property. They stand just above the present
/// figures, and only fall: no network should lose more than 5 points.
const BUDGETS: [(&str, f64, f64); 3] = [
    ("single path", 1.5, 21.0),
    ("bare endpoint", 1.3, 29.5),
    ("less latency", 0.2, 5.0),
];

#[test]
fn shortfalls_stay_within_their_budgets() {
    let numbers: Vec<u64> = (FIRST..FIRST + COUNT).collect();
    let networks = in_parallel(&numbers, 0, |number| {
        let variants: Vec<Variant> = Variant::of(*number)
            .into_iter()
            .filter(|variant| {
                matches!(
                    variant,
                    Variant::All | Variant::Alone(_) | Variant::Bare | Variant::Later
                )
            })
            .collect();
        measure(*number, &variants, SEEDS, &[]).unwrap()
    });
    let verdicts = judge(&networks);
    for (name, mean, largest) in BUDGETS {
        let verdict = verdicts
            .iter()
            .find(|one| one.property.name == name)
            .unwrap();
        println!(
            "{name}: {:.2} on average, {:?}",
            verdict.mean, verdict.worst
        );
        assert_eq!(verdict.count, numbers.len(), "{name}");
        assert!(
            verdict.mean <= mean,
            "{name}: {:.2} on average",
            verdict.mean
        );
        let (points, number) = verdict.worst.unwrap();
        assert!(points <= largest, "{name}: {points:.2} in network {number}");
    }
}

/// A rule whose absence changes nothing would be no rule.
#[test]
fn each_rule_that_is_switched_off_shows_in_a_network() {
    fn frames_of(number: u64, settings: &[String]) -> [Option<f64>; 2] {
        let variants = [Variant::All, Variant::Alone(0)];
        let figures = measure(number, &variants, 1, settings).unwrap();
        variants.map(|variant| figures.of(variant))
    }

    // Rules of an only path show there alone.
    // One of an only path that stood still shows in three of a hundred.
    let numbers: Vec<u64> = (FIRST..FIRST + 2 * COUNT).collect();
    let ordinary = in_parallel(&numbers, 0, |number| frames_of(*number, &[]));
    let shows = in_parallel(&SENDER_RULES, 0, |rule| {
        let settings = [format!("flow-defaults.without-rules=[\"{}\"]", rule.name)];
        let mut networks = numbers.iter().zip(&ordinary);
        networks.any(|(number, ordinary)| frames_of(*number, &settings) != *ordinary)
    });
    for (rule, shows) in SENDER_RULES.iter().zip(shows) {
        assert!(shows, "{}", rule.name);
    }
}
