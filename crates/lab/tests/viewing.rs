//! Measurements of media: each metric by its definition, on networks where the answer is known.

use anabranch_lab::metrics::{FlowSeries, FlowStatistics, HeadOfLineStatistics, Statistics};
use anabranch_lab::{RunOptions, Scenario, run, run_outcomes};
use anabranch_units::Duration;

const NETWORK: &str = r#"duration = "20 s"
[links.near]
rate = "8 Mbit/s"
delay = "20 ms"
[links.far]
rate = "8 Mbit/s"
delay = "60 ms"
[links.back]
delay = "10 ms"
[routes.near]
forward = ["near"]
reverse = ["back"]
[routes.far]
forward = ["far"]
reverse = ["back"]
[flow-defaults]
controller = "fixed"
fixed-rate = "4 Mbit/s"
padding = "never"
source = "cbr"
"#;

fn statistics(flow: &str, overrides: &[&str]) -> Statistics {
    let text = format!("{NETWORK}[[flows]]\n{flow}");
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let scenario =
        Scenario::parse("test.toml", &text, &overrides).unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    report.runs[0].statistics.clone()
}

fn is_near(value: f64, expected: f64, tolerance: f64) -> bool {
    (value - expected).abs() <= tolerance
}

#[test]
fn overhead_is_all_that_both_ends_send_over_the_media() {
    let run = statistics("paths = [\"near\"]\nstop = \"19.9 s\"", &[]);
    let flow = &run.flows[0];
    // 5000 B of 25 frames a second in four packets of at most 1316 B. Each has 28 B below it, and
    // of its own 5 B that number it, 5 B of kind and capture time, and 4 to 5 B of frame and
    // fragment.
    let media = flow.frames.captured as f64 * 5_000.0 * 8.0;
    let traffic = &flow.traffic;
    let sent = traffic.sent_bits_per_second + traffic.feedback_bits_per_second;
    let overhead = flow.overhead_ratio.unwrap();
    assert!(is_near(overhead, sent * 19.9 / media - 1.0, 1e-9));
    let headers = traffic.sent_bits_per_second * 19.9 / media - 1.0;
    let packet = headers * 5_000.0 / 4.0;
    assert!((42.0..=43.0).contains(&packet), "{packet} B a packet");
    assert_eq!(run.total.overhead_ratio, flow.overhead_ratio);
}

#[test]
fn padding_is_overhead_and_other_kinds_of_flows_have_none() {
    let padded = statistics("paths = [\"near\"]\npadding = \"always\"", &[]);
    // 4 Mbit/s are sent for 1 Mbit/s of media.
    let overhead = padded.flows[0].overhead_ratio.unwrap();
    assert!(is_near(overhead, 3.0, 0.1), "{overhead}");
    let text = "kind = \"bulk\"\npaths = [\"near\"]";
    let bulk = statistics(text, &[]);
    assert_eq!(bulk.flows[0].overhead_ratio, None);
    assert_eq!((bulk.total.player, bulk.total.fragments), (None, None));
}

#[test]
fn the_excess_is_over_the_fastest_paths_propagation_delay() {
    for (paths, base) in [
        ("[\"near\"]", 20.0),
        ("[\"far\"]", 60.0),
        ("[\"far\", \"near\"]", 20.0),
    ] {
        let run = statistics(&format!("paths = {paths}"), &[]);
        let frames = &run.flows[0].frames;
        let delay = frames.delay_ms.unwrap();
        let excess = frames.delay_excess_ms.unwrap();
        assert!(is_near(delay.mean - excess.mean, base, 1e-6), "{paths}");
        assert!(is_near(delay.p95 - excess.p95, base, 0.5), "{paths}");
    }
    let schedule = "links.near.delay-schedule=[{ at = \"5 s\", delay = \"5 ms\" }]";
    let run = statistics("paths = [\"near\"]", &[schedule]);
    let frames = &run.flows[0].frames;
    let difference = frames.delay_ms.unwrap().mean - frames.delay_excess_ms.unwrap().mean;
    assert!(is_near(difference, 5.0, 1e-6), "{difference}");
}

