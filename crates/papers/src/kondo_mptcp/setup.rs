//! Tables I and II, Fig. 3: the tested network.

use anabranch_link::LinkConfig;
use anabranch_units::{DataRate, Duration, Instant, Seed};

use super::{BBR, CUBIC, PAPER, Reading, SCENARIOS, SPACE, Scenario, Who, case};
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Expect, Judgement};
use anabranch_lab::{FlowKind, Scenario as File};

pub(super) const TABLES: Claim = Claim {
    id: "S1-T2",
    paper: &PAPER,
    figure: "Tables I and II, Fig. 3",
    claim: "A film of 5.24 Mbit/s and three minutes by HTTP, over Wi-Fi and LTE of 3 Mbit/s, with \
            BBR or CUBIC under the default scheduler; the Wi-Fi's delay grows by 60 ms in cycles \
            of 60, 20 and 10 s.",
    criterion: "",
    basis: Basis::SetUp,
    subject: Subject::Scenario,
    cases: |_| Vec::new(),
    judge: |_| {
        let mut judgement = Judgement::new();
        for scenario in SCENARIOS {
            for reading in [Reading::Both, Reading::Each] {
                let is_so = [Who::Bbr, Who::Cubic].into_iter().all(|who| {
                    let file = case(scenario, reading, who, BBR).scenario();
                    file.is_ok_and(|file| is_as_printed(&file, who, scenario, reading))
                });
                let text = format!("scenario {scenario:?} ({}) is as printed", reading.name());
                judgement.expect(Expect::that(text, is_so));
            }
        }
        let all = SPACE
            .points()
            .into_iter()
            .map(|point| SPACE.at(&case(Scenario::A, Reading::Both, Who::Bbr, BBR), &point));
        let are_films = all.filter(|case| case.scenario().is_ok_and(|file| is_film(&file)));
        let text = "at all points the film is the same";
        judgement.expect(Expect::that(
            text,
            are_films.count() == SPACE.points().len(),
        ));
        judgement
    },
};

fn is_film(file: &File) -> bool {
    let FlowKind::Download(film) = &file.flows[0].kind else {
        return false;
    };
    let bytes = film.film(Seed(1)).map_or(0, |film| film.byte_count());
    let expected = DataRate::from_kilobits_per_second(5240).bytes_in(Duration::from_secs(180));
    film.length == Duration::from_secs(180) && bytes.abs_diff(expected) < expected / 100
}

fn link<'a>(file: &'a File, name: &str) -> &'a LinkConfig {
    let found = file.links.iter().find(|link| link.name == name);
    &found.expect("the scenario has it").config
}

fn is_as_printed(file: &File, who: Who, scenario: Scenario, reading: Reading) -> bool {
    let controller = match who {
        Who::Cubic => CUBIC,
        _ => BBR,
    };
    let flow = &file.flows[0];
    let phase = Duration::from_secs(reading.phase_s(scenario));
    let changes = &link(file, "wifi-air").delay_schedule;
    let expected = (1..).map(|index| {
        let is_on = index % 2 == 1;
        let delay = Duration::from_millis(if is_on { 60 } else { 0 });
        (Instant::ZERO + phase * index, delay)
    });
    let last = Instant::ZERO + Duration::from_secs(190);
    is_film(file)
        && flow.controller() == controller
        && flow.scheduler() == "spd"
        && ["wifi", "lte"].iter().all(|name| {
            let link = link(file, name);
            link.rate == Some(DataRate::from_megabits_per_second(3)) && link.delay == Duration::ZERO
        })
        && changes.last().is_some_and(|(at, _)| *at >= last)
        && changes
            .iter()
            .copied()
            .zip(expected)
            .all(|(change, expected)| change == expected)
}
