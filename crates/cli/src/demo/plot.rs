//! The plot of a run: the rate of each path, the encoder's target, and the delay of every frame,
//! over one time axis with the outage shaded.

use std::path::Path;

use anabranch_lab::{Chart, Line, Lines, Mark, Shade, page, playing_page};
use anabranch_units::{DataRate, Duration};

use super::ledger::FrameRecord;
use super::network::{FAILING, LINKS, OUTAGE_AT, RETURN_AT};
use super::recording::{Recording, Source, rate};

/// Averaging time of rates: five frames.
const RATE_WINDOW: Duration = Duration::from_millis(200);
/// Samples per point of the plot: 100 ms.
const SAMPLES_PER_POINT: usize = 5;

/// Colours that people with any colour vision can distinguish (Okabe & Ito).
const PATHS: [&str; LINKS.len()] = ["#0072b2", "#e69f00"];
const OTHER_BYTES: &str = "#bebebe";
const TARGET: &str = "#000000";
const FRAME: &str = "#009e73";
const LATE: &str = "#d55e00";

/// Draws the run into an SVG file, which plays it in a loop if `is_moving`.
///
/// # Errors
/// The file cannot be written.
pub(super) fn draw(path: &Path, recording: &Recording, is_moving: bool) -> std::io::Result<()> {
    let draw = if is_moving { playing_page } else { page };
    std::fs::write(path, draw(&charts(recording)))
}

fn charts(recording: &Recording) -> [Chart; 2] {
    let links = LINKS.map(|link| format!("{} ({}, {})", link.name, link.rate, link.delay));
    let mut charts = [rates(recording), delays(recording)].map(|lines| Lines {
        x: "time, s".to_owned(),
        x_end: Some(recording.ended_at.as_secs_f64().max(1.0)),
        shades: outage(recording).into_iter().collect(),
        is_wide: true,
        ..lines
    });
    charts[0].title = format!("Anabranch: live video over {}", links.join(" and "));
    charts.map(Chart::Lines)
}

fn outage(recording: &Recording) -> Option<Shade> {
    recording.reaches(OUTAGE_AT).then(|| Shade {
        from: OUTAGE_AT.as_secs_f64(),
        to: RETURN_AT.min(recording.ended_at).as_secs_f64(),
        label: format!("{} down", LINKS[FAILING].name),
    })
}

/// Returns stacked rates: each path's video, then all other bytes. The lowest layer comes last, so
/// that each layer covers the one behind it.
fn layers(recording: &Recording) -> Vec<Line> {
    let samples = &recording.samples;
    let mut layers = vec![Vec::new(); LINKS.len() + 1];
    for index in (0..samples.len()).step_by(SAMPLES_PER_POINT) {
        let at = samples[index].at.as_secs_f64();
        let mut edge = DataRate::ZERO;
        for (path, layer) in layers[..LINKS.len()].iter_mut().enumerate() {
            edge += rate(samples, index, RATE_WINDOW, |sample| {
                sample.received[path].media_bytes
            });
            layer.push((at, edge.megabits_per_second()));
        }
        let all = rate(samples, index, RATE_WINDOW, |sample| {
            sample.received.iter().map(|path| path.bytes).sum()
        });
        layers[LINKS.len()].push((at, all.max(edge).megabits_per_second()));
    }
    let names = LINKS
        .iter()
        .map(|link| format!("video by {}", link.name))
        .chain(["headers, repairs, repeats, padding".to_owned()]);
    let colours = PATHS.into_iter().chain([OTHER_BYTES]);
    let layers = layers
        .into_iter()
        .zip(names)
        .zip(colours)
        .map(|((points, name), colour)| Line {
            mark: Mark::Area,
            colour: Some(colour),
            ..Line::new(name, points)
        });
    let mut layers: Vec<Line> = layers.collect();
    layers.reverse();
    layers
}

fn rates(recording: &Recording) -> Lines {
    let mut lines = layers(recording);
    if recording.source == Source::Camera {
        let samples = recording.samples.iter().step_by(SAMPLES_PER_POINT);
        lines.push(Line {
            colour: Some(TARGET),
            ..Line::new(
                "target bitrate",
                samples
                    .map(|sample| {
                        let rate = sample.target_bitrate.megabits_per_second();
                        (sample.at.as_secs_f64(), rate)
                    })
                    .collect(),
            )
        });
    }
    let edges = lines.iter().flat_map(|line| &line.points);
    Lines {
        y: "received, Mbit/s".to_owned(),
        // Room for the labels above.
        y_end: Some(edges.fold(1.0, |top: f64, (_, rate)| top.max(*rate)) * 1.2),
        lines,
        ..Lines::default()
    }
}

