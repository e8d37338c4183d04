//! The judges, tried with made-up runs: they confirm the paper's observations, and each sentence of
//! it can fail.

use std::sync::Arc;

use anabranch_core::SendReason;
use anabranch_lab::metrics::{
    DownloadStatistics, FlowSeries, FlowStatistics, HeadOfLineStatistics, PathSeries,
    PathStatistics, ReasonTraffic, Series,
};

use super::CLAIMS;
use super::bench::{EQUAL, Video, resent};
use crate::case::Case;
use crate::claim::Claim;
use crate::evidence::Evidence;
use crate::judgement::Verdict;
use crate::record::RunRecord;

/// Counts of the viewer of a whole film, and the origin of its packets.
#[derive(Clone, Copy, Debug)]
struct Captured {
    discards: f64,
    underflows: u64,
    /// Packets resent by flow 2, and by flow 1.
    resent: u64,
    resent_by_1: u64,
    /// The share of the longer path, in per cent.
    longer: u64,
    waited_ms: f64,
    /// Window of each flow, in packets.
    window: u64,
}

/// Change of the paper's observations, with these variants, schedulers and networks; empty for any.
type Change = (&'static str, &'static str, &'static str, fn(&mut Captured));

/// Returns the paper's observations, with numbers that are ours.
fn paper(variant: &str, scheduler: &str, network: &str) -> Captured {
    let discards = match (variant, network, scheduler) {
        ("cubic" | "compound" | "new-reno", "200/100 ms", _) => 60.0,
        ("cubic" | "compound" | "new-reno", ..) => 10.0,
        ("ccp", _, "lpc") => 90.0,
        ("ccp", ..) => 190.0,
        ("lia", "200/100 ms", _) => 70.0,
        ("lia", ..) => 195.0,
        ("olia", "200/100 ms", _) => 60.0,
        ("olia", "100/100 ms", "spd") => 120.0,
        ("olia", "100/100 ms", _) => 50.0,
        ("olia", "100/200 ms", "lpc") => 160.0,
        ("olia", ..) => 90.0,
        _ => 0.0,
    };
    let resent = match (variant, scheduler) {
        ("ccp", "lpc") => 9_000,
        ("ccp", _) => 5_000,
        _ => 1_000,
    };
    Captured {
        discards,
        underflows: if variant == "compound" { 3 } else { 1 },
        resent,
        resent_by_1: resent / 2,
        longer: if scheduler == "spd" { 10 } else { 45 },
        waited_ms: if network == "100/100 ms" { 5.0 } else { 9.0 },
        window: if variant.ends_with("lia") { 15 } else { 20 },
    }
}

fn path(new: u64, resent: u64) -> PathStatistics {
    let mut path = PathStatistics::default();
    let reasons = [
        (SendReason::New, new),
        (SendReason::Lost, resent),
        (SendReason::Reinjection, 70_000),
    ];
    path.traffic
        .reasons
        .extend(reasons.map(|(reason, packets)| ReasonTraffic {
            reason: reason.name().to_owned(),
            packets,
            bytes: 0,
        }));
    path.traffic.packets_retransmitted = resent + 70_000;
    path.traffic.packets_sent = 200_000;
    path
}

/// Makes a run with these counts.
fn run(seen: Captured, network: &str) -> RunRecord {
    let shares = match network {
        "200/100 ms" => [seen.longer, 100 - seen.longer],
        _ => [100 - seen.longer, seen.longer],
    };
    let paths = vec![
        path(shares[0], seen.resent_by_1),
        path(shares[1], seen.resent),
    ];
    let download = DownloadStatistics {
        discarded: seen.discards as u64,
        underflows: seen.underflows,
        start_up_ms: Some(1_000.0),
        ..DownloadStatistics::default()
    };
    let flow = FlowStatistics {
        download: Some(download),
        head_of_line: Some(HeadOfLineStatistics {
            mean_ms: seen.waited_ms,
            max_ms: 100.0,
        }),
        paths,
        ..FlowStatistics::default()
    };
    let windows = PathSeries {
        congestion_window_bytes: vec![seen.window * 1_000; 90],
        ..PathSeries::default()
    };
    let flow_series = FlowSeries {
        packet_bytes: 1_000,
        paths: vec![windows.clone(), windows],
        ..FlowSeries::default()
    };
    let series = Series {
        interval_ms: 1_000,
        flows: vec![flow_series],
        ..Series::default()
    };
    let mut statistics = RunRecord::default().statistics;
    statistics.flows.push(flow);
    RunRecord::new(statistics, Vec::new(), 0, series)
}

fn verdict(claim: &Claim, changes: &[Change]) -> (Verdict, Vec<String>) {
    let scenario = Case::new("", "equal.toml", EQUAL.text).scenario().unwrap();
    let mut evidence = Evidence::default();
    for case in (claim.cases)(claim.subject.name()) {
        let parts: Vec<&str> = case.name.split(", ").collect();
        let [variant, scheduler, network, ..] = parts[..] else {
            panic!("{}", case.name);
        };
        let mut seen = paper(variant, scheduler, network);
        for (of, by, on, change) in changes {
            let mut pairs = [(of, variant), (by, scheduler), (on, network)].into_iter();
            if pairs.all(|(pattern, name)| pattern.is_empty() || *pattern == name) {
                change(&mut seen);
            }
        }
        let record = Arc::new(run(seen, network));
        evidence.add(case.name.clone(), &scenario, vec![record]);
    }
    let judgement = (claim.judge)(&evidence);
    let unmet = judgement
        .expects
        .iter()
        .filter(|expect| !expect.is_met)
        .map(|expect| expect.text.clone())
        .collect();
    (judgement.verdict(), unmet)
}

fn claim(id: &str) -> &'static Claim {
    CLAIMS
        .iter()
        .find(|claim| claim.id == id)
        .expect("it is one")
}

