//! M. Kondo, D. Cavendish, D. Nobayashi, T. Ikenaga, "BBR Performance over Variable Delay Paths on
//! Multipath TCP Video Streaming".
//!
//! The paper prints little of its network: the rates of two links, that nothing is lost on purpose,
//! and the changes of the Wi-Fi's delay. Everything else is a [`SPACE`], the film too; each claim
//! is judged at 27 points of it, and holds if it does at more than half of them (`sweep.rs`). Figs.
//! 5 to 10 count only at the points where Fig. 4 is met: a network whose film stops in scenario A
//! is not the paper's. The paper has two readings: a cycle of 60 s may be 30 s with and 30 s
//! without the delay, or 60 s each. Its text speaks of cycles, which is the first reading, and that
//! one is judged. The second is shown beside it, as are the results of Linux's present BBR in place
//! of [`BBR`].

mod figure;
mod lossy;
mod measures;
mod rates;
mod schedulers;
mod setup;
mod switches;
#[cfg(test)]
mod tests;
mod together;
mod viewer;
mod windows;

use super::case::{Algorithms, Case};
use super::claim::{Claim, Paper};
use super::sweep::{Dimension, Space, Value};

const PAPER: Paper = Paper {
    key: "kondo",
    citation: "M. Kondo, D. Cavendish, D. Nobayashi, T. Ikenaga: BBR Performance over Variable \
               Delay Paths on Multipath TCP Video Streaming",
    algorithms: Algorithms::Published,
};

/// Claims in the paper's order; the last asks whether one network shows all figures.
pub(super) const CLAIMS: &[&Claim] = &[
    &setup::TABLES,
    &viewer::FIGURE_4,
    &windows::FIGURE_5AB,
    &rates::FIGURE_5CD,
    &viewer::FIGURE_6,
    &windows::FIGURE_7AB,
    &rates::FIGURE_7CD,
    &viewer::FIGURE_8,
    &windows::FIGURE_9AB,
    &rates::FIGURE_9CD,
    &switches::FIGURE_10,
    &switches::BLOCKED,
    &switches::BACK,
    &schedulers::FUTURE,
    &lossy::LOSSY,
    &together::TOGETHER,
];

const STUDY: &str = include_str!("../../../scenarios/kondo-mptcp/study.toml");

/// BBR of the kernels that had MPTCP, and Linux's present one.
const BBR: &str = "bbr-linux-4.9";
const BBR_TODAY: &str = "bbr-linux";
const CUBIC: &str = "cubic";

macro_rules! value {
    ($name:literal $(, $key:literal = $value:literal)*) => {
        Value { name: $name, settings: &[$(($key, $value)),*] }
    };
}

