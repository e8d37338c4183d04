//! QR codes on terminals of 24 rows, and in the browser.

use anabranch_observe::control::JoinLink;
use qrcode::{Color, EcLevel, QrCode};

/// Rows of a code on a terminal, below which a link has two. A row shows two modules.
const MAX_ROWS: usize = 22;
/// Margin that the standard asks for, in modules.
const WIDEST_MARGIN: usize = 4;

/// A code within its margin.
struct Framed {
    colors: Vec<Color>,
    width: usize,
    margin: usize,
}

impl Framed {
    fn is_light(&self, row: usize, column: usize) -> bool {
        match (self.inside(row), self.inside(column)) {
            (Some(row), Some(column)) => self.colors[row * self.width + column] == Color::Light,
            _ => true,
        }
    }

    /// Returns the row or column of the code itself; `None` in the margin.
    fn inside(&self, at: usize) -> Option<usize> {
        at.checked_sub(self.margin).filter(|at| *at < self.width)
    }
}

/// Draws a code, light on dark as most terminals are. Its margin gives way to the terminal's
/// height, up to one module.
pub(crate) fn drawn(code: &QrCode) -> String {
    let width = code.width();
    let room = (2 * MAX_ROWS).saturating_sub(width) / 2;
    let framed = Framed {
        colors: code.to_colors(),
        width,
        margin: room.clamp(1, WIDEST_MARGIN),
    };
    let side = width + 2 * framed.margin;
    let mut text = String::new();
    for row in (0..side).step_by(2) {
        for column in 0..side {
            let is_below = row + 1 < side && framed.is_light(row + 1, column);
            text.push(match (framed.is_light(row, column), is_below) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            });
        }
        text.push('\n');
    }
    text.pop();
    text
}

/// Returns a link with its QR code, for a page that draws it.
pub(crate) fn join_link(
    stream: Option<String>,
    app: String,
    link: String,
    fields: Option<String>,
) -> JoinLink {
    let code = QrCode::with_error_correction_level(link.as_bytes(), EcLevel::L);
    JoinLink {
        qr_code: code.map_or_else(|_| Vec::new(), |code| rows(&code)),
        stream,
        app,
        link,
        fields,
    }
}

/// Returns the rows of a code without a margin: `1` is a dark module.
fn rows(code: &QrCode) -> Vec<String> {
    let colors = code.to_colors();
    let rows = colors.chunks(code.width());
    rows.map(|row| row.iter().map(digit_of).collect()).collect()
}

fn digit_of(color: &Color) -> char {
    if *color == Color::Dark { '1' } else { '0' }
}

#[cfg(test)]
mod tests {
    use qrcode::render::unicode::Dense1x2;

    use super::*;

    fn code(bytes: usize) -> QrCode {
        QrCode::with_error_correction_level("a".repeat(bytes), EcLevel::L).unwrap()
    }

    #[test]
    fn a_code_is_drawn_as_the_library_draws_it() {
        let code = code(20);
        let mut renderer = code.render::<Dense1x2>();
        renderer
            .dark_color(Dense1x2::Light)
            .light_color(Dense1x2::Dark);
        let expected = renderer.build();
        assert_eq!(drawn(&code), expected);
    }

    #[test]
    fn a_page_gets_the_modules_of_a_code() {
        let made = join_link(None, "Anabranch".to_owned(), "a".repeat(20), None);
        // Version 2 (ISO/IEC 18004) has 25 modules, and a finder pattern in three corners.
        assert_eq!(made.qr_code.len(), 25);
        assert!(made.qr_code.iter().all(|row| row.len() == 25));
        for row in [&made.qr_code[0], &made.qr_code[6]] {
            assert!(
                row.starts_with("11111110") && row.ends_with("01111111"),
                "{row}"
            );
        }
        assert!(made.qr_code[24].starts_with("11111110"));
        let too_long = join_link(None, String::new(), "a".repeat(4_000), None);
        assert!(too_long.qr_code.is_empty());
    }

    #[test]
    fn a_link_fits_a_terminal_of_24_rows_with_itself_below() {
        let key = 43 + "abpub_".len();
        // A code of 128 bits.
        let longest = "anabranch://192.168.100.200:65535?key=&code=".len() + key + 22;
        for bytes in [60, 106, longest] {
            let drawn = drawn(&code(bytes));
            assert!(drawn.lines().count() <= MAX_ROWS, "{bytes}");
            assert!(drawn.lines().all(|line| line.starts_with(['█', '▀'])));
        }
        assert!(longest <= 2 * 80, "two rows");
    }
}