#[test]
fn the_observations_of_the_paper_hold() {
    for claim in CLAIMS.iter().filter(|claim| claim.id != "S3-C4") {
        let (verdict, unmet) = verdict(claim, &[]);
        assert_eq!(verdict, Verdict::Holds, "{}: {unmet:#?}", claim.id);
    }
    // Its figures say that schedulers matter, its conclusion that they do not: only one can be
    // true.
    let (with_figures, _) = verdict(claim("S3-C4"), &[]);
    assert_eq!(with_figures, Verdict::Differs);
    let alike: Change = ("", "", "", |seen| seen.discards = 50.0);
    assert_eq!(verdict(claim("S3-C4"), &[alike]).0, Verdict::Holds);
}

#[test]
fn each_sentence_can_fail() {
    fn good(seen: &mut Captured) {
        seen.discards = 10.0;
    }
    fn bad(seen: &mut Captured) {
        seen.discards = 195.0;
    }
    fn resends(seen: &mut Captured) {
        seen.resent = 20_000;
    }
    let changes: [(&str, Change); 38] = [
        ("S3-F4", ("lia", "", "", good)),
        ("S3-F4", ("olia", "", "", good)),
        ("S3-F4", ("ccp", "", "", good)),
        ("S3-F4", ("compound", "", "", bad)),
        ("S3-F5", ("olia", "lpc", "", bad)),
        ("S3-F5", ("compound", "lpc", "", bad)),
        ("S3-F6", ("olia", "let", "", bad)),
        ("S3-F6", ("olia", "let-delivered", "", bad)),
        ("S3-F6", ("compound", "let", "", bad)),
        ("S3-F6", ("compound", "let-delivered", "", bad)),
        ("S3-F7", ("olia", "", "", good)),
        ("S3-F7", ("ccp", "", "", good)),
        ("S3-F8", ("ccp", "lpc", "", bad)),
        ("S3-F8", ("ccp", "spd", "", resends)),
        ("S3-F8", ("olia", "lpc", "", good)),
        ("S3-F8", ("cubic", "lpc", "", bad)),
        ("S3-F9", ("compound", "let", "", bad)),
        ("S3-F9", ("compound", "let-delivered", "", bad)),
        ("S3-F10", ("lia", "", "", bad)),
        ("S3-F10", ("ccp", "", "", good)),
        ("S3-F11", ("ccp", "lpc", "", bad)),
        ("S3-F11", ("ccp", "spd", "", resends)),
        ("S3-F11", ("lia", "lpc", "", bad)),
        ("S3-F12", ("lia", "let", "", bad)),
        ("S3-F12", ("olia", "let-delivered", "", bad)),
        ("S3-C1", ("ccp", "lpc", "", bad)),
        ("S3-C1", ("lia", "spd", "", good)),
        ("S3-C2", ("olia", "lpc", "", bad)),
        ("S3-C6", ("cubic", "let", "", bad)),
        (
            "S3-C6",
            ("lia", "lpc", "200/100 ms", |seen| seen.discards = 0.0),
        ),
        ("S3-C7", ("compound", "", "100/200 ms", resends)),
        ("S3-C8", ("new-reno", "", "200/100 ms", bad)),
        ("S3-C9", ("lia", "", "", |seen| seen.window = 22)),
        (
            "S3-C10",
            ("", "", "100/200 ms", |seen| seen.resent_by_1 = 9_500),
        ),
        (
            "S3-C10",
            ("lia", "", "100/100 ms", |seen| seen.resent = 20_001),
        ),
        ("S3-C11", ("compound", "", "", |seen| seen.underflows = 1)),
        ("S3-all", ("lia", "", "", good)),
        ("S3-C9", ("olia", "", "100/200 ms", |seen| seen.window = 22)),
    ];
    for (id, change) in changes {
        let (verdict, _) = verdict(claim(id), &[change]);
        assert_eq!(
            verdict,
            Verdict::Differs,
            "{id}: {:?}",
            (change.0, change.1)
        );
    }
}

