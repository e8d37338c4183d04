//! The table of a stream's paths, and the meaning of its columns.

use anabranch_observe::status::{Path, Spread, Stream};
use anabranch_observe::words::{self, Word};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table};

use super::{colour, rounded, ruled, span};

/// A column of the table: name and meaning, minimum width and content.
struct Column {
    word: Word,
    width: u16,
    text: fn(&Path) -> String,
}

pub(super) const COUNT: usize = 9;
const COLUMNS: [Column; COUNT] = [
    Column {
        word: words::PATH,
        width: 8,
        text: name,
    },
    Column {
        word: words::STATE,
        width: 7,
        text: state,
    },
    Column {
        word: words::SENT,
        width: 10,
        text: |path| in_megabits(path.sent_rate_bps.avg),
    },
    Column {
        word: words::RECEIVED,
        width: 9,
        text: |path| in_megabits(path.received_rate_bps.avg),
    },
    Column {
        word: words::RTT,
        width: 12,
        text: |path| path.rtt_s.map_or("–".to_owned(), rtt),
    },
    Column {
        word: words::LOSS,
        width: 6,
        text: |path| if_known(path, || format!("{:.1}", path.loss_ratio * 100.0)),
    },
    Column {
        word: words::CAPACITY,
        width: 8,
        text: |path| if_known(path, || in_megabits(path.bandwidth_bps as f64)),
    },
    Column {
        word: words::CAP,
        width: 4,
        text: |path| cap(path).unwrap_or_else(|| "–".to_owned()),
    },
    Column {
        word: words::QUEUE,
        width: 8,
        text: |path| format!("{:.1}", path.queued_bytes as f64 / 1e3),
    },
];
/// Width of the widest head.
const HEAD_WIDTH: usize = 12;
/// Screen width from which the columns have space between them.
const WIDE: u16 = 110;

/// Returns a path's name for people: its number, its carrier if that is TCP, and the network's
/// name.
pub(super) fn name(path: &Path) -> String {
    let by_tcp = if path.carrier == "TCP" { "TCP " } else { "" };
    format!("{} {by_tcp}{}", path.path, path.name)
}

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    stream: &Stream,
    chosen: usize,
    interval_s: f64,
) {
    let heads = COLUMNS.iter().enumerate().map(|(index, column)| {
        let cell = Cell::from(column.word.head);
        if index == chosen {
            cell.style(Style::new().reversed().bold())
        } else {
            cell.style(Style::new().bold())
        }
    });
    let rows = stream.paths.iter().map(|path| {
        let cells = COLUMNS.iter().map(|column| {
            let cell = Cell::from((column.text)(path));
            match column.word.head {
                "path" => cell.style(colour(path.path)),
                "state" => cell.style(state_style(path)),
                _ => cell,
            }
        });
        Row::new(cells)
    });
    let spacing = if area.width < WIDE { 1 } else { 3 };
    let others = COLUMNS[1..].iter().map(|column| column.width + spacing);
    let room = area.width.saturating_sub(others.sum());
    let lengths = stream.paths.iter().map(|path| name(path).chars().count());
    let longest = lengths.max().unwrap_or_default() as u16;
    let name_width = longest.min(room).max(COLUMNS[0].width);
    let widths = COLUMNS.iter().map(|column| match column.word.head {
        "path" => Constraint::Length(name_width),
        _ => Constraint::Length(column.width),
    });
    let title = format!("paths, in the last {}", span(rounded(interval_s)));
    let table = Table::new(rows, widths)
        .header(Row::new(heads))
        .column_spacing(spacing);
    frame.render_widget(table.block(ruled(&title)), area);
}

