//! The cases in which other live video transports were measured, with their figures.

use anabranch_units::Duration;

/// Shortest run that can be compared with a row's bar.
pub const BAR_SPAN: Duration = Duration::from_secs(60);

/// A case of the contest.
#[derive(Debug)]
pub struct Row {
    /// Number and letter by which users select the row.
    pub name: &'static str,
    /// Description of the case.
    pub case: &'static str,
    /// Scenario file; its expectations are the bar.
    pub scenario: &'static str,
    /// Settings that turn it into a row of ten seconds.
    pub quick: &'static [&'static str],
    /// Figures of SRT: delivered frames / overhead in percent. Measured in 2026 through an emulator
    /// of the same kind (rate, delay, drop-tail queue of one bandwidth-delay product) with packets
    /// of 1,316 B over 60 s. Versions: libsrt 1.5 and librist 0.2.7 without encryption, BELABOX's
    /// SRTLA sender and receiver (SRT's `lossmaxttl` was not recorded), noq 1.4.
    pub srt: &'static str,
    /// The same of RIST.
    pub rist: &'static str,
    /// The same of SRTLA.
    pub srtla: &'static str,
    /// The same of noq.
    pub noq: &'static str,
}

const SHORT: &str = "duration=10 s";
const QUICK_DROP: &[&str] = &[
    SHORT,
    "links.fast.rate-schedule=\
     [{at = \"3 s\", rate = \"1 Mbit/s\"}, {at = \"7 s\", rate = \"4 Mbit/s\"}]",
];

macro_rules! scenario {
    ($name:literal) => {
        include_str!(concat!("../../../scenarios/contest/row-", $name, ".toml"))
    };
}

/// All cases, in the order of their names.
pub const ROWS: [Row; 9] = [
    Row {
        name: "1",
        case: "1 % loss, 200 ms",
        scenario: scenario!("1-one-path-1-percent"),
        quick: &[SHORT],
        srt: "100 / 5.2",
        rist: "100 / 5.0",
        srtla: "-",
        noq: "98.9-99 / 4.4",
    },
    Row {
        name: "2",
        case: "5 % loss, 200 ms",
        scenario: scenario!("2-one-path-5-percent"),
        quick: &[SHORT],
        srt: "99.99 / 9.9",
        rist: "99.98 / 9.4",
        srtla: "-",
        noq: "-",
    },
    Row {
        name: "3",
        case: "bursts of loss, 100 ms",
        scenario: scenario!("3-bursts"),
        quick: &[SHORT],
        srt: "98.9 / 11.7",
        rist: "96.0 / 10",
        srtla: "95-97 / 13",
        noq: "-",
    },
    Row {
        name: "4",
        case: "two paths, 1 % loss, 200 ms",
        scenario: scenario!("4-two-paths"),
        quick: &[SHORT],
        srt: "88.1 / 177",
        rist: "99.99 / 5.6",
        srtla: "99.6 / 16",
        noq: "98.3-100 / 4.5",
    },
    Row {
        name: "5",
        case: "uneven paths, 5 of 6 Mbit/s, 1 s",
        scenario: scenario!("5-uneven"),
        quick: &[SHORT],
        srt: "85 / 368",
        rist: "96.6 / 85",
        srtla: "100 / 18",
        noq: "-",
    },
    Row {
        name: "6a",
        case: "4 to 1 Mbit/s, encoder follows, 1 s",
        scenario: scenario!("6a-capacity-drop-adaptive"),
        quick: QUICK_DROP,
        srt: "98.6 / 184",
        rist: "98.7 / 29",
        srtla: "99.1 / 31",
        noq: "-",
    },
    Row {
        name: "6b",
        case: "4 to 1 Mbit/s, fixed 4 Mbit/s, 1 s",
        scenario: scenario!("6b-capacity-drop-fixed"),
        quick: QUICK_DROP,
        srt: "98.6 / 184",
        rist: "98.7 / 29",
        srtla: "99.1 / 31",
        noq: "-",
    },
    Row {
        name: "7",
        case: "a path dead for 15 s, 500 ms",
        scenario: scenario!("7-dead-path"),
        quick: &[
            SHORT,
            "links.near.outages=[{at = \"3 s\", for = \"4 s\"}]",
            "links.near-return.outages=[{at = \"3 s\", for = \"4 s\"}]",
        ],
        srt: "100 / 5-17",
        rist: "99.8-99.98 / 10-20",
        srtla: "99.7-100 / 8-13",
        noq: "45-80 / -",
    },
    Row {
        name: "8",
        case: "a path swings to 1,200 ms, 500 ms",
        scenario: scenario!("8-swing"),
        quick: &[
            SHORT,
            "links.modem.delay-schedule=\
             [{at = \"3 s\", delay = \"1150 ms\"}, {at = \"6 s\", delay = \"50 ms\"}]",
        ],
        srt: "-",
        rist: "-",
        srtla: "-",
        noq: "-",
    },
];
