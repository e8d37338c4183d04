//! Animation of a run's plot: a cursor moves over the time axis, and the part to the right is pale.
//!
//! The animation adds a pale cover and a cursor to the text of the still picture, whatever drew it.
//! SMIL moves them, also inside an `<img>`. Without animation, or with reduced motion, the cover
//! has no width and the cursor is hidden, so that the still picture remains.

use core::fmt::Write;
use std::path::Path;

use anyhow::{Context, bail};

/// Seconds that the run takes to play, and that the complete picture is then shown.
const PLAYED_SECONDS: f64 = 15.0;
const STANDING_SECONDS: f64 = 5.0;
/// Opacity of the cover.
const COVER_OPACITY: f64 = 0.88;
/// Width of the cover beyond the end of the axis, in pixels: lines are drawn on the axis.
const COVER_OVERHANG: f64 = 8.0;
/// Share of the picture's width that a horizontal line of the plot's grid spans at least.
const GRID_LINE_SHARE: f64 = 0.5;

/// Style that hides the animation from readers who prefer reduced motion.
const STYLE: &str = "<style>@media (prefers-reduced-motion: reduce) { .moving { display: none } }\
    </style>\n<g class=\"moving\">\n";

/// A box in the picture, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// Animates the picture in this file.
///
/// # Errors
/// A file that cannot be read or written, or that contains no plot.
pub(super) fn set_moving(picture: &Path) -> anyhow::Result<()> {
    let name = picture.display();
    let still = std::fs::read_to_string(picture).with_context(|| format!("cannot read {name}"))?;
    let Some(moving) = moving(&still) else {
        bail!("{name}: it has no plot that could play");
    };
    std::fs::write(picture, moving).with_context(|| format!("cannot write {name}"))
}

/// Returns the picture with a looped animation. Returns `None` if the picture has no size, or no
/// plot with a grid whose left and right borders mark the run's begin and end.
fn moving(still: &str) -> Option<String> {
    let head_start = still.find("<svg ")?;
    let head_end = head_start + still[head_start..].find('>')? + 1;
    let body_end = still.rfind("</svg>")?;
    let head = &still[head_start..head_end];
    let mut view_box = attribute(head, "viewBox")?.split(' ').skip(2);
    let mut size = || view_box.next()?.parse::<f64>().ok();
    let (width, height) = (size()?, size()?);
    let plots = plots(&still[head_end..body_end], width);
    if plots.is_empty() {
        return None;
    }
    let mut text = String::with_capacity(still.len() + 2_000);
    text.push_str(&still[..head_end]);
    // The cover is white like the picture, also on a dark page.
    let _ = write!(
        text,
        "\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>"
    );
    text.push_str(&still[head_end..body_end]);
    text.push_str(STYLE);
    plots
        .into_iter()
        .for_each(|area| text.push_str(&player(area)));
    text.push_str("</g>\n");
    text.push_str(&still[body_end..]);
    Some(text)
}

/// Returns the plots of each nested picture: the boxes around their grids and shaded stretches.
fn plots(body: &str, width: f64) -> Vec<Area> {
    let pictures = body.split("<svg ").enumerate();
    let plots = pictures.filter_map(|(index, picture)| {
        // Text before the first tag belongs to no nested picture.
        let tag = picture.split('>').next().filter(|_| index > 0);
        let down = tag.and_then(|tag| number(tag, "y")).unwrap_or(0.0);
        let plot = plot(picture, width)?;
        Some(Area {
            top: plot.top + down,
            bottom: plot.bottom + down,
            ..plot
        })
    });
    plots.collect()
}

/// Returns the box around one picture's grids and shaded stretches.
fn plot(picture: &str, width: f64) -> Option<Area> {
    let lines: Vec<Area> = tags(picture, "<line ").filter_map(line).collect();
    let is_wide =
        |line: &&Area| line.top == line.bottom && line.right - line.left >= width * GRID_LINE_SHARE;
    let widest = *lines.iter().find(is_wide)?;
    // Legends are beside the grid, or above it.
    let is_in_grid = |area: &Area| area.left >= widest.left && area.right <= widest.right;
    let around = |whole: Area, part: Area| Area {
        top: whole.top.min(part.top),
        bottom: whole.bottom.max(part.bottom),
        ..whole
    };
    let grid = lines.into_iter().filter(is_in_grid).fold(widest, around);
    let height = grid.bottom - grid.top;
    let is_tall = |area: &Area| area.bottom - area.top >= height / 2.0;
    let stretches = tags(picture, "<rect ").filter_map(rectangle);
    let stretches = stretches.filter(|area| is_in_grid(area) && is_tall(area));
    Some(stretches.fold(grid, around))
}

/// Returns the contents of the tags that start with `begin`.
fn tags<'a>(text: &'a str, begin: &'a str) -> impl Iterator<Item = &'a str> {
    let rests = text.split(begin).skip(1);
    rests.filter_map(|rest| rest.split('>').next())
}

fn line(tag: &str) -> Option<Area> {
    let (x1, x2) = (number(tag, "x1")?, number(tag, "x2")?);
    let (y1, y2) = (number(tag, "y1")?, number(tag, "y2")?);
    Some(Area {
        left: x1.min(x2),
        right: x1.max(x2),
        top: y1.min(y2),
        bottom: y1.max(y2),
    })
}

fn rectangle(tag: &str) -> Option<Area> {
    let (left, top) = (number(tag, "x")?, number(tag, "y")?);
    Some(Area {
        left,
        right: left + number(tag, "width")?,
        top,
        bottom: top + number(tag, "height")?,
    })
}

