//! History of the status, interval by interval.

use std::collections::VecDeque;

use anabranch_observe::status::{Path, Status};

/// Maximum number of intervals, equal to the columns of a wide terminal.
const MAX_INTERVALS: usize = 600;

/// Recent intervals, the newest last; at least one when it is drawn.
#[derive(Debug, Default)]
pub(crate) struct History {
    statuses: VecDeque<Status>,
}

impl History {
    pub(crate) fn add(&mut self, status: Status) {
        if self
            .statuses
            .back()
            .is_some_and(|last| last.unix_time_s == status.unix_time_s)
        {
            return;
        }
        self.statuses.push_back(status);
        if self.statuses.len() > MAX_INTERVALS {
            self.statuses.pop_front();
        }
    }

    pub(crate) fn last(&self) -> Option<&Status> {
        self.statuses.back()
    }

    /// Returns a path's values in the last `count` intervals, the newest last; `None` where
    /// unknown.
    pub(crate) fn values(
        &self,
        stream: &str,
        path: usize,
        count: usize,
        value: impl Fn(&Path) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let skipped = self.statuses.len().saturating_sub(count);
        let values = self.statuses.iter().skip(skipped).map(|status| {
            let stream = status.streams.iter().find(|of| of.name == stream)?;
            value(stream.paths.get(path)?)
        });
        values.collect()
    }
}