#[test]
fn a_frame_that_is_never_complete_counts_with_its_deadline_in_the_excess_of_all() {
    let run = statistics("paths = [\"near\"]", &[]);
    let frames = &run.flows[0].frames;
    let (all, complete) = (frames.delay_excess_of_all_ms, frames.delay_excess_ms);
    assert!(is_near(all.unwrap().p95, complete.unwrap().p95, 0.5));
    // Of 500 frames a hundred find no path for 4 s: those that come through are fast as ever.
    let outage = "links.near.outages=[{ at = \"10 s\", for = \"4 s\" }]";
    let run = statistics("paths = [\"near\"]\ndeadline = \"300 ms\"", &[outage]);
    let frames = &run.flows[0].frames;
    assert!(frames.complete < 410, "{frames:?}");
    let complete = frames.delay_excess_ms.unwrap().p95;
    assert!(complete < 100.0, "{complete} ms");
    let all = frames.delay_excess_of_all_ms.unwrap();
    // The deadline, less the 20 ms of propagation; or later, when it is given up.
    assert!(all.p95 >= 279.0, "{all:?}");
    assert_eq!(run.total.frames.delay_excess_of_all_ms, Some(all));
}

#[test]
fn one_path_keeps_the_order_and_two_uneven_ones_do_not() {
    let one = statistics("paths = [\"near\"]", &[]);
    let fragments = one.flows[0].fragments.unwrap();
    assert_eq!(
        (fragments.out_of_order_ratio, fragments.path_switches),
        (Some(0.0), 0)
    );
    // Four packets of about 1300 B on the wire, one every 2.6 ms at 4 Mbit/s.
    let gap = fragments.gap_mean_ms.unwrap();
    assert!(is_near(gap, 2.6, 0.1), "{gap} ms");
    let two = "paths = [\"near\", \"far\"]\nscheduler = \"round-robin\"";
    let two = statistics(two, &[]);
    let fragments = two.flows[0].fragments.unwrap();
    // Of 0 1 2 3 go 0 and 2 the near way: every second packet switches back, and 1 comes after 2.
    assert!(fragments.path_switches >= 4 * 500 - 10, "{fragments:?}");
    let out_of_order = fragments.out_of_order_ratio.unwrap();
    assert!(is_near(out_of_order, 0.5, 0.26), "{out_of_order}");
    assert!(fragments.gap_mean_ms.unwrap() > 30.0);
}

#[test]
fn the_aggregate_cost_is_the_sum_of_shares_times_costs() {
    let run = statistics(
        "paths = [\"near\", \"far\"]\nscheduler = \"round-robin\"",
        &[],
    );
    let flow = &run.flows[0];
    let shares = flow.paths.iter().map(|path| path.media_ratio.unwrap());
    assert!(is_near(shares.sum(), 1.0, 1e-12));
    let costs = flow.paths.iter();
    let sum = costs.map(|path| path.media_ratio.unwrap() * path.cost_ms.unwrap());
    let cost = flow.fragments.unwrap().aggregate_cost_ms.unwrap();
    assert!(is_near(sum.sum(), cost, 1e-6));
    // Propagation, and a few packets in the pacer and on the link: 40 ms lie between the paths.
    let between = flow.paths[1].cost_ms.unwrap() - flow.paths[0].cost_ms.unwrap();
    assert!(is_near(between, 40.0, 3.0), "{between}");
}

#[test]
fn the_reassembly_holds_one_frame_on_a_path_that_loses_nothing() {
    let run = statistics("paths = [\"near\"]", &[]);
    let fragments = run.flows[0].fragments.unwrap();
    // Room for three full packets of 1316 B, and the 1052 B that remain.
    assert_eq!(
        (
            fragments.reassembly_peak_bytes,
            fragments.reassembly_peak_frames
        ),
        (5_000, 1)
    );
    // A delay longer by 40 ms is a frame more.
    let two = "paths = [\"near\", \"far\"]\nscheduler = \"round-robin\"";
    let run = statistics(two, &[]);
    let fragments = run.flows[0].fragments.unwrap();
    assert!(fragments.reassembly_peak_frames >= 2, "{fragments:?}");
}

