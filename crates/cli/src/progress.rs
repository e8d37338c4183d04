//! A progress bar over simulated time.

use anabranch_units::Duration;
use indicatif::{ProgressBar, ProgressStyle};

/// Shows on a terminal how much of the simulated time is done; elsewhere nothing.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(simulated: Duration) -> Self {
        let bar = ProgressBar::new(simulated.as_millis());
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %, {eta} to go")
            .expect("the template is well-formed");
        bar.set_style(style);
        Progress { bar }
    }

    pub(crate) fn add(&self, simulated: Duration) {
        self.bar.inc(simulated.as_millis());
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
