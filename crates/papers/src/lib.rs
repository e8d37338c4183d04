//! Experiments that reproduce published results, each beside the numbers that were published.
//!
//! A [`Claim`] is one figure, table or sentence of a paper: its runs, and a function that turns
//! their measurements into numbers, pictures and expectations. A [`Study`] plans the runs of any
//! number of claims, runs each once, keeps it in a [`Cache`], and judges the claims. [`Finding`]s
//! become text, JSON or a page of HTML. `docs/architecture.md` shows how a claim is added.

mod beside;
mod cache;
mod case;
mod charts;
mod claim;
mod evidence;
mod finding;
mod fingerprint;
mod grieco_arc;
mod html;
mod judgement;
mod kondo_mptcp;
mod matsufuji_mptcp;
mod ns3;
mod others;
mod own;
mod provenance;
mod record;
mod report;
mod sequential;
mod study;
mod sweep;
mod zhang_delay_bbr;
mod zhang_multipath;

pub use cache::{Cache, RUN_CODE};
pub use case::{Algorithms, Case, Forms};
pub use claim::{Basis, Claim, Paper, Subject, Swap};
pub use evidence::Evidence;
pub use finding::{AsPublished, Column, Columns, Finding, Others};
pub use fingerprint::fingerprint;
pub use html::{PageOptions, findings_html};
pub use judgement::{Expect, Judged, Judgement, Measured, Samples, Verdict, WithoutChance};
pub use others::try_others;
pub use provenance::{COMMIT, RunProvenance};
pub use record::{Points, RunRecord, Span};
pub use report::{FINDINGS_SCHEMA, findings_json, findings_table};
pub use study::{Study, StudyError, StudyOptions};

/// Returns every claim, paper by paper.
pub fn claims() -> impl Iterator<Item = &'static Claim> {
    [
        zhang_delay_bbr::CLAIMS,
        zhang_multipath::CLAIMS,
        grieco_arc::CLAIMS,
        grieco_arc::ns2::CLAIMS,
        kondo_mptcp::CLAIMS,
        matsufuji_mptcp::CLAIMS,
        ns3::CLAIMS,
        own::CLAIMS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Returns the claims that any of `selections` matches: a paper's key, an ID or the beginning of
/// IDs. Without a selection, returns all claims.
///
/// # Errors
/// Returns the first selection that matches no claim.
pub fn selected(selections: &[String]) -> Result<Vec<&'static Claim>, &str> {
    for selection in selections {
        if !claims().any(|claim| claim.is_meant_by(selection)) {
            return Err(selection);
        }
    }
    Ok(claims()
        .filter(|claim| {
            selections.is_empty() || selections.iter().any(|text| claim.is_meant_by(text))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique() {
        let mut ids: Vec<&str> = claims().map(|claim| claim.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }

    #[test]
    fn every_claim_can_be_planned() {
        let all: Vec<_> = claims().collect();
        let study = Study::new(&all, Swap::default(), Columns::AsNamed)
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(study.scenario_count() > 0);
        for claim in all {
            let has_runs = !(claim.cases)(claim.subject.name()).is_empty();
            assert!(
                has_runs || claim.subject == Subject::Scenario,
                "{claim:?} is about {:?}",
                claim.subject
            );
        }
    }

    #[test]
    fn claims_are_selected_by_paper_id_or_the_beginning_of_ids() {
        fn ids(selection: &str) -> Vec<&str> {
            let selections = [selection.to_owned()];
            let selected = selected(&selections);
            selected.map_or(Vec::new(), |claims| {
                claims.iter().map(|claim| claim.id).collect()
            })
        }
        assert_eq!(ids("S0-T1"), ["S0-T1"]);
        assert!(ids("S0").len() > 1);
        assert_eq!(ids("zhang-delay-bbr"), ids("S0"));
        assert_eq!(
            ids("S0-F"),
            ids("S0-F")
                .into_iter()
                .filter(|id| id.contains("-F"))
                .collect::<Vec<_>>()
        );
        assert!(ids("S9").is_empty() && ids("").len() == claims().count());
    }
}
