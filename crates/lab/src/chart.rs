//! Pictures for reports: lines over an axis, and bars with ranges. They scale with the page, and
//! take its colour for text and axes, so that they are readable on light and dark ones.

mod bars;
mod canvas;
mod lines;
mod playing;

pub(crate) use canvas::COLOURS;
pub use canvas::escape;
use canvas::{HEIGHT, NARROW, PHONE};
pub use playing::playing_page;

/// Number of bars for which the width of a phone suffices: chosen.
const MAX_PHONE_BARS: usize = 12;

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
    /// Title of the picture.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// The lines; later ones cover those before them.
    pub lines: Vec<Line>,
    /// End of the horizontal axis, which then begins at zero, if not the last point.
    pub x_end: Option<f64>,
    /// End of the vertical axis, if not the largest value.
    pub y_end: Option<f64>,
    /// Distance of points from which a line breaks, since nothing was measured between them.
    pub max_step: Option<f64>,
    /// Stretches of the horizontal axis that stand out.
    pub shades: Vec<Shade>,
    /// Whether it has the width of a screen, not that of a text.
    pub is_wide: bool,
}

/// One line, its points from left to right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Name in the legend; a line without a name is not in it.
    pub label: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// The ranges around its points, from least to largest, if it has any.
    pub ranges: Vec<(f64, f64)>,
    /// Style of its points.
    pub mark: Mark,
    /// Its colour in SVG, if not that of its position among the lines.
    pub colour: Option<&'static str>,
}

/// Style in which points are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// As a line.
    #[default]
    Line,
    /// As a dashed line.
    Dashes,
    /// As the upper edge of an area.
    Area,
    /// One by one.
    Dots,
    /// One by one, conspicuous.
    Crosses,
    /// One by one, large and filled.
    Discs,
    /// One by one, large and hollow.
    Rings,
}

/// A stretch of the horizontal axis that stands out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shade {
    /// Its beginning.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Label of the stretch.
    pub label: String,
}

impl Line {
    /// Returns a plain line in the colour of its position.
    pub fn new(label: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
        Line {
            label: label.into(),
            points,
            ..Line::default()
        }
    }
}

/// Groups of bars, one bar of each kind in each group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Title of the picture.
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
    /// Name in the legend.
    pub label: String,
    /// One bar per group; `None`: there is none.
    pub bars: Vec<Option<Bar>>,
}

/// A bar and the range around its top.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// Beginning of the range.
    pub low: f64,
    /// Its end.
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

impl Chart {
    /// Returns the picture as an SVG element.
    pub fn svg(&self) -> String {
        self.svg_of(self.width())
    }

    /// Returns the picture as an SVG element that is legible at the width of a phone, too, if
    /// [`Chart::fits_phones`].
    pub fn narrow_svg(&self) -> String {
        if self.fits_phones() {
            self.svg_of(PHONE)
        } else {
            self.svg()
        }
    }

    /// Returns whether the picture has room on a phone: it has no more than a dozen bars.
    pub fn fits_phones(&self) -> bool {
        match self {
            Chart::Lines(lines) => !lines.is_wide,
            Chart::Bars(bars) => bars.groups.len() * bars.kinds.len() <= MAX_PHONE_BARS,
        }
    }

    fn svg_of(&self, width: f64) -> String {
        match self {
            Chart::Lines(lines) => lines.svg(width),
            Chart::Bars(bars) => bars.svg(width),
        }
    }

    fn width(&self) -> f64 {
        match self {
            Chart::Lines(lines) => lines.width(),
            Chart::Bars(_) => NARROW,
        }
    }
}

/// Returns pictures one below the other, as an SVG file of its own on white.
pub fn page(charts: &[Chart]) -> String {
    let width = charts.iter().map(Chart::width).fold(NARROW, f64::max);
    let height = HEIGHT * charts.len() as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" color=\"#222222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (index, chart) in charts.iter().enumerate() {
        let y = HEIGHT * index as f64;
        let place = format!("<svg y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" ");
        text.push_str(&chart.svg().replacen("<svg ", &place, 1));
    }
    text.push_str("</svg>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_picture() {
        let chart = Chart::Lines(Lines {
            title: "<a> & \"b\"".to_owned(),
            lines: vec![Line::new("</svg>", vec![(0.0, 1.0), (1.0, 2.0)])],
            ..Lines::default()
        });
        let svg = chart.svg();
        assert_eq!(svg.matches("</svg>").count(), 1);
        assert!(svg.contains("&lt;a&gt; &amp; &quot;b&quot;"));
    }

    #[test]
    fn pictures_with_few_bars_are_narrow_and_long_titles_small() {
        fn bars(count: usize) -> Chart {
            Chart::Bars(Bars {
                title: "a".repeat(100),
                groups: vec!["a".to_owned(); count],
                kinds: vec![BarKind::default()],
                ..Bars::default()
            })
        }
        assert!(bars(12).narrow_svg().contains("viewBox=\"0 0 480 320\""));
        assert!(bars(12).svg().contains("viewBox=\"0 0 720 320\""));
        assert_eq!(bars(13).narrow_svg(), bars(13).svg());
        assert!(bars(12).narrow_svg().contains("font-size=\"7.2\""));
        assert!(bars(12).svg().contains("font-size=\"11.5\""));
    }

    #[test]
    fn names_of_many_groups_are_broken_behind_dashes() {
        fn bars(group_count: usize) -> Chart {
            Chart::Bars(Bars {
                groups: vec!["5.1-variable-capacity-udp".to_owned(); group_count],
                ..Bars::default()
            })
        }
        assert!(bars(2).svg().contains(">5.1-variable-capacity-udp</text>"));
        let tight = bars(11).svg();
        for row in [">5.1-<", ">variable-<", ">capacity-udp<"] {
            assert_eq!(tight.matches(row).count(), 11, "{row}");
        }
    }
}
