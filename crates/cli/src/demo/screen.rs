//! The live view on a terminal.

use std::io;
use std::time::Duration as StdDuration;

use anabranch_core::PathState;
use anabranch_units::Duration;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};
use ratatui::{DefaultTerminal, Frame};

use super::monitor::SAMPLE_INTERVAL;
use super::network::LINKS;
use super::recording::{Sample, rate};
use super::view::{Moment, RATE_WINDOW, milliseconds, path_rate};
use crate::path_news::state_name;

/// What a column of a sparkline stands for.
const COLUMN: Duration = Duration::from_millis(200);
/// One colour per path, as in the picture.
const COLOURS: [Color; LINKS.len()] = [Color::Blue, Color::Yellow];

/// A terminal in raw mode, given back as it was when this is dropped, and on a panic.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Screen> {
        let terminal = ratatui::try_init()?;
        Ok(Screen { terminal })
    }

    /// Draws everything anew.
    pub(super) fn draw(&mut self, moment: &Moment<'_>) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame, moment)).map(|_| ())
    }

    /// Whether q, Esc or Ctrl-C was pressed since this was last asked.
    pub(super) fn is_quit_wanted() -> io::Result<bool> {
        let mut is_wanted = false;
        while event::poll(StdDuration::ZERO)? {
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let is_interrupt =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                is_wanted |= is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
            }
        }
        Ok(is_wanted)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn draw(frame: &mut Frame<'_>, moment: &Moment<'_>) {
    let [head, paths, video, happenings] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(8),
        Constraint::Length(4),
        Constraint::Min(3),
    ])
    .areas(frame.area());
    draw_head(frame, head, moment);
    let columns: [Rect; LINKS.len()] = Layout::horizontal([Constraint::Fill(1); 2]).areas(paths);
    for (path, area) in columns.into_iter().enumerate() {
        draw_path(frame, area, moment, path);
    }
    draw_video(frame, video, moment);
    draw_happenings(frame, happenings, moment);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, moment: &Moment<'_>) {
    let [title, progress] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(area);
    let text = Line::from(vec![
        "Anabranch demo  ".bold(),
        Span::raw(moment.source),
        "   q ends it".dim(),
    ]);
    frame.render_widget(text, title);
    let (now, end) = (moment.now.as_secs_f64(), moment.end_at.as_secs_f64());
    let gauge = Gauge::default()
        .ratio((now / end.max(1e-9)).clamp(0.0, 1.0))
        .label(format!("{now:.1} of {end:.0} s"));
    frame.render_widget(gauge, progress);
}

fn draw_path(frame: &mut Frame<'_>, area: Rect, moment: &Moment<'_>, path: usize) {
    let link = &LINKS[path];
    let sample = &moment.samples[moment.samples.len() - 1].paths[path];
    let state_style = match sample.state {
        PathState::Active => Style::new().green(),
        PathState::Suspect => Style::new().yellow().bold(),
        PathState::Out | PathState::Removed => Style::new().red().bold(),
    };
    let title = Line::from(vec![
        Span::styled(link.name, Style::new().fg(COLOURS[path]).bold()),
        Span::raw(format!("  {}, {} one way  ", link.rate, link.delay)),
        Span::styled(state_name(sample.state), state_style),
    ]);
    let block = Block::bordered().title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [gauge, chart, text] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(2),
    ])
    .areas(inner);
    let received = path_rate(moment.samples, path);
    let capacity = link.rate.megabits_per_second();
    let bar = Gauge::default()
        .gauge_style(COLOURS[path])
        .ratio((received / capacity).clamp(0.0, 1.0))
        .label(format!("{received:.2} Mbit/s"));
    frame.render_widget(bar, gauge);
    let rates = history(moment.samples, chart.width, |samples, index| {
        let received = |sample: &Sample| sample.paths[path].received.received_bytes;
        rate(samples, index, RATE_WINDOW, received).bits_per_second() / 1_000
    });
    let line = Sparkline::default()
        .data(rates)
        .max(link.rate.bits_per_second() / 1_000)
        .style(COLOURS[path]);
    frame.render_widget(line, chart);
    let lines = vec![
        Line::raw(format!(
            "RTT {}  queue {}  loss {:.1} %",
            milliseconds(sample.smoothed_rtt),
            milliseconds(Some(sample.link_queue)),
            sample.loss_ratio * 100.0
        )),
        Line::raw(format!(
            "{}  bandwidth {:.2} Mbit/s",
            sample.controller_state,
            sample.bandwidth.megabits_per_second()
        )),
    ];
    frame.render_widget(Paragraph::new(lines), text);
}

