//! The live display of the demo: a screen, or a line a second if there is no terminal.

use std::io::{self, IsTerminal};
use std::time::Duration as StdDuration;

use anabranch_terminal::print;
use anabranch_units::{Duration, Instant};

use super::moment::{Moment, delays};
use super::network::names;
use super::page;
use crate::end::End;
use crate::summary::Meter;
use crate::view::{KeyAction, Picture, Screen, StreamView};

/// Time between updates of the screen.
const SCREEN_INTERVAL: Duration = Duration::from_millis(200);
/// Time between lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Display of the demo.
#[derive(Debug)]
pub(super) enum View {
    /// No display.
    #[cfg(test)]
    Hidden,
    /// Lines on standard output.
    Lines {
        next_at: Instant,
        reported_count: usize,
        meter: Box<Meter>,
    },
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
                reported_count: 0,
                meter: Box::new(Meter::new(None, Instant::ZERO)),
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
                reported_count,
                meter,
            } => {
                let view_events = &moment.recording.view_events;
                for view_event in &view_events[*reported_count..] {
                    let seconds = view_event.at.as_secs_f64();
                    print::line(format_args!("{seconds:5.2} s  {}", view_event.text))?;
                }
                *reported_count = view_events.len();
                *next_at = moment.now + LINE_INTERVAL;
                print::line(line(meter, moment))
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
        let actions = screen.actions(StdDuration::ZERO)?;
        if !actions.is_empty() {
            *next_at = Instant::ZERO;
        }
        actions.iter().for_each(|action| of_stream.follow(*action));
        Ok(actions.contains(&KeyAction::Quit))
    }
}

/// Returns the sender's line, as `send --report` prints it, and the frame delays.
fn line(meter: &mut Meter, moment: &Moment<'_>) -> String {
    let sender = moment.recording.sender.clone();
    let sent = meter.line(End::Sender, sender, &names());
    format!("{sent} | frame delay: {}", delays(&moment.recent))
}

#[cfg(test)]
mod tests {
    use anabranch_net::{PathSnapshot, Snapshot};
    use anabranch_units::DataRate;

    use super::super::recording::testing::flawless;
    use anabranch_lab::metrics::FrameStatistics;
    use anabranch_observe::status::Status;

    use super::*;

    #[test]
    fn line_shows_target_paths_and_delays() {
        let mut recording = flawless();
        recording.sender = Snapshot {
            at: Instant::from_secs(9),
            connected_at: Some(Instant::ZERO),
            target_bitrate: DataRate::from_megabits_per_second(2),
            paths: vec![PathSnapshot::default(); 2],
            ..Snapshot::default()
        };
        let moment = Moment {
            now: Instant::from_secs(9),
            end_at: Instant::from_secs(30),
            source: "",
            recording: &recording,
            status: &Status::default(),
            promises: &[],
            frames: FrameStatistics::default(),
            recent: recording.frame_statistics(recording.whole()),
        };
        let line = line(&mut Meter::new(None, Instant::ZERO), &moment);
        for part in [
            "9.0 s: target 2 Mbit/s",
            "| Wi-Fi 0.00 Mbit/s",
            "| LTE 0.00 Mbit/s",
            "frame delay: mean 70 ms, longest 70 ms",
        ] {
            assert!(line.contains(part), "{part:?} in {line}");
        }
    }
}
