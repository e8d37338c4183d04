//! QR codes on terminals of 24 rows.

use qrcode::{Color, QrCode};

/// Rows of a code on a terminal, below which a link has two. A row shows two modules.
const MAX_ROWS: usize = 22;
/// Margin that the standard asks for, in modules.
const WIDEST_MARGIN: usize = 4;

/// Draws a code, light on dark as most terminals are. Its margin gives way to the terminal's
/// height, up to one module.
pub(crate) fn drawn(code: &QrCode) -> String {
    let width = code.width();
    let margin = (2 * MAX_ROWS).saturating_sub(width) / 2;
    let margin = margin.clamp(1, WIDEST_MARGIN);
    let colors = code.to_colors();
    let is_light = |row: usize, column: usize| {
        let inside = |at: usize| at.checked_sub(margin).filter(|at| *at < width);
        match (inside(row), inside(column)) {
            (Some(row), Some(column)) => colors[row * width + column] == Color::Light,
            _ => true,
        }
    };
    let side = width + 2 * margin;
    let mut text = String::new();
    for row in (0..side).step_by(2) {
        for column in 0..side {
            let is_below = row + 1 < side && is_light(row + 1, column);
            text.push(match (is_light(row, column), is_below) {
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

#[cfg(test)]
mod tests {
    use qrcode::EcLevel;
    use qrcode::render::unicode::Dense1x2;

    use super::*;

    fn code(bytes: usize) -> QrCode {
        QrCode::with_error_correction_level("a".repeat(bytes), EcLevel::L).unwrap()
    }

    #[test]
    fn a_code_is_drawn_as_the_library_draws_it() {
        let code = code(20);
        let mut renderer = code.render::<Dense1x2>();
        let renderer = renderer.dark_color(Dense1x2::Light);
        let expected = renderer.light_color(Dense1x2::Dark).build();
        assert_eq!(drawn(&code), expected);
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
