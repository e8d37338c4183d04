//! The judges, tried with films like the paper's and with films that differ from these in one
//! thing.

use std::sync::Arc;

use super::{CLAIMS, Reading, Scenario};
use crate::claim::Claim;
use crate::evidence::Evidence;
use crate::judgement::Verdict;
use crate::record::RunRecord;
use anabranch_lab::metrics::{
    DownloadStatistics, FlowSeries, FlowStatistics, PathSeries, Series, Statistics,
};

const PACKET: u64 = 1_500;

/// Makes a run whose viewer has counted these.
pub(super) fn seen(underflows: u64, discarded: u64) -> RunRecord {
    let download = DownloadStatistics {
        underflows,
        discarded,
        ..DownloadStatistics::default()
    };
    let mut run = RunRecord::default();
    run.statistics.flows.push(FlowStatistics {
        download: Some(download),
        ..FlowStatistics::default()
    });
    run
}

/// A film: counts, windows in packets, rates in kbit/s.
#[derive(Clone, Copy, Debug)]
struct Film {
    underflows: u64,
    discarded: u64,
    /// Window of the Wi-Fi, without the delay and with it.
    window: [u64; 2],
    rate: [u64; 2],
    lte_rate: u64,
    switches: u64,
}

/// Returns a film like that of the paper's figures.
fn paper(scenario: Scenario, is_bbr: bool) -> Film {
    let excellent = Film {
        underflows: 1,
        discarded: 0,
        window: [100, 100],
        rate: [2_700, 2_700],
        lte_rate: 2_700,
        switches: 10_000,
    };
    match (scenario, is_bbr) {
        (Scenario::A, true) => Film {
            window: [15, 40],
            switches: 20_000,
            ..excellent
        },
        (Scenario::A, false) => excellent,
        (Scenario::B, true) => Film {
            underflows: 3,
            discarded: 80,
            window: [15, 40],
            rate: [2_500, 2_300],
            lte_rate: 2_900,
            switches: 30_000,
        },
        (Scenario::C, true) => Film {
            underflows: 9,
            discarded: 200,
            window: [15, 15],
            rate: [2_400, 1_400],
            lte_rate: 2_900,
            switches: 40_000,
        },
        (_, false) => Film {
            underflows: 5,
            discarded: 30,
            ..excellent
        },
    }
}

fn run(film: Film, phase_s: u64) -> RunRecord {
    fn by_second(of: [u64; 2], phase_s: u64) -> Vec<u64> {
        fn phase(second: u64, phase_s: u64) -> u64 {
            second / phase_s % 2
        }
        (0..180)
            .map(|second| of[phase(second, phase_s) as usize])
            .collect()
    }
    fn path(window: [u64; 2], rate: [u64; 2], phase_s: u64) -> PathSeries {
        let windows = by_second(window.map(|packets| packets * PACKET), phase_s);
        PathSeries {
            bytes_in_flight: windows.clone(),
            congestion_window_bytes: windows,
            delivered_bytes: by_second(rate.map(|kbits| kbits * 125), phase_s),
            ..PathSeries::default()
        }
    }
    let flow = FlowSeries {
        packet_bytes: PACKET,
        paths: vec![
            path(film.window, film.rate, phase_s),
            path([200; 2], [film.lte_rate; 2], phase_s),
        ],
        ..FlowSeries::default()
    };
    let mut flow_statistics = FlowStatistics {
        segment_path_switches: film.switches,
        download: Some(DownloadStatistics {
            underflows: film.underflows,
            discarded: film.discarded,
            ..DownloadStatistics::default()
        }),
        ..FlowStatistics::default()
    };
    flow_statistics.traffic.packets_sent = 90_000;
    let mut statistics = Statistics::default();
    statistics.flows.push(flow_statistics);
    let series = Series {
        interval_ms: 1_000,
        flows: vec![flow],
        ..Series::default()
    };
    RunRecord::new(statistics, Vec::new(), film.switches, series)
}

