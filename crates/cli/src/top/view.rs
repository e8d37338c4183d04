//! What is drawn: the stream's paths as a table, and beneath it the last minutes of each, all on
//! one scale.

use ratatui::Frame;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, SparklineBar, Table, Wrap};

use super::about;
use super::history::History;
use super::picture::Picture;
use super::screen::Wish;
use crate::observe::status::{Path, Spread, Status, Stream};

/// Colours that can be told apart on dark and light grounds.
const COLOURS: [Color; 6] = [
    Color::Blue,
    Color::Yellow,
    Color::Green,
    Color::Magenta,
    Color::Cyan,
    Color::Red,
];

/// A column of the table: its head, its least width, what it means and what is in it.
struct Column {
    head: &'static str,
    width: u16,
    meaning: &'static str,
    text: fn(&Path) -> String,
}

const COLUMNS: [Column; 8] = [
    Column {
        head: "path",
        width: 14,
        meaning: "the network that it uses: this end's interface or address, or the peer's",
        text: |path| format!("{} {}", path.path, path.name),
    },
    Column {
        head: "state",
        width: 8,
        meaning: "active: carries data; suspect: silent for a moment, what it carried goes \
                  elsewhere too; out: silent, only asked whether it is alive; standby: held in \
                  reserve until the others do not suffice",
        text: state,
    },
    Column {
        head: "out Mbit/s",
        width: 10,
        meaning: "what this end sends by it, in millions of bits a second, headers included, mean \
                  of the last second",
        text: |path| in_megabits(path.sent_rate_bps.avg),
    },
    Column {
        head: "in Mbit/s",
        width: 9,
        meaning: "what this end receives by it, in millions of bits a second, headers included, \
                  mean of the last second",
        text: |path| in_megabits(path.received_rate_bps.avg),
    },
    Column {
        head: "RTT (max) ms",
        width: 13,
        meaning: "round-trip time in milliseconds: until the answer to a packet is back, mean of \
                  the last second, and the longest; – is unknown, as at an end that only receives",
        text: |path| path.rtt_s.map_or("–".to_owned(), rtt),
    },
    Column {
        head: "loss %",
        width: 6,
        meaning: "how many of a hundred packets sent did not arrive, over about the last hundred; \
                  – is unknown",
        text: |path| if_known(path, || format!("{:.1}", path.loss_ratio * 100.0)),
    },
    Column {
        head: "capacity",
        width: 8,
        meaning: "what the path is believed to carry for this stream, in Mbit/s; it is learned as \
                  the path is used, and too high while it is used little; – is unknown",
        text: |path| if_known(path, || in_megabits(path.bandwidth_bps as f64)),
    },
    Column {
        head: "waiting kB",
        width: 10,
        meaning: "thousands of bytes that wait here until the path takes them: each is a delay of \
                  8 ms at 1 Mbit/s",
        text: |path| format!("{:.1}", path.queued_bytes as f64 / 1e3),
    },
];

/// What is drawn of each path over time: its head, its unit, and its value.
type Charted = (&'static str, &'static str, fn(&Path) -> Option<f64>);
const CHARTS: [Charted; 3] = [
    ("rate (out + in)", "Mbit/s", |path| {
        Some((path.sent_rate_bps.avg + path.received_rate_bps.avg) / 1e6)
    }),
    ("RTT", "ms", |path| path.rtt_s.map(|rtt| rtt.avg * 1e3)),
    ("loss", "%", |path| Some(path.loss_ratio * 100.0)),
];
/// A scale ends at the next of these above the greatest value.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];
/// A narrower picture shows nothing.
const MIN_PICTURE_WIDTH: u16 = 12;
/// Sparklines take whole numbers.
const FINENESS: f64 = 1_000.0;

/// What is known, and what is chosen to be seen.
pub(super) struct View {
    address: String,
    pub(super) history: History,
    pub(super) problem: Option<String>,
    /// Of the chosen stream, at a receiver.
    pub(super) picture: Option<Picture>,
    stream: usize,
    column: usize,
}

impl View {
    pub(super) fn new(address: String, history: History) -> Self {
        View {
            address,
            history,
            problem: None,
            picture: None,
            stream: 0,
            column: 0,
        }
    }

    /// The chosen stream's name.
    pub(super) fn stream_name(&self) -> &str {
        let streams = self
            .history
            .last()
            .map_or(&[][..], |status| &status.streams);
        let stream = streams.get(self.stream).or(streams.last());
        stream.map_or("", |stream| &stream.name)
    }

