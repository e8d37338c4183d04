//! All that a run of the demo leaves behind: what the promises, the table and the picture are made
//! from.

use anabranch_core::{PathCounters, PathState};
use anabranch_lab::metrics::{FrameMeter, FrameStatistics, Window};
use anabranch_units::{DataRate, Duration, Instant};
use anabranch_video::player::PlayerFrame;

use super::ledger::FrameRecord;
use super::network::{OUTAGE_AT, SETTLED_AT};
use crate::summary::repair_share;

/// What was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The built-in camera, whose encoder follows the target bitrate.
    Camera,
    /// A file at its own bitrate.
    File,
}

/// A run of the demo. Instants count from its start.
#[derive(Clone, Debug)]
pub(super) struct Recording {
    pub(super) source: Source,
    /// A frame is of use for so long after its capture.
    pub(super) deadline: Duration,
    /// When the session was up and the source began.
    pub(super) started_at: Instant,
    /// When the source ended.
    pub(super) ended_at: Instant,
    /// Whether the user ended it before its time.
    pub(super) is_interrupted: bool,
    /// In the order of capture.
    pub(super) frames: Vec<FrameRecord>,
    /// In the order of time, some tens of milliseconds apart.
    pub(super) samples: Vec<Sample>,
    /// What happened to the paths.
    pub(super) happenings: Vec<Happening>,
    /// In how many seconds the machine was too slow to keep time.
    pub(super) slow_seconds: u64,
}

/// Something worth a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Happening {
    pub(super) at: Instant,
    pub(super) text: String,
}

/// Both ends and the links at a moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    /// What the encoder is asked to produce.
    pub(super) target_bitrate: DataRate,
    /// Lost packets that the receiver has computed from repairs, since the start.
    pub(super) recovered_packets: u64,
    /// The index is the path's number.
    pub(super) paths: Vec<PathSample>,
}

impl Sample {
    /// Bytes of repairs by bytes of all else that was sent.
    pub(super) fn repair_share(&self) -> f64 {
        repair_share(&self.sent())
    }

    /// What the sender has counted on all paths.
    pub(super) fn sent(&self) -> PathCounters {
        let paths = self.paths.iter().map(|path| &path.sent);
        paths.fold(PathCounters::default(), |sum, path| sum.plus(path))
    }
}

/// One path at a moment. Counts are since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathSample {
    /// At the sender.
    pub(super) state: PathState,
    /// The controller's phase at the sender.
    pub(super) controller_state: &'static str,
    /// The controller's estimate at the sender.
    pub(super) bandwidth: DataRate,
    /// At the sender; `None` before the first answer.
    pub(super) smoothed_rtt: Option<Duration>,
    /// Share of recent packets lost, at the sender.
    pub(super) loss_ratio: f64,
    /// What the sender has counted.
    pub(super) sent: PathCounters,
    /// What the receiver has counted.
    pub(super) received: PathCounters,
    /// How long a packet would wait in the link's queue, towards the receiver.
    pub(super) link_queue: Duration,
}

/// The rate at which a count of bytes grew over the last `window` before sample `index`.
pub(super) fn rate(
    samples: &[Sample],
    index: usize,
    window: Duration,
    bytes: impl Fn(&Sample) -> u64,
) -> DataRate {
    let last = &samples[index];
    let since = last.at.saturating_sub(window);
    let first = samples[..index]
        .iter()
        .rev()
        .take_while(|sample| sample.at >= since)
        .last();
    first.map_or(DataRate::ZERO, |first| {
        let grown = bytes(last).saturating_sub(bytes(first));
        DataRate::from_bytes_per(grown, last.at - first.at)
    })
}

impl Recording {
    /// A run that has just begun.
    pub(super) fn begun(source: Source, deadline: Duration, started_at: Instant) -> Self {
        Recording {
            source,
            deadline,
            started_at,
            ended_at: started_at,
            is_interrupted: false,
            frames: Vec::new(),
            samples: Vec::new(),
            happenings: Vec::new(),
            slow_seconds: 0,
        }
    }

    /// Whether the run still went on at `at`.
    pub(super) fn reaches(&self, at: Instant) -> bool {
        self.ended_at >= at
    }

    /// All of it.
    pub(super) fn whole(&self) -> Window {
        Window::whole(self.ended_at - Instant::ZERO)
    }

