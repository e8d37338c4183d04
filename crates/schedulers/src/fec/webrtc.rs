//! `webrtc`: a share that follows the smoothed loss ratio, as in WebRTC's media optimization,
//! doubled for key frames. Frames that no other needs get nothing.
//!
//! *Deviations*: 1.5 p + 0.02 instead of WebRTC's table over loss and bits per frame. Below a
//! round-trip time of 20 ms retransmission is enough, and so it is for frames of one packet below
//! 200 ms; in between, protection grows with the round-trip time up to 100 ms, as the hybrid of
//! NACK and FEC does.

use anabranch_core::fec::{FecPolicy, FrameToProtect, Protection};
use anabranch_core::{PathView, SessionView};
use anabranch_fec::proportional_repair_count;
use anabranch_units::options::AlgorithmOptions;
use anabranch_units::{Duration, Importance, Instant};

use super::{Allowance, carriers, longest_rtt};

/// Below this there is no protection.
const LOW_RTT: Duration = Duration::from_millis(20);
/// From this on there is all of it.
const HIGH_RTT: Duration = Duration::from_millis(100);
/// Below this, frames of one packet have none.
const SMALL_FRAME_RTT: Duration = Duration::from_millis(200);
/// Losses below this, one packet in a thousand, are none.
const MIN_LOSS_RATIO: f64 = 0.001;

#[derive(Debug, Default)]
struct WebRtc {
    allowance: Allowance,
}

pub(super) fn build(_: &AlgorithmOptions) -> Box<dyn FecPolicy> {
    Box::new(WebRtc::default())
}

impl FecPolicy for WebRtc {
    fn protect(
        &mut self,
        _now: Instant,
        frame: &FrameToProtect,
        _session: &SessionView,
        paths: &[PathView],
    ) -> Protection {
        self.allowance.earn(frame.symbol_count);
        let seen = carriers(paths).map(|(path, share)| share * path.risk.recent_loss());
        let ratio: f64 = seen.sum();
        let rtt = longest_rtt(paths).unwrap_or(PathView::UNKNOWN_RTT);
        let is_small = frame.symbol_count == 1 && rtt < SMALL_FRAME_RTT;
        let is_disposable = frame.importance == Importance::Disposable;
        if rtt < LOW_RTT || is_small || is_disposable || ratio < MIN_LOSS_RATIO {
            return Protection::NONE;
        }
        let hybrid = rtt.min(HIGH_RTT).as_secs_f64() / HIGH_RTT.as_secs_f64();
        let is_key = frame.importance.is_key();
        let repairs = proportional_repair_count(frame.symbol_count, ratio * hybrid, is_key);
        Protection::of_frame(self.allowance.spend(repairs))
    }
}