fn draw_video(frame: &mut Frame<'_>, area: Rect, moment: &Moment<'_>) {
    let target = moment.samples[moment.samples.len() - 1].target_bitrate;
    let frames = &moment.frames;
    let block = Block::bordered().title("Video".bold());
    let lines = vec![
        Line::raw(format!(
            "target {:.2} Mbit/s   frame delay in the last second: mean {}, max {}",
            target.megabits_per_second(),
            milliseconds(frames.mean_delay),
            milliseconds(frames.max_delay),
        )),
        Line::raw(format!(
            "{} frames taken, {} there, {} displayable",
            frames.captured_count, frames.delivered_count, frames.displayable_count
        )),
    ];
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_happenings(frame: &mut Frame<'_>, area: Rect, moment: &Moment<'_>) {
    let block = Block::bordered().title("Events".bold());
    let shown_count = usize::from(block.inner(area).height);
    let skipped_count = moment.happenings.len().saturating_sub(shown_count);
    let lines: Vec<Line<'_>> = moment.happenings[skipped_count..]
        .iter()
        .map(|happening| {
            Line::raw(format!(
                "{:5.2} s  {}",
                happening.at.as_secs_f64(),
                happening.text
            ))
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// The newest values that fit `width` columns, the newest last.
fn history(samples: &[Sample], width: u16, value: impl Fn(&[Sample], usize) -> u64) -> Vec<u64> {
    let step = (COLUMN.as_nanos() / SAMPLE_INTERVAL.as_nanos()) as usize;
    let indices = (0..samples.len()).rev().step_by(step);
    let mut values: Vec<u64> = indices
        .take(usize::from(width))
        .map(|index| value(samples, index))
        .collect();
    values.reverse();
    values
}

#[cfg(test)]
mod tests {
    use super::super::ledger::FrameTotals;
    use super::super::recording::{Happening, testing::flawless};
    use super::*;
    use anabranch_units::Instant;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn the_screen_shows_paths_video_and_the_last_events() {
        let recording = flawless();
        let happenings: Vec<Happening> = (0..40)
            .map(|number| Happening {
                at: Instant::from_secs(number),
                text: format!("event {number}"),
            })
            .collect();
        let moment = Moment {
            now: Instant::from_secs(20),
            end_at: Instant::from_secs(30),
            source: "the camera",
            samples: &recording.samples[..1_000],
            happenings: &happenings,
            frames: FrameTotals {
                captured_count: 497,
                ..FrameTotals::default()
            },
        };
        let mut terminal = Terminal::new(TestBackend::new(100, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &moment)).unwrap();
        let shown = terminal.backend().to_string();
        for part in [
            "Wi-Fi  4 Mbit/s, 20 ms one way  active",
            "LTE  3 Mbit/s, 50 ms one way",
            "1.08 Mbit/s",
            "20.0 of 30 s",
            "target 2.00 Mbit/s",
            "497 frames taken",
            "event 39",
        ] {
            assert!(shown.contains(part), "{part:?} in\n{shown}");
        }
        assert!(!shown.contains("event 3 "), "{shown}");
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_panic() {
        let recording = flawless();
        let moment = Moment {
            now: Instant::ZERO,
            end_at: Instant::ZERO,
            source: "",
            samples: &recording.samples[..1],
            happenings: &recording.happenings,
            frames: FrameTotals::default(),
        };
        let mut terminal = Terminal::new(TestBackend::new(3, 2)).unwrap();
        terminal.draw(|frame| draw(frame, &moment)).unwrap();
    }
}