    /// As much of the outage as it saw, and of what still counts as such.
    pub(super) fn outage(&self) -> Window {
        Window {
            from: OUTAGE_AT,
            to: SETTLED_AT.min(self.ended_at),
            outside: None,
        }
    }

    /// All but that.
    pub(super) fn outside_outage(&self) -> Window {
        Window {
            outside: Some((OUTAGE_AT, SETTLED_AT)),
            ..self.whole()
        }
    }

    /// What a viewer saw of the frames, by the simulator's definitions. A frame is there when it is
    /// handed over.
    pub(super) fn seen(&self, window: Window) -> FrameStatistics {
        let mut meter = FrameMeter::new(window, self.deadline);
        let mut now = Instant::ZERO;
        for frame in &self.frames {
            now = now.max(frame.delivered_at.unwrap_or(frame.captured_at));
            let player_frame = PlayerFrame {
                importance: frame.importance,
                captured_at: frame.captured_at,
                is_complete: frame.delivered_at.is_some(),
            };
            meter.on_frame(now, player_frame, frame.payload_bytes);
        }
        meter.finish()
    }

    /// Bytes of encoded video per time, from `from` to `to`.
    pub(super) fn video_rate(&self, from: Instant, to: Instant) -> DataRate {
        let frames = self
            .frames
            .iter()
            .filter(|frame| (from..to).contains(&frame.captured_at));
        let bytes = frames.map(|frame| frame.payload_bytes).sum();
        match to.saturating_since(from) {
            span if span.is_zero() => DataRate::ZERO,
            span => DataRate::from_bytes_per(bytes, span),
        }
    }
}

/// Recordings for tests.
#[cfg(test)]
pub(super) mod testing {
    use anabranch_units::Importance;
    use anabranch_video::fidelity::Fidelity;

    use super::super::ledger::Check;
    use super::super::network::{FAILING, LINKS, OUTAGE_AT, RETURN_AT};
    use super::*;

    /// A run of 30 s in which all goes well: frames 40 ms apart, each there after 70 ms.
    pub(in super::super) fn flawless() -> Recording {
        let started_at = Instant::from_millis(100);
        let frame = |number: u64| {
            let captured_at = started_at + Duration::from_millis(40) * number;
            FrameRecord {
                captured_at,
                importance: Importance::key_if(number.is_multiple_of(50)),
                payload_bytes: 10_000,
                delivered_at: Some(captured_at + Duration::from_millis(70)),
                check: Some(Check::Right),
                fidelity: Some(Fidelity {
                    psnr: 38.0,
                    ssim: 0.95,
                }),
            }
        };
        let mut samples: Vec<Sample> = Vec::new();
        for number in 0..1_500 {
            let at = Instant::from_millis(number * 20);
            let is_out = (OUTAGE_AT..RETURN_AT).contains(&at);
            let mut paths = vec![PathSample::default(); LINKS.len()];
            for (index, path) in paths.iter_mut().enumerate() {
                let before = samples.last().map(|last| last.paths[index]);
                *path = before.unwrap_or_default();
                if !(is_out && index == FAILING) {
                    path.received.received_media_bytes += 2_500;
                    path.received.received_bytes += 2_700;
                }
            }
            samples.push(Sample {
                at,
                target_bitrate: DataRate::from_megabits_per_second(2),
                recovered_packets: 0,
                paths,
            });
        }
        Recording {
            source: Source::Camera,
            deadline: Duration::from_millis(500),
            started_at,
            ended_at: Instant::from_secs(30),
            is_interrupted: false,
            frames: (0..747).map(frame).collect(),
            samples,
            happenings: Vec::new(),
            slow_seconds: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(500);

    #[test]
    fn rates_are_those_of_the_window() {
        let recording = testing::flawless();
        let received = |sample: &Sample| sample.paths[1].received.received_bytes;
        let measured = rate(&recording.samples, 700, WINDOW, received);
        assert_eq!(
            measured,
            DataRate::from_bytes_per(2_700, Duration::from_millis(20))
        );
        assert_eq!(
            rate(&recording.samples, 0, WINDOW, received),
            DataRate::ZERO
        );
    }

    #[test]
    fn the_videos_rate_counts_what_was_taken_in_the_span() {
        let recording = testing::flawless();
        let second = recording.video_rate(Instant::from_secs(12), Instant::from_secs(13));
        assert_eq!(second, DataRate::from_bits_per_second(25 * 10_000 * 8));
    }
}
