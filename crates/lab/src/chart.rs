//! Pictures for reports: lines over an axis, and bars with ranges. They scale with the page, and
//! take its colour for text and axes, so that they are readable on light and dark ones.

use std::fmt::Write;

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Lines over a common axis.
    Lines(Lines),
    /// Groups of bars.
    Bars(Bars),
}

/// Lines over a common axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// What is to be seen.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// The lines.
    pub lines: Vec<Line>,
    /// Where the vertical axis ends, if not at the largest value.
    pub y_end: Option<f64>,
}

/// One line, its points from left to right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// What it is called.
    pub label: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Groups of bars, one bar of each kind in each group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// What is to be seen.
    pub title: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// The groups' names.
    pub groups: Vec<String>,
    /// The kinds.
    pub kinds: Vec<BarKind>,
}

/// The bars of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarKind {
    /// What it is called.
    pub label: String,
    /// One bar a group; `None`: there is none.
    pub bars: Vec<Option<Bar>>,
}

/// A bar and the range around its top.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// Where the range begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

impl From<crate::report::Spread> for Bar {
    fn from(spread: crate::report::Spread) -> Bar {
        Bar {
            value: spread.median,
            low: spread.min,
            high: spread.max,
        }
    }
}

/// Colours that people with any colour vision tell apart (Okabe & Ito), all readable on black and
/// on white.
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#888888",
];

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 704.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 276.0;
/// More points than these are not to be told apart.
const MAX_POINTS: usize = 600;

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
struct Canvas(String);

impl Canvas {
    fn new(title: &str) -> Canvas {
        let title = escape(title);
        let mut canvas = Canvas(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             role=\"img\" aria-label=\"{title}\" fill=\"currentColor\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\">\n"
        ));
        canvas.text(LEFT, 18.0, "start", title.as_str(), " font-size=\"14\"");
        canvas
    }

    fn part(&mut self, part: std::fmt::Arguments<'_>) {
        self.0.write_fmt(part).expect("a String takes everything");
        self.0.push('\n');
    }

    /// `text` is escaped already.
    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str, more: &str) {
        self.part(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{more}>{text}</text>"
        ));
    }

    /// A name that is too long for its place: small, and broken behind dashes.
    fn small_text(&mut self, x: f64, y: f64, name: &str, width: f64) {
        let longest = (width / 4.6) as usize;
        let mut rows = vec![String::new()];
        for word in name.split_inclusive('-') {
            let row = rows.last_mut().expect("there is one");
            match row.is_empty() || row.chars().count() + word.chars().count() <= longest {
                true => row.push_str(word),
                false => rows.push(word.to_owned()),
            }
        }
        for (index, row) in rows.iter().enumerate() {
            let y = y + 9.5 * index as f64;
            self.text(x, y, "middle", &escape(row), " font-size=\"8.5\"");
        }
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), opacity: f64) {
        self.part(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"currentColor\" \
             stroke-opacity=\"{opacity}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    fn y_axis(&mut self, label: &str, axis: &Axis) {
        for tick in axis.ticks() {
            let y = axis.at(tick);
            self.line((LEFT, y), (RIGHT, y), 0.15);
            self.text(LEFT - 6.0, y + 4.0, "end", &axis.label(tick), "");
        }
        let middle = (TOP + BOTTOM) / 2.0;
        let turned = format!(" transform=\"rotate(-90 14 {middle})\"");
        self.text(14.0, middle, "middle", &escape(label), &turned);
    }

    /// Names of lines or bars, in a row under the title, or two.
    fn legend<'a>(&mut self, labels: impl Iterator<Item = &'a str>) {
        let mut places = Vec::new();
        let (mut x, mut row) = (LEFT, 0);
        for label in labels {
            let width = 34.0 + 6.4 * label.chars().count() as f64;
            if x + width > RIGHT + 18.0 && x > LEFT {
                (x, row) = (LEFT, row + 1);
            }
            places.push((x, row, label));
            x += width;
        }
        let first = if row == 0 { 32.0 } else { 26.0 };
        for (index, (x, row, label)) in places.into_iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let y = first + 14.0 * f64::from(row);
            self.part(format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"8\" fill=\"{colour}\"/>"
            ));
            self.text(x + 16.0, y + 8.0, "start", &escape(label), "");
        }
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// Values along one side of a picture.
struct Axis {
    begin: f64,
    end: f64,
    /// Where on the picture it begins and ends.
    pixels: (f64, f64),
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let share = ((value - self.begin) / (self.end - self.begin)).clamp(0.0, 1.0);
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// Distance of ticks: 1, 2 or 5 times a power of ten, so that there are four to ten.
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

