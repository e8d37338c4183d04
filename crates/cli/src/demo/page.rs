//! The live view on a terminal: the sender as in `anabranch top`, and the demo's own data. These
//! are the links, the viewer's picture, the coming events and the promises.

use anabranch_observe::status::Stream;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Gauge, Paragraph};

use super::judge::{Promise, Verdict};
use super::moment::{Moment, delays};
use super::network::{LINKS, SCRIPT, scripted};
use super::recording::{Source, displayable};
use crate::view::{StreamView, megabits, ruled, why_sent};

/// Screen height from which the promises are shown.
const LARGE_HEIGHT: u16 = 36;
/// Screen width from which the promises stand beside the events.
const LARGE_WIDTH: u16 = 160;
/// Number of events on a small screen, and on a large one.
const EVENT_COUNTS: [u16; 2] = [3, 6];

pub(super) fn draw(frame: &mut Frame<'_>, view: &StreamView, moment: &Moment<'_>) {
    let area = frame.area();
    let is_large = area.height >= LARGE_HEIGHT;
    let is_wide = area.width >= LARGE_WIDTH;
    let event_height = EVENT_COUNTS[usize::from(is_large)] + 1;
    let promise_height = moment.promises.len() as u16 + 1;
    let script_height = match (is_large, is_wide) {
        (false, _) => event_height,
        (true, false) => event_height + promise_height,
        (true, true) => event_height.max(promise_height),
    };
    let [head, body, script] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(script_height),
    ])
    .areas(area);
    draw_head(frame, head, moment);
    match view
        .history
        .last()
        .and_then(|status| status.streams.first())
    {
        Some(stream) => view.draw(frame, body, stream, about(moment, stream)),
        None => frame.render_widget("it begins", body),
    }
    if !is_large {
        let title = format!("events; promises so far: {}", summary(moment.promises));
        draw_events(frame, script, moment, title);
        return;
    }
    let [events, promises] = if is_wide {
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(2)])
            .spacing(1)
            .areas(script)
    } else {
        Layout::vertical([Constraint::Fill(1), Constraint::Length(promise_height)]).areas(script)
    };
    draw_events(frame, events, moment, "events".to_owned());
    draw_promises(frame, promises, moment.promises);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, moment: &Moment<'_>) {
    let [title, progress] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(area);
    let text = Line::from(vec![
        "anabranch demo  ".bold(),
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

/// Returns lines about the links and the video.
fn about(moment: &Moment<'_>, stream: &Stream) -> Vec<Line<'static>> {
    let links = LINKS.map(|link| format!("{} {}, {} one way", link.name, link.rate, link.delay));
    let frames = &moment.frames;
    let encoder = match moment.recording.source {
        Source::Camera => {
            let rate = megabits(stream.target_rate_bps as f64);
            format!("encoder may send {rate}; ")
        }
        Source::File => String::new(),
    };
    vec![
        Line::raw(format!("emulated links: {}", links.join("; "))),
        Line::raw(format!(
            "{encoder}frames: {} taken, {} there, {:.0} displayable",
            frames.captured,
            frames.complete,
            displayable(frames)
        )),
        Line::raw(format!(
            "from capture to viewer, frames of the last second: {}",
            delays(&moment.recent)
        )),
        Line::raw(why_sent(stream)),
    ]
}

fn event_line(at_s: f64, text: &str) -> String {
    format!("{at_s:5.2} s  {text}")
}

/// Draws the last events and the next event of the script.
fn draw_events(frame: &mut Frame<'_>, area: Rect, moment: &Moment<'_>, title: String) {
    let view_events = &moment.recording.view_events;
    let past = view_events
        .iter()
        .map(|view_event| Line::raw(event_line(view_event.at.as_secs_f64(), &view_event.text)));
    let to_come = SCRIPT
        .iter()
        .filter(|(at, _)| {
            let seen_at = moment.recording.samples.last().map(|sample| sample.at);
            seen_at < Some(*at) && *at < moment.end_at
        })
        .map(|(at, what)| {
            let text = format!("{} (to come)", scripted(what));
            Line::from(event_line(at.as_secs_f64(), &text).dim())
        });
    let block = ruled(&title);
    let height = usize::from(block.inner(area).height);
    let lines: Vec<Line<'_>> = past.chain(to_come).collect();
    let skipped = lines.len().saturating_sub(height);
    let last_lines = lines[skipped..].to_vec();
    frame.render_widget(Paragraph::new(last_lines).block(block), area);
}

fn draw_promises(frame: &mut Frame<'_>, area: Rect, promises: &[Promise]) {
    let lines: Vec<Line<'_>> = promises
        .iter()
        .map(|promise| {
            let Promise {
                text,
                measured,
                verdict,
            } = promise;
            let rest = match verdict {
                Verdict::NotJudged => text.clone(),
                _ => format!("{text}: {measured}"),
            };
            Line::from(vec![
                Span::styled(format!("{:<12}", verdict.name()), style(*verdict)),
                Span::raw(rest),
            ])
        })
        .collect();
    let block = ruled("promises so far");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Returns the style of a preliminary verdict.
fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Kept => Style::new().green(),
        Verdict::Broken => Style::new().red().bold(),
        Verdict::NotJudged => Style::new().dim(),
    }
}

/// Counts the verdicts: "4 kept, 1 not judged".
fn summary(promises: &[Promise]) -> String {
    let verdicts = [Verdict::Kept, Verdict::Broken, Verdict::NotJudged];
    let counts = verdicts.map(|verdict| {
        let same = promises.iter().filter(|promise| promise.verdict == verdict);
        (same.count(), verdict.name())
    });
    let occur = counts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = occur
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if words.is_empty() {
        "none judged".to_owned()
    } else {
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::judge;
    use super::super::recording::{Recording, ViewEvent, testing::flawless};
    use super::*;
    use anabranch_lab::metrics::FrameStatistics;
    use anabranch_observe::status::{Path, Status};
    use anabranch_units::Instant;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn status() -> Status {
        let stream = Stream {
            target_rate_bps: 2_000_000,
            sent_shares: [("new".to_owned(), 1.0)].into(),
            paths: (0..LINKS.len())
                .map(|path| Path {
                    path,
                    name: LINKS[path].name.to_owned(),
                    state: "active".to_owned(),
                    ..Path::default()
                })
                .collect(),
            ..Stream::default()
        };
        Status {
            interval_s: 0.5,
            streams: vec![stream],
            ..Status::default()
        }
    }

    /// Returns the text on the screen after `seconds`.
    fn shown(recording: &Recording, seconds: u64, (width, height): (u16, u16)) -> String {
        let mut view = StreamView::default();
        view.history.add(status());
        let mut recording = recording.clone();
        let now = Instant::from_secs(seconds);
        recording.samples.retain(|sample| sample.at <= now);
        let moment = Moment {
            now,
            end_at: Instant::from_secs(30),
            source: "the camera",
            promises: &judge(&recording),
            status: &status(),
            recording: &recording,
            frames: FrameStatistics {
                captured: 497,
                ..FrameStatistics::default()
            },
            recent: FrameStatistics::default(),
        };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &view, &moment)).unwrap();
        terminal.backend().to_string()
    }

    fn contains_all(shown: &str, parts: &[&str]) {
        for part in parts {
            assert!(shown.contains(part), "{part:?} in\n{shown}");
        }
    }

    #[test]
    fn a_small_screen_shows_links_paths_video_and_the_last_events() {
        let mut recording = flawless();
        recording.view_events = (0..40)
            .map(|number| ViewEvent {
                at: Instant::from_secs(number),
                text: format!("event {number}"),
            })
            .collect();
        let shown = shown(&recording, 20, (80, 24));
        let expected = [
            "Wi-Fi 4 Mbit/s, 20 ms one way; LTE 3 Mbit/s, 50 ms one way",
            "0 Wi-Fi",
            "1 LTE",
            "paths, in the last 0.5 s",
            "20.0 of 30 s",
            "encoder may send 2.00 Mbit/s",
            "frames: 497 taken",
            "sent bytes: new 100.0 %",
            "promises so far: 5 kept",
            "event 39",
        ];
        contains_all(&shown, &expected);
        assert!(
            !shown.contains("event 3 ") && !shown.contains("to come"),
            "{shown}"
        );
    }

    #[test]
    fn a_large_screen_shows_each_promise_and_the_script() {
        let mut recording = flawless();
        recording.frames[149].delivered_at = None;
        let size = (200, 60);
        recording.ended_at = Instant::from_secs(9);
        let before = shown(&recording, 9, size);
        let expected = [
            "10.00 s  the Wi-Fi link goes down (to come)",
            "15.00 s  the Wi-Fi link is back (to come)",
            "kept        no gap above 500 ms",
            "not judged  the returned link",
        ];
        contains_all(&before, &expected);
        recording.frames.truncate(150);
        let within = shown(&recording, 12, size);
        let expected = [
            "BROKEN      at least 99.5 % of frames",
            "15.00 s  the Wi-Fi link is back (to come)",
        ];
        contains_all(&within, &expected);
        assert!(!within.contains("goes down"), "it is past: {within}");
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_panic() {
        for size in [(1, 1), (3, 2), (20, 12), (12, 40)] {
            shown(&flawless(), 0, size);
        }
    }
}
