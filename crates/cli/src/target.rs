//! Target bitrate for encoders, which follows the links: `--encoder-range` and `--target-to`.

mod obs;
mod outlet;

use core::fmt;
use core::ops::ControlFlow;
use core::time::Duration as StdDuration;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use anabranch_core::SourceLimits;
use anabranch_mpegts_io::{CaptureName, Encoder, sound_source, video_source};
use anabranch_net::words::BitrateRange;
use anabranch_net::{Clock, Snapshot};
use anabranch_observe::target_line;
use anabranch_terminal::turns::{Turns, Wake};
use anabranch_units::{DataRate, Duration, Instant};
use anyhow::{Context, bail};
use serde_json::Value;

use crate::keygen::discreet;
use crate::paths::LiveSender;
use obs::Obs;
use outlet::{Outlet, TargetName};

/// Range of the built-in encoder if none is given: the least at which 720p can be watched, and the
/// most that services for live video take.
const BUILT_IN_RANGE: BitrateRange = BitrateRange {
    min: DataRate::from_kilobits_per_second(500),
    max: DataRate::from_megabits_per_second(6),
};

/// Options about an encoder of the user's own.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Encoder")]
pub(crate) struct TargetArguments {
    /// Bitrates that the encoder can produce, such as 500kbit/s..6Mbit/s, audio and container
    /// included. Without this range the bitrate of the input counts as fixed.
    #[arg(long, value_name = "MIN..MAX")]
    encoder_range: Option<BitrateRange>,
    /// Report the target to the encoder: `-` for JSON lines on standard output, unix:PATH for the
    /// same to a socket, udp://ADDR:PORT for one in each datagram,
    /// obs://ADDR:PORT[?password-file=FILE] for OBS. May be repeated.
    #[arg(long, value_name = "WHERE", requires = "encoder_range",
          value_parser = discreet::<TargetName>())]
    target_to: Vec<TargetName>,
}

/// Options about the encoder whose video is sent, which may be the built-in one.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Encoder")]
pub(crate) struct EncoderArguments {
    #[command(flatten)]
    target: TargetArguments,
    /// Encode a camera at the bitrate that the links carry, in place of INPUT, by GStreamer and
    /// x264: v4l2:DEVICE, or gst:PIPELINE for any source of pictures, as gst-launch-1.0 takes it.
    /// The range is 500kbit/s..6Mbit/s unless --encoder-range is given.
    #[arg(long, value_name = "SOURCE", value_parser = video_source)]
    encode: Option<CaptureName>,
    /// The sound of --encode, as AAC of 96 kbit/s: alsa:[DEVICE], pulse:[DEVICE] or gst:PIPELINE.
    #[arg(long, value_name = "SOURCE", requires = "encode", value_parser = sound_source)]
    encode_sound: Option<CaptureName>,
}

impl TargetArguments {
    /// Returns the limits of a source for the transport that is an encoder of the user's own.
    pub(crate) fn limits(&self) -> SourceLimits {
        let range = self.encoder_range;
        range.map_or(SourceLimits::Fixed, |BitrateRange { min, max }| {
            SourceLimits::Adaptive { min, max }
        })
    }

    /// Opens sockets and password files before the session begins.
    ///
    /// # Errors
    /// A socket or a file with a password cannot be opened.
    pub(crate) fn open(&self) -> anyhow::Result<Outlets> {
        Outlets::open(&self.target_to)
    }
}

impl EncoderArguments {
    /// Returns the limits of the source for the transport. `own` are its limits without options.
    ///
    /// # Errors
    /// The source follows by itself.
    pub(crate) fn limits(&self, own: SourceLimits) -> anyhow::Result<SourceLimits> {
        let built_in = self.encode.as_ref().map(|_| BUILT_IN_RANGE);
        match (self.target.encoder_range.or(built_in), own) {
            (Some(_), SourceLimits::Adaptive { .. }) => {
                bail!("--encoder-range is for an encoder of your own: test: follows by itself")
            }
            (Some(BitrateRange { min, max }), SourceLimits::Fixed) => {
                Ok(SourceLimits::Adaptive { min, max })
            }
            (None, own) => Ok(own),
        }
    }

