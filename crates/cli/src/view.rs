//! A stream on a terminal, for `top` and the demo: a summary, its paths as a table, the last key
//! frame, and the meaning of the table's columns. Charts show the recent past of each path on one
//! scale.

mod charts;
mod columns;
mod history;
mod picture;
mod reasons;
mod screen;

use anabranch_observe::status::Stream;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph};

pub(crate) use history::History;
pub(crate) use picture::Picture;
pub(crate) use reasons::why_sent;
pub(crate) use screen::{KeyAction, Screen, width};

/// Colours that can be distinguished on dark and light backgrounds.
const COLOURS: [Color; 6] = [
    Color::Blue,
    Color::Yellow,
    Color::Green,
    Color::Magenta,
    Color::Cyan,
    Color::Red,
];

/// Known state of the streams, and the user's choices.
#[derive(Debug, Default)]
pub(crate) struct StreamView {
    pub(crate) history: History,
    /// The last key frame of the stream, if it is known.
    pub(crate) picture: Option<Picture>,
    /// Whether all columns are explained, even if little room remains.
    pub(crate) explains_all: bool,
    column: usize,
}

impl StreamView {
    /// Handles a key.
    pub(crate) fn follow(&mut self, action: KeyAction) {
        let count = columns::COUNT;
        match action {
            KeyAction::NextColumn => self.column = (self.column + 1) % count,
            KeyAction::PreviousColumn => self.column = (self.column + count - 1) % count,
            _ => {}
        }
    }

    /// Draws a stream. `about` is its summary.
    pub(crate) fn draw(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        stream: &Stream,
        about: Vec<Line<'_>>,
    ) {
        let meaning = columns::meaning(self.column, area, self.explains_all);
        let [head, table, charts, foot] = Layout::vertical([
            Constraint::Length(about.len() as u16),
            Constraint::Length(stream.paths.len() as u16 + 2),
            Constraint::Fill(1),
            Constraint::Length(meaning.len() as u16 + 1),
        ])
        .areas(area);
        frame.render_widget(Paragraph::new(about), head);
        let interval_s = self.history.last().map_or(1.0, |status| status.interval_s);
        columns::draw(frame, table, stream, self.column, interval_s);
        let charts = picture::draw(frame, charts, self.picture.as_ref());
        charts::draw(frame, charts, &self.history, stream, interval_s);
        let block = ruled("meaning of the columns (left and right choose one)");
        frame.render_widget(Paragraph::new(meaning).block(block), foot);
    }
}

/// Returns the block of a screen part with a title.
pub(crate) fn ruled(title: &str) -> Block<'static> {
    let title = format!("{title} ");
    Block::new().borders(Borders::TOP).title(title)
}

/// Formats a rate as "2.31 Mbit/s".
pub(crate) fn megabits(bits_per_second: f64) -> String {
    format!("{:.2} Mbit/s", bits_per_second / 1e6)
}

/// Formats an interval for "the last …": "second" or "2 s".
fn span(seconds: f64) -> String {
    match seconds {
        1.0 => "second".to_owned(),
        _ if seconds.fract() == 0.0 => format!("{seconds:.0} s"),
        _ => format!("{seconds:.1} s"),
    }
}

/// Returns an interval without the scheduling error, which is below a tenth of a second.
fn rounded(interval_s: f64) -> f64 {
    (interval_s * 10.0).round() / 10.0
}

/// Returns the colour of a path, which is the same everywhere.
fn colour(path: usize) -> Style {
    Style::new().fg(COLOURS[path % COLOURS.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_readable() {
        for (interval_s, text) in [(1.0004, "second"), (0.512, "0.5 s"), (2.0, "2 s")] {
            assert_eq!(span(rounded(interval_s)), text);
        }
    }
}
