//! The live display of the demo: a screen, or a line a second if there is no terminal.

use std::io::{self, IsTerminal};
use std::time::Duration as StdDuration;

use anabranch_observe::names::state_name;
use anabranch_observe::status::Status;
use anabranch_terminal::print;
use anabranch_units::{Duration, Instant};

use super::judge::Promise;
use super::ledger::FrameTotals;
use super::network::LINKS;
use super::page;
use super::recording::{Recording, Sample, rate};
use crate::view::{Picture, Screen, StreamView, Wish};

/// Time between updates of the screen.
const SCREEN_INTERVAL: Duration = Duration::from_millis(200);
/// Time between lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Averaging time of a line's rates.
const RATE_WINDOW: Duration = Duration::from_millis(500);

/// State of the demo at one time.
#[derive(Debug)]
pub(super) struct Moment<'a> {
    pub(super) now: Instant,
    pub(super) end_at: Instant,
    /// Description of the source.
    pub(super) source: &'a str,
    /// Recording with at least one sample.
    pub(super) recording: &'a Recording,
    /// Status of the sender; it has no streams at first.
    pub(super) status: &'a Status,
    /// Preliminary verdicts on the promises.
    pub(super) promises: &'a [Promise],
    pub(super) frames: FrameTotals,
}

/// Display of the demo.
#[derive(Debug)]
pub(super) enum View {
    /// No display.
    #[cfg(test)]
    Hidden,
    /// Lines on standard output.
    Lines { next_at: Instant, told_count: usize },
    /// A screen on a terminal.
    Screen {
        screen: Screen,
        of_stream: Box<StreamView>,
        next_at: Instant,
    },
}

impl View {
    /// Opens a screen if standard output is a suitable terminal, otherwise lines.
    pub(super) fn for_standard_output() -> View {
        let screen = io::stdout().is_terminal().then(Screen::open);
        match screen {
            Some(Ok(screen)) => View::Screen {
                screen,
                of_stream: Box::default(),
                next_at: Instant::ZERO,
            },
            _ => View::Lines {
                next_at: Instant::ZERO,
                told_count: 0,
            },
        }
    }

    /// Returns whether an update is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        match self {
            #[cfg(test)]
            View::Hidden => false,
            View::Lines { next_at, .. } | View::Screen { next_at, .. } => now >= *next_at,
        }
    }

    /// Shows the state of the demo.
    pub(super) fn show(&mut self, moment: &Moment<'_>) -> anyhow::Result<()> {
        match self {
            #[cfg(test)]
            View::Hidden => Ok(()),
            View::Lines {
                next_at,
                told_count,
            } => {
                let happenings = &moment.recording.happenings;
                for happening in &happenings[*told_count..] {
                    let seconds = happening.at.as_secs_f64();
                    print::line(format_args!("{seconds:5.2} s  {}", happening.text))?;
                }
                *told_count = happenings.len();
                *next_at = moment.now + LINE_INTERVAL;
                print::line(line(moment))
            }
            View::Screen {
                screen,
                of_stream,
                next_at,
            } => {
                *next_at = moment.now + SCREEN_INTERVAL;
                if !moment.status.streams.is_empty() {
                    of_stream.history.add(moment.status.clone());
                }
                Ok(screen.draw(|frame| page::draw(frame, of_stream, moment))?)
            }
        }
    }

    /// Shows the thumbnail of a key frame.
    pub(super) fn show_picture(&mut self, picture: Picture) {
        if let View::Screen { of_stream, .. } = self {
            of_stream.picture = Some(picture);
        }
    }

    /// Handles the user's keys. Returns whether the user quits.
    pub(super) fn follow_keys(&mut self) -> io::Result<bool> {
        let View::Screen {
            screen,
            of_stream,
            next_at,
        } = self
        else {
            return Ok(false);
        };
        let wishes = screen.wishes(StdDuration::ZERO)?;
        if !wishes.is_empty() {
            *next_at = Instant::ZERO;
        }
        wishes.iter().for_each(|wish| of_stream.follow(*wish));
        Ok(wishes.contains(&Wish::Quit))
    }
}

/// Returns the rate at which a path delivers bytes on the wire, in Mbit/s.
fn path_rate(samples: &[Sample], path: usize) -> f64 {
    let last = samples.len() - 1;
    let received = |sample: &Sample| sample.paths[path].received.received_bytes;
    rate(samples, last, RATE_WINDOW, received).megabits_per_second()
}

/// Formats a duration as "61 ms", or a dash.
pub(super) fn milliseconds(span: Option<Duration>) -> String {
    span.map_or("–".to_owned(), |span| {
        format!("{:.0} ms", span.as_millis_f64())
    })
}

fn line(moment: &Moment<'_>) -> String {
    let samples = &moment.recording.samples;
    let last = &samples[samples.len() - 1];
    let mut line = format!(
        "{:5.1} s  target {:.2} Mbit/s, frame delay {} (max {})",
        moment.now.as_secs_f64(),
        last.target_bitrate.megabits_per_second(),
        milliseconds(moment.frames.mean_delay),
        milliseconds(moment.frames.max_delay),
    );
    for (index, (link, path)) in LINKS.iter().zip(&last.paths).enumerate() {
        line += &format!(
            " | {} {:.2} Mbit/s, RTT {}, loss {:.1} %, queue {}, {} {}",
            link.name,
            path_rate(samples, index),
            milliseconds(path.smoothed_rtt),
            path.loss_ratio * 100.0,
            milliseconds(Some(path.link_queue)),
            state_name(path.state),
            path.controller_state,
        );
    }
    line
}

#[cfg(test)]
mod tests {
    use super::super::recording::testing::flawless;
    use super::*;

    #[test]
    fn a_line_tells_target_and_both_paths() {
        let mut recording = flawless();
        recording.samples.truncate(450);
        let moment = Moment {
            now: Instant::from_secs(9),
            end_at: Instant::from_secs(30),
            source: "",
            recording: &recording,
            status: &Status::default(),
            promises: &[],
            frames: FrameTotals {
                mean_delay: Some(Duration::from_millis(70)),
                ..FrameTotals::default()
            },
        };
        let line = line(&moment);
        for part in [
            "  9.0 s",
            "target 2.00 Mbit/s",
            "frame delay 70 ms (max –)",
            "Wi-Fi 1.08 Mbit/s",
            "LTE 1.08 Mbit/s",
        ] {
            assert!(line.contains(part), "{part:?} in {line}");
        }
    }
}