fn delays(recording: &Recording) -> Lines {
    let deadline = recording.deadline.as_millis_f64();
    let top = deadline * 1.25;
    let end = recording.ended_at.as_secs_f64();
    let (in_time, late): (Vec<&FrameRecord>, Vec<&FrameRecord>) =
        recording.frames.iter().partition(|frame| {
            frame
                .delay()
                .is_some_and(|delay| delay <= recording.deadline)
        });
    // Late and lost frames are drawn at a fixed height near the upper border, below the labels.
    let highest = top * 0.88;
    let late_name = format!("late or never there: {}", late.len());
    let deadline_name = format!("deadline, {}", recording.deadline);
    Lines {
        y: "delay of frames, ms".to_owned(),
        y_end: Some(top),
        lines: vec![
            Line {
                mark: Mark::Dots,
                colour: Some(FRAME),
                ..Line::new("capture to delivery".to_owned(), points(&in_time, highest))
            },
            Line {
                mark: Mark::Crosses,
                colour: Some(LATE),
                ..Line::new(late_name, points(&late, highest))
            },
            Line {
                mark: Mark::Dashes,
                colour: Some(TARGET),
                ..Line::new(deadline_name, vec![(0.0, deadline), (end, deadline)])
            },
        ],
        ..Lines::default()
    }
}

/// Returns the capture times, in seconds, and delays of frames, in milliseconds up to `highest`.
fn points(frames: &[&FrameRecord], highest: f64) -> Vec<(f64, f64)> {
    let points = frames.iter().map(|frame| {
        let delay = frame
            .delay()
            .map_or(f64::MAX, |delay| delay.as_millis_f64());
        (frame.captured_at.as_secs_f64(), delay.min(highest))
    });
    points.collect()
}

#[cfg(test)]
mod tests {
    use super::super::recording::testing::flawless;
    use super::*;

    fn svg(recording: &Recording) -> String {
        page(&charts(recording))
    }

    #[test]
    fn the_picture_has_each_series_the_outage_and_its_units() {
        let mut recording = flawless();
        recording.frames[100].delivered_at = None;
        let svg = svg(&recording);
        for part in [
            "video by Wi-Fi",
            "video by LTE",
            "target bitrate",
            "deadline, 500 ms",
            "late or never there: 1",
            "Wi-Fi down",
            "time, s",
            "received, Mbit/s",
            "delay of frames, ms",
        ] {
            assert!(svg.contains(part), "{part:?}");
        }
        for colour in PATHS.into_iter().chain([FRAME, LATE]) {
            assert!(svg.contains(colour), "{colour}");
        }
        // One dot per frame in time, one in the legend.
        assert_eq!(svg.matches("<circle").count(), 746 + 1);
    }

    #[test]
    fn a_run_without_outage_shows_none() {
        let mut recording = flawless();
        recording.ended_at = anabranch_units::Instant::from_secs(6);
        assert!(!svg(&recording).contains("Wi-Fi down"));
    }

    #[test]
    fn layers_stack_up_to_all_that_was_received() {
        let layers = layers(&flawless());
        let edges: Vec<f64> = layers
            .iter()
            .rev()
            .map(|line| line.points.last().expect("points").1)
            .collect();
        // Each path carries 2,500 bytes of video and 2,700 bytes in all every 20 ms.
        for (edge, expected) in edges.iter().zip([1.0, 2.0, 2.16]) {
            assert!((edge - expected).abs() < 1e-6, "{edges:?}");
        }
    }

    /// Returns the part of a picture that makes it play.
    fn player(svg: &str) -> Option<&str> {
        svg.find("<style>@media").map(|at| &svg[at..])
    }

    #[test]
    fn the_picture_of_the_readme_plays_over_the_same_plots() {
        let shown = include_str!("../../../../docs/demo.svg");
        let playing = playing_page(&charts(&flawless()));
        assert_eq!(player(shown), player(&playing));
        assert!(player(shown).is_some());
    }
}
