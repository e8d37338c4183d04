//! Valid scenarios, and every way in which they can be invalid.

mod links;

use anabranch_core::recovery::FeedbackSchedule;
use anabranch_core::recovery::LossDetection;
use anabranch_core::{PaddingPolicy, SourceLimits};
use anabranch_link::{
    CoDelOptions, DetourModel, Discipline, DualPi2Options, DualQueueScheduler, FqCoDelOptions,
    JitterAmount, JitterModel, JitterOrder, JitterShape, LinkConfig, LossModel, PieOptions,
    QueueLimit, RedOptions, Trace,
};
use anabranch_units::{DataRate, Duration, Instant};
use anabranch_video::source::SourceConfig;

use super::{PathSpec, Scenario};
use crate::FlowSpec;
use crate::metrics::Subject;

/// A small scenario whose lines the tests replace.
const BASE: &str = r#"title = "Base"
duration = "60 s"
[statistics]
from = "10 s"
[links.up]
rate = "3 Mbit/s"
delay = "100 ms"
queue = "300 ms"
[links.down]
delay = "100 ms"
[routes.only]
forward = ["up"]
reverse = ["down"]
[flow-defaults]
controller = "fixed"
paths = ["only"]
[[flows]]
count = 2
stagger = "5 s"
[expect]
loss = { max = "1 %" }
utilisation.up = { min = 0.5 }
"#;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse("folder/base.toml", text, &[]).map_err(|error| error.to_string())
}

fn parse_set(setting: &str) -> Result<Scenario, String> {
    Scenario::parse("base.toml", BASE, &[setting.to_owned()]).map_err(|error| error.to_string())
}

#[test]
fn a_scenario_reads_as_it_is_written() {
    let scenario = parse(BASE).unwrap();
    assert_eq!(
        (scenario.name.as_str(), scenario.title.as_str()),
        ("base", "Base")
    );
    assert_eq!(scenario.duration, Duration::from_secs(60));
    assert_eq!(scenario.statistics.from, Instant::from_secs(10));
    let up = scenario
        .links
        .iter()
        .find(|link| link.name == "up")
        .unwrap();
    assert_eq!(up.config.rate, Some(DataRate::from_megabits_per_second(3)));
    assert_eq!(
        up.config.queue,
        QueueLimit::Time(Duration::from_millis(300))
    );
    let names: Vec<&str> = scenario
        .flows
        .iter()
        .map(|flow| flow.name.as_str())
        .collect();
    assert_eq!(names, ["flow-1", "flow-2"]);
    assert_eq!(scenario.flows[1].start, Instant::from_secs(5));
    assert!(
        scenario
            .flows
            .iter()
            .all(|flow| flow.controller() == "fixed")
    );
    let expected: Vec<_> = scenario
        .expectations
        .iter()
        .map(|expected| {
            (
                expected.metric.name,
                expected.subject,
                expected.min,
                expected.max,
            )
        })
        .collect();
    let up = scenario
        .links
        .iter()
        .position(|link| link.name == "up")
        .unwrap();
    let utilisation = ("utilisation", Subject::Link(up), Some(0.5), None);
    assert_eq!(
        expected,
        [("loss", Subject::All, None, Some(0.01)), utilisation]
    );
    assert_eq!(scenario.expectations[0].window, scenario.statistics);
}

/// Defaults that differ from the usual in every key, and a flow with some keys of its own.
const SETTINGS: &str = r#"
scheduler = "wrr"
start = "2 s"
stop = "50 s"
padding = "always"
feedback = { every = 4, max-delay = "5 ms", on-hole = false }
loss-detection = "gap-immediate"
min-rate = "100 kbit/s"
initial-rate = "200 kbit/s"
fixed-rate = "2 Mbit/s"
packet = "1000 B"
overhead = "44 B"
deadline = "300 ms"
reassembly-wait = "200 ms"
target-fraction = "90 %"
[flow-defaults.source]
kind = "gop"
fps = 50
min = "200 kbit/s"
max = "5 Mbit/s"
key-interval = "1 s"
key-ratio = 4
key-on-loss = true
[[flows]]
[[flows]]
paths = [{ route = "only", weight = 2, metered = true }]
source = "cbr"
feedback = "every packet"
"#;

fn with_settings() -> Scenario {
    parse(&BASE.replace("[[flows]]\ncount = 2\nstagger = \"5 s\"\n", SETTINGS)).unwrap()
}

