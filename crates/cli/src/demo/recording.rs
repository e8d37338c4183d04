//! The data of a demo run: the source of verdicts, table and plot.

use anabranch_core::PathCounters;
use anabranch_lab::metrics::{FrameMeter, FrameStatistics, Window};
use anabranch_net::Snapshot;
use anabranch_units::{DataRate, Duration, Instant};
use anabranch_video::player::PlayerFrame;

use super::ledger::FrameRecord;
use super::network::{LINKS, OUTAGE_AT, SETTLED_AT};

/// Video source of a run.
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
    /// Age up to which a frame is useful.
    pub(super) deadline: Duration,
    /// Time at which the session was up and the source began.
    pub(super) started_at: Instant,
    /// Time at which the source ended.
    pub(super) ended_at: Instant,
    /// Whether the user ended the run early.
    pub(super) is_interrupted: bool,
    /// Frames in the order of capture.
    pub(super) frames: Vec<FrameRecord>,
    /// Samples in the order of time, about 20 ms apart.
    pub(super) samples: Vec<Sample>,
    /// The ends at the last sample.
    pub(super) sender: Snapshot,
    pub(super) receiver: Snapshot,
    /// Changes of the paths.
    pub(super) view_events: Vec<ViewEvent>,
    /// Number of seconds in which the machine was too slow to keep time.
    pub(super) slow_seconds: u64,
}

/// An event that the view shows in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ViewEvent {
    pub(super) at: Instant,
    pub(super) text: String,
}

/// Target and reception at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) at: Instant,
    /// Target bitrate of the encoder.
    pub(super) target_bitrate: DataRate,
    /// Receptions by path.
    pub(super) received: [Received; LINKS.len()],
}

/// Bytes that have arrived on a path since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    /// All bytes on the wire.
    pub(super) bytes: u64,
    /// Media alone.
    pub(super) media_bytes: u64,
}

/// Returns the number of frames that could be displayed.
pub(super) fn displayable(statistics: &FrameStatistics) -> f64 {
    statistics.decodable_ratio.unwrap_or(0.0) * statistics.captured as f64
}

/// Returns the number of frames that were decodable by their deadlines.
pub(super) fn on_time(statistics: &FrameStatistics) -> u64 {
    let share = statistics.decodable_on_time_ratio.unwrap_or(0.0);
    (share * statistics.captured as f64).round() as u64
}

/// Returns the rate at which a byte count grew in the `window` before sample `index`.
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
    /// Creates the recording of a run that begins now.
    pub(super) fn begun(source: Source, deadline: Duration, started_at: Instant) -> Self {
        Recording {
            source,
            deadline,
            started_at,
            ended_at: started_at,
            is_interrupted: false,
            frames: Vec::new(),
            samples: Vec::new(),
            sender: Snapshot::default(),
            receiver: Snapshot::default(),
            view_events: Vec::new(),
            slow_seconds: 0,
        }
    }

    /// Returns the sender's counters, summed over all paths.
    pub(super) fn sent(&self) -> PathCounters {
        let paths = self.sender.paths.iter().map(|path| &path.counters);
        paths.fold(PathCounters::default(), |sum, path| sum.plus(path))
    }

    /// Returns whether the run was still active at `at`.
    pub(super) fn reaches(&self, at: Instant) -> bool {
        self.ended_at >= at
    }

    /// Returns the window of the whole run.
    pub(super) fn whole(&self) -> Window {
        Window::whole(self.ended_at - Instant::ZERO)
    }

    /// Returns the window of the outage and the second after it, limited to the run.
    pub(super) fn outage(&self) -> Window {
        Window {
            from: OUTAGE_AT,
            to: SETTLED_AT.min(self.ended_at),
            outside: None,
        }
    }

    /// Returns the window of the run without the outage.
    pub(super) fn outside_outage(&self) -> Window {
        Window {
            outside: Some((OUTAGE_AT, SETTLED_AT)),
            ..self.whole()
        }
    }

    /// Returns the frame statistics of a viewer, by the simulator's definitions. A frame arrives
    /// when it is handed over.
    pub(super) fn frame_statistics(&self, window: Window) -> FrameStatistics {
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

    /// Returns the rate of encoded video between `from` and `to`.
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
    use super::super::network::{FAILING, OUTAGE_AT, RETURN_AT};
    use super::*;

    /// Returns a run of 30 s without faults: frames 40 ms apart, each delivered after 70 ms.
    pub(in super::super) fn flawless() -> Recording {
        let started_at = Instant::from_millis(100);
        let frames = (0..747).map(|number| {
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
        });
        let mut last = Sample {
            target_bitrate: DataRate::from_megabits_per_second(2),
            ..Sample::default()
        };
        let samples = (0..1_500)
            .map(|number| {
                last.at = Instant::from_millis(number * 20);
                for (index, path) in last.received.iter_mut().enumerate() {
                    if index != FAILING || !(OUTAGE_AT..RETURN_AT).contains(&last.at) {
                        path.media_bytes += 2_500;
                        path.bytes += 2_700;
                    }
                }
                last
            })
            .collect();
        Recording {
            ended_at: Instant::from_secs(30),
            frames: frames.collect(),
            samples,
            ..Recording::begun(Source::Camera, Duration::from_millis(500), started_at)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(500);

    fn received(sample: &Sample) -> u64 {
        sample.received[1].bytes
    }

    #[test]
    fn rates_are_those_of_the_window() {
        let recording = testing::flawless();
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
    fn video_rate_counts_frames_of_the_span() {
        let recording = testing::flawless();
        let second = recording.video_rate(Instant::from_secs(12), Instant::from_secs(13));
        assert_eq!(second, DataRate::from_bits_per_second(25 * 10_000 * 8));
    }
}
