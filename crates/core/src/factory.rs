//! Which algorithm a session uses, of those that are built once for each session.

use core::fmt;
use std::sync::Arc;

/// An algorithm by its name, of which each session builds an instance. Cheap to clone. Two are
/// equal if they have the same name.
pub struct Factory<T: ?Sized> {
    name: Arc<str>,
    build: Arc<dyn Fn() -> Box<T> + Send + Sync>,
}

impl<T: ?Sized> Factory<T> {
    /// Creates a factory whose instances, one for each session, come from `build`. `name`
    /// identifies it.
    pub fn new(
        name: impl Into<Arc<str>>,
        build: impl Fn() -> Box<T> + Send + Sync + 'static,
    ) -> Self {
        Factory {
            name: name.into(),
            build: Arc::new(build),
        }
    }

    /// Returns the name as the user wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates an instance for one session.
    pub fn build(&self) -> Box<T> {
        (self.build)()
    }
}

impl<T: ?Sized> Clone for Factory<T> {
    fn clone(&self) -> Self {
        Factory {
            name: self.name.clone(),
            build: self.build.clone(),
        }
    }
}

impl<T: ?Sized> fmt::Debug for Factory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Factory").field(&self.name).finish()
    }
}

impl<T: ?Sized> PartialEq for Factory<T> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<T: ?Sized> Eq for Factory<T> {}
