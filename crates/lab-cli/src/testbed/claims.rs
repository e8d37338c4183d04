//! The papers' claims, judged over films of the kernel and of the simulator alike.

use anabranch_papers::selected;

use super::films::{Film, Group, World};
use super::networks::Testbed;

/// Difference of rates that a figure shows.
const VISIBLE: f64 = 0.02;
/// Part of a rate that is much less.
const MUCH_LESS: f64 = 0.8;
/// Rates of both paths are alike within this factor.
const ALIKE_RATES: f64 = 1.25;
/// Pictures and underflows of a whole film within which videos are alike, and the part.
const ALIKE_PICTURES: f64 = 30.0;
const ALIKE_PART: f64 = 0.25;

/// A claim beside both worlds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) id: &'static str,
    pub(super) text: &'static str,
    pub(super) kernel: String,
    pub(super) simulator: String,
}

/// Sentence of a claim, and whether it is so.
type Sentence = (String, bool);
/// Test of a claim; `None`: a row is missing.
type Test = fn(&Films<'_>) -> Option<Vec<Sentence>>;

/// Tests, by the claims' names in `anabranch-lab reproduce`.
const TESTS: &[(&str, Test)] = &[
    ("S1-F4", |films| {
        let mut sentences = Vec::new();
        for (name, row) in [("BBR", "bbr"), ("CUBIC", "cubic")] {
            let video = films.video("A", row)?;
            let is_smooth = video.underflows < 0.5 && video.discards < 0.5;
            sentences.push((format!("{name} {video}"), is_smooth));
        }
        Some(sentences)
    }),
    ("S1-F5cd", |films| {
        let mut sentences = Vec::new();
        for row in ["bbr", "cubic"] {
            let (wifi, lte) = films.rates("A", row)?;
            let ratio = wifi / lte;
            let is_alike = (1.0 / ALIKE_RATES..=ALIKE_RATES).contains(&ratio);
            sentences.push((format!("{row}: {wifi:.2} + {lte:.2} Mbit/s"), is_alike));
        }
        Some(sentences)
    }),
    ("S1-F6", |films| {
        let (bbr, cubic) = (films.video("B", "bbr")?, films.video("B", "cubic")?);
        let worse =
            |row: &str, video: &Video| Some(video.is_no_better_than(&films.video("A", row)?));
        Some(vec![
            (format!("BBR worse than in A: {bbr}"), worse("bbr", &bbr)?),
            (
                format!("CUBIC worse than in A: {cubic}"),
                worse("cubic", &cubic)?,
            ),
            (
                "BBR has fewer underflows and more discards".to_owned(),
                bbr.underflows < cubic.underflows && bbr.discards > cubic.discards,
            ),
        ])
    }),
    ("S1-F7cd", |films| {
        let (bbr, cubic) = (films.rates("B", "bbr")?, films.rates("B", "cubic")?);
        Some(vec![
            (
                format!("Wi-Fi: BBR {:.2}, CUBIC {:.2} Mbit/s", bbr.0, cubic.0),
                bbr.0 < cubic.0 * (1.0 - VISIBLE),
            ),
            (
                format!("LTE: BBR {:.2}, CUBIC {:.2} Mbit/s", bbr.1, cubic.1),
                bbr.1 > cubic.1 * (1.0 + VISIBLE),
            ),
        ])
    }),
    ("S1-F8", |films| {
        let (bbr, cubic) = (films.video("C", "bbr")?, films.video("C", "cubic")?);
        Some(vec![(
            format!("BBR much worse than CUBIC: {bbr} beside {cubic}"),
            bbr.underflows > cubic.underflows && bbr.discards >= 2.0 * cubic.discards.max(0.5),
        )])
    }),
    ("S1-F9cd", |films| {
        let (bbr, cubic) = (films.rates("C", "bbr")?, films.rates("C", "cubic")?);
        let both = bbr.0 + bbr.1;
        Some(vec![
            (
                format!("Wi-Fi: BBR {:.2}, CUBIC {:.2} Mbit/s", bbr.0, cubic.0),
                bbr.0 < cubic.0 * MUCH_LESS,
            ),
            (
                format!("BBR's film starves at {both:.2} Mbit/s"),
                both < 5.24 && both < (cubic.0 + cubic.1) * (1.0 - VISIBLE),
            ),
        ])
    }),
    ("S3-F4", |films| uncoupled_are_better(films, "100/100")),
    ("S3-F7", |films| uncoupled_are_better(films, "100/200")),
    ("S3-F10", |films| {
        let cubic = films.video("200/100", "cubic")?;
        let mut sentences = Vec::new();
        for row in ["bpf_compound", "bpf_lia", "bpf_olia"] {
            let video = films.video("200/100", row)?;
            sentences.push((format!("{row} {video}, as cubic"), video.is_like(&cubic)));
        }
        let ccp = films.video("200/100", "bpf_ccp")?;
        sentences.push((format!("CCP worse: {ccp}"), cubic.is_better_than(&ccp)));
        Some(sentences)
    }),
    ("S3-C2", |films| {
        let mut sentences = Vec::new();
        for network in ["100/100", "100/200", "200/100"] {
            let (lia, olia) = (
                films.video(network, "bpf_lia")?,
                films.video(network, "bpf_olia")?,
            );
            let text = format!("{network}: OLIA {olia}, LIA {lia}");
            sentences.push((text, !lia.is_better_than(&olia)));
        }
        Some(sentences)
    }),
    ("S3-C7", |films| {
        let mut sentences = Vec::new();
        for network in ["100/100", "100/200", "200/100"] {
            let ccp = films.resent(network, "bpf_ccp")?;
            let mut others = Vec::new();
            for row in ["cubic", "bpf_compound", "bpf_lia", "bpf_olia"] {
                others.push(films.resent(network, row)?);
            }
            let most = others.into_iter().fold(0.0, f64::max);
            let text = format!("{network}: CCP {ccp:.0}, others up to {most:.0}");
            sentences.push((text, ccp > most));
        }
        Some(sentences)
    }),
];

/// Returns the paper's claims. Those that films do not show are marked so.
pub(super) fn judged(paper: Testbed, films: &[Film]) -> Vec<Judged> {
    let claims = selected(&[paper.paper().to_owned()]).unwrap_or_default();
    let mut judged = Vec::new();
    for claim in claims {
        let test = TESTS.iter().find(|(id, _)| *id == claim.id);
        let [kernel, simulator] = [World::Kernel, World::Simulator].map(|world| {
            let Some((_, test)) = test else {
                return "not measured by films".to_owned();
            };
            test(&Films { films, world }).map_or_else(|| "not run".to_owned(), verdict)
        });
        judged.push(Judged {
            id: claim.id,
            text: claim.claim,
            kernel,
            simulator,
        });
    }
    judged
}

/// Returns a verdict, and each sentence with its own.
fn verdict(sentences: Vec<Sentence>) -> String {
    let count = sentences.iter().filter(|(_, is_so)| *is_so).count();
    let whole = if count == sentences.len() {
        "holds"
    } else if count == 0 {
        "differs"
    } else {
        "partly"
    };
    let parts: Vec<String> = sentences
        .into_iter()
        .map(|(text, is_so)| {
            let mark = if is_so { "so" } else { "not so" };
            format!("{text} ({mark})")
        })
        .collect();
    format!("**{whole}**: {}", parts.join("; "))
}

/// Films of one world.
struct Films<'a> {
    films: &'a [Film],
    world: World,
}

