//! `frame`: each frame is a block of its own, with the fewest repairs that leave the residual loss.
//!
//! The residual is one block in a thousand for key frames and one in a hundred for others, under
//! Gilbert's model of the worst losses of the last ten seconds. Frames that no other needs get
//! nothing. Whether a retransmission would come in time is not asked.

use anabranch_core::fec::{FecPolicy, FrameToProtect, Protection};
use anabranch_core::{PathView, SessionView};
use anabranch_units::options::AlgorithmOptions;
use anabranch_units::{Importance, Instant};

use super::{Allowance, frame_repairs, losses, residual};

#[derive(Debug, Default)]
struct PerFrame {
    allowance: Allowance,
}

pub(super) fn build(_: &AlgorithmOptions) -> Box<dyn FecPolicy> {
    Box::new(PerFrame::default())
}

impl FecPolicy for PerFrame {
    fn protect(
        &mut self,
        _now: Instant,
        frame: &FrameToProtect,
        _session: &SessionView,
        paths: &[PathView],
    ) -> Protection {
        self.allowance.earn(frame.symbol_count);
        if frame.importance == Importance::Disposable {
            return Protection::NONE;
        }
        let residual = residual(frame.importance.is_key());
        let repairs = frame_repairs(frame.symbol_count, losses(paths), residual);
        Protection::of_frame(self.allowance.spend(repairs))
    }
}
