//! Which scheduler a session uses.

use core::fmt;
use std::sync::Arc;

use super::Scheduler;

/// A scheduling algorithm by its name, of which each session builds an instance. Cheap to
/// clone. Two are equal if they have the same name.
#[derive(Clone)]
pub struct SchedulerFactory {
    name: Arc<str>,
    build: Arc<dyn Fn() -> Box<dyn Scheduler> + Send + Sync>,
}

impl SchedulerFactory {
    /// Creates a factory whose instances, one for each session, come from `build`. `name`
    /// identifies it.
    pub fn new(
        name: impl Into<Arc<str>>,
        build: impl Fn() -> Box<dyn Scheduler> + Send + Sync + 'static,
    ) -> Self {
        SchedulerFactory {
            name: name.into(),
            build: Arc::new(build),
        }
    }

    /// Returns the name as the user wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates an instance for one session.
    pub fn build(&self) -> Box<dyn Scheduler> {
        (self.build)()
    }
}

impl fmt::Debug for SchedulerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SchedulerFactory").field(&self.name).finish()
    }
}

impl PartialEq for SchedulerFactory {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
