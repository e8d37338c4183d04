//! Traces as pictures: one SVG with a panel each for rates, delays, windows, queues and frames,
//! over one time axis.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::chart::{COLOURS, Chart, Line, Lines, Mark, page};

/// A picture that cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// A trace cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: csv::Error,
    },
    /// A trace is empty.
    #[error("{}: there is nothing in it to draw", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A sweep has more points than a picture shows.
    #[error(
        "{}: {panel_count} panels would not be readable; compare fewer: --set KEY=VALUE \
         fixes one of {keys}, --set 'sweep.KEY=[…]' shortens its list",
        path.display()
    )]
    Crowded {
        /// The file.
        path: PathBuf,
        /// Panels that the sweep needs.
        panel_count: usize,
        /// The keys that have a panel for each value.
        keys: String,
    },
    /// The picture cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

/// Draws the trace in `folder` (one run's) into its `trace.svg`, whose path it returns.
///
/// # Errors
/// [`PlotError`]: a file is missing, not a trace, or empty; or the picture cannot be written.
pub fn plot(folder: &Path) -> Result<PathBuf, PlotError> {
    let path = folder.join("trace.svg");
    draw(
        &path,
        panels(folder, |name| {
            Ok(BufReader::new(File::open(folder.join(name))?))
        })?,
    )?;
    Ok(path)
}

/// Draws a trace in memory: pairs of names and texts, as [`CsvTexts::into_texts`] returns them.
/// Returns the SVG.
///
/// # Errors
/// [`PlotError`]: a text is missing, not a trace, or empty.
///
/// [`CsvTexts::into_texts`]: crate::trace::CsvTexts::into_texts
pub fn plot_texts(texts: &[(&str, String)]) -> Result<String, PlotError> {
    Ok(picture(panels(Path::new(""), |name| {
        let found = texts.iter().find(|(known, _)| *known == name);
        let text = found.map_or("", |(_, text)| text);
        Ok(text.as_bytes())
    })?))
}