/// Explains the chosen column, or all columns if there is room or `explains_all` is set.
pub(super) fn meaning(chosen: usize, area: Rect, explains_all: bool) -> Vec<Line<'static>> {
    let width = usize::from(area.width).saturating_sub(HEAD_WIDTH + 1);
    let explained: Vec<Vec<Line<'static>>> = COLUMNS
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let style = if index == chosen {
                Style::new().reversed().bold()
            } else {
                Style::new().bold()
            };
            let texts = wrapped(column.word.meaning, width).into_iter();
            let rows = texts.enumerate().map(|(row, text)| match row {
                0 => {
                    let padding = " ".repeat(HEAD_WIDTH + 1 - column.word.head.chars().count());
                    let head = Span::styled(column.word.head, style);
                    Line::from(vec![head, Span::raw(padding + &text)])
                }
                _ => Line::raw(" ".repeat(HEAD_WIDTH + 1) + &text),
            });
            rows.collect()
        })
        .collect();
    let longest = explained.iter().map(Vec::len).max().unwrap_or_default();
    let height = explained.iter().map(Vec::len).sum::<usize>();
    if explains_all || height <= usize::from(area.height) / 3 {
        return explained.into_iter().flatten().collect();
    }
    // The choice of another column must not move the screen.
    let mut lines = explained.into_iter().nth(chosen).unwrap_or_default();
    lines.resize(longest.min(usize::from(area.height) / 4), Line::default());
    lines
}

/// Wraps the text at `width` characters; longer words stay whole.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn state(path: &Path) -> String {
    if path.standby && path.state == "active" {
        "standby".to_owned()
    } else {
        path.state.clone()
    }
}

fn state_style(path: &Path) -> Style {
    match path.state.as_str() {
        "active" => Style::new().green(),
        "suspect" => Style::new().yellow().bold(),
        _ => Style::new().red().bold(),
    }
}

fn in_megabits(bits_per_second: f64) -> String {
    format!("{:.2}", bits_per_second / 1e6)
}

fn cap(path: &Path) -> Option<String> {
    let (used, cap) = (path.cap_used_bytes?, path.cap_bytes?);
    Some(format!("{:.0}%", used as f64 / cap.max(1) as f64 * 100.0))
}

/// Returns the text if this end gets acknowledgements, otherwise a dash.
fn if_known(path: &Path, text: impl Fn() -> String) -> String {
    path.rtt_s.map_or("–".to_owned(), |_| text())
}

fn rtt(rtt: Spread) -> String {
    let [mean, longest] = [rtt.avg, rtt.max].map(|seconds| {
        if seconds < 0.1 {
            format!("{:.1}", seconds * 1e3)
        } else {
            format!("{:.0}", seconds * 1e3)
        }
    });
    format!("{mean} ({longest})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_fit_their_columns_and_all_columns_80_characters() {
        for column in &COLUMNS {
            let head = column.word.head.chars().count();
            assert!(head <= usize::from(column.width).min(HEAD_WIDTH), "{head}");
        }
        let width: u16 = COLUMNS.iter().map(|column| column.width).sum();
        assert!(width + COUNT as u16 - 1 <= 80, "{width}");
    }

    /// Returns the lines that explain a column in an area of this size.
    fn text(width: u16, height: u16) -> Vec<String> {
        let lines = meaning(4, Rect::new(0, 0, width, height), false);
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_large_terminal_explains_every_column_and_a_small_one_the_chosen() {
        let small = text(80, 22);
        assert_eq!(small.len(), 2);
        assert!(small[0].starts_with("RTT (max) ms round-trip time in milliseconds"));
        let large = text(200, 50);
        assert_eq!(large.len(), COUNT);
        for (line, column) in large.iter().zip(&COLUMNS) {
            assert!(line.starts_with(column.word.head) && line.ends_with(column.word.meaning));
        }
    }

    #[test]
    fn a_path_by_tcp_says_so() {
        let mut path = Path {
            name: "wlan0".to_owned(),
            carrier: "UDP".to_owned(),
            ..Path::default()
        };
        assert_eq!(name(&path), "0 wlan0");
        path.carrier = "TCP".to_owned();
        assert_eq!(name(&path), "0 TCP wlan0");
    }

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one", 0), ["one"]);
    }
}
