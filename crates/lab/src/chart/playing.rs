//! Animation of a page: a cursor moves over the time axis, and the part to the right is pale.
//!
//! SMIL moves cursor and cover, also inside an `<img>`. Without animation, or with reduced motion,
//! the cover has no width and the cursor is hidden, so that the still picture remains.

use super::canvas::{BOTTOM, HEIGHT, LEFT, TICK};
use super::{Chart, page};

/// Seconds that the run takes to play, and that the complete picture is then shown.
const PLAYED_SECONDS: f64 = 15.0;
const STANDING_SECONDS: f64 = 5.0;
/// Opacity of the cover.
const COVER_OPACITY: f64 = 0.88;
/// Width of the cover beyond the end of the axis, in pixels: lines are drawn on the axis.
const COVER_OVERHANG: f64 = 8.0;

/// Style that hides the animation from readers who prefer reduced motion.
const STYLE: &str = "<style>@media (prefers-reduced-motion: reduce) { .moving { display: none } }\
    </style>\n<g class=\"moving\">\n";

/// Returns pictures one below the other, as [`page`] does. In a loop, a cursor moves over those
/// with lines.
pub fn playing_page(charts: &[Chart]) -> String {
    let players: String = charts
        .iter()
        .enumerate()
        .filter_map(|(index, chart)| {
            let Chart::Lines(lines) = chart else {
                return None;
            };
            let (canvas, _) = lines.begun(lines.width());
            let height = BOTTOM + TICK - canvas.top;
            let top = canvas.top + HEIGHT * index as f64;
            Some(player(canvas.right, top, height))
        })
        .collect();
    let page = page(charts);
    let still = page.trim_end().trim_end_matches("</svg>");
    format!("{still}{STYLE}{players}</g>\n</svg>\n")
}

/// Returns the cover and the cursor of a plot, in pixels.
fn player(right: f64, top: f64, height: f64) -> String {
    fn animate(name: &str, values: &str, more: &str, seconds: f64) -> String {
        format!(
            "<animate attributeName=\"{name}\" values=\"{values}\" {more} dur=\"{seconds}s\" \
             repeatCount=\"indefinite\"/>"
        )
    }

    let seconds = PLAYED_SECONDS + STANDING_SECONDS;
    let end = PLAYED_SECONDS / seconds;
    let steady = format!("keyTimes=\"0;{end};{end};1\"");
    let x = animate(
        "x",
        &format!("{LEFT};{right};{right};{right}"),
        &steady,
        seconds,
    );
    let widest = right - LEFT + COVER_OVERHANG;
    let width = animate(
        "width",
        &format!("{widest};{COVER_OVERHANG};0;0"),
        &steady,
        seconds,
    );
    let at_once = format!("keyTimes=\"0;{end}\" calcMode=\"discrete\"");
    let shown = animate("opacity", "0.8;0", &at_once, seconds);
    format!(
        "<rect x=\"{right}\" y=\"{top}\" width=\"0\" height=\"{height}\" fill=\"#fff\" \
         opacity=\"{COVER_OPACITY}\">{x}{width}</rect>\n\
         <rect x=\"{right}\" y=\"{top}\" width=\"1.5\" height=\"{height}\" opacity=\"0\">\
         {x}{shown}</rect>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Bars, Line, Lines};
    use super::*;

    #[test]
    fn a_cover_spans_each_plot_of_lines_and_no_legend() {
        fn lines(labels: usize) -> Chart {
            Chart::Lines(Lines {
                lines: (0..labels)
                    .map(|_| Line::new("a label of 31 characters, or so", vec![(0.0, 1.0)]))
                    .collect(),
                ..Lines::default()
            })
        }
        let charts = [lines(1), Chart::Bars(Bars::default()), lines(4)];
        let (still, playing) = (page(&charts), playing_page(&charts));
        let whole = still.trim_end().strip_suffix("</svg>").expect("it ends");
        let player = playing.strip_prefix(whole).expect("all of it stays");
        // A legend of two rows moves the second plot down.
        for begin in [
            "<rect x=\"704\" y=\"56\" width=\"0\" height=\"224\"",
            "<rect x=\"704\" y=\"696\" width=\"0\" height=\"224\"",
        ] {
            assert!(player.contains(begin), "{begin} in\n{player}");
        }
        assert_eq!(player.matches("opacity=\"0\"><animate").count(), 2);
        assert!(player.contains("values=\"648;8;0;0\" keyTimes=\"0;0.75;0.75;1\""));
        assert!(player.ends_with("</g>\n</svg>\n"));
    }
}
