//! Lines, areas, dots and crosses over a common axis.

use super::canvas::{
    Axis, BOTTOM, COLOURS, Canvas, Entry, HEIGHT, LEFT, NARROW, TICK, WIDE, escape,
};
use super::{Line, Lines, Mark, Shade};

/// Largest number of points per unit of width; more would be indistinguishable.
const MAX_POINTS: f64 = 600.0 / 640.0;

impl Lines {
    pub(super) fn width(&self) -> f64 {
        if self.is_wide { WIDE } else { NARROW }
    }

    /// Returns the picture's title and legend, and the legend's entries.
    pub(super) fn begun(&self, width: f64) -> (Canvas, Vec<Entry<'_>>) {
        let entries = self
            .lines
            .iter()
            .zip(COLOURS.iter().cycle())
            .map(|(line, colour)| Entry {
                label: &line.label,
                colour: line.colour.unwrap_or(colour),
                mark: line.mark,
            });
        let entries: Vec<Entry<'_>> = entries.collect();
        (Canvas::new(&self.title, width, &entries), entries)
    }

    pub(super) fn svg(&self, width: f64) -> String {
        let (mut canvas, entries) = self.begun(width);
        let (begin, end) = self.x_range();
        let x_axis = Axis {
            begin,
            end,
            pixels: (LEFT, canvas.right),
        };
        for shade in &self.shades {
            canvas.shade(shade, &x_axis);
        }
        let y_axis = canvas.y_axis(&self.y, self.y_end.unwrap_or(self.top() * 1.05));
        canvas.x_axis(&self.x, &x_axis);
        for (line, entry) in self.lines.iter().zip(&entries) {
            self.draw(&mut canvas, line, entry, (&x_axis, &y_axis));
        }
        canvas.finish()
    }

    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    /// Returns the largest value.
    fn top(&self) -> f64 {
        let ranges = self.lines.iter().flat_map(|line| &line.ranges);
        let values = self.points().chain(ranges).map(|(_, value)| *value);
        values.fold(0.0, f64::max)
    }

    /// Returns the beginning and the end of the horizontal axis.
    fn x_range(&self) -> (f64, f64) {
        if let Some(end) = self.x_end {
            return (0.0, end);
        }
        let ends = self
            .points()
            .fold((f64::INFINITY, 0.0_f64), |(begin, end), (x, _)| {
                (begin.min(*x), end.max(*x))
            });
        // A beginning near zero counts as zero.
        let begin = if ends.0 < 0.1 * ends.1 { 0.0 } else { ends.0 };
        let end = if ends.1 > begin { ends.1 } else { begin + 1.0 };
        (begin.min(ends.1), end)
    }

    fn draw(&self, canvas: &mut Canvas, line: &Line, entry: &Entry<'_>, axes: (&Axis, &Axis)) {
        if !matches!(line.mark, Mark::Line | Mark::Dashes | Mark::Area) {
            return canvas.points(entry, &places(&line.points, axes));
        }
        let most = (MAX_POINTS * (canvas.right - LEFT)) as usize;
        let max_step = self.max_step.unwrap_or(f64::INFINITY);
        for part in line
            .points
            .chunk_by(|(before, _), (after, _)| after - before < max_step)
        {
            // Lines with ranges are drawn point by point.
            let places = if line.ranges.is_empty() {
                places(&thinned(part, most), axes)
            } else {
                places(part, axes)
            };
            match line.mark {
                Mark::Area => canvas.area(entry.colour, &places),
                _ => canvas.polyline(entry, &places),
            }
        }
        for ((at, _), (low, high)) in line.points.iter().zip(&line.ranges) {
            canvas.polyline(entry, &places(&[(*at, *low), (*at, *high)], axes));
        }
    }
}

impl Canvas {
    fn x_axis(&mut self, label: &str, axis: &Axis) {
        for tick in axis.ticks() {
            let x = axis.at(tick);
            self.line((x, BOTTOM), (x, BOTTOM + TICK), 0.5);
            self.text(x, BOTTOM + 17.0, "middle", &axis.label(tick), "");
        }
        self.line((LEFT, BOTTOM), (self.right, BOTTOM), 0.5);
        let middle = (LEFT + self.right) / 2.0;
        self.text(middle, HEIGHT - 8.0, "middle", &escape(label), "");
    }

    fn shade(&mut self, shade: &Shade, axis: &Axis) {
        let [from, to] = [shade.from, shade.to].map(|x| axis.at(x.clamp(axis.begin, axis.end)));
        let top = self.top;
        self.part(format_args!(
            "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
             fill=\"{}\" fill-opacity=\"0.25\"/>",
            to - from,
            BOTTOM - top,
            COLOURS[3]
        ));
        let label = escape(&shade.label);
        self.text((from + to) / 2.0, top + 14.0, "middle", &label, "");
    }
}

/// Returns the points' places on the canvas.
fn places(points: &[(f64, f64)], (x, y): (&Axis, &Axis)) -> Vec<(f64, f64)> {
    points
        .iter()
        .map(|point| (x.at(point.0), y.at(point.1)))
        .collect()
}

/// Replaces neighbours by their means if there are more than `most` points.
fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let count = points.len().div_ceil(most).max(1);
    points
        .chunks(count)
        .map(|chunk| {
            let sum = chunk
                .iter()
                .fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
            (sum.0 / chunk.len() as f64, sum.1 / chunk.len() as f64)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_thinned_to_means() {
        let points: Vec<(f64, f64)> = (0..2_400).map(|x| (f64::from(x), 2.0)).collect();
        let thinned = thinned(&points, 600);
        assert_eq!((thinned.len(), thinned[0]), (600, (1.5, 2.0)));
    }

    #[test]
    fn a_line_breaks_where_nothing_was_measured() {
        let points = [0.0, 0.1, 0.2, 5.0, 5.1].map(|x| (x, 1.0)).to_vec();
        let mut lines = Lines {
            lines: vec![Line::new("a", points)],
            ..Lines::default()
        };
        assert_eq!(lines.svg(NARROW).matches("<polyline").count(), 1);
        lines.max_step = Some(0.35);
        assert_eq!(lines.svg(NARROW).matches("<polyline").count(), 2);
        // As many dots, and one in the legend.
        lines.lines[0].mark = Mark::Dots;
        assert_eq!(lines.svg(NARROW).matches("<circle").count(), 5 + 1);
    }
}