/// A row's video, in means of its films.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Video {
    underflows: f64,
    discards: f64,
    stalled_seconds: f64,
}

impl std::fmt::Display for Video {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (underflows, stalled) = (self.underflows, self.stalled_seconds);
        write!(
            f,
            "{underflows:.1} underflows, {:.1} discards, {stalled:.1} s",
            self.discards
        )
    }
}

impl Video {
    fn is_like(&self, other: &Video) -> bool {
        fn is_near(own: f64, other: f64) -> bool {
            (own - other).abs() <= (ALIKE_PART * own.max(other)).max(ALIKE_PICTURES)
        }
        is_near(self.discards, other.discards)
            && (self.underflows - other.underflows).abs()
                <= (ALIKE_PART * self.underflows.max(other.underflows)).max(0.5)
    }

    /// Fewer discards, or fewer underflows if discards are alike: the papers' order.
    fn is_better_than(&self, other: &Video) -> bool {
        fn fewer(own: f64, other: f64, least: f64) -> bool {
            own < other && other - own > (ALIKE_PART * other).max(least)
        }
        fewer(self.discards, other.discards, ALIKE_PICTURES)
            || (!fewer(other.discards, self.discards, ALIKE_PICTURES)
                && fewer(self.underflows, other.underflows, 0.5))
    }

