//! Random networks of two or three paths, with a source that they can carry.

use core::fmt::Write as _;

use anabranch_units::{Rng, Seed};

/// Frames per second of the source.
const FRAME_RATE: u64 = 25;
/// Time of the last change of a link, in seconds.
const LAST_CHANGE: u64 = 40;

/// Random loss of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Loss {
    None,
    /// Independent losses, in percent.
    Single(f64),
    /// A Gilbert channel: probabilities per packet of going bad and of going good, in percent.
    Bursts(f64, f64),
}

/// Uniform jitter of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Jitter {
    pub(super) millis: u64,
    order: &'static str,
}

/// A path, the same in both directions except for loss and the schedule of rates.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RandomPath {
    /// Rate in kbit/s.
    pub(super) rate: u64,
    /// One-way delay in ms.
    delay: u64,
    /// Queue in ms at the link's rate.
    pub(super) queue: u64,
    pub(super) loss: Loss,
    pub(super) jitter: Option<Jitter>,
    /// Seconds and rates in kbit/s from then on.
    pub(super) rates: Vec<(u64, u64)>,
    /// Beginnings and lengths in ms.
    outages: Vec<(u64, u64)>,
    /// Seconds and delays in ms from then on.
    delays: Vec<(u64, u64)>,
}

/// A network, its source and its latency.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Network {
    pub(super) paths: Vec<RandomPath>,
    /// Rate of the source in kbit/s.
    pub(super) media: u64,
    /// Deadline of frames in ms.
    pub(super) deadline: u64,
}

/// Returns one of `values`.
fn one_of<T: Copy>(draw: &mut Rng, values: &[T]) -> T {
    values[draw.below(values.len() as u64) as usize]
}

impl RandomPath {
    fn draw(draw: &mut Rng) -> RandomPath {
        let rate = one_of(draw, &[800, 1_500, 2_500, 4_000, 6_000, 9_000, 12_000]);
        let delay = one_of(draw, &[5, 15, 30, 50, 80, 150, 250]);
        let queue = one_of(draw, &[60, 120, 250, 500, 1_000, 2_000]);
        let kind = draw.next_f64();
        let loss = if kind < 0.2 {
            Loss::Single(one_of(draw, &[0.2, 0.5, 1.0, 3.0]))
        } else if kind < 0.35 {
            Loss::Bursts(one_of(draw, &[0.2, 0.5, 1.0]), one_of(draw, &[15.0, 30.0]))
        } else {
            Loss::None
        };
        let jitter = draw.chance(0.5).then(|| Jitter {
            millis: one_of(draw, &[5, 15, 40, 80, 120]),
            order: one_of(draw, &["bunched", "bunched", "reordered"]),
        });
        let mut path = RandomPath {
            rate,
            delay,
            queue,
            loss,
            jitter,
            rates: Vec::new(),
            outages: Vec::new(),
            delays: Vec::new(),
        };
        path.draw_changes(draw);
        path
    }

    fn draw_changes(&mut self, draw: &mut Rng) {
        if draw.chance(0.4) {
            let mut at = 3;
            while at < LAST_CHANGE {
                let quarters = one_of(draw, &[1, 2, 3, 4, 4]);
                self.rates.push((at, self.rate * quarters / 4));
                at += one_of(draw, &[3, 6, 12]);
            }
        }
        if draw.chance(0.3) {
            let mut at = 4_000;
            while at < LAST_CHANGE * 1_000 - 2_000 {
                let length = one_of(draw, &[200, 700, 2_500, 6_000]);
                self.outages.push((at, length));
                at += 2_000 + length + one_of(draw, &[3_000, 7_000, 13_000]);
            }
        }
        if draw.chance(0.25) {
            let pause = one_of(draw, &[5, 10]);
            for at in (5..LAST_CHANGE).step_by(pause) {
                let more = one_of(draw, &[0, 20, 60, 150]);
                self.delays.push((at, self.delay + more));
            }
        }
    }

    /// Returns the average rate in kbit/s; the rate before the first change counts for a quarter.
    fn mean_rate(&self) -> f64 {
        if self.rates.is_empty() {
            return self.rate as f64;
        }
        let sum: u64 = self.rates.iter().map(|(_, rate)| rate).sum();
        self.rate as f64 * 0.25 + 0.75 * sum as f64 / self.rates.len() as f64
    }

