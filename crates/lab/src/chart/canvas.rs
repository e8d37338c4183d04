//! Elements of pictures: a title, a legend, axes, and marks on them.

use std::fmt::Write;

use super::Mark;

/// Colours that are readable on black and on white. People with any colour vision can distinguish
/// the first seven (Okabe & Ito); the others are for pictures of more lines.
pub(crate) const COLOURS: [&str; 10] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#888888", "#8a6fdf",
    "#9c6b3c", "#c23b50",
];

/// Widths of pictures that phones show, of those within a text, and of those that fill a screen.
pub(super) const PHONE: f64 = 480.0;
pub(super) const NARROW: f64 = 720.0;
pub(super) const WIDE: f64 = 1_200.0;
pub(super) const HEIGHT: f64 = 320.0;
pub(super) const LEFT: f64 = 64.0;
pub(super) const BOTTOM: f64 = 276.0;
/// Largest size of a title's letters.
const TITLE: f64 = 14.0;
/// Length of a tick below the horizontal axis.
pub(super) const TICK: f64 = 4.0;
/// Distance between the right border and the plot.
const MARGIN: f64 = 16.0;
/// Position of the legend's first row if there is one row, and if there are more.
const LEGEND: [f64; 2] = [32.0, 26.0];
const LEGEND_ROW: f64 = 14.0;

/// Escapes a text for XML and HTML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The parts of an SVG picture that is being drawn.
pub(super) struct Canvas {
    text: String,
    /// Right end of the axes.
    pub(super) right: f64,
    /// Upper end of the axes, below the legend.
    pub(super) top: f64,
}

/// Entry of the legend.
pub(super) struct Entry<'a> {
    pub(super) label: &'a str,
    pub(super) colour: &'a str,
    pub(super) mark: Mark,
}

impl Canvas {
    /// Returns a picture with a title and, in rows below it, the legend.
    pub(super) fn new(title: &str, width: f64, legend: &[Entry<'_>]) -> Canvas {
        let right = width - MARGIN;
        // A letter is about half as wide as high.
        let size = (1.8 * (right - LEFT) / title.chars().count().max(1) as f64).min(TITLE);
        let title = escape(title);
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" \
             role=\"img\" aria-label=\"{title}\" fill=\"currentColor\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\">\n"
        );
        let mut canvas = Canvas {
            text,
            right,
            top: 0.0,
        };
        canvas.text(
            LEFT,
            18.0,
            "start",
            &title,
            &format!(" font-size=\"{size:.1}\""),
        );
        canvas.legend(legend);
        canvas
    }

    pub(super) fn part(&mut self, part: std::fmt::Arguments<'_>) {
        self.text
            .write_fmt(part)
            .expect("a String takes everything");
        self.text.push('\n');
    }