#[test]
fn an_outage_is_a_freeze_and_the_rest_is_not() {
    let outage = "links.near.outages=[{ at = \"10 s\", for = \"1 s\" }]";
    for buffer in ["off", "adaptive", "200 ms"] {
        let flow = format!("paths = [\"near\"]\njitter-buffer = \"{buffer}\"");
        let calm = statistics(&flow, &[]);
        let player = calm.flows[0].player.unwrap();
        assert_eq!(player.freezes, 0, "{buffer}");
        // In ten seconds, one frame in twenty may be late for an adaptive buffer.
        assert!(player.late <= if buffer == "adaptive" { 25 } else { 0 });
        assert_eq!(player.stall_ratio, Some(0.0));
        let run = statistics(&flow, &[outage]);
        let player = run.flows[0].player.unwrap();
        assert!((1..=2).contains(&player.freezes), "{buffer}: {player:?}");
        // The outage, and the time until the sender has noticed its end.
        let frozen = player.freeze_time_ms;
        assert!((900.0..=1_900.0).contains(&frozen), "{buffer}: {frozen} ms");
        let stalled = player.stall_ratio.unwrap();
        assert!(is_near(stalled, frozen / 20_000.0, 0.001), "{stalled}");
    }
    let fixed = statistics("paths = [\"near\"]\njitter-buffer = \"200 ms\"", &[]);
    assert_eq!(fixed.flows[0].player.unwrap().start_up_ms, Some(200.0));
}

#[test]
fn frames_given_up_count_in_the_second_definition_of_the_delay() {
    let lossy = "links.near.loss=0.3";
    let flow = "paths = [\"near\"]\ndeadline = \"60 ms\"\nreassembly-wait = \"500 ms\"";
    let run = statistics(flow, &[lossy]);
    let frames = &run.flows[0].frames;
    assert!(frames.dropped > 50, "{frames:?}");
    let all = frames.delay_with_dropped_ms.unwrap();
    // Given up half a second after their first packet.
    assert!(all.mean > frames.delay_ms.unwrap().mean + 50.0);
}

/// Viewer and sender use the same flags, whatever the source: a lost frame costs the frames that
/// need it by its flags.
#[test]
fn lost_frames_cost_by_the_source_flags() {
    fn shares(source: &str) -> (f64, f64) {
        let flow = format!("paths = [\"near\"]\ndeadline = \"60 ms\"\nsource = \"{source}\"");
        let frames = &statistics(&flow, &["links.near.loss=0.03"]).flows[0].frames;
        assert!(frames.dropped > 0, "{source}: {frames:?}");
        let known = (frames.complete + frames.dropped) as f64;
        (
            frames.decodable_ratio.unwrap(),
            frames.complete as f64 / known,
        )
    }
    for source in ["gop", "live", "ideal", "cbr", "rfc8593"] {
        let (decodable, complete) = shares(source);
        assert!(
            decodable < 0.9 * complete,
            "{source}: {decodable} of {complete}"
        );
    }
    // A key frame no larger than others comes each second, so that losses do not last.
    for source in ["ideal", "cbr", "rfc8593"] {
        let (decodable, _) = shares(source);
        assert!(decodable > 0.1, "{source}: {decodable}");
    }
    for source in ["audio", "packets"] {
        let (decodable, complete) = shares(source);
        assert!(
            is_near(decodable, complete, 1e-12),
            "{source}: {decodable} of {complete}"
        );
    }
}