#[test]
fn reassembly_waits_for_the_deadline_by_default() {
    fn deadline_and_wait(settings: &str) -> (u64, u64) {
        let scenario = parse(&BASE.replace("[[flows]]\ncount = 2", settings)).unwrap();
        let media = &scenario.flows[0].media().unwrap().config.media;
        (
            media.deadline.as_millis(),
            media.reassembly_wait.as_millis(),
        )
    }
    let flows = "[[flows]]\ncount = 2";
    assert_eq!(deadline_and_wait(flows), (500, 500));
    let deadline = format!("{flows}\ndeadline = \"1500 ms\"");
    assert_eq!(deadline_and_wait(&deadline), (1_500, 1_500));
    let both = format!("{deadline}\nreassembly-wait = \"200 ms\"");
    assert_eq!(deadline_and_wait(&both), (1_500, 200));
}

#[test]
fn every_setting_of_a_flow_reaches_the_core() {
    let flow = &with_settings().flows[0];
    let media = flow.media().unwrap();
    assert_eq!(
        (flow.start, flow.stop),
        (Instant::from_secs(2), Some(Instant::from_secs(50)))
    );
    assert_eq!(media.config.scheduler.name(), "wrr");
    assert_eq!(media.config.padding, PaddingPolicy::Always);
    assert_eq!(
        media.config.laboratory.loss_detection,
        Some(LossDetection::GapImmediate)
    );
    assert_eq!(
        media.config.min_rate,
        DataRate::from_kilobits_per_second(100)
    );
    assert_eq!(
        media.config.initial_rate,
        DataRate::from_kilobits_per_second(200)
    );
    assert_eq!(
        media.config.laboratory.fixed_rate,
        DataRate::from_megabits_per_second(2)
    );
    assert_eq!(
        (media.config.fragment_bytes, media.config.overhead_bytes),
        (1_000, 44)
    );
    assert_eq!(media.config.media.deadline, Duration::from_millis(300));
    assert_eq!(
        media.config.media.reassembly_wait,
        Duration::from_millis(200)
    );
    assert_eq!(media.config.media.target_fraction, Some(0.9));
    let (min, max) = (
        DataRate::from_kilobits_per_second(200),
        DataRate::from_megabits_per_second(5),
    );
    let source = SourceConfig::Gop {
        frames_per_second: 50,
        min_rate: min,
        max_rate: max,
        key_frame_interval: 50,
        key_frame_ratio: 4.0,
        has_key_on_loss: true,
        structure: None,
    };
    assert_eq!(media.source, source);
    assert_eq!(
        media.config.media.source,
        SourceLimits::Adaptive { min, max }
    );
    let feedback = FeedbackSchedule {
        every_packets: 4,
        max_delay: Duration::from_millis(5),
        on_hole: None,
        ..FeedbackSchedule::default()
    };
    assert_eq!(media.config.laboratory.feedback, Some(feedback));
}

#[test]
fn a_flows_own_keys_come_before_the_defaults() {
    let flow = &with_settings().flows[1];
    let media = flow.media().unwrap();
    assert_eq!(
        flow.paths,
        [PathSpec {
            route: 0,
            weight: 2.0,
            is_metered: true
        }]
    );
    assert!(matches!(media.source, SourceConfig::Cbr { .. }));
    assert_eq!(media.config.media.source, SourceLimits::Fixed);
    assert_eq!(
        media.config.laboratory.feedback,
        Some(FeedbackSchedule::EVERY_PACKET)
    );
    assert_eq!(media.config.scheduler.name(), "wrr");
}

#[test]
fn links_lose_and_change_as_described() {
    let link = r#"queue = "75 packets"
loss = { good-to-bad = "1 %", bad-to-good = 0.25 }
rate-schedule = [{ at = "20 s", rate = "1 Mbit/s" }, { at = "30 s", rate = "0" }]
outages = [{ at = "10 s", for = "5 s" }]
"#;
    let scenario = parse(&BASE.replace("queue = \"300 ms\"\n", link)).unwrap();
    let up = scenario
        .links
        .iter()
        .find(|link| link.name == "up")
        .unwrap();
    assert_eq!(up.config.queue, QueueLimit::Packets(75));
    let loss = LossModel::GilbertElliott {
        good_to_bad: 0.01,
        bad_to_good: 0.25,
        loss_in_good: 0.0,
        loss_in_bad: 1.0,
    };
    assert_eq!(up.config.loss, loss);
    assert_eq!(
        up.config.rate_schedule[1],
        (Instant::from_secs(30), DataRate::ZERO)
    );
    assert_eq!(
        up.config.outages,
        [(Instant::from_secs(10), Duration::from_secs(5))]
    );
}