    /// Draws `text`, which is already escaped.
    pub(super) fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str, more: &str) {
        self.part(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{more}>{text}</text>"
        ));
    }

    /// Draws a name that is too long for its place: small, and broken behind dashes.
    pub(super) fn small_text(&mut self, x: f64, y: f64, name: &str, width: f64) {
        let longest = (width / 4.6) as usize;
        let mut rows = vec![String::new()];
        for word in name.split_inclusive('-') {
            let row = rows.last_mut().expect("there is one");
            if row.is_empty() || row.chars().count() + word.chars().count() <= longest {
                row.push_str(word)
            } else {
                rows.push(word.to_owned())
            }
        }
        for (index, row) in rows.iter().enumerate() {
            let y = y + 9.5 * index as f64;
            self.text(x, y, "middle", &escape(row), " font-size=\"8.5\"");
        }
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), opacity: f64) {
        self.part(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"currentColor\" \
             stroke-opacity=\"{opacity}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// Draws the vertical axis from zero to `end`.
    pub(super) fn y_axis(&mut self, label: &str, end: f64) -> Axis {
        let axis = Axis {
            begin: 0.0,
            end: if end > 0.0 { end } else { 1.0 },
            pixels: (BOTTOM, self.top),
        };
        for tick in axis.ticks() {
            let y = axis.at(tick);
            self.line((LEFT, y), (self.right, y), 0.15);
            self.text(LEFT - 6.0, y + 4.0, "end", &axis.label(tick), "");
        }
        let middle = (self.top + BOTTOM) / 2.0;
        let turned = format!(" transform=\"rotate(-90 14 {middle})\"");
        self.text(14.0, middle, "middle", &escape(label), &turned);
        axis
    }

    /// Draws the legend in as many rows as it needs; the plot begins below them.
    fn legend(&mut self, entries: &[Entry<'_>]) {
        let mut places = Vec::new();
        let (mut x, mut row) = (LEFT, 0);
        for entry in entries.iter().filter(|entry| !entry.label.is_empty()) {
            let width = 34.0 + 6.4 * entry.label.chars().count() as f64;
            if x + width > self.right + 18.0 && x > LEFT {
                (x, row) = (LEFT, row + 1);
            }
            places.push((x, row, entry));
            x += width;
        }
        for (x, below, entry) in places {
            let y = LEGEND[row.min(1)] + LEGEND_ROW * below as f64;
            self.mark(entry, x + 6.0, y + 4.0);
            self.text(x + 16.0, y + 8.0, "start", &escape(entry.label), "");
        }
        self.top = 56.0 + LEGEND_ROW * row.saturating_sub(1) as f64;
    }

    /// Draws the legend's sample of a style.
    fn mark(&mut self, entry: &Entry<'_>, x: f64, y: f64) {
        match entry.mark {
            Mark::Line | Mark::Area => self.part(format_args!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"12\" height=\"8\" fill=\"{}\"/>",
                x - 6.0,
                y - 4.0,
                entry.colour
            )),
            Mark::Dashes => {
                let points = [(x - 7.0, y), (x + 7.0, y)];
                self.polyline(entry, &points);
            }
            Mark::Dots | Mark::Crosses | Mark::Discs | Mark::Rings => {
                self.points(entry, &[(x, y)]);
            }
        }
    }

    /// Draws a line through these places.
    pub(super) fn polyline(&mut self, entry: &Entry<'_>, places: &[(f64, f64)]) {
        let dashes = match entry.mark {
            Mark::Dashes => " stroke-dasharray=\"6 4\"",
            _ => "",
        };
        let (colour, places) = (entry.colour, listed(places));
        self.part(format_args!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.4\"{dashes} \
             points=\"{places}\"/>"
        ));
    }

    /// Fills the area below these places, down to the axis.
    pub(super) fn area(&mut self, colour: &str, places: &[(f64, f64)]) {
        let (Some((first, _)), Some((last, _))) = (places.first(), places.last()) else {
            return;
        };
        let corners = [&[(*first, BOTTOM)], places, &[(*last, BOTTOM)]].concat();
        self.part(format_args!(
            "<polygon fill=\"{colour}\" points=\"{}\"/>",
            listed(&corners)
        ));
    }

    /// Draws a dot, a cross, a disc or a ring at each of these places.
    pub(super) fn points(&mut self, entry: &Entry<'_>, places: &[(f64, f64)]) {
        let colour = entry.colour;
        for (x, y) in places {
            match entry.mark {
                Mark::Crosses => self.part(format_args!(
                    "<path d=\"M{:.1} {:.1}l6 6m0 -6l-6 6\" stroke=\"{colour}\" \
                     stroke-width=\"1.6\"/>",
                    x - 3.0,
                    y - 3.0
                )),
                Mark::Discs => self.part(format_args!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"/>"
                )),
                Mark::Rings => self.part(format_args!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"none\" \
                     stroke=\"{colour}\" stroke-width=\"1.6\"/>"
                )),
                _ => self.part(format_args!(
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.6\" fill=\"{colour}\"/>"
                )),
            }
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Values along one side of a picture.
pub(super) struct Axis {
    pub(super) begin: f64,
    pub(super) end: f64,
    /// Its beginning and end on the picture.
    pub(super) pixels: (f64, f64),
}

impl Axis {
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = ((value - self.begin) / (self.end - self.begin)).clamp(0.0, 1.0);
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// Returns the distance of ticks: 1, 2 or 5 times a power of ten, so that there are four to
    /// ten.
    fn step(&self) -> f64 {
        let span = self.end - self.begin;
        let mut step = 1.0;
        while span / step > 10.0 {
            step *= 10.0;
        }
        while span / step < 1.0 {
            step /= 10.0;
        }
        [0.1, 0.2, 0.5, 1.0]
            .into_iter()
            .map(|part| part * step)
            .find(|step| span / step <= 10.0)
            .unwrap_or(step)
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
        let step = self.step();
        let first = (self.begin / step).ceil() as i64;
        (first..)
            .map(|index| index as f64 * step)
            .take_while(|tick| *tick <= self.end + step * 1e-9)
            .collect()
    }

    pub(super) fn label(&self, tick: f64) -> String {
        let mut step = self.step();
        let mut digits = 0;
        while step < 0.999 && digits < 6 {
            step *= 10.0;
            digits += 1;
        }
        format!("{tick:.digits$}")
    }
}

/// Returns places as an SVG list.
fn listed(places: &[(f64, f64)]) -> String {
    let places: Vec<String> = places
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    places.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(begin: f64, end: f64) -> Axis {
        Axis {
            begin,
            end,
            pixels: (0.0, 100.0),
        }
    }

    #[test]
    fn ticks_are_round_numbers() {
        fn labels(axis: &Axis) -> Vec<String> {
            axis.ticks().iter().map(|tick| axis.label(*tick)).collect()
        }
        assert_eq!(
            labels(&axis(0.0, 300.0)),
            ["0", "50", "100", "150", "200", "250", "300"]
        );
        assert_eq!(
            labels(&axis(0.0, 0.4)),
            [
                "0.00", "0.05", "0.10", "0.15", "0.20", "0.25", "0.30", "0.35", "0.40"
            ]
        );
        assert_eq!(axis(1.0, 10.0).ticks()[0], 1.0);
        assert_eq!(axis(0.0, 200.0).at(50.0), 25.0);
    }
}