/// The outcomes of frames at the receiver are part of the hash, though they change no packet.
#[test]
fn runs_whose_frames_fare_differently_have_different_hashes() {
    let [long, same, short] = ["500 ms", "500 ms", "100 ms"].map(|wait| {
        let text = format!(
            "{NETWORK}[[flows]]\npaths = [\"near\"]\nsource = \"packets\"\ndeadline = \"60 ms\""
        );
        let settings = [
            "links.near.loss=0.1".to_owned(),
            format!("flow-defaults.reassembly-wait={wait}"),
        ];
        let scenario = Scenario::parse("test.toml", &text, &settings).unwrap();
        let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
        let run = report.runs[0].clone();
        (run.statistics.total.traffic.packets_sent, run.trace_hash)
    });
    assert_eq!(long, same);
    assert_eq!(long.0, short.0);
    assert_ne!(long.1, short.1);
}

/// Returns a film of 25 frames per second with a key frame each second, the others of one
/// importance.
fn film(importance: &str) -> String {
    let mut film = "index,time,bytes,type,importance\n".to_owned();
    for index in 0..50 {
        let time = f64::from(index) * 0.04;
        film += &match index % 25 {
            0 => format!("{index},{time:.3},30000,I,key\n"),
            _ => format!("{index},{time:.3},4000,?,{importance}\n"),
        };
    }
    film
}

fn played(film: &str, settings: &str, overrides: &[&str]) -> Result<Statistics, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.csv"), film).unwrap();
    let source = format!("source = {{ kind = \"trace\", file = \"film.csv\"{settings} }}");
    let flow = format!("[[flows]]\npaths = [\"near\"]\nstop = \"10 s\"\n{source}");
    let file = folder.path().join("test.toml").display().to_string();
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::parse(&file, &format!("{NETWORK}{flow}"), &overrides)
        .map_err(|error| error.to_string())?;
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    Ok(report.runs[0].statistics.clone())
}

#[test]
fn lost_reference_costs_dependent_frames() {
    // Key frames leave in time, and the receiver waits for them. Others are lost for good, since
    // their retransmissions come too late.
    let overrides = [
        "links.near.loss=0.05",
        "flow-defaults.deadline=45 ms",
        "flow-defaults.reassembly-wait=1 s",
    ];
    let shares = ["disposable", "reference"].map(|importance| {
        let film = film(importance).replace(",30000,", ",8000,");
        let run = played(&film, "", &overrides).unwrap();
        let frames = &run.flows[0].frames;
        assert!(frames.dropped >= 10, "{frames:?}");
        let known = (frames.complete + frames.dropped) as f64;
        let decodable = frames.decodable_ratio.unwrap();
        (decodable, frames.complete as f64 / known)
    });
    let [(decodable, complete), _] = shares;
    assert_eq!(decodable, complete);
    let [_, (decodable, complete)] = shares;
    assert!(decodable < 0.8 * complete, "{decodable} {complete}");
}

#[test]
fn a_film_plays_from_its_file() {
    let run = played(&film("reference"), "", &[]).unwrap();
    let flow = &run.flows[0];
    assert_eq!((flow.frames.captured, flow.frames.complete), (250, 250));
    // 30 kB and 24 times 4 kB a second.
    assert_eq!(flow.goodput_bits_per_second, 126_000.0 * 8.0);
    let error = played(&film("reference"), ", fps = 25", &[]).unwrap_err();
    assert!(error.contains("the file has the frames' times"), "{error}");
    assert!(played(&film("reference"), ", max = \"2 Mbit/s\"", &[]).is_ok());
}

#[test]
fn the_settings_of_stored_video_are_checked() {
    for (settings, message) in [
        ("pattern = \"PIB\"", "must be an I"),
        ("noise = 0.1", "needs a pattern"),
        ("pattern = \"IBP\", key-ratio = 3", "\"ratio\" gives all"),
        ("pattern = \"IBP\", key-on-loss = true", "hears of no loss"),
        ("pattern = \"IBP\", b-frames = 1", "the pattern has"),
        ("b-frames = 1, ratio = \"6:2\"", "three numbers"),
        ("rate = \"1 Mbit/s\", max = \"2 Mbit/s\"", "no range"),
    ] {
        let source = format!("source = {{ kind = \"gop\", {settings} }}");
        let text = format!("{NETWORK}[[flows]]\npaths = [\"near\"]\n{source}");
        let error = Scenario::parse("test.toml", &text, &[]).unwrap_err();
        assert!(error.to_string().contains(message), "{settings}: {error}");
    }
}

