//! The screen of a program: its streams, and the view of the chosen one.

use anabranch_observe::status::Status;
use ratatui::Frame;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::about::{self, short};
use super::outputs;
use crate::view::{KeyAction, StreamView, megabits, ruled};

/// Known state of the program, and the user's choices.
#[derive(Debug)]
pub(super) struct View {
    address: String,
    pub(super) problem: Option<String>,
    pub(super) of_stream: StreamView,
    stream: usize,
}

impl View {
    pub(super) fn new(address: String) -> Self {
        View {
            address,
            problem: None,
            of_stream: StreamView::default(),
            stream: 0,
        }
    }

    fn status(&self) -> Option<&Status> {
        self.of_stream.history.last()
    }

    /// Returns the name of the chosen stream.
    pub(super) fn stream_name(&self) -> &str {
        let streams = self.status().map_or(&[][..], |status| &status.streams);
        let stream = streams.get(self.stream).or(streams.last());
        stream.map_or("", |stream| &stream.name)
    }

    /// Handles a key.
    pub(super) fn follow(&mut self, action: KeyAction) {
        let count = self.status().map_or(0, |status| status.streams.len());
        let last = count.saturating_sub(1);
        match action {
            KeyAction::NextStream => self.stream = (self.stream + 1).min(last),
            KeyAction::PreviousStream => self.stream = self.stream.min(last).saturating_sub(1),
            action => self.of_stream.follow(action),
        }
    }
}