/// Writes a picture of panels that have one horizontal axis.
pub(crate) fn draw(path: &Path, panels: Vec<Lines>) -> Result<(), PlotError> {
    std::fs::write(path, picture(panels)).map_err(|source| PlotError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Returns the SVG of panels that have one horizontal axis.
fn picture(panels: Vec<Lines>) -> String {
    let wide = panels.into_iter().map(|panel| Lines {
        is_wide: true,
        ..panel
    });
    let charts: Vec<Chart> = wide.map(Chart::Lines).collect();
    page(&charts)
}

/// Ending of the names of lines that show frames which never arrived.
const GIVEN_UP: &str = " given up";
/// Gap of measurements at which a line breaks, in seconds.
const MAX_STEP: f64 = 0.35;

#[derive(Debug, Deserialize)]
struct PathRow {
    time_s: f64,
    flow: String,
    path: u8,
    route: String,
    delivered_bps: f64,
    delay_ms: Option<f64>,
    congestion_window_bytes: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct FlowRow {
    time_s: f64,
    flow: String,
    target_bps: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct LinkRow {
    time_s: f64,
    link: String,
    queued_bytes: f64,
}

#[derive(Debug, Deserialize)]
struct FrameRow {
    captured_s: f64,
    flow: String,
    outcome: String,
    delay_ms: f64,
}

fn read<T: DeserializeOwned, R: Read>(
    folder: &Path,
    name: &str,
    open: impl Fn(&str) -> io::Result<R>,
) -> Result<Vec<T>, PlotError> {
    open(name)
        .map_err(csv::Error::from)
        .and_then(|opened| {
            csv::Reader::from_reader(opened)
                .into_deserialize()
                .collect()
        })
        .map_err(|source| PlotError::Read {
            path: folder.join(name),
            source,
        })
}

/// Reads the tables of a trace in `folder`, which `open` opens by their names.
fn panels<R: Read>(
    folder: &Path,
    open: impl Fn(&str) -> io::Result<R>,
) -> Result<Vec<Lines>, PlotError> {
    let paths: Vec<PathRow> = read(folder, "paths.csv", &open)?;
    let flows: Vec<FlowRow> = read(folder, "flows.csv", &open)?;
    let links: Vec<LinkRow> = read(folder, "links.csv", &open)?;
    let frames: Vec<FrameRow> = read(folder, "frames.csv", &open)?;
    if flows.is_empty() {
        return Err(PlotError::Empty {
            path: folder.join("flows.csv"),
        });
    }
    let is_one_flow = flows.iter().all(|row| row.flow == flows[0].flow);
    let label = path_labels(&paths, is_one_flow);
    let rates = paths
        .iter()
        .map(|row| (label(row), row.time_s, row.delivered_bps / 1e6));
    // Half a second's mean: 100 ms hold too few packets, so the lines would be a blur.
    let mut rates: Vec<Line> = lines(rates)
        .into_iter()
        .map(|line| smoothed(line, 5))
        .collect();
    if is_one_flow {
        rates.extend(lines(flows.iter().filter_map(|row| {
            Some((
                "target bitrate".to_owned(),
                row.time_s,
                row.target_bps? / 1e6,
            ))
        })));
    }
    let delays = paths
        .iter()
        .filter_map(|row| Some((label(row), row.time_s, row.delay_ms?)));
    let windows = paths.iter().filter_map(|row| {
        let bytes = row.congestion_window_bytes?;
        Some((label(row), row.time_s, bytes / 1e3))
    });
    let queues = links
        .iter()
        .map(|row| (row.link.clone(), row.time_s, row.queued_bytes / 1e3));
    let mut queues = lines(queues);
    queues.retain(|series| series.points.iter().any(|(_, bytes)| *bytes > 0.0));
    let panels = [
        ("Delivered", "Mbit/s", rates),
        ("One-way delay of packets", "ms", lines(delays)),
        ("Congestion windows", "kB", lines(windows)),
        ("Queues", "kB", queues),
        ("Delay of frames", "ms", frame_lines(&frames)),
    ];
    let points = panels
        .iter()
        .flat_map(|(.., lines)| lines)
        .flat_map(|line| &line.points);
    let end = points.fold(0.0_f64, |end, (x, _)| end.max(*x));
    let mut subjects: Vec<String> = Vec::new();
    let panels = panels.map(|(title, unit, mut lines)| {
        colour(&mut lines, &mut subjects);
        Lines {
            title: title.to_owned(),
            x: "time, s".to_owned(),
            y: unit.to_owned(),
            lines,
            x_end: Some(end),
            max_step: Some(MAX_STEP),
            ..Lines::default()
        }
    });
    Ok(panels
        .into_iter()
        .filter(|panel| !panel.lines.is_empty())
        .collect())
}

/// Gives lines of one subject one colour in all panels.
fn colour(lines: &mut [Line], subjects: &mut Vec<String>) {
    for line in lines {
        let subject = line.label.strip_suffix(GIVEN_UP).unwrap_or(&line.label);
        let index = subjects
            .iter()
            .position(|known| known == subject)
            .unwrap_or_else(|| {
                subjects.push(subject.to_owned());
                subjects.len() - 1
            });
        line.colour = Some(COLOURS[index % COLOURS.len()]);
    }
}

/// Names a path by its route, by its flow, or by both if neither alone is unique.
fn path_labels(paths: &[PathRow], is_one_flow: bool) -> impl Fn(&PathRow) -> String {
    let of_several = paths
        .iter()
        .filter(|row| row.path > 0)
        .map(|row| row.flow.clone());
    let with_several_paths: BTreeSet<String> = of_several.collect();
    move |row| match (is_one_flow, with_several_paths.contains(&row.flow)) {
        (true, _) => row.route.clone(),
        (false, false) => row.flow.clone(),
        (false, true) => format!("{} {}", row.flow, row.route),
    }
}

/// Returns dots for complete frames, crosses for frames that were given up.
fn frame_lines(frames: &[FrameRow]) -> Vec<Line> {
    let (complete, given_up): (Vec<&FrameRow>, Vec<&FrameRow>) =
        frames.iter().partition(|row| row.outcome == "complete");
    let complete = complete
        .into_iter()
        .map(|row| (row.flow.clone(), row.captured_s, row.delay_ms));
    let given_up = given_up.into_iter().map(|row| {
        let name = format!("{}{GIVEN_UP}", row.flow);
        (name, row.captured_s, row.delay_ms)
    });
    let mut all = Vec::new();
    for (lines, mark) in [
        (lines(complete), Mark::Dots),
        (lines(given_up), Mark::Crosses),
    ] {
        all.extend(lines.into_iter().map(|line| Line { mark, ..line }));
    }
    all
}

/// Returns one line per label, in the order of labels.
fn lines(points: impl Iterator<Item = (String, f64, f64)>) -> Vec<Line> {
    let mut by_label: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (label, x, y) in points {
        by_label.entry(label).or_default().push((x, y));
    }
    let lines = by_label.into_iter();
    lines
        .map(|(label, points)| Line::new(label, points))
        .collect()
}

/// Replaces each point by the mean of itself and those before it, `count` in all.
fn smoothed(mut series: Line, count: usize) -> Line {
    let raw = series.points.clone();
    for (index, point) in series.points.iter_mut().enumerate() {
        let recent = &raw[(index + 1).saturating_sub(count)..=index];
        point.1 = recent.iter().map(|(_, y)| y).sum::<f64>() / recent.len() as f64;
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_keeps_a_constant_and_averages_a_step() {
        for (ys, width, expected) in [
            ([2.0; 4], 3, [2.0; 4]),
            ([0.0, 0.0, 4.0, 4.0], 2, [0.0, 0.0, 2.0, 4.0]),
        ] {
            let points = ys.iter().enumerate().map(|(x, y)| (x as f64, *y));
            let line = smoothed(Line::new("", points.collect()), width);
            let ys: Vec<f64> = line.points.into_iter().map(|(_, y)| y).collect();
            assert_eq!(ys, expected);
        }
    }

    #[test]
    fn a_missing_trace_is_named() {
        let error = plot(Path::new("/nowhere")).unwrap_err().to_string();
        assert_eq!(error, "cannot read /nowhere/paths.csv");
    }
}
