//! The cases of `contest --rivals`: those of the contest, and those of the weather.

use anabranch_lab::contest::ROWS as CONTEST;
use anabranch_lab::{EmulatedRoute, Scenario};
use anabranch_link::{JitterAmount, JitterModel, LinkConfig};
use anabranch_units::{DataRate, Duration};
use anabranch_video::source::SourceConfig;
use anyhow::{Context, bail};

use crate::over_link::stream::StreamConfig;

/// Pictures from one key frame to the next, of a scenario whose source has none: two seconds.
const KEY_INTERVAL_SECONDS: u32 = 2;

/// A case as it is declared.
#[derive(Debug)]
struct Declared {
    name: &'static str,
    case: &'static str,
    scenario: &'static str,
    settings: &'static [&'static str],
    event: Event,
}

/// An event that no link can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Event {
    #[default]
    None,
    /// The far programs are killed after this time, and started a second later.
    ReceiverRestart(Duration),
    /// Packets above a link's MTU vanish without a message.
    BlackHole,
}

macro_rules! weather {
    ($name:literal) => {
        include_str!(concat!("../../../../../scenarios/weather/", $name, ".toml"))
    };
}

const fn declared(name: &'static str, case: &'static str, scenario: &'static str) -> Declared {
    Declared {
        name,
        case,
        scenario,
        settings: &[],
        event: Event::None,
    }
}

const WEATHER: &[Declared] = &[
    Declared {
        settings: &[
            r#"links.there.jitter.uniform="10 ms""#,
            r#"links.back.jitter.uniform="10 ms""#,
            r#"flows.0.deadline="310 ms""#,
        ],
        ..declared(
            "jitter-one-10",
            "one path, 0 to 10 ms of jitter",
            weather!("jitter-one-path"),
        )
    },
    Declared {
        settings: &[
            r#"links.there.jitter.uniform="20 ms""#,
            r#"links.back.jitter.uniform="20 ms""#,
            r#"flows.0.deadline="320 ms""#,
        ],
        ..declared(
            "jitter-one-20",
            "one path, 0 to 20 ms of jitter",
            weather!("jitter-one-path"),
        )
    },
    declared(
        "jitter-one-40",
        "one path, 0 to 40 ms of jitter",
        weather!("jitter-one-path"),
    ),
    Declared {
        settings: &[
            r#"links.there.jitter.uniform="80 ms""#,
            r#"links.back.jitter.uniform="80 ms""#,
            r#"flows.0.deadline="380 ms""#,
        ],
        ..declared(
            "jitter-one-80",
            "one path, 0 to 80 ms of jitter",
            weather!("jitter-one-path"),
        )
    },
    Declared {
        settings: &[
            r#"links.near.jitter.uniform="10 ms""#,
            r#"links.near-return.jitter.uniform="10 ms""#,
            r#"links.far.jitter.uniform="10 ms""#,
            r#"links.far-return.jitter.uniform="10 ms""#,
            r#"flows.0.deadline="310 ms""#,
        ],
        ..declared(
            "jitter-two-10",
            "two paths, 0 to 10 ms of jitter",
            weather!("jitter-two-paths"),
        )
    },
    Declared {
        settings: &[
            r#"links.near.jitter.uniform="20 ms""#,
            r#"links.near-return.jitter.uniform="20 ms""#,
            r#"links.far.jitter.uniform="20 ms""#,
            r#"links.far-return.jitter.uniform="20 ms""#,
            r#"flows.0.deadline="320 ms""#,
        ],
        ..declared(
            "jitter-two-20",
            "two paths, 0 to 20 ms of jitter",
            weather!("jitter-two-paths"),
        )
    },
    declared(
        "jitter-two-40",
        "two paths, 0 to 40 ms of jitter",
        weather!("jitter-two-paths"),
    ),
    declared(
        "jitter-two-80",
        "two paths, 0 to 80 ms of jitter",
        weather!("jitter-two-paths-80"),
    ),
    declared(
        "jitter-reordering",
        "two paths, jitter that reorders",
        weather!("jitter-reordering"),
    ),
    declared(
        "steps-40",
        "one path, 40 ms longer every other 3 s",
        weather!("delay-steps"),
    ),
    declared(
        "reordering-one",
        "one path, packets overtake others",
        weather!("reordering-one-path"),
    ),
    declared(
        "overload-both",
        "both paths fall below the stream",
        weather!("overload-both"),
    ),
    declared(
        "far-600",
        "one path of 600 ms, 1 % loss",
        weather!("far-600"),
    ),
    declared(
        "flapping-one",
        "one of two paths flaps",
        weather!("flapping"),
    ),
    declared(
        "mtu-1280-one-of-two",
        "an MTU of 1,280 B on one of two",
        weather!("mtu-1280-one-of-two"),
    ),
    declared(
        "mtu-1280-only",
        "an MTU of 1,280 B",
        weather!("mtu-1280-only"),
    ),
    Declared {
        event: Event::BlackHole,
        ..declared(
            "mtu-black-hole",
            "1,280 B on one of two, silently",
            weather!("mtu-1280-one-of-two"),
        )
    },
    Declared {
        settings: &[
            r#"links.near.loss="0 %""#,
            r#"links.near-return.loss="0 %""#,
            r#"links.far.loss="0 %""#,
            r#"links.far-return.loss="0 %""#,
            r#"flows.0.source.rate="2500 kbit/s""#,
            r#"flows.0.deadline="530 ms""#,
        ],
        event: Event::ReceiverRestart(Duration::from_secs(15)),
        ..declared(
            "receiver-restart",
            "the receiver is killed, back after 1 s",
            include_str!("../../../../../scenarios/contest/row-4-two-paths.toml"),
        )
    },
];