    /// More underflows or discards, and of neither fewer.
    fn is_no_better_than(&self, other: &Video) -> bool {
        let is_more = self.underflows > other.underflows || self.discards > other.discards;
        is_more && self.underflows >= other.underflows && self.discards >= other.discards
    }
}

impl Films<'_> {
    fn mean(&self, network: &str, row: &str, of: impl Fn(&Film) -> f64) -> Option<f64> {
        Group::of(self.films, self.world, network, row)?.mean(of)
    }

    fn video(&self, network: &str, row: &str) -> Option<Video> {
        Some(Video {
            underflows: self.mean(network, row, |film| film.underflows as f64)?,
            discards: self.mean(network, row, |film| film.discards as f64)?,
            stalled_seconds: self.mean(network, row, |film| film.stalled_seconds)?,
        })
    }

    /// Returns the rates of both paths in Mbit/s.
    fn rates(&self, network: &str, row: &str) -> Option<(f64, f64)> {
        let [wifi, lte] = [0, 1].map(|index| {
            self.mean(network, row, |film| {
                film.path_megabits.get(index).copied().unwrap_or_default()
            })
        });
        wifi.zip(lte)
    }

    fn resent(&self, network: &str, row: &str) -> Option<f64> {
        self.mean(network, row, |film| film.resent as f64)
    }
}

/// Compares uncoupled controllers with coupled ones, of which rows may be missing.
fn uncoupled_are_better(films: &Films<'_>, network: &str) -> Option<Vec<Sentence>> {
    let cubic = films.video(network, "cubic")?;
    let mut sentences = Vec::new();
    for row in ["bpf_lia", "bpf_olia", "bpf_ccp"] {
        if let Some(video) = films.video(network, row) {
            let text = format!("cubic ({cubic}) better than {row} ({video})");
            sentences.push((text, cubic.is_better_than(&video)));
        }
    }
    (!sentences.is_empty()).then_some(sentences)
}

#[cfg(test)]
mod tests {
    use super::super::films::testing::film;
    use super::*;

    fn of(paper: Testbed, id: &str, films: &[Film]) -> Judged {
        let all = judged(paper, films);
        all.into_iter().find(|claim| claim.id == id).unwrap()
    }

    #[test]
    fn every_test_has_a_claim() {
        let of_both = [Testbed::Kondo, Testbed::Matsufuji].map(|paper| judged(paper, &[]));
        let ids: Vec<&str> = of_both.iter().flatten().map(|claim| claim.id).collect();
        for (id, _) in TESTS {
            assert!(ids.contains(id), "{id}");
        }
    }

    #[test]
    fn a_film_with_a_stall_contradicts_the_smooth_one() {
        let mut films = vec![
            film(World::Kernel, "A", "bbr"),
            film(World::Kernel, "A", "cubic"),
        ];
        let claim = of(Testbed::Kondo, "S1-F4", &films);
        assert!(claim.kernel.starts_with("**holds**"), "{}", claim.kernel);
        assert_eq!(claim.simulator, "not run");
        films[0].underflows = 1;
        let claim = of(Testbed::Kondo, "S1-F4", &films);
        assert!(claim.kernel.starts_with("**partly**"), "{}", claim.kernel);
    }

    #[test]
    fn coupled_rows_that_stall_are_worse() {
        let films = [
            film(World::Kernel, "100/200", "cubic"),
            Film {
                underflows: 3,
                ..film(World::Kernel, "100/200", "bpf_lia")
            },
        ];
        let claim = of(Testbed::Matsufuji, "S3-F7", &films);
        assert!(claim.kernel.starts_with("**holds**"), "{}", claim.kernel);
        let alike = [films[0].clone(), film(World::Kernel, "100/200", "bpf_lia")];
        let claim = of(Testbed::Matsufuji, "S3-F7", &alike);
        assert!(claim.kernel.starts_with("**differs**"), "{}", claim.kernel);
    }
}