    /// Does what a key asks for.
    pub(super) fn follow(&mut self, wish: Wish) {
        let count = self.history.last().map_or(0, |status| status.streams.len());
        let last = count.saturating_sub(1);
        match wish {
            Wish::NextStream => self.stream = (self.stream + 1).min(last),
            Wish::PreviousStream => self.stream = self.stream.min(last).saturating_sub(1),
            Wish::NextColumn => self.column = (self.column + 1) % COLUMNS.len(),
            Wish::PreviousColumn => {
                self.column = (self.column + COLUMNS.len() - 1) % COLUMNS.len();
            }
            Wish::Redraw | Wish::Quit => {}
        }
    }
}

/// One screen as text, as high as it must be.
pub(super) fn text(view: &View, width: u16) -> String {
    let streams = view
        .history
        .last()
        .map_or(&[][..], |status| &status.streams);
    let path_count = streams.get(view.stream).map_or(0, |of| of.paths.len());
    let height = 20 + streams.len().min(8) + path_count * 5;
    let backend = TestBackend::new(width.max(20), height as u16);
    let Ok(mut terminal) = ratatui::Terminal::new(backend);
    let Ok(_) = terminal.draw(|frame| draw(frame, view));
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in buffer.content().chunks(usize::from(buffer.area.width)) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let Some(status) = view.history.last() else {
        return;
    };
    let chosen = view.stream.min(status.streams.len().saturating_sub(1));
    let stream = status.streams.get(chosen);
    let list_height = match status.streams.len() {
        0 | 1 => 0,
        count => (count as u16 + 2).min(frame.area().height / 3),
    };
    let path_count = stream.map_or(0, |stream| stream.paths.len()) as u16;
    let [head, list, about, table, charts, meaning] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(list_height),
        Constraint::Length(3),
        Constraint::Length(path_count + 3),
        Constraint::Fill(1),
        Constraint::Length(4),
    ])
    .areas(frame.area());
    draw_head(frame, head, view, status);
    if list_height > 0 {
        draw_list(frame, list, status, chosen);
    }
    let Some(stream) = stream else {
        let text = "no session yet: nothing has come from a peer";
        frame.render_widget(Paragraph::new(text), about);
        return;
    };
    about::draw(frame, about, status, stream);
    draw_table(frame, table, view, stream);
    let charts = draw_picture(frame, charts, view);
    draw_charts(frame, charts, view, stream);
    let column = &COLUMNS[view.column];
    let title = format!("{} (arrows choose another column)", column.head);
    let text = Paragraph::new(column.meaning).wrap(Wrap { trim: true });
    frame.render_widget(text.block(Block::bordered().title(title)), meaning);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, view: &View, status: &Status) {
    let title = Line::from(vec![
        format!("anabranch {}", status.role).bold(),
        Span::raw(format!(
            "  at {}, up {:.0} s",
            view.address, status.uptime_s
        )),
        "   q ends this view, not the program".dim(),
    ]);
    let total = &status.total;
    let second = match &view.problem {
        Some(problem) => Line::from(format!("no news: {problem}; asking again").red().bold()),
        None => Line::raw(format!(
            "{}out {}, in {}, of it payload {}",
            match total.stream_count {
                1 => String::new(),
                count => format!("{count} streams: "),
            },
            megabits(total.sent_rate_bps.avg),
            megabits(total.received_rate_bps.avg),
            megabits(total.delivered_rate_bps.avg),
        )),
    };
    frame.render_widget(Paragraph::new(vec![title, second]), area);
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, status: &Status, chosen: usize) {
    let block = Block::bordered().title("streams (up and down choose one)");
    let height = usize::from(block.inner(area).height);
    // The chosen one is always to be seen.
    let skipped = (chosen + 1).saturating_sub(height);
    let lines = status.streams.iter().enumerate().skip(skipped);
    let lines = lines.map(|(index, stream)| {
        let active = stream.paths.iter().filter(|path| path.state == "active");
        let text = format!(
            "{:<20} out {:>12}  in {:>12}  {} of {} paths active",
            short(&stream.name),
            megabits(stream.sent_rate_bps.avg),
            megabits(about::received_bps(stream)),
            active.count(),
            stream.paths.len(),
        );
        match index == chosen {
            true => Line::from(text.reversed()),
            false => Line::raw(text),
        }
    });
    let lines: Vec<Line<'_>> = lines.take(height).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, view: &View, stream: &Stream) {
    let heads = COLUMNS.iter().enumerate().map(|(index, column)| {
        let cell = Cell::from(column.head);
        match index == view.column {
            true => cell.style(Style::new().reversed().bold()),
            false => cell.style(Style::new().bold()),
        }
    });
    let rows = stream.paths.iter().map(|path| {
        let cells = COLUMNS.iter().map(|column| {
            let cell = Cell::from((column.text)(path));
            match column.head {
                "path" => cell.style(colour(path.path)),
                "state" => cell.style(state_style(path)),
                _ => cell,
            }
        });
        Row::new(cells)
    });
    let widths = COLUMNS.iter().map(|column| Constraint::Min(column.width));
    let table = Table::new(rows, widths).header(Row::new(heads));
    frame.render_widget(table.block(Block::bordered().title("paths")), area);
}