/// Returns the cover and the cursor of a plot.
fn player(area: Area) -> String {
    let (left, right) = (area.left, area.right);
    let (top, span) = (area.top, right - left);
    let height = area.bottom - top;
    let seconds = PLAYED_SECONDS + STANDING_SECONDS;
    let end = PLAYED_SECONDS / seconds;
    let animate = |name: &str, values: &str, more: &str| {
        format!(
            "<animate attributeName=\"{name}\" values=\"{values}\" {more} dur=\"{seconds}s\" \
             repeatCount=\"indefinite\"/>"
        )
    };
    let steady = format!("keyTimes=\"0;{end};{end};1\"");
    let x = animate("x", &format!("{left};{right};{right};{right}"), &steady);
    let widest = span + COVER_OVERHANG;
    let width = animate("width", &format!("{widest};{COVER_OVERHANG};0;0"), &steady);
    let at_once = format!("keyTimes=\"0;{end}\" calcMode=\"discrete\"");
    let shown = animate("opacity", "0.8;0", &at_once);
    format!(
        "<rect x=\"{right}\" y=\"{top}\" width=\"0\" height=\"{height}\" fill=\"#fff\" \
         opacity=\"{COVER_OPACITY}\">{x}{width}</rect>\n\
         <rect x=\"{right}\" y=\"{top}\" width=\"1.5\" height=\"{height}\" opacity=\"0\">\
         {x}{shown}</rect>\n"
    )
}

/// Returns the value of an attribute that is a number.
fn number(tag: &str, name: &str) -> Option<f64> {
    attribute(tag, name)?.parse().ok()
}

/// Returns the value of an attribute in a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = tag.match_indices(name);
    let (at, _) = parts.find(|(at, _)| {
        let is_begun = *at == 0 || tag[..*at].ends_with(' ');
        is_begun && tag[at + name.len()..].starts_with("=\"")
    })?;
    let value = &tag[at + name.len() + 2..];
    value.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two plots over one time axis: in one picture with a legend beside them, or in separate
    /// pictures with the legend above.
    const TOGETHER: &str = "<svg width=\"400\" height=\"300\" viewBox=\"0 0 400 300\">\n\
        <rect x=\"0\" y=\"0\" width=\"400\" height=\"300\"/>\n\
        <line x1=\"40\" y1=\"20\" x2=\"40\" y2=\"100\"/>\n\
        <line x1=\"40\" y1=\"60\" x2=\"300\" y2=\"60\"/>\n\
        <line x1=\"320\" y1=\"10\" x2=\"338\" y2=\"10\"/>\n\
        <line opacity=\"0.1\" x1=\"40\" y1=\"200\" x2=\"300\" y2=\"200\"/>\n\
        </svg>\n";
    const APART: &str = "<svg viewBox=\"0 0 400 300\">\n\
        <rect width=\"100%\" height=\"100%\"/>\n\
        <svg y=\"0\" width=\"400\" height=\"150\" viewBox=\"0 0 400 150\">\n\
        <rect x=\"50\" y=\"5\" width=\"12\" height=\"8\"/>\n\
        <rect x=\"100\" y=\"20\" width=\"40\" height=\"100\" fill-opacity=\"0.2\"/>\n\
        <line x1=\"40.0\" y1=\"60.0\" x2=\"300.0\" y2=\"60.0\"/>\n\
        <line x1=\"40.0\" y1=\"120.0\" x2=\"300.0\" y2=\"120.0\"/>\n</svg>\n\
        <svg y=\"150\" width=\"400\" height=\"150\" viewBox=\"0 0 400 150\">\n\
        <line x1=\"40.0\" y1=\"60.0\" x2=\"300.0\" y2=\"60.0\"/>\n\
        <line x1=\"40.0\" y1=\"120.0\" x2=\"300.0\" y2=\"120.0\"/>\n</svg>\n\
        </svg>\n";

    #[test]
    fn a_cover_spans_the_plots_of_a_picture_and_no_legend() {
        let area = |top, bottom| Area {
            left: 40.0,
            right: 300.0,
            top,
            bottom,
        };
        assert_eq!(plots(TOGETHER, 400.0), [area(20.0, 200.0)]);
        // Without its own first tag, as `moving` passes it.
        let body = APART.split_once('\n').expect("lines").1;
        assert_eq!(plots(body, 400.0), [area(20.0, 120.0), area(210.0, 270.0)]);
    }

    #[test]
    fn all_that_was_drawn_stays_and_is_seen_where_nothing_plays() {
        let moving = moving(TOGETHER).expect("it has plots");
        let lines = TOGETHER.lines().filter(|line| line.starts_with("<line "));
        assert!(lines.clone().count() == 4 && lines.into_iter().all(|line| moving.contains(line)));
        assert!(moving.ends_with("</g>\n</svg>\n"), "{moving}");
        assert!(moving.contains("values=\"268;8;0;0\" keyTimes=\"0;0.75;0.75;1\""));
        // Before the animation starts, the cover has no width and the cursor is invisible.
        assert!(moving.contains("<rect x=\"300\" y=\"20\" width=\"0\""));
        assert!(moving.contains("opacity=\"0\"><animate"));
    }

    #[test]
    fn a_picture_without_plots_has_nothing_to_play() {
        assert_eq!(moving("<svg viewBox=\"0 0 400 300\"></svg>"), None);
        assert_eq!(moving("no picture"), None);
    }

    #[test]
    fn the_picture_of_the_readme_is_one_that_this_made() {
        let shown = include_str!("../../../../docs/demo.svg");
        let player_start = shown.find("<style>@media").expect("it plays");
        let background = shown.find("\n<rect width").expect("it has a background");
        let still_start = background + shown[background..].find("/>").expect("it is whole") + 2;
        let head = &shown[..background];
        let still = format!("{head}{}</svg>\n", &shown[still_start..player_start]);
        assert_eq!(moving(&still).as_deref(), Some(shown));
    }
}
