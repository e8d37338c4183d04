//! What is to be seen while the demo runs: a screen, or a line a second where there is no terminal.

use std::io::{self, IsTerminal};
use std::time::Duration as StdDuration;

use anabranch_units::{Duration, Instant};

use super::judge::Promise;
use super::ledger::FrameTotals;
use super::network::LINKS;
use super::page;
use super::recording::{Recording, Sample, rate};
use crate::observe::status::Status;
use crate::path_news::state_name;
use crate::print;
use crate::view::{Picture, Screen, StreamView, Wish};

/// From one picture of the screen to the next.
const SCREEN_INTERVAL: Duration = Duration::from_millis(200);
/// From one line to the next.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// How long a line's rates are averaged over.
const RATE_WINDOW: Duration = Duration::from_millis(500);

/// The demo as it is now.
#[derive(Debug)]
pub(super) struct Moment<'a> {
    pub(super) now: Instant,
    pub(super) end_at: Instant,
    /// What is sent, in words.
    pub(super) source: &'a str,
    /// At least one sample.
    pub(super) recording: &'a Recording,
    /// The sender's; without streams in the first moment.
    pub(super) status: &'a Status,
    /// What became of them until now.
    pub(super) promises: &'a [Promise],
    pub(super) frames: FrameTotals,
}

/// Where the demo is shown.
#[derive(Debug)]
pub(super) enum View {
    /// Nowhere.
    #[cfg(test)]
    Hidden,
    /// On standard output, line by line.
    Lines { next_at: Instant, told_count: usize },
    /// On a terminal.
    Screen {
        screen: Screen,
        of_stream: Box<StreamView>,
        next_at: Instant,
    },
}

impl View {
    /// A screen if standard output is a terminal that can be one, else lines.
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

    /// Whether it is time to show something.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        match self {
            #[cfg(test)]
            View::Hidden => false,
            View::Lines { next_at, .. } | View::Screen { next_at, .. } => now >= *next_at,
        }
    }

    /// Shows a moment.
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

    /// A key frame has come.
    pub(super) fn show_picture(&mut self, picture: Picture) {
        if let View::Screen { of_stream, .. } = self {
            of_stream.picture = Some(picture);
        }
    }

    /// Does what the user asks for by keys. Whether that is the end.
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

/// The rate at which a path delivers bytes on the wire, in Mbit/s.
fn path_rate(samples: &[Sample], path: usize) -> f64 {
    let last = samples.len() - 1;
    let received = |sample: &Sample| sample.paths[path].received.received_bytes;
    rate(samples, last, RATE_WINDOW, received).megabits_per_second()
}

/// "61 ms", or a dash.
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
