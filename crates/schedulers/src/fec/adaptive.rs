//! `adaptive`: retransmission where there is time for it, else blocks or a sliding window.
//!
//! If two tries fit before the deadline, lost packets are retransmitted; repairs would only cost.
//! If one fits, repairs only cover the losses of that try. Frames of at least six packets are
//! blocks of their own; smaller ones share a sliding window. Frames that no other needs get
//! nothing, key frames a tenth of the residual loss of others. Repairs are `cap` of the packets at
//! most, over time.

use anabranch_core::fec::{FecPolicy, FrameToProtect, Protection, SlidingWindow};
use anabranch_core::{Forecast, PathView, SessionView};
use anabranch_fec::is_retransmission_enough;
use anabranch_units::options::{AlgorithmOption, AlgorithmOptions};
use anabranch_units::{Duration, Importance, Instant};

use super::pace::Pace;
use super::{Allowance, farthest, frame_repairs, longest_rtt, losses, residual};

/// Number of symbols from which a frame is a block of its own.
const MIN_BLOCK: u16 = 6;
/// Time to notice a loss beside the round trip: the receiver's delay, and that of the packets which
/// have to overtake the lost one.
const REORDER_WAIT: Duration = Duration::from_millis(10);
/// One try fits: the repairs leave no more than this to it.
const MAX_RESIDUAL: f64 = 0.25;

const CAP: AlgorithmOption = AlgorithmOption::number(
    "cap",
    "most repairs for a packet, over time",
    0.5,
    0.0..=0.5,
);
pub(super) const OPTIONS: &[AlgorithmOption] = &[CAP];

#[derive(Debug)]
struct Adaptive {
    allowance: Allowance,
    pace: Pace,
}

pub(super) fn build(options: &AlgorithmOptions) -> Box<dyn FecPolicy> {
    Box::new(Adaptive {
        allowance: Allowance::of(options.number(&CAP)),
        pace: Pace::default(),
    })
}

/// Returns the number of retransmissions, at most two, that arrive in time for a frame that leaves
/// now.
fn tries(now: Instant, frame: &FrameToProtect, rtt: Duration, forecast: &Forecast) -> u32 {
    let time_left = frame.deadline.saturating_since(now);
    // A loss is known after a round trip and an eighth.
    let tries = (1..=2).take_while(|tries| {
        let spent = forecast.arrival_after(rtt.mul_f64(1.125) * *tries);
        let wait = REORDER_WAIT * *tries;
        is_retransmission_enough(spent, wait, time_left, forecast.delay_margin)
    });
    tries.count() as u32
}

impl FecPolicy for Adaptive {
    fn protect(
        &mut self,
        now: Instant,
        frame: &FrameToProtect,
        _session: &SessionView,
        paths: &[PathView],
    ) -> Protection {
        self.allowance.earn(frame.symbol_count);
        self.pace.on_frame(now, frame);
        let losses = losses(paths);
        if losses.ratio == 0.0 || frame.importance == Importance::Disposable {
            return Protection::NONE;
        }
        let rtt = longest_rtt(paths).unwrap_or(PathView::UNKNOWN_RTT);
        let forecast = farthest(paths);
        let residual = residual(frame.importance.is_key());
        let residual = match tries(now, frame, rtt, &forecast) {
            0 => residual,
            1 => (residual / losses.ratio).clamp(residual, MAX_RESIDUAL),
            _ => return Protection::NONE,
        };
        if frame.symbol_count >= MIN_BLOCK {
            let repairs = frame_repairs(frame.symbol_count, losses, residual);
            return Protection::of_frame(self.allowance.spend(repairs));
        }
        let window = self
            .pace
            .slide(now, frame, (rtt, &forecast), losses, residual);
        window.map_or(Protection::NONE, |window| {
            Protection::of_window(SlidingWindow {
                repairs: self.allowance.spend(window.repairs),
                ..window
            })
        })
    }
}
