//! Live runs: a page advances them and changes their links.

use anabranch_lab::{LiveRun, Outcome, RunHooks, Scenario};
use anabranch_sim::Observer;
use anabranch_units::Instant;

use crate::packets::millis;
use crate::picture::{Part, Picture, SAMPLE_INTERVAL};
use crate::request::{Change, Experiment, Failure, TimedChange, instant};
use crate::summary::Summary;

/// A run with the changes that are still to come.
#[derive(Debug)]
pub(crate) struct Planned<'a> {
    scenario: Scenario,
    run: LiveRun<'a>,
    /// The next one last.
    changes: Vec<TimedChange>,
}

impl<'a> Planned<'a> {
    pub(crate) fn new(
        experiment: &Experiment,
        hooks: RunHooks<'a>,
    ) -> Result<Planned<'a>, Failure> {
        let scenario = experiment.scenario()?;
        let run = LiveRun::new(&scenario, experiment.seed, hooks).map_err(Failure::of)?;
        let mut changes = experiment.changes();
        changes.reverse();
        Ok(Planned {
            scenario,
            run,
            changes,
        })
    }

    pub(crate) fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Advances to `until` and applies the changes up to then.
    fn advance(&mut self, until: Instant, observer: &mut impl Observer) -> Result<(), Failure> {
        while let Some(TimedChange { at_ms, change }) =
            self.changes.pop_if(|next| instant(next.at_ms) <= until)
        {
            let at = instant(at_ms);
            if at > self.run.now() {
                self.run.advance(at, observer).map_err(Failure::of)?;
            }
            change.apply(&self.scenario, &mut self.run)?;
        }
        if until > self.run.now() {
            self.run.advance(until, observer).map_err(Failure::of)?;
        }
        Ok(())
    }

    /// Advances to the end and returns the results.
    pub(crate) fn finish(mut self) -> Result<(Scenario, Outcome), Failure> {
        self.advance(self.run.end(), &mut ())?;
        let outcome = self.run.finish().map_err(Failure::of)?;
        Ok((self.scenario, outcome))
    }
}

/// A live run with its picture.
#[derive(Debug)]
pub(crate) struct Live {
    planned: Planned<'static>,
    summary: Summary,
    picture: Picture,
    next_sample_at: Instant,
}

impl Live {
    pub(crate) fn start(experiment: &Experiment) -> Result<Live, Failure> {
        let planned = Planned::new(experiment, RunHooks::default())?;
        let summary = Summary::of(planned.scenario());
        Ok(Live {
            picture: Picture::new(&summary),
            summary,
            planned,
            next_sample_at: Instant::ZERO + SAMPLE_INTERVAL,
        })
    }

    pub(crate) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Advances to a time, or to the end if that is earlier, and returns the events up to then.
    pub(crate) fn advance(&mut self, until_ms: f64) -> Result<Part, Failure> {
        let until = instant(until_ms).min(self.planned.run.end());
        while self.next_sample_at <= until {
            self.planned
                .advance(self.next_sample_at, &mut self.picture)?;
            self.picture.sample(self.planned.run.world());
            self.next_sample_at += SAMPLE_INTERVAL;
        }
        self.planned.advance(until, &mut self.picture)?;
        let run = &self.planned.run;
        let hash = run.trace_hash().to_string();
        Ok(self.picture.take(run.now(), run.is_over(), hash))
    }

    /// Changes a link now, and forgets all changes that were planned for later. Returns the time in
    /// ms.
    pub(crate) fn change(&mut self, change: &Change) -> Result<f64, Failure> {
        let Planned {
            scenario,
            run,
            changes,
        } = &mut self.planned;
        change.apply(scenario, run)?;
        changes.clear();
        Ok(millis(run.now()))
    }
}