    fn ticks(&self) -> Vec<f64> {
        let step = self.step();
        let first = (self.begin / step).ceil() as i64;
        (first..)
            .map(|index| index as f64 * step)
            .take_while(|tick| *tick <= self.end + step * 1e-9)
            .collect()
    }

    fn label(&self, tick: f64) -> String {
        let mut step = self.step();
        let mut digits = 0;
        while step < 0.999 && digits < 6 {
            step *= 10.0;
            digits += 1;
        }
        format!("{tick:.digits$}")
    }
}

fn y_axis(end: f64) -> Axis {
    Axis {
        begin: 0.0,
        end: if end > 0.0 { end } else { 1.0 },
        pixels: (BOTTOM, TOP),
    }
}

impl Chart {
    /// The picture as an SVG element.
    pub fn svg(&self) -> String {
        match self {
            Chart::Lines(lines) => lines.svg(),
            Chart::Bars(bars) => bars.svg(),
        }
    }
}

/// Pictures one below the other, as a file of its own on white.
pub(crate) fn page(charts: &[Chart]) -> String {
    let height = HEIGHT * charts.len() as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" color=\"#222222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (index, chart) in charts.iter().enumerate() {
        let place = format!(
            "<svg y=\"{}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" ",
            HEIGHT * index as f64
        );
        text.push_str(&chart.svg().replacen("<svg ", &place, 1));
    }
    text.push_str("</svg>\n");
    text
}

impl Lines {
    fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let top = points().fold(0.0_f64, |top, (_, y)| top.max(*y)) * 1.05;
        let ends = points().fold((f64::INFINITY, 0.0_f64), |(begin, end), (x, _)| {
            (begin.min(*x), end.max(*x))
        });
        // Nearly at zero is at zero.
        let begin = if ends.0 < 0.1 * ends.1 { 0.0 } else { ends.0 };
        let x_axis = Axis {
            begin: begin.min(ends.1),
            end: if ends.1 > begin { ends.1 } else { begin + 1.0 },
            pixels: (LEFT, RIGHT),
        };
        let y_axis = y_axis(self.y_end.unwrap_or(top));
        let mut canvas = Canvas::new(&self.title);
        canvas.y_axis(&self.y, &y_axis);
        for tick in x_axis.ticks() {
            let x = x_axis.at(tick);
            canvas.line((x, BOTTOM), (x, BOTTOM + 4.0), 0.5);
            canvas.text(x, BOTTOM + 17.0, "middle", &x_axis.label(tick), "");
        }
        canvas.line((LEFT, BOTTOM), (RIGHT, BOTTOM), 0.5);
        let middle = (LEFT + RIGHT) / 2.0;
        canvas.text(middle, HEIGHT - 8.0, "middle", &escape(&self.x), "");
        for (index, line) in self.lines.iter().enumerate() {
            let thinned = thinned(&line.points);
            let place = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", x_axis.at(*x), y_axis.at(*y));
            let places: Vec<String> = thinned.iter().map(place).collect();
            canvas.part(format_args!(
                "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.4\" points=\"{}\"/>",
                COLOURS[index % COLOURS.len()],
                places.join(" ")
            ));
        }
        canvas.legend(self.lines.iter().map(|line| line.label.as_str()));
        canvas.finish()
    }
}

