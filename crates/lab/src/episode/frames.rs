//! Outcomes of a flow's frames, weighted by their time.

use std::collections::VecDeque;

use anabranch_core::{MediaConfig, SourceLimits};
use anabranch_sim::{FrameEvent, FrameOutcome};
use anabranch_units::{Duration, Importance, Instant};
use anabranch_video::player::Decodability;

/// Longest time that a frame stands for. A pause of the source is not held against the first frame
/// after it; chosen: five frames per second.
const MAX_FRAME_TIME: Duration = Duration::from_millis(200);

/// Sums over frames whose outcome became known. Each frame is counted once, in the step in which
/// its outcome becomes known. Times are weighted: a frame stands for the time since the capture of
/// the frame before, at most 200 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrameSums {
    /// Frames complete within the deadline.
    pub on_time: u64,
    /// Frames that a viewer sees: complete, with all frames that they refer to, if late.
    pub decodable: u64,
    /// Frames that were late, incomplete or given up.
    pub missed: u64,
    /// Complete frames, late ones included.
    pub complete: u64,
    /// Time from capture to completion of the complete frames, added.
    pub delay: Duration,
    /// Bytes of the frames on time.
    pub on_time_bytes: u64,
    /// Seconds of video on time, each times its quality from 0 to 1: the logarithm of the frame's
    /// bitrate between the source's least and highest one. 1 for sources of one bitrate.
    pub quality_s: f64,
    /// Seconds of video, each times the frame's delay over the deadline, at most 1; 1 for frames
    /// that were missed.
    pub delay_s: f64,
    /// Seconds of video that was missed.
    pub missed_s: f64,
}

/// A frame whose outcome is not known.
#[derive(Clone, Copy, Debug)]
struct Open {
    index: u64,
    importance: Importance,
    /// Time that it stands for.
    time: Duration,
}

/// Counts the frames of one flow.
#[derive(Debug)]
pub(super) struct Frames {
    end: Instant,
    deadline: Duration,
    source: SourceLimits,
    captured_at: Option<Instant>,
    open: VecDeque<Open>,
    decodability: Decodability,
    sums: FrameSums,
}

impl Frames {
    /// Returns counts of the frames captured before `end`.
    pub(super) fn new(end: Instant, media: &MediaConfig) -> Frames {
        Frames {
            end,
            deadline: media.deadline,
            source: media.source,
            captured_at: None,
            open: VecDeque::new(),
            decodability: Decodability::default(),
            sums: FrameSums::default(),
        }
    }

    pub(super) fn on_captured(&mut self, frame: &FrameEvent) {
        let before = self.captured_at.replace(frame.captured_at);
        let time = before.map_or(Duration::ZERO, |before| frame.captured_at - before);
        if frame.captured_at < self.end {
            self.open.push_back(Open {
                index: frame.index,
                importance: frame.importance,
                time: time.min(MAX_FRAME_TIME),
            });
        }
    }

    pub(super) fn on_outcome(&mut self, frame: &FrameEvent, outcome: FrameOutcome) {
        while let Some(open) = self.open.front().copied()
            && open.index <= frame.index
        {
            self.open.pop_front();
            let completed_at = match outcome {
                FrameOutcome::Complete { completed_at } if open.index == frame.index => {
                    Some(completed_at)
                }
                _ => None,
            };
            self.count(open, frame, completed_at);
        }
    }

    fn count(&mut self, open: Open, frame: &FrameEvent, completed_at: Option<Instant>) {
        let is_complete = completed_at.is_some();
        let is_decodable = self.decodability.on_frame(open.importance, is_complete);
        let delay = completed_at.map(|at| at.saturating_since(frame.captured_at));
        if let Some(delay) = delay {
            self.sums.complete += 1;
            self.sums.delay += delay;
        }
        match delay.filter(|delay| *delay <= self.deadline) {
            Some(delay) => {
                let time_s = open.time.as_secs_f64();
                self.sums.on_time += 1;
                self.sums.decodable += u64::from(is_decodable);
                self.sums.on_time_bytes += u64::from(frame.size_bytes);
                self.sums.quality_s += time_s * self.quality(frame.size_bytes, open.time);
                self.sums.delay_s += time_s * (delay.as_secs_f64() / self.deadline.as_secs_f64());
            }
            None => self.miss(open),
        }
    }

    fn miss(&mut self, open: Open) {
        self.sums.missed += 1;
        self.sums.delay_s += open.time.as_secs_f64();
        self.sums.missed_s += open.time.as_secs_f64();
    }

    /// Returns the quality of a frame that stands for `time`.
    fn quality(&self, size_bytes: u32, time: Duration) -> f64 {
        let SourceLimits::Adaptive { min, max } = self.source else {
            return 1.0;
        };
        let [min, max] = [min, max].map(|rate| rate.bits_per_second() as f64);
        let rate = f64::from(size_bytes) * 8.0 / time.as_secs_f64().max(1e-9);
        if max > min && min > 0.0 {
            (libm::log(rate / min) / libm::log(max / min)).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }

    /// Counts the frames as missed whose outcome is still not known.
    pub(super) fn settle(&mut self) {
        while let Some(open) = self.open.pop_front() {
            self.miss(open);
        }
    }

    /// Returns the sums since the last call.
    pub(super) fn take(&mut self) -> FrameSums {
        std::mem::take(&mut self.sums)
    }
}