    /// Returns the range that is given.
    pub(crate) fn range(&self) -> Option<(DataRate, DataRate)> {
        let range = self.target.encoder_range?;
        Some((range.min, range.max))
    }

    /// Returns whether an encoder receives the target.
    pub(crate) fn informs(&self) -> bool {
        !self.target.target_to.is_empty() || self.encode.is_some()
    }

    /// Returns the built-in encoder, if it is asked for.
    ///
    /// # Errors
    /// Something that it needs is missing.
    pub(crate) fn encoder(&self) -> anyhow::Result<Option<Encoder>> {
        match &self.encode {
            Some(video) => Ok(Some(Encoder::new(video, self.encode_sound.as_ref())?)),
            None => Ok(None),
        }
    }

    /// Opens sockets and password files before the session begins.
    ///
    /// # Errors
    /// A socket or a file with a password cannot be opened.
    pub(crate) fn open(&self, encoder: Option<&Encoder>) -> anyhow::Result<Outlets> {
        let mut outlets = Outlets::open(&self.target.target_to)?;
        if let Some(encoder) = encoder {
            let control = encoder
                .control()
                .context("--encode: cannot open a socket")?;
            outlets.0.push(Outlet::of_encoder(control));
        }
        Ok(outlets)
    }
}

/// Opened outlets for the target.
#[derive(Debug)]
pub(crate) struct Outlets(Vec<Outlet>);

/// Target of an encoder at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Target {
    /// Bitrate to produce.
    target: DataRate,
    /// Bitrate that the encoder produces.
    media: DataRate,
    at: Instant,
}

impl Target {
    fn line(&self) -> Value {
        let target = self.target.bits_per_second();
        target_line(self.at.as_secs_f64(), target, self.media.bits_per_second())
    }
}

/// Threads that report targets, one per outlet, until this is dropped.
pub(crate) struct TargetReports {
    running: Vec<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl fmt::Debug for TargetReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TargetReports({})", self.running.len())
    }
}

impl Outlets {
    fn open<'a>(names: impl IntoIterator<Item = &'a TargetName>) -> anyhow::Result<Outlets> {
        let opened = names.into_iter().map(TargetName::open);
        opened.collect::<anyhow::Result<_>>().map(Outlets)
    }

    /// Starts to report the targets of `sender`, which may be dropped meanwhile.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start_for(
        self,
        sender: &Arc<impl LiveSender + 'static>,
        clock: Clock,
    ) -> anyhow::Result<TargetReports> {
        let sender = Arc::downgrade(sender);
        self.start(
            move || sender.upgrade().map(|sender| sender.snapshot()),
            clock,
        )
    }

    /// Starts to report the targets of a session, whose state `snapshot` returns as long as it
    /// exists.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(
        self,
        snapshot: impl Fn() -> Option<Snapshot> + Send + Sync + 'static,
        clock: Clock,
    ) -> anyhow::Result<TargetReports> {
        let snapshot = Arc::new(snapshot);
        let mut running = Vec::new();
        for outlet in self.0 {
            let (stop, stopped) = mpsc::channel();
            let reader = TargetReader {
                snapshot: Arc::clone(&snapshot) as _,
                clock,
                media: MediaMeter::default(),
            };
            let mut reporting = Reporting {
                outlet,
                stopped,
                reader,
            };
            let thread = std::thread::Builder::new()
                .name("target".to_owned())
                .spawn(move || reporting.run_turns())?;
            running.push((stop, thread));
        }
        Ok(TargetReports { running })
    }
}

