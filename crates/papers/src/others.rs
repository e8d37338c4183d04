//! Other controllers and schedulers for which a claim holds as well. If others fail a claim, it is
//! about its subject alone.
//!
//! `fixed` and `wrr` are weak controls, since they ignore the network. The others here are in use,
//! or come from other papers.

use anabranch_lab::Progress;

use super::claim::{Basis, Claim, Subject, Swap};
use super::finding::{Columns, Finding, Others};
use super::judgement::Verdict;
use super::study::{Study, StudyError, StudyOptions};

/// Substitutes for a claim's controller.
const CONTROLLERS: [&str; 8] = [
    "new-reno", "cubic", "vegas", "bbr-quic", "bbr3", "copa", "gcc", "scream",
];
/// Substitutes for a claim's scheduler.
const SCHEDULERS: [&str; 8] = [
    "min-cost",
    "spd",
    "round-robin",
    "wrr",
    "edcld",
    "sfl",
    "blest",
    "ecf",
];
/// Most runs of a claim in whose place others are tried. A claim that is judged over a space of
/// unprinted settings has hundreds, which would take a day for eight others.
const MOST_RUNS: usize = 100;
/// Seeds of each. The rows show the number that pass, which hardly depends on the seeds.
const SEEDS: u64 = 2;

/// Returns the substitutes for a subject.
fn others_of(subject: Subject) -> impl Iterator<Item = &'static str> {
    let (names, own) = match subject {
        Subject::Scenario => (&[][..], ""),
        Subject::Controller(name) => (&CONTROLLERS[..], name),
        Subject::Scheduler(name) => (&SCHEDULERS[..], name),
    };
    let own = own.split(':').next().unwrap_or_default();
    names.iter().copied().filter(move |name| *name != own)
}

/// Tries others in the place of the subject of each measured claim that can be known and has few
/// runs, and records those that pass.
///
/// # Errors
/// [`StudyError`].
pub fn try_others(
    findings: &mut [Finding],
    options: &StudyOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(), StudyError> {
    let options = StudyOptions {
        seed_count: SEEDS.min(options.seed_count),
        takes_all_seeds: true,
        ..options.clone()
    };
    let mut tried: Vec<&mut Finding> = findings
        .iter_mut()
        .filter(|finding| {
            finding.claim.basis == Basis::Measured
                && finding.claim.subject != Subject::Scenario
                && finding.judged.verdict != Verdict::CannotBeKnown
                && finding.judged.runs.len() <= MOST_RUNS
        })
        .collect();
    for finding in &mut tried {
        finding.others = Some(Others::default());
    }
    for name in CONTROLLERS.into_iter().chain(SCHEDULERS) {
        let mut of: Vec<&mut &mut Finding> = tried
            .iter_mut()
            .filter(|one| others_of(one.claim.subject).any(|other| other == name))
            .collect();
        let claims: Vec<&'static Claim> = of.iter().map(|finding| finding.claim).collect();
        let swap = Swap {
            controller: Some(name),
            scheduler: Some(name),
        };
        let study = Study::new(&claims, swap, Columns::AsNamed)?;
        let swapped = study.findings(&options, progress)?;
        for (finding, swapped) in of.iter_mut().zip(swapped) {
            let others = finding.others.get_or_insert_default();
            others.tried.push(name);
            if swapped.judged.verdict == Verdict::Holds {
                others.passed.push(name);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_no_other_of_itself() {
        let mut of_gcc = others_of(Subject::Controller("gcc:probing=off"));
        assert!(of_gcc.all(|other| other != "gcc"));
        assert!(others_of(Subject::Controller("arc")).eq(CONTROLLERS));
        assert!(others_of(Subject::Scheduler("min-cost")).eq(SCHEDULERS[1..].iter().copied()));
        assert_eq!(others_of(Subject::Scenario).count(), 0);
    }

    #[test]
    fn all_of_them_are_known() {
        for name in CONTROLLERS {
            assert!(anabranch_controllers::by_name(name).is_ok(), "{name}");
        }
        for name in SCHEDULERS {
            assert!(anabranch_schedulers::by_name(name).is_ok(), "{name}");
        }
    }
}