/// A case that can run.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) case: &'static str,
    pub(super) routes: Vec<EmulatedRoute>,
    pub(super) stream: StreamConfig,
    /// Delay that the transports are asked for beside that of the network.
    pub(super) latency: Duration,
    /// Time from a picture's end at the input to its end at the output, within which it counts.
    pub(super) budget: Duration,
    pub(super) duration: Duration,
    pub(super) event: Event,
}

/// Returns all cases: those of the contest whose source has a fixed bitrate, and the weather's.
///
/// # Errors
/// A scenario cannot be emulated.
pub(super) fn all() -> anyhow::Result<Vec<Row>> {
    let contest = CONTEST
        .iter()
        .filter(|row| row.name != "6a")
        .map(|row| Row::of(&declared(row.name, row.case, row.scenario)));
    contest.chain(WEATHER.iter().map(Row::of)).collect()
}

impl Row {
    fn of(declared: &Declared) -> anyhow::Result<Row> {
        let settings: Vec<String> = declared.settings.iter().map(|&text| text.into()).collect();
        let name = declared.name;
        let scenario = Scenario::parse(name, declared.scenario, &settings)?;
        let routes = scenario.emulated_routes()?;
        let flow = scenario.flows.first().context("a row has a flow")?;
        let media = flow.media().context("a row carries media")?;
        let stream = stream(&media.source).with_context(|| format!("row {name}"))?;
        let deadline = media.config.media.deadline;
        let nearest = routes.iter().min_by_key(|route| route.forward.delay);
        let nearest = &nearest.context("a row has a route")?.forward;
        let latency = deadline.saturating_sub(nearest.delay);
        let budget = latency + longest_delay(nearest) + stream.picture_interval();
        Ok(Row {
            name,
            case: declared.case,
            routes,
            stream,
            latency,
            budget,
            duration: scenario.duration,
            event: declared.event,
        })
    }

    /// Returns the MTU of all interfaces: the largest that a link carries, as a host has that knows
    /// its links. A black hole is beyond a host's interface.
    pub(super) fn interface_mtus(&self) -> Vec<u32> {
        self.routes
            .iter()
            .map(|route| {
                let of_link = match self.event {
                    Event::BlackHole => None,
                    Event::None | Event::ReceiverRestart(_) => route.forward.mtu,
                };
                of_link.unwrap_or(crate::over_link::links::MTU)
            })
            .collect()
    }