fn claim(id: &str) -> &'static Claim {
    let found = CLAIMS.iter().find(|claim| claim.id == id);
    found.unwrap_or_else(|| panic!("no claim is called {id}"))
}

/// Returns the verdict on films by the names of their cases.
fn verdict_by_name(id: &str, film: impl Fn(&str) -> (Film, u64)) -> Verdict {
    let claim = claim(id);
    let cases = (claim.cases)(claim.subject.name());
    let scenario = cases[0]
        .scenario()
        .unwrap_or_else(|error| panic!("{error}"));
    let mut evidence = Evidence::default();
    for case in cases {
        let (film, phase_s) = film(&case.name);
        evidence.add(case.name, &scenario, vec![Arc::new(run(film, phase_s))]);
    }
    (claim.judge)(&evidence).verdict()
}

/// Returns the verdict on a figure, of films by scenario and by whether they are BBR's.
fn verdict(id: &str, film: impl Fn(Scenario, bool) -> Film) -> Verdict {
    verdict_by_name(id, |name| {
        let scenario = match &name[..1] {
            "A" => Scenario::A,
            "B" => Scenario::B,
            _ => Scenario::C,
        };
        let reading = if name.contains(Reading::Both.name()) {
            Reading::Both
        } else {
            Reading::Each
        };
        let film = film(scenario, !name.contains("Cubic"));
        (film, reading.phase_s(scenario))
    })
}

const FIGURES: [&str; 12] = [
    "S1-F4", "S1-F5ab", "S1-F5cd", "S1-F6", "S1-F7ab", "S1-F7cd", "S1-F8", "S1-F9ab", "S1-F9cd",
    "S1-F10", "S1-C2", "S1-all",
];

#[test]
fn films_as_the_paper_has_them_make_every_figure_hold() {
    for id in FIGURES {
        assert_eq!(verdict(id, paper), Verdict::Holds, "{id}");
    }
}

#[test]
fn swapping_bbr_and_cubic_breaks_their_claims() {
    for id in FIGURES {
        let expected = if ["S1-F4", "S1-F5cd"].contains(&id) {
            Verdict::Holds
        } else {
            Verdict::Differs
        };
        let found = verdict(id, |scenario, is_bbr| paper(scenario, !is_bbr));
        assert_eq!(found, expected, "{id}");
    }
}

/// A figure differs once one of the things that it shows does.
#[test]
fn one_thing_is_enough_to_differ() {
    type Change = fn(&mut Film);
    let changes: [(&str, Scenario, bool, Change); 26] = [
        ("S1-F4", Scenario::A, true, |film| film.underflows = 2),
        ("S1-F4", Scenario::A, false, |film| film.discarded = 1),
        ("S1-F5ab", Scenario::A, true, |film| film.window = [60, 120]),
        ("S1-F5ab", Scenario::A, true, |film| film.window = [30, 40]),
        ("S1-F5ab", Scenario::A, false, |film| {
            film.window = [80, 130]
        }),
        ("S1-F5cd", Scenario::A, true, |film| film.lte_rate = 3_400),
        ("S1-F5cd", Scenario::A, false, |film| film.lte_rate = 2_100),
        ("S1-F5cd", Scenario::A, false, |film| {
            (film.rate, film.lte_rate) = ([2_600; 2], 2_600);
        }),
        ("S1-F6", Scenario::B, true, |film| film.underflows = 5),
        ("S1-F6", Scenario::B, true, |film| film.discarded = 30),
        ("S1-F6", Scenario::B, false, |film| film.underflows = 1),
        ("S1-F7ab", Scenario::B, true, |film| film.window = [50, 80]),
        ("S1-F7ab", Scenario::B, true, |film| film.window = [30, 40]),
        ("S1-F7cd", Scenario::B, true, |film| {
            film.rate = [2_700, 2_650]
        }),
        ("S1-F7cd", Scenario::B, true, |film| film.lte_rate = 2_750),
        ("S1-F8", Scenario::C, true, |film| film.discarded = 60),
        ("S1-F8", Scenario::C, false, |film| film.underflows = 8),
        ("S1-F9ab", Scenario::C, true, |film| film.window = [21, 21]),
        ("S1-F9ab", Scenario::C, true, |film| film.window = [10, 16]),
        ("S1-F9ab", Scenario::C, false, |film| {
            film.window = [130, 130]
        }),
        ("S1-F9cd", Scenario::C, true, |film| {
            film.rate = [2_400, 2_000]
        }),
        ("S1-F9cd", Scenario::C, true, |film| film.lte_rate = 3_400),
        ("S1-F9cd", Scenario::A, true, |film| film.lte_rate = 2_400),
        ("S1-F10", Scenario::A, true, |film| film.switches = 9_999),
        ("S1-F10", Scenario::A, true, |film| film.lte_rate = 2_400),
        ("S1-C2", Scenario::C, true, |film| film.switches = 29_000),
    ];
    for (place, (id, scenario, is_bbr, change)) in changes.into_iter().enumerate() {
        let found = verdict(id, |other, is_other_bbr| {
            let mut film = paper(other, is_other_bbr);
            if (other, is_other_bbr) == (scenario, is_bbr) {
                change(&mut film);
            }
            film
        });
        assert_eq!(found, Verdict::Differs, "{id}, change {place}");
    }
}

