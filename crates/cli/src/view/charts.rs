//! Charts of the recent past of a stream's paths, all on one scale.

use anabranch_observe::status::{Path, Stream};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Sparkline, SparklineBar};

use super::columns::name;
use super::{History, colour, rounded, ruled, span};

/// A value that is drawn for each path over time.
struct Charted {
    head: &'static str,
    /// Title if there is no room for the head.
    short: &'static str,
    unit: &'static str,
    value: fn(&Path) -> Option<f64>,
}

pub(super) const CHART_COUNT: u16 = 3;
const CHARTS: [Charted; CHART_COUNT as usize] = [
    Charted {
        head: "rate (out + in)",
        short: "rate",
        unit: "Mbit/s",
        value: |path| Some((path.sent_rate_bps.avg + path.received_rate_bps.avg) / 1e6),
    },
    Charted {
        head: "RTT",
        short: "RTT",
        unit: "ms",
        value: |path| path.rtt_s.map(|rtt| rtt.avg * 1e3),
    },
    Charted {
        head: "loss",
        short: "loss",
        unit: "%",
        value: |path| Some(path.loss_ratio * 100.0),
    },
];
/// Possible ends of a scale in each decade.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];
/// Factor for sparklines, which take whole numbers.
const FINENESS: f64 = 1_000.0;
/// Rows from which a path has a label. Otherwise its colour and its position identify it, as in the
/// table.
const MIN_LABELLED: u16 = 3;

/// Draws a row of charts for each path; each chart has the same scale in all rows.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    history: &History,
    stream: &Stream,
    interval_s: f64,
) {
    // All charts have one width, so that they show the same time.
    let width = (area.width + 1) / CHART_COUNT;
    let columns: [Rect; CHARTS.len()] =
        Layout::horizontal([Constraint::Length(width.saturating_sub(1)); CHARTS.len()])
            .spacing(1)
            .areas(area);
    for (area, chart) in columns.into_iter().zip(&CHARTS) {
        let count = usize::from(area.width);
        let of_paths: Vec<Vec<Option<f64>>> = stream
            .paths
            .iter()
            .map(|path| history.values(&stream.name, path.path, count, chart.value))
            .collect();
        let end = scale(of_paths.iter().flatten().flatten());
        let past = span(count as f64 * rounded(interval_s));
        let block = ruled(&title(chart, end, &past, count));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let rows = Layout::vertical(vec![Constraint::Fill(1); of_paths.len()]).split(inner);
        for ((values, row), path) in of_paths.iter().zip(rows.iter()).zip(&stream.paths) {
            draw_path(frame, *row, path, values, end);
        }
    }
}

/// Returns the longest title that fits.
fn title(chart: &Charted, end: f64, past: &str, width: usize) -> String {
    let Charted {
        head, short, unit, ..
    } = chart;
    let shortest = format!("{short} 0–{end} {unit}");
    let mut titles = [
        format!("{head}, 0 to {end} {unit}, last {past}"),
        format!("{head}, 0 to {end} {unit}"),
        format!("{short}, 0 to {end} {unit}"),
    ]
    .into_iter();
    let fitting = titles.find(|title| title.chars().count() <= width);
    fitting.unwrap_or(shortest)
}

fn draw_path(frame: &mut Frame<'_>, area: Rect, path: &Path, values: &[Option<f64>], end: f64) {
    let style = colour(path.path);
    let label_height = u16::from(area.height >= MIN_LABELLED);
    let [label, chart] =
        Layout::vertical([Constraint::Length(label_height), Constraint::Fill(1)]).areas(area);
    if label_height > 0 {
        frame.render_widget(Line::styled(name(path), style), label);
    }
    let bars = values.iter().map(|value| {
        let value = value.map(|value| (value * FINENESS) as u64);
        SparklineBar::from(value)
    });
    // The newest value is at the right edge.
    let missing = usize::from(chart.width).saturating_sub(values.len());
    let missing = core::iter::repeat_n(SparklineBar::from(None::<u64>), missing);
    let bars: Vec<SparklineBar> = missing.chain(bars).collect();
    let line = Sparkline::default()
        .data(bars)
        .max((end * FINENESS) as u64)
        .style(style);
    frame.render_widget(line, chart);
}

/// Returns the end of a scale that contains all values.
fn scale<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    let greatest = values.fold(0.0, |greatest: f64, value| greatest.max(*value));
    let mut decade = 1.0;
    loop {
        for step in STEPS {
            if greatest <= step * decade {
                return step * decade;
            }
        }
        decade *= 10.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers() {
        for (greatest, end) in [
            (0.0, 1.0),
            (1.0, 1.0),
            (1.1, 2.0),
            (30.0, 50.0),
            (51.0, 100.0),
        ] {
            assert_eq!(scale([0.0, greatest].iter()), end);
        }
    }

    #[test]
    fn a_title_says_as_much_as_there_is_room_for() {
        for (width, expected) in [
            (60, "rate (out + in), 0 to 5 Mbit/s, last 32 s"),
            (40, "rate (out + in), 0 to 5 Mbit/s"),
            (20, "rate, 0 to 5 Mbit/s"),
            (17, "rate 0–5 Mbit/s"),
        ] {
            assert_eq!(title(&CHARTS[0], 5.0, "32 s", width), expected);
        }
    }
}
