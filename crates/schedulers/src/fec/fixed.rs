//! `fixed`: a constant ratio, whatever the losses.
//!
//! Repairs are due as sources are queued: `overhead` of one for each, twice as many for a key
//! frame, and none for frames that no other needs. A frame of at least `window` symbols gets those
//! due as a block of its own; smaller ones share a window that slides over the last `window`
//! symbols.

use anabranch_core::fec::{FecPolicy, FrameToProtect, Protection, SlidingWindow};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::{AlgorithmOption, AlgorithmOptions};
use anabranch_units::{Importance, Instant};

const OVERHEAD: AlgorithmOption = AlgorithmOption::number(
    "overhead",
    "repairs per source: twice as many for key frames, none for disposable ones",
    0.2,
    0.0..=1.0,
);
const WINDOW: AlgorithmOption = AlgorithmOption::number(
    "window",
    "symbols that a repair covers, but for larger frames",
    20.0,
    1.0..=128.0,
);
pub(super) const OPTIONS: &[AlgorithmOption] = &[OVERHEAD, WINDOW];

/// Factor of the repairs per symbol of a key frame, which are at most one: later frames need it.
const KEY_FRAME_FACTOR: f64 = 2.0;

#[derive(Debug)]
struct Fixed {
    overhead: f64,
    window: u16,
    /// Repairs owed: a fraction of one, after each frame.
    due: f64,
}

pub(super) fn build(options: &AlgorithmOptions) -> Box<dyn FecPolicy> {
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
        let per_symbol = match frame.importance {
            Importance::Key => (KEY_FRAME_FACTOR * self.overhead).min(1.0),
            Importance::Reference => self.overhead,
            Importance::Disposable => return Protection::NONE,
        };
        self.due += f64::from(frame.symbol_count) * per_symbol;
        let repairs = (self.due as u16).min(frame.symbol_count);
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