/// Draws the picture, if there is one, at the right. Returns the room that it leaves.
fn draw_picture(frame: &mut Frame<'_>, area: Rect, view: &View) -> Rect {
    let Some(picture) = &view.picture else {
        return area;
    };
    // As wide as a third of the screen, and no higher than it.
    let mut width = area.width / 3;
    while width > 0 && picture.rows(width) + 2 > area.height {
        width -= 1;
    }
    if width < MIN_PICTURE_WIDTH {
        return area;
    }
    let [left, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(width + 2)]).areas(area);
    let block = Block::bordered().title("last key frame");
    let height = picture.rows(width) + 2;
    let around = Rect { height, ..right };
    frame.render_widget(picture, block.inner(around));
    frame.render_widget(block, around);
    left
}

/// A row of charts for each path; each chart has the same scale in all rows.
fn draw_charts(frame: &mut Frame<'_>, area: Rect, view: &View, stream: &Stream) {
    let columns: [Rect; CHARTS.len()] = Layout::horizontal([Constraint::Fill(1); 3]).areas(area);
    for (area, (head, unit, value)) in columns.into_iter().zip(CHARTS) {
        let seconds = usize::from(area.width.saturating_sub(2));
        let of_paths = stream.paths.iter();
        let of_paths = of_paths.map(|path| {
            let history = &view.history;
            history.values(&stream.name, path.path, seconds, value)
        });
        let of_paths: Vec<Vec<Option<f64>>> = of_paths.collect();
        let end = scale(of_paths.iter().flatten().flatten());
        let title = format!("{head}, 0 to {end} {unit}, last {seconds} s");
        let block = Block::bordered().title(title);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let rows = Layout::vertical(vec![Constraint::Fill(1); of_paths.len()]).split(inner);
        for ((values, row), path) in of_paths.iter().zip(rows.iter()).zip(&stream.paths) {
            draw_chart(frame, *row, path, values, end);
        }
    }
}

fn draw_chart(frame: &mut Frame<'_>, area: Rect, path: &Path, values: &[Option<f64>], end: f64) {
    let style = colour(path.path);
    let [label, chart] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(
        Line::styled(format!("{} {}", path.path, path.name), style),
        label,
    );
    let bars = values.iter().map(|value| {
        let value = value.map(|value| (value * FINENESS) as u64);
        SparklineBar::from(value)
    });
    // The newest is at the right edge.
    let missing = usize::from(chart.width).saturating_sub(values.len());
    let missing = core::iter::repeat_n(SparklineBar::from(None::<u64>), missing);
    let bars: Vec<SparklineBar> = missing.chain(bars).collect();
    let line = Sparkline::default()
        .data(bars)
        .max((end * FINENESS) as u64)
        .style(style);
    frame.render_widget(line, chart);
}

/// The end of a scale on which all values have room.
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

fn colour(path: usize) -> Style {
    Style::new().fg(COLOURS[path % COLOURS.len()])
}

fn state(path: &Path) -> String {
    match path.standby && path.state == "active" {
        true => "standby".to_owned(),
        false => path.state.clone(),
    }
}

fn state_style(path: &Path) -> Style {
    match path.state.as_str() {
        "active" => Style::new().green(),
        "suspect" => Style::new().yellow().bold(),
        _ => Style::new().red().bold(),
    }
}

pub(super) fn megabits(bits_per_second: f64) -> String {
    format!("{:.2} Mbit/s", bits_per_second / 1e6)
}

