//! Options of the rules. Each rule can be switched off, so that its effect can be measured.

use anabranch_units::Duration;
use anabranch_units::options::{AlgorithmOption, AlgorithmOptions};

const QUEUE: AlgorithmOption = AlgorithmOption::number(
    "queue",
    "target of the queue beside own packets, in milliseconds",
    2.0,
    0.0..=100.0,
);
const PACKETS: AlgorithmOption =
    AlgorithmOption::number("packets", "own packets in the target", 0.75, 0.0..=20.0);
const DRAIN: AlgorithmOption = AlgorithmOption::number(
    "drain",
    "time in which the queue's excess drains, in milliseconds",
    200.0,
    20.0..=1_000.0,
);
const AHEAD: AlgorithmOption = AlgorithmOption::number(
    "ahead",
    "time for which the queue's growth is extrapolated, in milliseconds; 0: not at all",
    150.0,
    0.0..=1_000.0,
);
const INCREASE: AlgorithmOption = AlgorithmOption::number(
    "increase",
    "packets a round trip by which the capacity grows",
    0.4,
    0.0..=10.0,
);
const GROWTH: AlgorithmOption = AlgorithmOption::number(
    "growth",
    "first share by which it grows without a queue",
    0.06,
    0.001..=0.25,
);
const CALM: AlgorithmOption = AlgorithmOption::number(
    "calm",
    "round trips without a standing queue after which that begins; 1000: only in an empty one",
    12.0,
    3.0..=1_000.0,
);
const SHARE: AlgorithmOption =
    AlgorithmOption::number("share", "the encoder's share of the rate", 0.92, 0.5..=1.0);
const PACE: AlgorithmOption = AlgorithmOption::number("pace", "pacing by the rate", 1.0, 1.0..=4.0);
const BOUNDS: AlgorithmOption = AlgorithmOption::words(
    "bounds",
    "whether the arrival rate is a bound of the capacity, or always its value",
    &["on", "off"],
);
const STEPS: AlgorithmOption = AlgorithmOption::words(
    "steps",
    "whether a delay that has stepped up and is level becomes the path's",
    &["on", "off"],
);
const COMPETE: AlgorithmOption = AlgorithmOption::words(
    "compete",
    "whether losses alone limit the rate beside flows that fill the queue",
    &["on", "off"],
);

pub(crate) const OPTIONS: &[AlgorithmOption] = &[
    QUEUE, PACKETS, DRAIN, AHEAD, INCREASE, GROWTH, CALM, SHARE, PACE, BOUNDS, STEPS, COMPETE,
];

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) queue_millis: f64,
    pub(super) packets: f64,
    pub(super) drain: Duration,
    pub(super) ahead_millis: f64,
    pub(super) increase: f64,
    pub(super) growth: f64,
    pub(super) calm_rounds: f64,
    pub(super) share: f64,
    pub(super) pace: f64,
    pub(super) has_bounds: bool,
    pub(super) has_steps: bool,
    pub(super) competes: bool,
}

impl Settings {
    pub(super) fn of(options: &AlgorithmOptions) -> Self {
        Settings {
            queue_millis: options.number(&QUEUE),
            packets: options.number(&PACKETS),
            drain: Duration::from_millis(options.number(&DRAIN) as u64),
            ahead_millis: options.number(&AHEAD),
            increase: options.number(&INCREASE),
            growth: options.number(&GROWTH),
            calm_rounds: options.number(&CALM),
            share: options.number(&SHARE),
            pace: options.number(&PACE),
            has_bounds: options.word(&BOUNDS) == "on",
            has_steps: options.word(&STEPS) == "on",
            competes: options.word(&COMPETE) == "on",
        }
    }
}