    /// Appends the tables of the path's links and of its route.
    fn write(&self, name: &str, text: &mut String) {
        let mut base = format!(
            "rate = \"{} kbit/s\"\ndelay = \"{} ms\"\nqueue = \"{} ms\"\n",
            self.rate, self.delay, self.queue
        );
        if let Some(Jitter { millis, order }) = self.jitter {
            base += &format!("jitter = {{ uniform = \"{millis} ms\", order = \"{order}\" }}\n");
        }
        base += &entries("outages", &self.outages, |(at, length)| {
            format!("{{ at = \"{at} ms\", for = \"{length} ms\" }}")
        });
        let mut forward = base.clone();
        forward += &match self.loss {
            Loss::None => String::new(),
            Loss::Single(percent) => format!("loss = \"{percent} %\"\n"),
            Loss::Bursts(bad, good) => {
                format!("loss = {{ good-to-bad = \"{bad} %\", bad-to-good = \"{good} %\" }}\n")
            }
        };
        forward += &entries("rate-schedule", &self.rates, |(at, rate)| {
            format!("{{ at = \"{at} s\", rate = \"{rate} kbit/s\" }}")
        });
        forward += &entries("delay-schedule", &self.delays, |(at, delay)| {
            format!("{{ at = \"{at} s\", delay = \"{delay} ms\" }}")
        });
        let _ = write!(
            text,
            "[links.{name}]\n{forward}\n[links.{name}-back]\n{base}\n\
             [routes.{name}]\nforward = [\"{name}\"]\nreverse = [\"{name}-back\"]\n\n"
        );
    }
}

/// Returns an array of a key, if it has entries.
fn entries(key: &str, entries: &[(u64, u64)], entry: impl Fn((u64, u64)) -> String) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let entries: Vec<String> = entries.iter().map(|one| entry(*one)).collect();
    format!("{key} = [{}]\n", entries.join(", "))
}

impl Network {
    /// Draws the network of this number.
    pub(super) fn draw(number: u64) -> Network {
        let draw = &mut Seed(number).derive("dominance").rng();
        let count = one_of(draw, &[2, 2, 2, 3]);
        let paths: Vec<RandomPath> = (0..count).map(|_| RandomPath::draw(draw)).collect();
        let means: Vec<f64> = paths.iter().map(RandomPath::mean_rate).collect();
        let sum: f64 = means.iter().sum();
        let media = if draw.chance(0.5) {
            means.into_iter().fold(0.0, f64::max) * one_of(draw, &[0.4, 0.55, 0.7])
        } else {
            sum * one_of(draw, &[0.4, 0.55, 0.66])
        };
        let latency = one_of(draw, &[200, 300, 500, 800, 1_500]);
        // A frame of five times the average leaves within half of it.
        let least = 5.0 * media / FRAME_RATE as f64 / sum * 1_000.0 / 0.5;
        let farthest = paths.iter().map(|path| path.delay).max().unwrap_or(0);
        Network {
            media: media as u64,
            deadline: latency.max(least as u64) + farthest,
            paths,
        }
    }

    /// Returns the scenario of these flows, which share the source's rate, over the chosen paths.
    pub(super) fn scenario(&self, title: &str, chosen: &[usize], flows: &Flows) -> String {
        let mut text = format!("title = \"{title}\"\nduration = \"45 s\"\n\n");
        for (index, path) in self.paths.iter().enumerate() {
            path.write(&format!("p{index}"), &mut text);
        }
        let paths: Vec<String> = chosen.iter().map(|path| format!("\"p{path}\"")).collect();
        for index in 0..flows.count {
            let name = if index == 0 { "camera" } else { "second" };
            let endpoint = if flows.is_bare {
                "endpoint = \"bare\"\n"
            } else {
                ""
            };
            let _ = write!(
                text,
                "[[flows]]\nname = \"{name}\"\npaths = [{}]\noverhead = \"54 B\"\n{endpoint}\
                 deadline = \"{} ms\"\nsource = {{ kind = \"gop\", fps = {FRAME_RATE}, \
                 rate = \"{} kbit/s\", key-interval = \"2 s\", key-ratio = 4 }}\n",
                paths.join(", "),
                self.deadline,
                self.media / flows.count,
            );
        }
        text
    }
}

/// Flows over a network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flows {
    pub(super) count: u64,
    pub(super) is_bare: bool,
}
