//! The run as a picture: what each path carried, what the encoder was asked for, and the delay of
//! every frame, over one time axis with the outage shaded.

use std::path::Path;

use anabranch_units::{DataRate, Duration};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::ledger::FrameRecord;
use super::network::{FAILING, LINKS, OUTAGE_AT, RETURN_AT};
use super::recording::{Recording, Sample, Source, rate};

const WIDTH: u32 = 1_200;
const HEIGHT: u32 = 760;
/// Room for the legends, at the right.
const LEGEND_WIDTH: u32 = 250;
const FONT: &str = "sans-serif";
/// How long rates are averaged over: five frames.
const RATE_WINDOW: Duration = Duration::from_millis(200);
/// Every fifth sample is a point: 100 ms.
const SAMPLES_PER_POINT: usize = 5;

/// Colours that people with any colour vision tell apart (Okabe & Ito).
const PATHS: [RGBColor; LINKS.len()] = [RGBColor(0, 114, 178), RGBColor(230, 159, 0)];
const OTHER_BYTES: RGBColor = RGBColor(190, 190, 190);
const TARGET: RGBColor = RGBColor(0, 0, 0);
const FRAME: RGBColor = RGBColor(0, 158, 115);
const LATE: RGBColor = RGBColor(213, 94, 0);
const SHADE: RGBColor = RGBColor(204, 121, 167);

type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;
type Chart<'a, B> = ChartContext<
    'a,
    B,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

/// Draws the run into an SVG file.
///
/// # Errors
/// What kept the file from being written.
pub(super) fn draw(path: &Path, recording: &Recording) -> anyhow::Result<()> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        draw_all(&root, recording).map_err(|error| anyhow::anyhow!("{error}"))?;
    }
    std::fs::write(path, text)?;
    Ok(())
}

fn draw_all<B: DrawingBackend>(root: &DrawingArea<B, Shift>, recording: &Recording) -> Drawn<B> {
    root.fill(&WHITE)?;
    let names: Vec<String> = LINKS
        .iter()
        .map(|link| format!("{} ({}, {})", link.name, link.rate, link.delay))
        .collect();
    let title = format!("Anabranch: live video over {}", names.join(" and "));
    let root = root.titled(&title, (FONT, 22))?;
    let (above, below) = root.split_vertically(370);
    draw_rates(&above, recording)?;
    draw_delays(&below, recording)?;
    root.present()
}

/// Seconds at which the time axis ends.
fn axis_end(recording: &Recording) -> f64 {
    recording.ended_at.as_secs_f64().max(1.0)
}

/// Rates in Mbit/s, one on top of the other: each path's video, then all other bytes.
struct Stack {
    times: Vec<f64>,
    /// Upper edges, the lowest layer first.
    layers: Vec<Vec<f64>>,
    targets: Vec<f64>,
}

fn stack(recording: &Recording) -> Stack {
    let samples = &recording.samples;
    let indices: Vec<usize> = (0..samples.len()).step_by(SAMPLES_PER_POINT).collect();
    let sum = |sample: &Sample| sample.paths.iter().map(|path| path.received_bytes).sum();
    let mut layers = vec![Vec::new(); LINKS.len() + 1];
    for &index in &indices {
        let mut edge = DataRate::ZERO;
        for (path, layer) in layers[..LINKS.len()].iter_mut().enumerate() {
            let video = |sample: &Sample| sample.paths[path].received_media_bytes;
            edge += rate(samples, index, RATE_WINDOW, video);
            layer.push(edge.megabits_per_second());
        }
        let all = rate(samples, index, RATE_WINDOW, sum).max(edge);
        layers[LINKS.len()].push(all.megabits_per_second());
    }
    let target = |&index: &usize| samples[index].target_bitrate.megabits_per_second();
    Stack {
        times: indices
            .iter()
            .map(|&index| samples[index].at.as_secs_f64())
            .collect(),
        targets: indices.iter().map(target).collect(),
        layers,
    }
}

fn draw_rates<B: DrawingBackend>(area: &DrawingArea<B, Shift>, recording: &Recording) -> Drawn<B> {
    let stack = stack(recording);
    let edges = stack.layers.iter().flatten().chain(&stack.targets);
    let top = edges.copied().fold(1.0, f64::max) * 1.2;
    let mut chart = chart(area, axis_end(recording), top, "received, Mbit/s")?;
    shade_outage(&mut chart, recording, top)?;
    let names = LINKS
        .iter()
        .map(|link| format!("video by {}", link.name))
        .chain(["headers, repairs, repeats, padding".to_owned()]);
    let colours = PATHS.into_iter().chain([OTHER_BYTES]);
    let mut legend = Legend::new(area);
    // From the top down, so that each layer covers the one behind it.
    let layers: Vec<_> = stack.layers.iter().zip(names).zip(colours).collect();
    for ((edges, name), colour) in layers.into_iter().rev() {
        let points = stack.times.iter().copied().zip(edges.iter().copied());
        chart.draw_series(AreaSeries::new(points, 0.0, colour.filled()))?;
        legend.add(&name, |(x, y)| {
            Rectangle::new([(x - 9, y - 6), (x + 9, y + 6)], colour.filled())
        })?;
    }
    if recording.source == Source::Camera {
        let points = stack.times.iter().copied().zip(stack.targets);
        chart.draw_series(LineSeries::new(points, TARGET.stroke_width(2)))?;
        legend.add("target bitrate", |at| dash(at, 2))?;
    }
    Ok(())
}