    /// Returns whether each path alone carries the stream with a tenth of overhead, before any
    /// change of its rate.
    pub(super) fn has_spare_paths(&self) -> bool {
        let needed = self.stream.bitrate.mul_f64(1.1);
        let rates = self.routes.iter().map(|route| route.forward.rate);
        self.routes.len() > 1 && rates.flatten().all(|rate| rate >= needed)
    }

    /// Returns each path's share of the packets, in units of the slowest one's.
    pub(super) fn weights(&self) -> Vec<u64> {
        fn rate(route: &EmulatedRoute) -> DataRate {
            route.forward.rate.unwrap_or(DataRate::MAX)
        }
        let slowest = self
            .routes
            .iter()
            .map(rate)
            .min()
            .map_or(1, |rate| rate.bits_per_second().max(1));
        let routes = self.routes.iter();
        routes
            .map(|route| rate(route).bits_per_second() / slowest)
            .collect()
    }
}

/// Returns the longest delay of packets on a link that do not wait. Some transports count their
/// latency from the delay of the first packet, whichever that was.
fn longest_delay(link: &LinkConfig) -> Duration {
    let scheduled = link.delay_schedule.iter().map(|(_, delay)| *delay);
    let delay = scheduled.fold(link.delay, Duration::max);
    let jitter = match &link.jitter {
        Some(JitterModel {
            amount: JitterAmount::Uniform(most),
            ..
        }) => *most,
        _ => Duration::ZERO,
    };
    let detour = link.detour.as_ref();
    delay + jitter + detour.map_or(Duration::ZERO, |detour| detour.delay)
}

/// Returns a stream like a scenario's source.
fn stream(source: &SourceConfig) -> anyhow::Result<StreamConfig> {
    match source {
        SourceConfig::Gop {
            frames_per_second,
            min_rate,
            max_rate,
            key_frame_interval,
            key_frame_ratio,
            ..
        } if min_rate == max_rate => Ok(StreamConfig {
            bitrate: *max_rate,
            frames_per_second: *frames_per_second,
            key_interval: *key_frame_interval,
            key_ratio: *key_frame_ratio,
        }),
        SourceConfig::Cbr {
            frames_per_second,
            rate,
        } => Ok(StreamConfig {
            bitrate: *rate,
            frames_per_second: *frames_per_second,
            key_interval: frames_per_second * KEY_INTERVAL_SECONDS,
            key_ratio: 1.0,
        }),
        _ => bail!("its source has no fixed bitrate"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> Row {
        let rows = all().unwrap();
        rows.into_iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn every_row_is_a_stream_over_links() {
        let rows = all().unwrap();
        assert_eq!(rows.len(), 8 + WEATHER.len());
        for row in &rows {
            assert!(
                row.latency < row.budget && !row.routes.is_empty(),
                "{row:?}"
            );
        }
    }

    #[test]
    fn a_row_has_the_figures_of_its_scenario() {
        let uneven = row("5");
        assert_eq!(uneven.weights(), [2, 1]);
        assert_eq!(
            (uneven.stream.key_interval, uneven.has_spare_paths()),
            (50, false)
        );
        // 1,030 ms, of which 30 are the nearer path's.
        assert_eq!(uneven.latency, Duration::from_secs(1));
        assert_eq!(uneven.budget, Duration::from_millis(1_070));
        assert!(row("7").has_spare_paths());
        let jitter = row("jitter-one-80");
        assert_eq!(jitter.latency, Duration::from_millis(350));
        // 30 to 110 ms on the way, and a picture's interval.
        assert_eq!(jitter.budget, Duration::from_millis(500));
        assert_eq!(row("mtu-1280-one-of-two").interface_mtus(), [1_500, 1_280]);
        assert_eq!(row("mtu-black-hole").interface_mtus(), [1_500, 1_500]);
    }
}
