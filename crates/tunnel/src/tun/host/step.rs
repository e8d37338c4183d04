//! One act on the machine, and the change that it leaves.

use std::path::Path;

use super::act::Act;
use super::change::Change;
use super::file_content::FileContent;

/// An act, and the change to be undone after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) act: Act,
    pub(super) change: Option<Change>,
}

impl Step {
    /// Returns the replacement of a file, which is undone by the opposite one.
    pub(super) fn replace(path: &Path, from: FileContent, to: FileContent) -> Step {
        let change = Change::File {
            path: path.to_owned(),
            from: from.clone(),
            to: to.clone(),
        };
        let path = path.to_owned();
        Step {
            act: Act::Replace { path, from, to },
            change: Some(change),
        }
    }
}