/// A network in which Fig. 4 is not seen is not the paper's.
#[test]
fn where_figure_4_is_not_met_no_other_figure_can_be_known() {
    for id in FIGURES {
        let expected = match id {
            "S1-F4" => Verdict::Differs,
            // It counts figures.
            "S1-all" => Verdict::Differs,
            _ => Verdict::CannotBeKnown,
        };
        let found = verdict(id, |scenario, is_bbr| {
            let mut film = paper(scenario, is_bbr);
            if scenario == Scenario::A && !is_bbr {
                film.underflows = 2;
            }
            film
        });
        assert_eq!(found, expected, "{id}");
    }
}

#[test]
fn switches_are_up_to_four_times_as_many_and_not_eight() {
    for (factor, expected) in [(4, Verdict::Holds), (8, Verdict::Differs)] {
        let found = verdict("S1-F10", |_, is_bbr| Film {
            switches: if is_bbr { factor * 5_000 } else { 5_000 },
            ..paper(Scenario::A, is_bbr)
        });
        assert_eq!(found, expected, "{factor}");
    }
}

/// These are the claims whose cases have other names.
#[test]
fn claims_without_figures_use_their_own_films() {
    fn narrow(film: Film) -> Verdict {
        verdict_by_name("S1-C1", move |_| (film, 5))
    }

    fn mended(new: Film, bad: Film) -> Verdict {
        verdict_by_name("S1-C3", move |name| {
            (
                if name.starts_with("default") {
                    bad
                } else {
                    new
                },
                5,
            )
        })
    }

    let good = paper(Scenario::A, true);
    let bad = paper(Scenario::C, true);
    assert_eq!(mended(good, bad), Verdict::Holds);
    assert_eq!(mended(bad, bad), Verdict::Differs);
    for worse in [
        Film {
            switches: 50_000,
            ..good
        },
        Film {
            rate: [1_800; 2],
            ..good
        },
        Film {
            discarded: 201,
            ..good
        },
    ] {
        assert_eq!(mended(worse, bad), Verdict::Differs, "{worse:?}");
    }
    fn lossy(bbr: Film, cubic: Film) -> Verdict {
        verdict_by_name("S1-C4", move |name| {
            (if name.starts_with("BBR") { bbr } else { cubic }, 5)
        })
    }
    assert_eq!(lossy(good, bad), Verdict::Holds);
    assert_eq!(lossy(bad, good), Verdict::Differs);
    let near = Film {
        rate: [900; 2],
        lte_rate: 4_500,
        ..good
    };
    assert_eq!(narrow(near), Verdict::Holds);
    assert_eq!(
        narrow(Film {
            rate: [2_700; 2],
            ..near
        }),
        Verdict::Differs
    );
    assert_eq!(
        narrow(Film {
            window: [150; 2],
            ..near
        }),
        Verdict::Differs
    );
}