#[test]
fn built_in_scenarios_use_built_in_files() {
    let text = BASE.replace("rate = \"3 Mbit/s\"", "trace = \"../good.trace\"");
    let files = [("../other.trace", "7\n"), ("../good.trace", "0\n4\n")];
    let scenario = Scenario::built_in("base.toml", &text, &files, &[]).unwrap();
    let up = scenario.links.iter().find(|link| link.name == "up");
    assert_eq!(up.unwrap().config.trace, Trace::new(&[0, 4]).ok());
    let error = Scenario::built_in("base.toml", &text, &files[..1], &[]).unwrap_err();
    let message = "links.up.trace: ../good.trace: it is not part of the program";
    assert!(error.to_string().ends_with(message), "{error}");
}

#[test]
fn traces_load_beside_the_scenario_with_errors() {
    let folder = tempfile::tempdir().unwrap();
    fn with(rate: &str, file: &std::path::Path) -> Result<Scenario, String> {
        let text = BASE.replace("rate = \"3 Mbit/s\"", rate);
        Scenario::parse(&file.display().to_string(), &text, &[]).map_err(|error| error.to_string())
    }

    let file = folder.path().join("base.toml");
    std::fs::write(folder.path().join("good.trace"), "0\n4\n4\n").unwrap();
    let scenario = with("trace = \"good.trace\"", &file).unwrap();
    let up = scenario.links.iter().find(|link| link.name == "up");
    assert_eq!(up.unwrap().config.trace, Trace::new(&[0, 4, 4]).ok());
    for (trace, message) in [
        ("", "line 1: a trace needs an opportunity"),
        ("1\n3\n2\n", "line 3: the times must not descend"),
        ("0\n", "line 1: the last time"),
        ("1\ntwo\n", "line 2: this is no integer"),
        ("time,rate\n0,5\n", "known formats of traces are mahimahi"),
        ("frame,200 kbit/s\n", "the file's format is frame sizes"),
    ] {
        std::fs::write(folder.path().join("bad.trace"), trace).unwrap();
        let error = with("trace = \"bad.trace\"", &file).unwrap_err();
        assert!(error.starts_with(&format!("{}:6: links.up.trace: ", file.display())));
        assert!(
            error.contains("bad.trace: ") && error.contains(message),
            "{error}"
        );
    }
    for (keys, message) in [
        (
            "rate = \"1 Mbit/s\"\ntrace = \"good.trace\"",
            ":7: links.up.trace: a link has",
        ),
        (
            "trace = \"good.trace\"\nrate-schedule = [{ at = \"1 s\", rate = \"1 Mbit/s\" }]",
            ":6: links.up.trace: a link has",
        ),
    ] {
        let error = with(keys, &file).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn tables_with_a_count_describe_a_chain_of_any_length() {
    let text = r#"
        duration = "1 s"
        [links.hop]
        count = 3
        rate = "1 Mbit/s"
        [links.back]
        count = 3
        delay = "10 ms"
        delay-step = "5 ms"
        [routes.through]
        forward = [{ each = "hop" }]
        reverse = [{ each = "back", reversed = true }]
        [routes.cross]
        count = 3
        forward = ["hop-#"]
        reverse = ["back-#"]
        [[flows]]
        name = "long"
        paths = ["through"]
        [[flows]]
        name = "cross"
        count = 3
        paths = ["cross-#"]
    "#;
    let scenario = Scenario::parse("chain.toml", text, &[]).unwrap();
    let names: Vec<&str> = scenario.links.iter().map(|link| &*link.name).collect();
    assert_eq!(
        names,
        ["back-1", "back-2", "back-3", "hop-1", "hop-2", "hop-3"]
    );
    let delays = [10, 15, 20].map(Duration::from_millis);
    assert_eq!(
        delays,
        [0, 1, 2].map(|index| scenario.links[index].config.delay)
    );
    assert_eq!(scenario.routes[3].forward, [3, 4, 5]);
    assert_eq!(scenario.routes[3].reverse, [2, 1, 0]);
    assert_eq!(
        (
            &scenario.routes[1].name[..],
            &scenario.routes[1].reverse[..]
        ),
        ("cross-2", &[1][..])
    );
    let routes: Vec<usize> = scenario
        .flows
        .iter()
        .map(|flow| flow.paths[0].route)
        .collect();
    assert_eq!(routes, [3, 0, 1, 2]);
    let set = [
        "links.hop.count=2",
        "links.back.count=2",
        "routes.cross.count=2",
        "flows.1.count=2",
    ];
    let shorter = Scenario::parse("chain.toml", text, &set.map(str::to_owned)).unwrap();
    assert_eq!((shorter.links.len(), shorter.flows.len()), (4, 3));
}

const MISTAKES: &str = include_str!("mistakes.txt");

#[test]
fn a_mistake_names_file_line_key_and_the_known_choices() {
    for line in MISTAKES.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.split(" | ").map(|column| column.replace("\\n", "\n"));
        let (Some(old), Some(new), Some(place)) = (columns.next(), columns.next(), columns.next())
        else {
            panic!("too few columns: {line}");
        };
        assert!(BASE.contains(&old), "{old} is not in the base");
        let error = parse(&BASE.replacen(&old, &new, 1)).expect_err(line);
        let start = format!("folder/base.toml{place} ");
        assert!(
            error.starts_with(&start),
            "{line}: expected {start:?} in: {error}"
        );
        for text in columns {
            assert!(
                error.contains(&text),
                "{line}: expected {text:?} in: {error}"
            );
        }
    }
}

#[test]
fn overrides_replace_and_add() {
    fn flow(setting: &str) -> FlowSpec {
        parse_set(setting).unwrap().flows[0].clone()
    }
    assert_eq!(
        flow("flow-defaults.controller=new-reno").controller(),
        "new-reno"
    );
    assert_eq!(
        flow("flows.0.controller = \"live-bbr\"").controller(),
        "live-bbr"
    );
    assert_eq!(
        flow("flows.0.paths=[{route=\"only\",weight=3}]").paths[0].weight,
        3.0
    );
    let source = flow("flows.0.source={kind=\"cbr\",rate=\"2 Mbit/s\"}")
        .media()
        .unwrap()
        .source
        .clone();
    let rate = DataRate::from_megabits_per_second(2);
    assert_eq!(
        source,
        SourceConfig::Cbr {
            frames_per_second: 25,
            rate
        }
    );
    let scenario = parse_set("links.up.rate=2 Mbit/s").unwrap();
    assert!(
        scenario
            .links
            .iter()
            .any(|link| link.config.rate == Some(rate))
    );
    assert_eq!(
        parse_set("expect.jain.min=0.5").unwrap().expectations.len(),
        3
    );
    assert_eq!(
        parse_set("statistics.to=30 s").unwrap().statistics.to,
        Instant::from_secs(30)
    );
}

#[test]
fn a_wrong_override_names_itself_and_the_way_out() {
    for (setting, texts) in [
        (
            "flows.0.controller=bbrr",
            &["flows[0].controller: ", "live-bbr"][..],
        ),
        ("links.upp.rate=1 Mbit/s", &["links.upp: ", "down, up"]),
        (
            "links.up.ratte=1 Mbit/s",
            &["links.up.ratte: ", "unknown key", "rate"],
        ),
        ("flows.3.controller=fixed", &["flows.3", "1 elements"]),
        ("colour=red", &["colour: ", "unknown key"]),
        ("title.x=1", &["title"]),
        ("links.up.ratte=1 Mbit/s", &["did you mean \"rate\"?"]),
        ("duration", &["KEY=VALUE"]),
        (".x=1", &["links.bottleneck.rate"]),
    ] {
        let error = parse_set(setting).expect_err(setting);
        assert!(error.starts_with(&format!("--set {setting}: ")), "{error}");
        for text in texts {
            assert!(
                error.contains(text),
                "{setting}: expected {text:?} in: {error}"
            );
        }
    }
}

#[test]
fn a_mistake_names_each_known_key_once() {
    for setting in ["flow-defaults.colour=red", "flows.0.colour=red"] {
        let scenario = Scenario::parse("base.toml", BASE, &[setting.to_owned()]);
        let error = scenario.unwrap_err().to_string();
        let (_, known) = error.split_once("known are ").expect(&error);
        let mut names: Vec<&str> = known.trim_end().split(", ").collect();
        let listed_count = names.len();
        names.sort_unstable();
        names.dedup();
        assert!(listed_count > 20, "{error}");
        assert_eq!(listed_count, names.len(), "{error}");
    }
}

#[test]
fn a_default_that_no_flow_takes_is_a_mistake_of_an_override() {
    let own = BASE.replace("count = 2", "controller = \"copa\"\ncount = 2");
    let parse_set = |setting: &str| {
        let scenario = Scenario::parse("base.toml", &own, &[setting.to_owned()]);
        scenario.map_err(|error| error.to_string())
    };
    let error = parse_set("flow-defaults.controller=fixed").unwrap_err();
    assert!(error.contains("set flows.0.controller"), "{error}");
    // The file's own defaults may have no effect, and others apply.
    assert_eq!(
        parse_set("duration=90 s").unwrap().flows[0].controller(),
        "copa"
    );
    assert!(parse_set("flow-defaults.padding=never").is_ok());
    // No flow of this kind could have it.
    assert!(parse_set("flow-defaults.on=1 s").is_ok());
}

#[test]
fn a_missing_file_is_named() {
    let error = Scenario::load("nowhere.toml".as_ref(), &[]).unwrap_err();
    assert_eq!(error.to_string(), "cannot read nowhere.toml");
    assert!(core::error::Error::source(&error).is_some());
}