impl Drop for TargetReports {
    fn drop(&mut self) {
        for (stop, thread) in self.running.drain(..) {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Reader of a session's target.
struct TargetReader {
    snapshot: Arc<dyn Fn() -> Option<Snapshot> + Send + Sync>,
    clock: Clock,
    media: MediaMeter,
}

impl TargetReader {
    /// Returns the current target; `None` without a session.
    fn target(&mut self) -> Option<Target> {
        let snapshot = (self.snapshot)()?;
        snapshot.connected_at?;
        let at = self.clock.now();
        let media = self.media.see(at, snapshot.session.media_bytes_sent);
        Some(Target {
            target: snapshot.target_bitrate,
            media,
            at,
        })
    }
}

/// Measures a rate over the last second.
#[derive(Debug, Default)]
struct MediaMeter {
    marks: std::collections::VecDeque<(Instant, u64)>,
}

impl MediaMeter {
    fn see(&mut self, now: Instant, bytes: u64) -> DataRate {
        self.marks.push_back((now, bytes));
        let second = Duration::from_secs(1);
        while self.marks.get(1).is_some_and(|(at, _)| *at + second <= now) {
            self.marks.pop_front();
        }
        let (since, before) = self.marks[0];
        let span = now.saturating_since(since);
        if span.is_zero() {
            DataRate::ZERO
        } else {
            DataRate::from_bytes_per(bytes.saturating_sub(before), span)
        }
    }
}

/// Reports to one outlet. The target, which may change with each report of the receiver, is read in
/// each turn.
struct Reporting {
    outlet: Outlet,
    stopped: mpsc::Receiver<()>,
    reader: TargetReader,
}

impl Turns for Reporting {
    type Event = ();
    type Outcome = ();

    fn wait(&mut self, patience: StdDuration) -> Wake<()> {
        self.stopped.recv_timeout(patience).into()
    }

    fn turn(&mut self, wake: Wake<()>) -> ControlFlow<()> {
        if wake != Wake::Timeout {
            return ControlFlow::Break(());
        }
        let Some(target) = self.reader.target() else {
            return ControlFlow::Continue(());
        };
        let has_reader = match &mut self.outlet {
            Outlet::Lines(lines) => lines.report(target),
            Outlet::Obs(obs) => {
                obs.report(target, &self.reader.clock);
                true
            }
        };
        if has_reader {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_bitrates_in_order() {
        let range: BitrateRange = "500kbit/s..6Mbit/s".parse().unwrap();
        assert_eq!(range.min, DataRate::from_kilobits_per_second(500));
        assert_eq!(range.max, DataRate::from_megabits_per_second(6));
        for (text, part) in [
            ("6Mbit/s", "two bitrates"),
            ("6..7", "a data rate"),
            ("6Mbit/s..500kbit/s", "not above the second"),
            ("0..500kbit/s", "above zero"),
        ] {
            let error = text.parse::<BitrateRange>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    fn with(encoder_range: Option<&str>) -> EncoderArguments {
        EncoderArguments {
            target: TargetArguments {
                encoder_range: encoder_range.map(|text| text.parse().unwrap()),
                target_to: Vec::new(),
            },
            encode: None,
            encode_sound: None,
        }
    }

    #[test]
    fn a_source_with_a_range_follows() {
        let limits = with(Some("1Mbit/s..2Mbit/s")).limits(SourceLimits::Fixed);
        let expected = SourceLimits::Adaptive {
            min: DataRate::from_megabits_per_second(1),
            max: DataRate::from_megabits_per_second(2),
        };
        assert_eq!(limits.unwrap(), expected);
        assert_eq!(
            with(None).limits(SourceLimits::Fixed).unwrap(),
            SourceLimits::Fixed
        );
        let error = with(Some("1Mbit/s..2Mbit/s")).limits(expected).unwrap_err();
        assert!(error.to_string().contains("test: follows by itself"));
    }

    #[test]
    fn the_rate_of_media_is_that_of_the_last_second() {
        let mut meter = MediaMeter::default();
        let mut rate = DataRate::ZERO;
        for tick in 0..100_u64 {
            let bytes = match tick {
                0..50 => tick * 1_000,
                _ => 50_000 + (tick - 50) * 25_000,
            };
            rate = meter.see(Instant::from_millis(50 * tick), bytes);
        }
        assert_eq!(rate, DataRate::from_megabits_per_second(4));
    }
}