/// Returns one screen as text, as high as necessary.
pub(super) fn text(view: &View, width: u16) -> String {
    let streams = view.status().map_or(&[][..], |status| &status.streams);
    let path_count = streams.get(view.stream).map_or(0, |of| of.paths.len());
    let outputs_height = view.status().map_or(0, |status| {
        let stream = streams.get(view.stream).map_or("", |of| &of.name);
        outputs::height(status, stream)
    });
    let height = 30 + streams.len().min(8) + path_count * 3 + outputs_height;
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
    let Some(status) = view.status() else {
        return;
    };
    let chosen = view.stream.min(status.streams.len().saturating_sub(1));
    let stream = status.streams.get(chosen);
    let list_height = match status.streams.len() {
        0 | 1 => 0,
        count => (count as u16 + 1).min(frame.area().height / 3),
    };
    let stream_name = stream.map_or("", |stream| &stream.name);
    let outputs_height = outputs::height(status, stream_name) as u16;
    let [head, list, body, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(list_height),
        Constraint::Fill(1),
        Constraint::Length(outputs_height.min(frame.area().height / 3)),
    ])
    .areas(frame.area());
    draw_head(frame, head, view, status);
    if list_height > 0 {
        draw_list(frame, list, status, chosen);
    }
    match stream {
        Some(stream) => {
            let about = about::lines(status, stream);
            view.of_stream.draw(frame, body, stream, about);
        }
        None => {
            let text = "no session yet: nothing has come from a peer";
            frame.render_widget(Paragraph::new(text), body);
        }
    }
    if outputs_height > 0 {
        outputs::draw(frame, foot, status, stream_name);
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, view: &View, status: &Status) {
    let title = Line::from(vec![
        format!("anabranch {}", status.role).bold(),
        Span::raw(format!(
            "  at {}, up {:.0} s",
            view.address, status.uptime_s
        )),
        match status.slow_seconds {
            0 => Span::raw(""),
            seconds => format!(", machine too slow in {seconds} s").red(),
        },
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
    let block = ruled("streams (up and down choose one)");
    let height = usize::from(block.inner(area).height);
    // The chosen stream is always visible.
    let skipped = (chosen + 1).saturating_sub(height);
    let lines = status
        .streams
        .iter()
        .enumerate()
        .skip(skipped)
        .map(|(index, stream)| {
            let active = stream.paths.iter().filter(|path| path.state == "active");
            let text = format!(
                "{:<20} out {:>12}  in {:>12}  {} of {} paths active",
                short(&stream.name),
                megabits(stream.sent_rate_bps.avg),
                megabits(about::received_bps(stream)),
                active.count(),
                stream.paths.len(),
            );
            if index == chosen {
                Line::from(text.reversed())
            } else {
                Line::raw(text)
            }
        });
    let lines: Vec<Line<'_>> = lines.take(height).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

#[cfg(test)]
mod tests {
    use crate::view::{History, Picture};
    use anabranch_observe::status::{Path, Spread, Stream};

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
                sent_shares: [("new".to_owned(), 0.97), ("path-out".to_owned(), 0.03)].into(),
                paths: vec![path(0, "wlan0", 1.5e6), path(1, "wwan0", 12.3e6)],
                ..Stream::default()
            };
            history.add(Status {
                role: "send".to_owned(),
                interval_s: 1.0,
                unix_time_s: f64::from(second),
                streams: vec![stream],
                ..Status::default()
            });
        }
        let mut view = View::new("127.0.0.1:9797".to_owned());
        view.of_stream.history = history;
        view
    }

    /// Returns the number of full cells in the first chart of each line.
    fn full_cells(text: &str) -> usize {
        let rates = text.lines().skip(1).map(|line| line.chars().take(39));
        rates.flatten().filter(|cell| *cell == '█').count()
    }

    #[test]
    fn screen_shows_paths_on_one_scale_and_explains() {
        let mut view = view();
        for _ in 0..4 {
            view.follow(KeyAction::NextColumn);
        }
        view.of_stream.explains_all = true;
        let shown = text(&view, 120);
        for part in [
            "anabranch send  at 127.0.0.1:9797",
            "0 wlan0",
            "1 wwan0",
            "12.30 ",
            "20.0 (31.5)",
            "1.2 ",
            "session 2",
            "new 97.0 %, again by another path 3.0 %",
            "paths, in the last second",
            "state        active: carries data",
            "rate (out + in), 0 to 20 Mbit/s",
            "RTT, 0 to 20 ms",
            "round-trip time in milliseconds: until the answer",
        ] {
            assert!(shown.contains(part), "{part:?} in\n{shown}");
        }
        // Three charts with a label for each path, and the table.
        assert_eq!(shown.matches("0 wlan0").count(), 4, "{shown}");
        // The bars of the faster path are higher.
        let charts = shown.split("0 to 20 Mbit/s").nth(1).unwrap();
        let (slow, fast) = charts.split_once("1 wwan0").unwrap();
        assert!(full_cells(fast) > full_cells(slow) + 30, "{shown}");
    }

    #[test]
    fn a_stream_among_many_is_chosen_and_short_of_sessions_nothing_is_drawn() {
        let mut view = view();
        let mut status = view.of_stream.history.last().unwrap().clone();
        status.unix_time_s += 1.0;
        let other = Stream {
            name: "talkback".to_owned(),
            paths: vec![path(0, "eth0", 1.0)],
            ..Stream::default()
        };
        status.streams.push(other);
        view.of_stream.history.add(status.clone());
        assert!(!text(&view, 100).contains("eth0"));
        view.follow(KeyAction::NextStream);
        view.follow(KeyAction::NextStream);
        assert!(text(&view, 100).contains("0 eth0"));
        status.unix_time_s += 1.0;
        status.streams.clear();
        view.of_stream.history.add(status);
        assert!(text(&view, 100).contains("no session yet"));
        view.follow(KeyAction::PreviousStream);
    }

    #[test]
    fn the_key_frame_stands_beside_the_charts_where_there_is_room() {
        let mut view = view();
        let mut bytes = b"P6\n4 2\n255\n".to_vec();
        bytes.extend([200; 24]);
        view.of_stream.picture = Picture::read(&bytes);
        let shown = text(&view, 120);
        assert!(shown.contains("last key frame"), "{shown}");
        assert!(shown.matches('▀').count() > 100, "{shown}");
        assert!(shown.contains("rate, 0 to 20 Mbit/s"), "{shown}");
        assert!(!text(&view, 30).contains('▀'));
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_panic() {
        let mut terminal = ratatui::Terminal::new(TestBackend::new(3, 2)).unwrap();
        terminal.draw(|frame| draw(frame, &view())).unwrap();
    }
}
