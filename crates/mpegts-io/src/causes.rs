//! An error with its causes, in one line.

use core::error::Error;
use core::fmt;

/// Shows an error and behind it each of its causes, as `what failed: why`.
pub(super) struct WithCauses<'a>(pub(super) &'a dyn Error);

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
