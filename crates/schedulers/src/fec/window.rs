//! `window`: repairs over a window that slides over the last symbols, whatever their frames.
//!
//! For streams of many small frames, as MPEG-TS packet by packet: a block of one symbol can only be
//! protected by a copy, a window of twenty by a repair for every few. The window is as long as the
//! time until a frame is late allows, and at most two round trips. Nothing is due for frames that
//! no other needs, though they are covered where the window slides over them.

use anabranch_core::fec::{FecPolicy, FrameToProtect, Protection, SlidingWindow};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOptions;
use anabranch_units::{Importance, Instant};

use super::pace::Pace;
use super::{Allowance, farthest, longest_rtt, losses, residual};

#[derive(Debug, Default)]
struct Sliding {
    allowance: Allowance,
    pace: Pace,
}

pub(super) fn build(_: &AlgorithmOptions) -> Box<dyn FecPolicy> {
    Box::new(Sliding::default())
}

impl FecPolicy for Sliding {
    fn protect(
        &mut self,
        now: Instant,
        frame: &FrameToProtect,
        _session: &SessionView,
        paths: &[PathView],
    ) -> Protection {
        self.allowance.earn(frame.symbol_count);
        self.pace.on_frame(now, frame);
        if frame.importance == Importance::Disposable {
            return Protection::NONE;
        }
        let rtt = longest_rtt(paths).unwrap_or(PathView::UNKNOWN_RTT);
        let residual = residual(frame.importance.is_key());
        let way = (rtt, &farthest(paths));
        let window = self.pace.slide(now, frame, way, losses(paths), residual);
        window.map_or(Protection::NONE, |window| {
            Protection::of_window(SlidingWindow {
                repairs: self.allowance.spend(window.repairs),
                ..window
            })
        })
    }
}
