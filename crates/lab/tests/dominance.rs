//! Dominance over random networks: an endpoint with more must not lose frames to one with less.

use anabranch_lab::dominance::{Variant, judge, measure};
use anabranch_lab::in_parallel;

/// Number of the first network; the sixty from there on served no development.
const FIRST: u64 = 6_001;
const COUNT: u64 = 60;

/// Budgets in points: mean and largest shortfall by property. They stand just above the present
/// figures, and only fall: no network should lose more than 5 points.
const BUDGETS: [(&str, f64, f64); 3] = [
    ("single path", 1.75, 20.0),
    ("bare endpoint", 1.4, 20.0),
    ("less latency", 0.2, 5.0),
];

#[test]
fn shortfalls_stay_within_their_budgets() {
    let numbers: Vec<u64> = (FIRST..FIRST + COUNT).collect();
    let networks = in_parallel(&numbers, 0, |number| {
        let is_judged = |variant: &Variant| {
            matches!(
                variant,
                Variant::All | Variant::Alone(_) | Variant::Bare | Variant::Later
            )
        };
        let variants: Vec<Variant> = Variant::of(*number).into_iter().filter(is_judged).collect();
        measure(*number, &variants, 1, &[]).unwrap()
    });
    let verdicts = judge(&networks);
    for (name, mean, largest) in BUDGETS {
        let verdict = verdicts.iter().find(|one| one.property.name == name);
        let verdict = verdict.unwrap();
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