/// Means of neighbours, where there are more points than the picture is wide.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let count = points.len().div_ceil(MAX_POINTS).max(1);
    let mean = |chunk: &[(f64, f64)]| {
        let sum = chunk
            .iter()
            .fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
        (sum.0 / chunk.len() as f64, sum.1 / chunk.len() as f64)
    };
    points.chunks(count).map(mean).collect()
}

impl Bars {
    fn svg(&self) -> String {
        let bars = || self.kinds.iter().flat_map(|kind| &kind.bars).flatten();
        let top = bars().fold(0.0_f64, |top, bar| top.max(bar.value).max(bar.high)) * 1.05;
        let axis = y_axis(top);
        let mut canvas = Canvas::new(&self.title);
        canvas.y_axis(&self.y, &axis);
        let group_width = (RIGHT - LEFT) / self.groups.len().max(1) as f64;
        let width = group_width * 0.8 / self.kinds.len().max(1) as f64;
        let is_tight = |name: &String| 6.4 * name.chars().count() as f64 > group_width;
        let is_tight = self.groups.iter().any(is_tight);
        for (group, name) in self.groups.iter().enumerate() {
            let left = LEFT + group_width * group as f64;
            let middle = left + group_width / 2.0;
            match is_tight {
                true => canvas.small_text(middle, BOTTOM + 12.0, name, group_width),
                false => canvas.text(middle, BOTTOM + 17.0, "middle", &escape(name), ""),
            }
            for (index, kind) in self.kinds.iter().enumerate() {
                let Some(bar) = kind.bars.get(group).copied().flatten() else {
                    continue;
                };
                let x = left + group_width * 0.1 + width * index as f64;
                let y = axis.at(bar.value);
                canvas.part(format_args!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                     fill=\"{}\"/>",
                    width * 0.92,
                    BOTTOM - y,
                    COLOURS[index % COLOURS.len()]
                ));
                let middle = x + width * 0.46;
                canvas.line((middle, axis.at(bar.low)), (middle, axis.at(bar.high)), 1.0);
            }
        }
        canvas.line((LEFT, BOTTOM), (RIGHT, BOTTOM), 0.5);
        canvas.legend(self.kinds.iter().map(|kind| kind.label.as_str()));
        canvas.finish()
    }
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
        let labels = |axis: &Axis| -> Vec<String> {
            axis.ticks().iter().map(|tick| axis.label(*tick)).collect()
        };
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

    #[test]
    fn names_cannot_break_the_picture() {
        let chart = Chart::Lines(Lines {
            title: "<a> & \"b\"".to_owned(),
            lines: vec![Line {
                label: "</svg>".to_owned(),
                points: vec![(0.0, 1.0), (1.0, 2.0)],
            }],
            ..Lines::default()
        });
        let svg = chart.svg();
        assert_eq!(svg.matches("</svg>").count(), 1);
        assert!(svg.contains("&lt;a&gt; &amp; &quot;b&quot;"));
    }

    #[test]
    fn names_of_many_groups_are_broken_behind_dashes() {
        let bars = |group_count| {
            Chart::Bars(Bars {
                groups: vec!["5.1-variable-capacity-udp".to_owned(); group_count],
                ..Bars::default()
            })
        };
        assert!(bars(2).svg().contains(">5.1-variable-capacity-udp</text>"));
        let tight = bars(11).svg();
        for row in [">5.1-<", ">variable-<", ">capacity-udp<"] {
            assert_eq!(tight.matches(row).count(), 11, "{row}");
        }
    }

    #[test]
    fn long_lines_are_thinned_to_means() {
        let points: Vec<(f64, f64)> = (0..2_400).map(|x| (f64::from(x), 2.0)).collect();
        let thinned = thinned(&points);
        assert_eq!((thinned.len(), thinned[0]), (600, (1.5, 2.0)));
    }
}