fn draw_delays<B: DrawingBackend>(area: &DrawingArea<B, Shift>, recording: &Recording) -> Drawn<B> {
    let deadline = recording.deadline;
    let top = deadline.as_millis_f64() * 1.25;
    let end = axis_end(recording);
    let mut chart = chart(area, end, top, "delay of frames, ms")?;
    shade_outage(&mut chart, recording, top)?;
    let (in_time, late): (Vec<&FrameRecord>, Vec<&FrameRecord>) = recording
        .frames
        .iter()
        .partition(|frame| frame.delay().is_some_and(|delay| delay <= deadline));
    // What is late or never came stands near the upper border, however late it is, and below what
    // is written there.
    let height = |frame: &FrameRecord| {
        let delay = frame
            .delay()
            .map_or(f64::MAX, |delay| delay.as_millis_f64());
        delay.min(top * 0.88)
    };
    let place = |frame: &FrameRecord| (frame.captured_at.as_secs_f64(), height(frame));
    let dot = |frame: &&FrameRecord| Circle::new(place(frame), 2, FRAME.filled());
    chart.draw_series(in_time.iter().map(dot))?;
    let cross = |frame: &&FrameRecord| Cross::new(place(frame), 4, LATE.stroke_width(2));
    chart.draw_series(late.iter().map(cross))?;
    let line = [0.0, end].map(|x| (x, deadline.as_millis_f64()));
    chart.draw_series(DashedLineSeries::new(line, 8, 5, TARGET.into()))?;
    let mut legend = Legend::new(area);
    legend.add("capture to delivery", |at| {
        Circle::new(at, 3, FRAME.filled())
    })?;
    legend.add(&format!("late or never there: {}", late.len()), |at| {
        Cross::new(at, 4, LATE.stroke_width(2))
    })?;
    legend.add(&format!("deadline, {deadline}"), |at| dash(at, 1))
}

fn dash((x, y): (i32, i32), width: u32) -> PathElement<(i32, i32)> {
    PathElement::new([(x - 9, y), (x + 9, y)], TARGET.stroke_width(width))
}

/// What is what, beside the chart, where it hides nothing.
struct Legend<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    /// Middle of the next entry's mark, in pixels.
    next: (i32, i32),
}

impl<'a, B: DrawingBackend> Legend<'a, B> {
    fn new(area: &'a DrawingArea<B, Shift>) -> Self {
        Legend {
            area,
            next: ((WIDTH - LEGEND_WIDTH + 24) as i32, 24),
        }
    }

    fn add<E>(&mut self, name: &str, mark: impl FnOnce((i32, i32)) -> E) -> Drawn<B>
    where
        for<'e> &'e E: plotters::element::PointCollection<'e, (i32, i32)>,
        E: plotters::element::Drawable<B>,
    {
        let (x, y) = self.next;
        self.next.1 += 24;
        self.area.draw(&mark((x, y)))?;
        self.write(name, (x + 18, y - 7))
    }

    fn write(&self, name: &str, at: (i32, i32)) -> Drawn<B> {
        self.area.draw(&Text::new(name.to_owned(), at, (FONT, 14)))
    }
}

fn chart<'a, B: DrawingBackend>(
    area: &'a DrawingArea<B, Shift>,
    end: f64,
    top: f64,
    label: &str,
) -> Result<Chart<'a, B>, DrawingAreaErrorKind<B::ErrorType>> {
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_right(LEGEND_WIDTH)
        .x_label_area_size(42)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("time, s")
        .y_desc(label)
        .x_labels(16)
        .y_labels(6)
        .x_label_formatter(&|seconds| format!("{seconds:.0}"))
        .y_label_formatter(&|value| format!("{value:.0}"))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .label_style((FONT, 14))
        .axis_desc_style((FONT, 15))
        .draw()?;
    Ok(chart)
}

fn shade_outage<B: DrawingBackend>(
    chart: &mut Chart<'_, B>,
    recording: &Recording,
    top: f64,
) -> Drawn<B> {
    if !recording.reaches(OUTAGE_AT) {
        return Ok(());
    }
    let from = OUTAGE_AT.as_secs_f64();
    let to = RETURN_AT.min(recording.ended_at).as_secs_f64();
    let shade = Rectangle::new([(from, 0.0), (to, top)], SHADE.mix(0.25).filled());
    let label = format!("{} down", LINKS[FAILING].name);
    let text = Text::new(label, (from + 1.5, top * 0.97), (FONT, 16));
    chart.draw_series([shade])?;
    chart.draw_series([text])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::recording::testing::flawless;
    use super::*;

    fn svg(recording: &Recording) -> String {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("demo.svg");
        draw(&path, recording).expect("a picture");
        std::fs::read_to_string(path).expect("a picture")
    }

    fn hex(colour: RGBColor) -> String {
        format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
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
            assert!(svg.contains(&hex(colour)), "{colour:?}");
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
        let stack = stack(&flawless());
        let last = stack.times.len() - 1;
        let edges: Vec<f64> = stack.layers.iter().map(|layer| layer[last]).collect();
        // 2,500 bytes of video and 2,700 in all each 20 ms on each path.
        for (edge, expected) in edges.iter().zip([1.0, 2.0, 2.16]) {
            assert!((edge - expected).abs() < 1e-6, "{edges:?}");
        }
    }
}
