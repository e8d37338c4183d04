//! The cases and their bars. Events are at times since the stream began.

use super::network::Path;
use super::run::Outcome;

/// A case. Rates are in kbit/s, times in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub source: Source,
    pub latency: u64,
    pub paths: fn() -> Vec<Path>,
    /// Maximum shares in percent.
    pub max_missing: f64,
    pub max_again: f64,
}

/// Media that is sent.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Packets at a constant rate.
    Constant(u64),
    /// Pictures at the sender's target, and the most that the encoder makes. From `falls_at` on the
    /// links carry `capacity`.
    Following {
        most: u64,
        falls_at: u64,
        capacity: u64,
    },
}

fn path(rate: u64, delay: u64) -> Path {
    Path {
        rate,
        delay,
        ..Path::default()
    }
}

fn falling(rate: u64, delay: u64, rates: &'static [(u64, u64)]) -> Path {
    Path {
        rates,
        ..path(rate, delay)
    }
}

/// Returns an encoder that follows, over links that fall after 8 s.
const fn following(most: u64, capacity: u64) -> Source {
    Source::Following {
        most,
        falls_at: 8_000,
        capacity,
    }
}

/// The cases. Delays are of one way.
pub const CASES: &[Case] = &[
    Case {
        name: "4 Mbit/s over 4 (20 ms) + 3 (70 ms)",
        source: Source::Constant(4_000),
        latency: 1_000,
        paths: || vec![path(4_000, 20), path(3_000, 70)],
        max_missing: 0.0,
        max_again: 1.0,
    },
    Case {
        name: "5 Mbit/s over 4 (30 ms) + 2 (70 ms)",
        source: Source::Constant(5_000),
        latency: 1_000,
        paths: || vec![path(4_000, 30), path(2_000, 70)],
        max_missing: 0.01,
        max_again: 2.0,
    },
    Case {
        name: "the first with 2 % loss",
        source: Source::Constant(4_000),
        latency: 1_000,
        paths: || {
            fn lossy(rate: u64, delay: u64) -> Path {
                Path {
                    loss: 0.02,
                    ..path(rate, delay)
                }
            }
            vec![lossy(4_000, 20), lossy(3_000, 70)]
        },
        max_missing: 0.01,
        max_again: 4.0,
    },
    Case {
        name: "the first with 50 ms of jitter each way",
        source: Source::Constant(4_000),
        latency: 1_000,
        paths: || {
            fn shaky(rate: u64, delay: u64) -> Path {
                Path {
                    jitter: 50,
                    ..path(rate, delay)
                }
            }
            vec![shaky(4_000, 20), shaky(3_000, 70)]
        },
        max_missing: 0.01,
        max_again: 4.0,
    },
    Case {
        name: "the first with pauses of 120 ms each second",
        source: Source::Constant(4_000),
        latency: 1_000,
        paths: || {
            fn pausing(rate: u64, delay: u64) -> Path {
                Path {
                    pauses: true,
                    ..path(rate, delay)
                }
            }
            vec![pausing(4_000, 20), pausing(3_000, 70)]
        },
        max_missing: 0.01,
        max_again: 4.0,
    },
    Case {
        name: "3 Mbit/s, the better link dead for 6 s",
        source: Source::Constant(3_000),
        latency: 1_000,
        paths: || {
            let better = Path {
                outages: &[(7_000, 6_000)],
                ..path(4_000, 20)
            };
            vec![better, path(3_000, 70)]
        },
        max_missing: 0.05,
        max_again: 4.0,
    },
    Case {
        name: "3 Mbit/s, one link swings to 1,150 ms for 8 s, latency 500 ms",
        source: Source::Constant(3_000),
        latency: 500,
        paths: || {
            let swinging = Path {
                delays: &[(6_000, 1_150), (14_000, 50)],
                ..path(4_000, 50)
            };
            vec![path(4_000, 40), swinging]
        },
        max_missing: 0.1,
        max_again: 5.0,
    },
    Case {
        name: "the same with the better link",
        source: Source::Constant(3_000),
        latency: 500,
        paths: || {
            let swinging = Path {
                delays: &[(6_000, 1_150), (14_000, 20)],
                ..path(4_000, 20)
            };
            vec![path(4_000, 70), swinging]
        },
        max_missing: 0.1,
        max_again: 5.0,
    },
    Case {
        name: "the encoder follows 4 to 1 Mbit/s (share of pictures)",
        source: following(4_000, 1_000),
        latency: 1_000,
        paths: || {
            vec![
                falling(2_500, 30, &[(8_000, 600)]),
                falling(1_500, 60, &[(8_000, 400)]),
            ]
        },
        max_missing: 0.5,
        max_again: 10.0,
    },
    Case {
        name: "4 Mbit/s at most, the links fall from 4 + 3 to 0.6 + 0.4",
        source: following(4_000, 1_000),
        latency: 1_000,
        paths: || {
            vec![
                falling(4_000, 10, &[(8_000, 600)]),
                falling(3_000, 35, &[(8_000, 400)]),
            ]
        },
        max_missing: 0.5,
        max_again: 10.0,
    },
    Case {
        name: "one link falls from 5 to 1, latency 600 ms",
        source: following(7_000, 1_000),
        latency: 600,
        paths: || vec![falling(5_000, 40, &[(8_000, 1_000)])],
        max_missing: 0.5,
        max_again: 10.0,
    },
    Case {
        name: "three links fall from 3 + 6 + 4 to 0.4 + 0.8 + 0.6, latency 2 s",
        source: following(10_000, 1_800),
        latency: 2_000,
        paths: || {
            vec![
                falling(3_000, 20, &[(8_000, 400)]),
                falling(6_000, 50, &[(8_000, 800)]),
                falling(4_000, 90, &[(8_000, 600)]),
            ]
        },
        max_missing: 0.5,
        max_again: 10.0,
    },
    Case {
        name: "the better of 6 + 2 falls to 0.5, latency 800 ms",
        source: following(8_000, 2_500),
        latency: 800,
        paths: || vec![falling(6_000, 25, &[(8_000, 500)]), path(2_000, 60)],
        // The pictures that the fall leaves in the link's queue are missing.
        max_missing: 1.0,
        max_again: 10.0,
    },
];

impl Case {
    /// Returns the first bar that is not kept.
    pub fn miss(&self, outcome: &Outcome) -> Option<String> {
        let (missing, again) = (outcome.missing(), outcome.again());
        let bounds = [
            ("missing", missing, self.max_missing),
            ("sent again", again, self.max_again),
            ("target over capacity", outcome.target_excess, 1.2),
        ];
        let mut missed = bounds.into_iter().filter(|&(_, value, most)| value > most);
        missed
            .next()
            .map(|(what, value, most)| format!("{what} {value:.3}, at most {most}"))
    }
}
