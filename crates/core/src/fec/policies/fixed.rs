//! `fixed`: a constant ratio, whatever the losses.
//!
//! Repairs are due as sources are queued, `overhead` of one for each. A frame of at least `window`
//! symbols gets those due as a block of its own; smaller ones share a window that slides over the
//! last `window` symbols.

use anabranch_units::Instant;

use crate::congestion::{ControllerOption, ControllerOptions, OptionValues};
use crate::fec::{FecPolicy, FrameToProtect, Protection, SlidingWindow};
use crate::path_view::PathView;
use crate::session_view::SessionView;

const OVERHEAD: ControllerOption = ControllerOption {
    name: "overhead",
    summary: "repairs per source",
    values: OptionValues::Number {
        usual: 0.2,
        min: 0.0,
        max: 1.0,
    },
};
const WINDOW: ControllerOption = ControllerOption {
    name: "window",
    summary: "symbols that a repair covers, but for larger frames",
    values: OptionValues::Number {
        usual: 20.0,
        min: 1.0,
        max: 128.0,
    },
};
pub(in crate::fec) const OPTIONS: &[ControllerOption] = &[OVERHEAD, WINDOW];

#[derive(Debug)]
struct Fixed {
    overhead: f64,
    window: u16,
    /// Repairs owed: a fraction of one, after each frame.
    due: f64,
}

pub(in crate::fec) fn build(options: &ControllerOptions) -> Box<dyn FecPolicy> {
    Box::new(Fixed {
        overhead: options.number(&OVERHEAD),
        window: options.number(&WINDOW) as u16,
        due: 0.0,
    })
}

impl FecPolicy for Fixed {
    fn protect(
        &mut self,
        _now: Instant,
        frame: &FrameToProtect,
        _session: &SessionView,
        _paths: &[PathView],
    ) -> Protection {
        self.due += f64::from(frame.symbol_count) * self.overhead;
        let repairs = self.due as u16;
        self.due -= f64::from(repairs);
        if frame.symbol_count >= self.window {
            return Protection::of_frame(repairs);
        }
        Protection::of_window(SlidingWindow {
            symbols: self.window,
            repairs,
        })
    }
}
