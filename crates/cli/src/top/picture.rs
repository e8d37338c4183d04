//! A picture in half blocks: each character cell is two pixels, one above the other.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::widgets::Widget;

/// Red, green and blue of each pixel, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

impl Picture {
    /// From a portable pixmap (`P6` with 255 levels), as `/thumbnail` is one.
    pub(super) fn read(bytes: &[u8]) -> Option<Picture> {
        let mut lines = bytes.splitn(4, |byte| *byte == b'\n');
        let [kind, size, levels, rgb] = core::array::from_fn(|_| lines.next());
        let (width, height) = core::str::from_utf8(size?).ok()?.split_once(' ')?;
        let (width, height) = (width.parse().ok()?, height.parse().ok()?);
        let rgb = rgb?.to_vec();
        let is_whole = usize::checked_mul(width, height)?.checked_mul(3) == Some(rgb.len());
        let is_known = kind == Some(b"P6") && levels == Some(b"255");
        (is_known && is_whole && width > 0 && height > 0).then_some(Picture { width, height, rgb })
    }

    /// How many rows of characters it has, drawn so wide.
    pub(super) fn rows(&self, columns: u16) -> u16 {
        let rows = usize::from(columns) * self.height / self.width / 2;
        u16::try_from(rows.max(1)).unwrap_or(u16::MAX)
    }

    /// The pixel at a place, in parts of `columns` and `rows`.
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
    fn what_is_no_picture_is_none() {
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