/// Settings that the paper does not print.
const SPACE: Space = Space(&[
    Dimension {
        // The paper's 3 Mbit/s may be a rate of frames, packets or their contents.
        name: "links of",
        values: &[
            value!(
                "2.8 Mbit/s",
                "links.wifi.rate" = "2.8 Mbit/s",
                "links.lte.rate" = "2.8 Mbit/s"
            ),
            value!(
                "3.0 Mbit/s",
                "links.wifi.rate" = "3 Mbit/s",
                "links.lte.rate" = "3 Mbit/s"
            ),
            value!(
                "3.2 Mbit/s",
                "links.wifi.rate" = "3.2 Mbit/s",
                "links.lte.rate" = "3.2 Mbit/s"
            ),
        ],
    },
    Dimension {
        // From a router's to that of an emulator, which holds a thousand packets.
        name: "queues of",
        values: &[
            value!(
                "100 ms",
                "links.wifi.queue" = "100 ms",
                "links.lte.queue" = "100 ms"
            ),
            value!(
                "400 ms",
                "links.wifi.queue" = "400 ms",
                "links.lte.queue" = "400 ms"
            ),
            value!("2 s", "links.wifi.queue" = "2 s", "links.lte.queue" = "2 s"),
        ],
    },
    Dimension {
        // Linux grows it with the rate at which an application reads, up to 6 MB.
        name: "a receive window of",
        values: &[
            value!("256 kB", "flows.0.receive-window" = "256 kB"),
            value!("1 MB", "flows.0.receive-window" = "1 MB"),
            value!("4 MB", "flows.0.receive-window" = "4 MB"),
        ],
    },
    Dimension {
        name: "a Wi-Fi round trip of",
        values: &[
            value!(
                "10 ms",
                "links.wifi-base.delay" = "5 ms",
                "links.wifi-back.delay" = "5 ms"
            ),
            value!(
                "20 ms",
                "links.wifi-base.delay" = "10 ms",
                "links.wifi-back.delay" = "10 ms"
            ),
            value!(
                "40 ms",
                "links.wifi-base.delay" = "20 ms",
                "links.wifi-back.delay" = "20 ms"
            ),
        ],
    },
    Dimension {
        name: "an LTE round trip of",
        values: &[
            value!(
                "30 ms",
                "links.lte-base.delay" = "15 ms",
                "links.lte-back.delay" = "15 ms"
            ),
            value!(
                "50 ms",
                "links.lte-base.delay" = "25 ms",
                "links.lte-back.delay" = "25 ms"
            ),
            value!(
                "70 ms",
                "links.lte-base.delay" = "35 ms",
                "links.lte-back.delay" = "35 ms"
            ),
        ],
    },
    Dimension {
        name: "60 ms",
        values: &[
            value!("one way", "routes.wifi.reverse" = "[\"wifi-back\"]"),
            value!(
                "each way",
                "routes.wifi.reverse" = "[\"wifi-air-back\", \"wifi-back\"]",
                "routes.half-duplex.reverse" = "[\"wifi-radio\", \"wifi-air-back\", \"wifi-back\"]"
            ),
        ],
    },
    Dimension {
        name: "a player that reads ahead",
        values: &[
            value!("10 s", "flows.0.read-ahead" = "10 s"),
            value!("2 s", "flows.0.read-ahead" = "2 s"),
        ],
    },
    Dimension {
        // VLC's for networks, and for files.
        name: "caching of",
        values: &[
            value!("1 s", "flows.0.caching" = "1 s"),
            value!("0.3 s", "flows.0.caching" = "300 ms"),
        ],
    },
    Dimension {
        // An emulator with a rate keeps packets in order, and netem without one does not.
        name: "packets that meet a shorter delay",
        values: &[
            value!("keep their order"),
            value!(
                "overtake",
                "links.wifi-air.overtaking" = "true",
                "links.wifi-air-back.overtaking" = "true"
            ),
        ],
    },
    Dimension {
        // The air behind the emulator, shared with acknowledgements.
        name: "a Wi-Fi",
        values: &[
            value!("that never waits"),
            value!(
                "of 24 Mbit/s, half duplex",
                "flows.0.paths" = "[\"half-duplex\", \"lte\"]"
            ),
            value!(
                "of 6 Mbit/s, half duplex",
                "flows.0.paths" = "[\"half-duplex\", \"lte\"]",
                "links.wifi-radio.rate" = "6 Mbit/s"
            ),
        ],
    },
    Dimension {
        // Repetitions and grants of the radio, which delivers in order.
        name: "an LTE jitter of",
        values: &[
            value!("none"),
            value!(
                "10 ms",
                "links.lte-base.jitter" = "{ uniform = \"10 ms\", order = \"bunched\" }"
            ),
            value!(
                "30 ms",
                "links.lte-base.jitter" = "{ uniform = \"30 ms\", order = \"bunched\" }"
            ),
        ],
    },
    Dimension {
        // The paper has one film, of which only the mean is known.
        name: "a film whose groups vary",
        values: &[
            value!(
                "not at all",
                "flows.0.source.noise" = "0",
                "flows.0.source.variation" = "0"
            ),
            value!(
                "by 10 %",
                "flows.0.source.noise" = "0.12",
                "flows.0.source.variation" = "0.1"
            ),
            value!("by 20 %"),
        ],
    },
    Dimension {
        // The flow's name decides its random numbers.
        name: "the film",
        values: &[
            value!("one"),
            value!("two", "flows.0.name" = "film-two"),
            value!("three", "flows.0.name" = "film-three"),
        ],
    },
]);

