//! Algorithms that a scenario may name.

use anabranch_controllers::{CONTROLLERS, Controller, by_name};
use anabranch_core::scheduler::SchedulerFactory;
use anabranch_schedulers::SCHEDULERS;
use anabranch_sim::{ORACLE, oracle};
use anabranch_units::known_names;

/// Algorithms of another program, which a scenario may name beside the registered ones.
#[derive(Clone, Debug, Default)]
pub struct Algorithms {
    /// Its controllers.
    pub controllers: Vec<Controller>,
    /// Its schedulers.
    pub schedulers: Vec<SchedulerFactory>,
}

impl Algorithms {
    /// Only the registered algorithms.
    pub(super) const NONE: &'static Algorithms = &Algorithms {
        controllers: Vec::new(),
        schedulers: Vec::new(),
    };

    /// Returns the controller that `text` names, with its options; the error is the message.
    pub(super) fn controller(&self, text: &str) -> Result<Controller, String> {
        if let Some(own) = self.controllers.iter().find(|own| own.name() == text) {
            return Ok(own.clone());
        }
        by_name(text).map_err(|error| {
            let name = text.split_once(':').map_or(text, |(name, _)| name);
            let is_registered = CONTROLLERS.iter().any(|entry| entry.name == name);
            if is_registered || self.controllers.is_empty() {
                return error.to_string();
            }
            let own = self.controllers.iter().map(Controller::name);
            let all = CONTROLLERS.iter().map(|entry| entry.name).chain(own);
            let known = known_names(name, all);
            format!("no controller is called {name:?}; known are {known}")
        })
    }

    /// Returns the scheduler that `name` names; the error is the message.
    pub(super) fn scheduler(&self, name: &str) -> Result<SchedulerFactory, String> {
        let own = self.schedulers.iter().find(|own| own.name() == name);
        let found = own.cloned().or_else(|| scheduler_by_name(name));
        found.ok_or_else(|| {
            let mut all = scheduler_names();
            all.extend(self.schedulers.iter().map(|own| own.name().to_owned()));
            let known = known_names(name, all.iter().map(String::as_str));
            format!("no scheduler is called {name:?}; known are {known}")
        })
    }
}

/// Returns all schedulers that a simulation can run: the registered ones, and the one that knows
/// the network.
pub(super) fn scheduler_names() -> Vec<String> {
    let registered = SCHEDULERS.iter().map(|entry| entry.name);
    registered.chain([ORACLE]).map(str::to_owned).collect()
}

/// Returns one of [`scheduler_names`] by its name.
pub(crate) fn scheduler_by_name(name: &str) -> Option<SchedulerFactory> {
    match name {
        ORACLE => Some(oracle()),
        registered => anabranch_schedulers::by_name(registered).ok(),
    }
}

/// Returns the message on a name that is none of [`scheduler_names`].
pub(crate) fn unknown_scheduler(name: &str) -> String {
    let schedulers = scheduler_names();
    let known = known_names(name, schedulers.iter().map(String::as_str));
    format!("no scheduler is called {name:?}; known are {known}")
}
