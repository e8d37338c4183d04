//! Settings of links, and their effect.

use super::*;

/// Returns the link `up`, with these keys instead of its queue.
fn up_with(keys: &str) -> LinkConfig {
    let scenario = parse(&BASE.replace("queue = \"300 ms\"", keys)).unwrap();
    let up = scenario.links.iter().find(|link| link.name == "up");
    up.unwrap().config.clone()
}

fn discipline(written: &str) -> Discipline {
    // An inline table ends with its line.
    up_with(&format!("discipline = {}", written.replace('\n', " "))).discipline
}

#[test]
fn a_queue_discipline_may_be_a_name() {
    for (name, expected) in [
        ("drop-tail", Discipline::default()),
        ("red", Discipline::Red(RedOptions::default())),
        ("codel", Discipline::CoDel(CoDelOptions::default())),
        ("fq-codel", Discipline::FqCoDel(FqCoDelOptions::default())),
        ("pie", Discipline::Pie(PieOptions::default())),
        ("dualpi2", Discipline::DualPi2(DualPi2Options::default())),
        ("half-duplex", Discipline::HalfDuplex),
    ] {
        assert_eq!(discipline(&format!("{name:?}")), expected);
        assert_eq!(discipline(&format!("{{ kind = {name:?} }}")), expected);
    }
}

#[test]
fn every_option_of_a_queue_discipline_reaches_the_link() {
    let ms = Duration::from_millis;
    let mark_above = Some(QueueLimit::Bytes(30_000));
    let written = r#"{ kind = "drop-tail", mark-above = "30 kB" }"#;
    assert_eq!(discipline(written), Discipline::DropTail { mark_above });
    let red = RedOptions {
        min_threshold: QueueLimit::Time(ms(10)),
        max_threshold: QueueLimit::Time(ms(30)),
        max_probability: 0.2,
        weight: 0.01,
        is_gentle: false,
        mean_packet_bytes: 1_000,
        ecn: true,
    };
    let written = r#"{ kind = "red", min-threshold = "10 ms", max-threshold = "30 ms",
        weight = 0.01, max-probability = "20 %", gentle = false, mean-packet = "1 kB",
        ecn = true }"#;
    assert_eq!(discipline(written), Discipline::Red(red));
    let codel = CoDelOptions {
        target: ms(10),
        interval: ms(200),
        ecn: true,
    };
    let written = r#"{ kind = "codel", target = "10 ms", interval = "200 ms", ecn = true }"#;
    assert_eq!(discipline(written), Discipline::CoDel(codel));
    let fq_codel = FqCoDelOptions {
        codel,
        bucket_count: 16,
        quantum: 300,
    };
    let written = r#"{ kind = "fq-codel", target = "10 ms", interval = "200 ms", ecn = true,
        buckets = 16, quantum = "300 B" }"#;
    assert_eq!(discipline(written), Discipline::FqCoDel(fq_codel));
    let pie = PieOptions {
        target: ms(20),
        update_interval: ms(30),
        max_burst: Duration::ZERO,
        is_derandomised: true,
        ecn: true,
    };
    let written = r#"{ kind = "pie", target = "20 ms", update-interval = "30 ms",
        max-burst = "0 ms", derandomise = true, ecn = true }"#;
    assert_eq!(discipline(written), Discipline::Pie(pie));
    let dual_pi2 = DualPi2Options {
        target: ms(20),
        max_rtt: ms(200),
        step_threshold: ms(2),
        coupling: 1.5,
        scheduler: DualQueueScheduler::TimeShiftedFifo,
    };
    let written = r#"{ kind = "dualpi2", target = "20 ms", max-rtt = "200 ms", coupling = 1.5,
        step-threshold = "2 ms", scheduler = "ts-fifo" }"#;
    assert_eq!(discipline(written), Discipline::DualPi2(dual_pi2));
}

#[test]
fn a_detour_reaches_the_link() {
    let link = up_with(r#"detour = { share = "30 %", delay = "20 ms" }"#);
    let (share, delay) = (0.3, Duration::from_millis(20));
    assert_eq!(link.detour, Some(DetourModel { share, delay }));
}

#[test]
fn a_frame_time_reaches_the_link() {
    let link = up_with(r#"frame-time = "300 us""#);
    assert_eq!(link.frame_time, Duration::from_micros(300));
}

#[test]
fn overtaking_reaches_the_link() {
    assert!(up_with("overtaking = true").overtaking && !up_with("").overtaking);
}

#[test]
fn repeated_events_are_written_once() {
    let link = up_with(
        r#"delay-schedule = [
    { at = "3 s", delay = "70 ms", every = "6 s", times = 2 },
    { at = "6 s", delay = "30 ms", every = "6 s", times = 2 },
]
outages = [{ at = "2 s", for = "1 s", every = "3 s", times = 3 }]"#,
    );
    let changes = [(3, 70), (6, 30), (9, 70), (12, 30)]
        .map(|(at, ms)| (Instant::from_secs(at), Duration::from_millis(ms)));
    assert_eq!(link.delay_schedule, changes);
    let outages = [2, 5, 8].map(|at| (Instant::from_secs(at), Duration::from_secs(1)));
    assert_eq!(link.outages, outages);
}

#[test]
fn jitter_reaches_the_link() {
    let usual = Some(JitterModel::default());
    assert_eq!(up_with("jitter = {}").jitter, usual);
    let written = r#"{ std = "2 ms", max-deviations = 4, shape = "folded", order = "reordered" }"#;
    let jitter = JitterModel {
        amount: JitterAmount::Normal {
            std: Duration::from_millis(2),
            max_deviations: 4.0,
            shape: JitterShape::Folded,
        },
        order: JitterOrder::Reordered,
    };
    assert_eq!(up_with(&format!("jitter = {written}")).jitter, Some(jitter));
    let uniform = JitterModel {
        amount: JitterAmount::Uniform(Duration::from_millis(40)),
        order: JitterOrder::Bunched,
    };
    let written = r#"jitter = { uniform = "40 ms", order = "bunched" }"#;
    assert_eq!(up_with(written).jitter, Some(uniform));
}

#[test]
fn routes_are_known_in_the_order_of_the_file() {
    fn names(routes: &str, links: &str, flows: &str) -> String {
        let text = format!("duration = \"1 s\"\n{links}{routes}{flows}");
        let scenario = super::parse(&text).unwrap();
        let written = scenario.routes_as_written();
        let names: Vec<String> = written.iter().map(|route| route.name.clone()).collect();
        names.join(" ")
    }

    fn route(name: &str) -> String {
        format!("[routes.{name}]\nforward = [\"a\"]\nreverse = [\"b\"]\n")
    }

    let links = "[links.a]\n[links.b]\n";
    let flows = "[[flows]]\nsource = { kind = \"cbr\", rate = \"1 Mbit/s\" }\npaths = [\"wifi\"]\n";
    let tables = ["wifi", "lte", "dsl", "a"].map(route).concat();
    assert_eq!(names(&tables, links, flows), "wifi lte dsl a");
    let inline = "{ forward = [\"a\"], reverse = [\"b\"] }";
    let inline = format!("[routes]\nwifi = {inline}\nb = {inline}\n");
    assert_eq!(names(&inline, links, flows), "wifi b");
    let counted = route("wifi") + &route("b").replace("forward", "count = 2\nforward");
    assert_eq!(names(&counted, links, flows), "wifi b-1 b-2");
}
