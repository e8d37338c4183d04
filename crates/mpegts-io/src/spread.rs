//! Groups of a frame's bytes that leave together.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};
use anabranch_video::arrival_times::ArrivalTimes;
use anabranch_video::mpeg_ts::PACKET_LEN;

/// Number of packets in a datagram. Smaller groups grow while the next packet is less than two
/// steps away.
pub(super) const PIECE_PACKETS: u64 = 7;
/// Span of time whose bytes leave together. Timers and wake-ups are not finer.
pub(super) const STEP: Duration = Duration::from_millis(1);
/// Longest interval of frames over which a frame is spread. A frame after a longer interval follows
/// a pause, and leaves at once. Chosen: four frames a second are a stream.
const LONGEST_SPREAD: Duration = Duration::from_millis(250);

/// Returns the groups of a frame of which only the capture time is known, `gap` after that of the
/// previous frame. If `gap` is `None` or too long, it is not spread.
pub(super) fn evenly(
    len: usize,
    gap: Option<Duration>,
    captured_at: Instant,
) -> VecDeque<(usize, Instant)> {
    let Some(gap) = gap.filter(|gap| *gap <= LONGEST_SPREAD) else {
        return [(len, captured_at)].into();
    };
    let steps = (gap.as_nanos() / STEP.as_nanos()).max(1) as usize;
    let least = len.div_ceil(steps).next_multiple_of(PACKET_LEN);
    let step = least.max(PIECE_PACKETS as usize * PACKET_LEN);
    let from = captured_at.saturating_sub(gap);
    (0..len)
        .step_by(step)
        .map(|at| {
            let share = at as f64 / len as f64;
            (step.min(len - at), from + gap.mul_f64(share))
        })
        .collect()
}

/// Returns the groups of a unit whose packets' arrival times are known.
pub(super) fn by_arrival(times: &ArrivalTimes, captured_at: Instant) -> VecDeque<(usize, Instant)> {
    let first_at = captured_at.saturating_sub(times.lead());
    let groups = times.groups(STEP, PIECE_PACKETS);
    groups
        .into_iter()
        .map(|(packets, since_first)| (packets as usize * PACKET_LEN, first_at + since_first))
        .collect()
}