fn in_megabits(bits_per_second: f64) -> String {
    format!("{:.2}", bits_per_second / 1e6)
}

/// What only an end knows that has its packets acknowledged.
fn if_known(path: &Path, text: impl Fn() -> String) -> String {
    path.rtt_s.map_or("–".to_owned(), |_| text())
}

fn rtt(rtt: Spread) -> String {
    format!("{:.1} ({:.1})", rtt.avg * 1e3, rtt.max * 1e3)
}

/// A key is known by its first characters.
pub(super) fn short(name: &str) -> &str {
    match name.starts_with("abpub_") {
        true => name.get(..14).unwrap_or(name),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: usize, name: &str, rate: f64) -> Path {
        let spread = Spread {
            min: 0.0,
            avg: rate,
            max: rate,
        };
        Path {
            path: number,
            name: name.to_owned(),
            state: "active".to_owned(),
            sent_rate_bps: spread,
            rtt_s: Some(Spread {
                min: 0.010,
                avg: 0.020,
                max: 0.0315,
            }),
            loss_ratio: 0.012,
            ..Path::default()
        }
    }

    fn view() -> View {
        let mut history = History::default();
        for second in 0..30 {
            let stream = Stream {
                name: "video".to_owned(),
                connected: true,
                session: 2,
                sent_shares: [("new".to_owned(), 0.97), ("lost".to_owned(), 0.03)].into(),
                paths: vec![path(0, "wlan0", 1.5e6), path(1, "wwan0", 12.3e6)],
                ..Stream::default()
            };
            history.add(Status {
                role: "send".to_owned(),
                unix_time_s: f64::from(second),
                streams: vec![stream],
                ..Status::default()
            });
        }
        View::new("127.0.0.1:9797".to_owned(), history)
    }

    #[test]
    fn a_screen_shows_every_path_on_one_scale_and_says_what_the_column_means() {
        let mut view = view();
        for _ in 0..4 {
            view.follow(Wish::NextColumn);
        }
        let shown = text(&view, 120);
        for part in [
            "anabranch send  at 127.0.0.1:9797",
            "0 wlan0",
            "1 wwan0",
            "12.30 ",
            "20.0 (31.5)",
            "1.2 ",
            "session 2",
            "new 97.0 %",
            "rate (out + in), 0 to 20 Mbit/s",
            "RTT, 0 to 20 ms",
            "round-trip time in milliseconds: until the answer",
        ] {
            assert!(shown.contains(part), "{part:?} in\n{shown}");
        }
        // Three charts, each with a label for each path, and the table.
        assert_eq!(shown.matches("0 wlan0").count(), 4, "{shown}");
        // The faster path's line is the higher one.
        assert!(
            shown.contains('▂') || shown.contains('▅') || shown.contains('▄'),
            "{shown}"
        );
    }

    #[test]
    fn a_stream_among_many_is_chosen_and_short_of_sessions_nothing_is_drawn() {
        let mut view = view();
        let mut status = view.history.last().unwrap().clone();
        status.unix_time_s += 1.0;
        let other = Stream {
            name: "talkback".to_owned(),
            paths: vec![path(0, "eth0", 1.0)],
            ..Stream::default()
        };
        status.streams.push(other);
        view.history.add(status.clone());
        assert!(!text(&view, 100).contains("eth0"));
        view.follow(Wish::NextStream);
        view.follow(Wish::NextStream);
        assert!(text(&view, 100).contains("0 eth0"));
        status.unix_time_s += 1.0;
        status.streams.clear();
        view.history.add(status);
        assert!(text(&view, 100).contains("no session yet"));
        view.follow(Wish::PreviousStream);
    }

    #[test]
    fn the_key_frame_stands_beside_the_charts_where_there_is_room() {
        let mut view = view();
        let mut bytes = b"P6\n4 2\n255\n".to_vec();
        bytes.extend([200; 24]);
        view.picture = Picture::read(&bytes);
        let shown = text(&view, 120);
        assert!(shown.contains("last key frame"), "{shown}");
        assert!(shown.matches('▀').count() > 100, "{shown}");
        assert!(shown.contains("rate (out + in)"), "{shown}");
        assert!(!text(&view, 30).contains('▀'));
    }

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
    fn a_tiny_terminal_is_no_reason_to_panic() {
        let mut terminal = ratatui::Terminal::new(TestBackend::new(3, 2)).unwrap();
        terminal.draw(|frame| draw(frame, &view())).unwrap();
    }
}
