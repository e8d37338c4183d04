//! The pace of frames, and the sliding window that fits it.

use anabranch_core::Forecast;
use anabranch_core::fec::{FrameToProtect, SlidingWindow};
use anabranch_fec::{LossModel, MAX_WINDOW, repair_count};
use anabranch_units::{Duration, Instant};

/// The weight of a new frame in the means.
const WEIGHT: f64 = 0.05;

/// Estimate of the interval and size of frames, and the repairs due for them.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last_at: Option<Instant>,
    interval_seconds: f64,
    symbols_per_frame: f64,
    /// Repairs owed: a fraction of one, after each frame.
    due: f64,
}

impl Pace {
    pub(super) fn on_frame(&mut self, now: Instant, frame: &FrameToProtect) {
        let symbols = f64::from(frame.symbol_count);
        let Some(last_at) = self.last_at.replace(now) else {
            self.symbols_per_frame = symbols;
            return;
        };
        let interval = now.saturating_since(last_at).as_secs_f64();
        if self.interval_seconds == 0.0 {
            self.interval_seconds = interval;
        }
        self.interval_seconds += WEIGHT * (interval - self.interval_seconds);
        self.symbols_per_frame += WEIGHT * (symbols - self.symbols_per_frame);
    }

    /// Returns the repairs that are due after a frame. They cover as many symbols as fit two round
    /// trips (WebRTC `fec_controller_default`: frames of a block <= 2 fps RTT) and the time until
    /// the frame is late. Repairs are spread evenly over symbols, at the rate that limits the
    /// losses of a window to its `residual`.
    pub(super) fn slide(
        &mut self,
        now: Instant,
        frame: &FrameToProtect,
        (rtt, forecast): (Duration, &Forecast),
        losses: LossModel,
        residual: f64,
    ) -> Option<SlidingWindow> {
        let time_left = frame
            .deadline
            .saturating_since(now)
            .saturating_sub(forecast.arrival_after(Duration::ZERO));
        let span = (rtt * 2).min(time_left).as_secs_f64();
        let frames = if self.interval_seconds > 0.0 {
            (span / self.interval_seconds).max(1.0)
        } else {
            1.0
        };
        let fitting = (frames * self.symbols_per_frame).min(f64::from(MAX_WINDOW)) as u16;
        let symbols = fitting.max(frame.symbol_count).clamp(1, MAX_WINDOW);
        let of_window = repair_count(symbols, losses, residual);
        if of_window == 0 {
            self.due = 0.0;
            return None;
        }
        self.due += f64::from(of_window) / f64::from(symbols) * f64::from(frame.symbol_count);
        let repairs = self.due as u16;
        self.due -= f64::from(repairs);
        (repairs > 0).then_some(SlidingWindow { symbols, repairs })
    }
}