/// A film of 10 s at 4 Mbit/s over two paths of 3 Mbit/s or less.
const FILM: &str = r#"
duration = "20 s"
[links.wifi]
rate = "3 Mbit/s"
delay = "10 ms"
queue = "100 ms"
[links.lte]
rate = "3 Mbit/s"
delay = "25 ms"
queue = "100 ms"
[links.back]
delay = "20 ms"
[routes.wifi]
forward = ["wifi"]
reverse = ["back"]
[routes.lte]
forward = ["lte"]
reverse = ["back"]
[[flows]]
name = "film"
kind = "download"
controller = "cubic"
paths = ["wifi", "lte"]
source = { kind = "ideal", min = "4 Mbit/s", max = "4 Mbit/s" }
length = "10 s"
"#;

fn of_film(overrides: &[&str]) -> FlowStatistics {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::parse("film.toml", FILM, &overrides).unwrap();
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    report.runs[0].statistics.flows[0].clone()
}

#[test]
fn a_film_that_comes_faster_than_it_plays_is_seen_whole_and_one_that_does_not_stalls() {
    let film = of_film(&[]);
    let (path_switches, transfers) = (film.segment_path_switches, film.transfers);
    let download = film.download.unwrap();
    assert_eq!((download.displayed, download.discarded), (250, 0));
    assert_eq!((download.underflows, download.stall_time_ms), (1, 0.0));
    assert!(path_switches > 1_000 && transfers == 1, "{path_switches}");
    let start_up = download.start_up_ms.unwrap();
    assert!((700.0..1_200.0).contains(&start_up), "{start_up}");
    let film = of_film(&["flows.0.paths=[\"wifi\"]"]);
    let (download, path_switches) = (film.download.unwrap(), film.segment_path_switches);
    assert!(
        download.underflows > 1 && path_switches == 0,
        "{download:?}"
    );
    // The film takes at least 13.7 s to arrive, of which at most 10 are watched. Each time that the
    // player waits for a second of film, it may begin up to a second later than necessary.
    let stalled = download.stall_time_ms + download.start_up_ms.unwrap();
    assert!((3_700.0..7_200.0).contains(&stalled), "{download:?}");
}

