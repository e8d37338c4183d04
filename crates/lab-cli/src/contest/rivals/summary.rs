//! Medians of runs that differ in their seed alone.

use anabranch_lab::Spread;
use anabranch_units::Seed;

use super::run::Outcome;
use super::transport::Transport;

/// A run that ended, or the reason for which it did not.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) row_index: usize,
    pub(super) transport: Transport,
    pub(super) seed: Seed,
    pub(super) outcome: Result<Outcome, String>,
}

/// A figure's name and its value in a run.
type Column = (&'static str, fn(&Outcome) -> f64);

/// Figures of a run that tables show, each with its name in files.
pub(super) const COLUMNS: [Column; 11] = [
    ("delivered", |outcome| outcome.figures.delivered),
    ("whole", |outcome| outcome.figures.whole),
    ("decodable", |outcome| outcome.figures.decodable),
    ("overhead_there", |outcome| outcome.overhead_there),
    ("overhead_back", |outcome| outcome.overhead_back),
    ("delay_p50_ms", |outcome| outcome.figures.delays_ms[0]),
    ("delay_p95_ms", |outcome| outcome.figures.delays_ms[1]),
    ("delay_p99_ms", |outcome| outcome.figures.delays_ms[2]),
    ("silence_ms", |outcome| outcome.figures.silence_ms),
    ("cpu_s_per_gbit", |outcome| {
        outcome.seconds_per_gigabit.unwrap_or(f64::NAN)
    }),
    ("wrong_bytes", |outcome| outcome.wrong_bytes as f64),
];

/// Figures of a transport on a row.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) row_index: usize,
    pub(super) transport: Transport,
    /// Number of runs, and of those that are judged.
    pub(super) run_count: usize,
    pub(super) judged_count: usize,
    /// Spreads of [`COLUMNS`] over the judged runs; `None` without values.
    pub(super) spreads: [Option<Spread>; COLUMNS.len()],
    /// Reasons of runs that failed or are not judged.
    pub(super) reasons: Vec<String>,
}

impl Summary {
    /// Returns the spread of a column.
    ///
    /// # Panics
    /// If there is no such column.
    pub(super) fn spread(&self, name: &str) -> Option<Spread> {
        let index = COLUMNS.iter().position(|(known, _)| *known == name);
        self.spreads[index.expect("a column of that name")]
    }
}

/// Summarises the runs of each row and transport, in the order of their first runs.
pub(super) fn summaries(runs: &[Run]) -> Vec<Summary> {
    let mut places: Vec<(usize, Transport)> = Vec::new();
    for run in runs {
        let place = (run.row_index, run.transport);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
        .into_iter()
        .map(|(row_index, transport)| {
            let runs = runs
                .iter()
                .filter(|run| (run.row_index, run.transport) == (row_index, transport));
            summary(row_index, transport, &runs.collect::<Vec<_>>())
        })
        .collect()
}

fn summary(row_index: usize, transport: Transport, runs: &[&Run]) -> Summary {
    let mut reasons = Vec::new();
    let mut judged = Vec::new();
    for run in runs {
        let seed = run.seed.0;
        match &run.outcome {
            Err(reason) => reasons.push(format!("seed {seed} failed: {reason}")),
            Ok(outcome) => match &outcome.not_judged {
                Some(reason) => reasons.push(format!("seed {seed} not judged: {reason}")),
                None => judged.push(outcome),
            },
        }
    }
    Summary {
        row_index,
        transport,
        run_count: runs.len(),
        judged_count: judged.len(),
        spreads: COLUMNS.map(|(_, of)| {
            let values = judged.iter().map(|outcome| of(outcome));
            Spread::of(values.filter(|value| value.is_finite()))
        }),
        reasons,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::over_link::sink::Figures;

    /// Returns a run with this share of decodable pictures.
    pub(crate) fn run_of(transport: Transport, seed: u64, decodable: f64, late: bool) -> Run {
        Run {
            row_index: 0,
            transport,
            seed: Seed(seed),
            outcome: Ok(Outcome {
                figures: Figures {
                    delivered: 1.0,
                    whole: decodable,
                    decodable,
                    delays_ms: [230.0, 231.0, 240.0],
                    silence_ms: 41.0,
                },
                overhead_there: 0.07,
                overhead_back: 0.01,
                seconds_per_gigabit: None,
                wrong_bytes: 0,
                not_judged: late.then(|| "links were 2.0 ms late".to_owned()),
            }),
        }
    }

    #[test]
    fn runs_of_a_late_machine_do_not_count() {
        let srt = Transport::Srt;
        let mut runs = vec![
            run_of(srt, 1, 0.9, false),
            run_of(Transport::Rist, 1, 1.0, false),
            run_of(srt, 2, 0.1, true),
            run_of(srt, 3, 0.8, false),
        ];
        runs[1].outcome = Err("no sender".to_owned());
        let summaries = summaries(&runs);
        let [first, second] = &summaries[..] else {
            panic!("{summaries:?}");
        };
        assert_eq!((first.run_count, first.judged_count), (3, 2));
        let spread = first.spread("decodable").unwrap();
        assert!(
            (spread.median - 0.85).abs() < 1e-9 && spread.min == 0.8,
            "{spread:?}"
        );
        assert_eq!(first.spread("cpu_s_per_gbit"), None);
        assert_eq!(first.reasons, ["seed 2 not judged: links were 2.0 ms late"]);
        assert_eq!((second.judged_count, second.spread("whole")), (0, None));
        assert_eq!(second.reasons, ["seed 1 failed: no sender"]);
    }
}
