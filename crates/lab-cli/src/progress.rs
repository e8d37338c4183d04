//! A progress bar over simulated time.

use anabranch_units::Duration;
use indicatif::{ProgressBar, ProgressStyle};

/// Progress of the simulated time on a terminal; nothing is shown elsewhere.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(simulated: Duration) -> Self {
        let bar = ProgressBar::new(simulated.as_millis());
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %, {eta} to go")
            .expect("the template is well-formed");
        bar.set_style(style);
        if !bar.is_hidden() {
            clear_on_interrupt(&bar);
        }
        Progress { bar }
    }

    pub(crate) fn add(&self, simulated: Duration) {
        self.bar.inc(simulated.as_millis());
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Does nothing: the console ends the program before it could.
#[cfg(not(unix))]
fn clear_on_interrupt(_: &ProgressBar) {}

/// Clears the line when the program is interrupted.
#[cfg(unix)]
fn clear_on_interrupt(bar: &ProgressBar) {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;
    // Without it, only the bar remains on the screen.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else {
        return;
    };
    let bar = bar.clone();
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            bar.finish_and_clear();
            let _ = emulate_default_handler(signal);
        }
    });
}
