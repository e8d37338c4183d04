//! A picture in half blocks: each character cell is two pixels, one above the other.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Color;
use ratatui::widgets::Widget;

use super::charts::CHART_COUNT;
use super::ruled;

/// Minimum width of a useful picture.
const MIN_WIDTH: u16 = 12;
/// Minimum width of a chart beside the picture.
const MIN_CHART_WIDTH: u16 = 16;

/// Red, green and blue of each pixel, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

impl Picture {
    /// Creates a picture. Returns `None` if the bytes do not match the size, or the picture is
    /// empty.
    pub(crate) fn new(width: usize, height: usize, rgb: Vec<u8>) -> Option<Picture> {
        let is_whole = usize::checked_mul(width, height)?.checked_mul(3) == Some(rgb.len());
        (is_whole && width > 0 && height > 0).then_some(Picture { width, height, rgb })
    }

    /// Parses a portable pixmap (`P6` with 255 levels), the format of `/thumbnail`.
    pub(crate) fn read(bytes: &[u8]) -> Option<Picture> {
        let mut lines = bytes.splitn(4, |byte| *byte == b'\n');
        let [kind, size, levels, rgb] = core::array::from_fn(|_| lines.next());
        let (width, height) = core::str::from_utf8(size?).ok()?.split_once(' ')?;
        let (width, height) = (width.parse().ok()?, height.parse().ok()?);
        let is_known = kind == Some(b"P6") && levels == Some(b"255");
        is_known.then(|| Picture::new(width, height, rgb?.to_vec()))?
    }

    /// Returns the number of character rows at this width.
    fn rows(&self, columns: u16) -> u16 {
        let rows = usize::from(columns) * self.height / self.width / 2;
        u16::try_from(rows.max(1)).unwrap_or(u16::MAX)
    }

    /// Returns the pixel at a position in units of `columns` and `rows`.
    fn colour(&self, (column, columns): (usize, usize), (row, rows): (usize, usize)) -> Color {
        let x = (2 * column + 1) * self.width / (2 * columns);
        let y = (2 * row + 1) * self.height / (2 * rows);
        let at = 3 * (y * self.width + x);
        match self.rgb[at..at + 3] {
            [red, green, blue] => Color::Rgb(red, green, blue),
            _ => Color::Reset,
        }
    }
}

impl Widget for &Picture {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let (columns, rows) = (usize::from(area.width), 2 * usize::from(area.height));
        for position in area.positions() {
            let column = (usize::from(position.x - area.x), columns);
            let row = 2 * usize::from(position.y - area.y);
            if let Some(cell) = buffer.cell_mut(position) {
                cell.set_char('▀')
                    .set_fg(self.colour(column, (row, rows)))
                    .set_bg(self.colour(column, (row + 1, rows)));
            }
        }
    }
}

/// Draws the picture at the right, if there is one and room for it. Returns the remaining area.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, picture: Option<&Picture>) -> Rect {
    let Some(picture) = picture else {
        return area;
    };
    // A third of the screen's width at most, and no higher than the screen.
    let charts = CHART_COUNT * (MIN_CHART_WIDTH + 1);
    let mut width = (area.width / 3).min(area.width.saturating_sub(charts));
    while width > 0 && picture.rows(width) + 1 > area.height {
        width -= 1;
    }
    if width < MIN_WIDTH {
        return area;
    }
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(width)])
        .spacing(1)
        .areas(area);
    let block = ruled("last key frame");
    let height = picture.rows(width) + 1;
    let around = Rect { height, ..right };
    frame.render_widget(picture, block.inner(around));
    frame.render_widget(block, around);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_and_lower_pixels_share_a_cell() {
        let mut bytes = b"P6\n1 2\n255\n".to_vec();
        bytes.extend([255, 0, 10, 0, 255, 0]);
        let picture = Picture::read(&bytes).unwrap();
        let area = Rect::new(0, 0, 2, picture.rows(2));
        assert_eq!(area.height, 2);
        let mut buffer = Buffer::empty(area);
        picture.render(area, &mut buffer);
        assert_eq!(buffer[(0, 0)].fg, Color::Rgb(255, 0, 10));
        assert_eq!(buffer[(1, 1)].bg, Color::Rgb(0, 255, 0));
    }

    #[test]
    fn invalid_picture_is_none() {
        for bytes in [
            &b""[..],
            b"P6\n1 1\n255\nab",
            b"P5\n1 1\n255\nabc",
            b"P6\n0 0\n255\n",
        ] {
            assert_eq!(Picture::read(bytes), None);
        }
        let huge = format!("P6\n{0} {0}\n255\n", usize::MAX);
        assert_eq!(Picture::read(huge.as_bytes()), None);
    }
}
