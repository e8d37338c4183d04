//! The first exception of an algorithm in Python in the run of a thread.

use std::cell::RefCell;

use crate::errors::Failure;

thread_local! {
    /// First exception of an algorithm in Python in the run of this thread.
    static FAILURE: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Records the exception of an algorithm, which ends the run of this thread.
pub(crate) fn fail(failure: Failure) {
    FAILURE.with_borrow_mut(|first| {
        first.get_or_insert(failure);
    });
}

/// Whether an algorithm has failed in the run of this thread.
pub(crate) fn has_failed() -> bool {
    FAILURE.with_borrow(Option::is_some)
}

/// Returns the exception of the run of this thread, and forgets it.
pub(crate) fn take_failure() -> Option<Failure> {
    FAILURE.take()
}