/// A viewer that is far enough ahead takes no more: the stream's window closes, and opens again.
#[test]
fn no_more_of_a_film_comes_than_ten_seconds_ahead() {
    let overrides = ["flows.0.length=\"60 s\"", "duration=\"10 s\""].map(str::to_owned);
    let scenario = Scenario::parse("film.toml", FILM, &overrides).unwrap();
    let fast = FILM.replace("3 Mbit/s", "30 Mbit/s");
    let fast = Scenario::parse("film.toml", &fast, &overrides).unwrap();
    fn goodput(scenario: &Scenario) -> f64 {
        let report = run(scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
        report.runs[0].statistics.flows[0].goodput_bits_per_second / 1e6
    }
    assert!(goodput(&scenario) > 5.0);
    // In ten seconds, not quite twenty of the film.
    assert!((7.0..8.0).contains(&goodput(&fast)), "{}", goodput(&fast));
    // Or twelve, of one that reads two seconds ahead.
    let overrides = [&overrides[..], &["flows.0.read-ahead=\"2 s\"".to_owned()]].concat();
    let text = FILM.replace("3 Mbit/s", "30 Mbit/s");
    let timid = goodput(&Scenario::parse("film.toml", &text, &overrides).unwrap());
    assert!((4.4..4.9).contains(&timid), "{timid}");
}

/// Windows, rates and round trips by path over time; for a single path the flow's suffice.
#[test]
fn the_series_of_a_film_have_each_of_its_paths() {
    fn series(overrides: &[String]) -> (FlowSeries, u64) {
        let scenario = Scenario::parse("film.toml", FILM, overrides).unwrap();
        let options = RunOptions {
            series_interval: Some(Duration::from_millis(500)),
            ..RunOptions::seeds(1)
        };
        let outcomes = run_outcomes(&scenario, &options, &|_| ()).unwrap();
        let mut flows = outcomes[0].series.clone().unwrap().flows;
        (flows.remove(0), scenario.duration.as_millis() / 500)
    }
    let (flow, count) = series(&[]);
    let routes: Vec<&str> = flow.paths.iter().map(|path| &*path.route).collect();
    assert_eq!(routes, ["wifi", "lte"]);
    for path in &flow.paths {
        for list in [
            &path.sent_bytes,
            &path.delivered_bytes,
            &path.congestion_window_bytes,
            &path.bytes_in_flight,
            &path.smoothed_rtt_nanos,
        ] {
            assert_eq!(list.len() as u64, count, "{}", path.route);
        }
        // Both are full from the third second to the sixth.
        let busy = 6..12;
        let window = &path.congestion_window_bytes[busy.clone()];
        assert!(window.iter().all(|bytes| *bytes > 15_000), "{window:?}");
        let arrived: u64 = path.delivered_bytes[busy.clone()].iter().sum();
        assert!((800_000..1_130_000).contains(&arrived), "{arrived}");
        let rtt = path.smoothed_rtt_nanos[8] / 1_000_000;
        assert!((40..160).contains(&rtt), "{rtt} ms");
    }
    for index in 0..count as usize {
        let sent = flow.paths.iter().map(|path| path.sent_bytes[index]);
        assert_eq!(sent.sum::<u64>(), flow.sent_bytes[index]);
        let delivered = flow.paths.iter().map(|path| path.delivered_bytes[index]);
        assert_eq!(delivered.sum::<u64>(), flow.delivered_bytes[index]);
    }
    assert!(
        (1_200..=1_500).contains(&flow.packet_bytes),
        "{}",
        flow.packet_bytes
    );
    let (alone, _) = series(&["flows.0.paths=[\"wifi\"]".to_owned()]);
    assert!(alone.paths.is_empty() && alone.packet_bytes == flow.packet_bytes);
}

#[test]
fn bytes_wait_for_those_before_them_by_how_much_later_the_other_path_is() {
    fn waited(overrides: &[&str]) -> HeadOfLineStatistics {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let scenario = Scenario::parse("film.toml", FILM, &overrides).unwrap();
        let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
        let statistics = report.runs[0].statistics.clone();
        assert_eq!(
            statistics.total.head_of_line,
            statistics.flows[0].head_of_line
        );
        statistics.flows[0].head_of_line.unwrap()
    }
    // One path that loses nothing keeps the order.
    let wide = ["links.wifi.rate=9 Mbit/s", "links.wifi.queue=4 MB"];
    let alone = waited(&[&["flows.0.paths=[\"wifi\"]"], &wide[..]].concat());
    assert_eq!((alone.mean_ms, alone.max_ms), (0.0, 0.0));
    // Every other packet arrives 80 ms later by a path that is otherwise as wide, and no queue
    // forms: the packets between wait for it.
    let lte = [
        "links.lte.rate=9 Mbit/s",
        "links.lte.delay=90 ms",
        "links.lte.queue=4 MB",
    ];
    let window = [
        "flows.0.controller=fixed",
        "flow-defaults.fixed-rate=2300 kbit/s",
    ];
    let turns = ["flows.0.scheduler=round-robin"];
    let both = waited(&[&wide[..], &lte, &window, &turns].concat());
    assert!(is_near(both.max_ms, 80.0, 12.0), "{both:?}");
    assert!(is_near(both.mean_ms, 40.0, 6.0), "{both:?}");
}