/// Changes of the Wi-Fi's delay, by Table II.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    /// Cycles of 60 s.
    A,
    /// Cycles of 20 s.
    B,
    /// Cycles of 10 s.
    C,
}

const SCENARIOS: [Scenario; 3] = [Scenario::A, Scenario::B, Scenario::C];

impl Scenario {
    fn cycle_s(self) -> u64 {
        match self {
            Scenario::A => 60,
            Scenario::B => 20,
            Scenario::C => 10,
        }
    }
}

/// Reading of the word "cycle".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// A time without the delay and one with it.
    Both,
    /// Either of them.
    Each,
}

impl Reading {
    fn name(self) -> &'static str {
        match self {
            Reading::Both => "half a cycle delayed",
            Reading::Each => "every other cycle delayed",
        }
    }

    /// Returns the time for which the delay stays the same.
    fn phase_s(self, scenario: Scenario) -> u64 {
        match self {
            Reading::Both => scenario.cycle_s() / 2,
            Reading::Each => scenario.cycle_s(),
        }
    }
}

/// Controller of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// The paper's BBR.
    Bbr,
    /// Linux's present BBR.
    Today,
    Cubic,
}

const READINGS: &[Reading] = &[Reading::Both, Reading::Each];

/// Readings and BBR forms by which figures are judged: the first one counts.
const FORMS: [(Reading, Who); 3] = [
    (Reading::Both, Who::Bbr),
    (Reading::Each, Who::Bbr),
    (Reading::Both, Who::Today),
];

/// Returns the runs of `scenarios` in all forms, with `bbr` in the place of the paper's.
fn cases(scenarios: &[Scenario], bbr: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for scenario in scenarios {
        for (reading, who) in FORMS {
            cases.push(case(*scenario, reading, who, bbr));
        }
        for reading in READINGS {
            cases.push(case(*scenario, *reading, Who::Cubic, bbr));
        }
    }
    SPACE.cases(&cases)
}

fn case_name(scenario: Scenario, reading: Reading, who: Who) -> String {
    format!("{scenario:?}, {}, {who:?}", reading.name())
}

/// Returns a case of one film. Nothing is lost by chance, so points show more than seeds.
fn case(scenario: Scenario, reading: Reading, who: Who, bbr: &str) -> Case {
    let controller = match who {
        Who::Bbr => bbr,
        Who::Today => BBR_TODAY,
        Who::Cubic => CUBIC,
    };
    let case = Case::new(
        case_name(scenario, reading, who),
        "kondo-mptcp/study.toml",
        STUDY,
    );
    delayed(case, reading.phase_s(scenario))
        .set("flows.0.controller", controller)
        .seeds(1)
}

/// Switches the Wi-Fi's delay off and on for `phase_s` each, off first.
fn delayed(case: Case, phase_s: u64) -> Case {
    fn change(at: u64, delay: &str, every: u64, times: u64) -> String {
        format!(
            "{{ at = \"{at} s\", delay = \"{delay}\", every = \"{every} s\", times = {times} }}"
        )
    }

    let every = 2 * phase_s;
    let times = 210_u64.div_ceil(every);
    let schedule = format!(
        "[{}, {}]",
        change(phase_s, "60 ms", every, times),
        change(every, "0 ms", every, times)
    );
    case.set("links.wifi-air.delay-schedule", &schedule)
        .set("links.wifi-air-back.delay-schedule", &schedule)
}