#[test]
fn shares_of_paths_mirrored_networks_and_waiting_can_fail_too() {
    let even: Change = ("", "spd", "", |seen| seen.longer = 40);
    assert_eq!(verdict(claim("S3-C3"), &[even]).0, Verdict::Differs);
    let more: Change = ("", "lpc", "", |seen| seen.longer = 5);
    assert_eq!(verdict(claim("S3-C3"), &[more]).0, Verdict::Differs);
    let mirrored: Change = ("", "", "", |seen| seen.discards = 100.0);
    assert_eq!(verdict(claim("S3-C5"), &[mirrored]).0, Verdict::Differs);
    let sooner: Change = ("", "", "100/200 ms", |seen| seen.waited_ms = 4.0);
    assert_eq!(verdict(claim("S3-m3"), &[sooner]).0, Verdict::Differs);
}

#[test]
fn bars_beyond_the_axes_are_not_the_papers() {
    let beyond: Change = ("cubic", "", "", |seen| seen.discards = 201.0);
    let (_, unmet) = verdict(claim("S3-F9"), &[beyond]);
    assert_eq!(unmet, Vec::<String>::new(), "100/200 ms: to 250");
    let (_, unmet) = verdict(claim("S3-F5"), &[beyond]);
    assert!(
        unmet.iter().all(|text| text.contains("most events")),
        "{unmet:#?}"
    );
    assert_eq!(unmet.len(), 2);
}

#[test]
fn discards_come_first_and_underflows_decide_between_likes() {
    fn video(discards: f64, underflows: f64) -> Video {
        Video {
            discards,
            underflows,
        }
    }
    assert!(video(0.0, 50.0).is_better_than(&video(31.0, 0.0)));
    assert!(video(0.0, 10.0).is_like(&video(30.0, 0.0)));
    assert!(video(30.0, 0.0).is_better_than(&video(0.0, 11.0)));
    // A quarter of the larger.
    assert!(video(300.0, 0.0).is_like(&video(400.0, 0.0)));
    assert!(video(299.0, 0.0).is_better_than(&video(400.0, 0.0)));
}

#[test]
fn copies_on_another_flow_are_no_retransmissions() {
    let seen = paper("ccp", "lpc", "100/100 ms");
    let run = run(seen, "100/100 ms");
    assert_eq!(resent(&run.statistics.flows[0].paths[1]), 9_000.0);
}
