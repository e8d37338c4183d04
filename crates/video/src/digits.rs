//! A five by seven dot font of digits, for numbers that people read in the picture.

use crate::picture::Picture;

/// Columns of a glyph, one empty column of spacing included.
const ADVANCE: usize = 6;
const ROWS: usize = 7;

const WHITE: u8 = 235;
const BLACK: u8 = 16;

/// Returns seven rows of five dots each, the leftmost dot in bit 4.
const fn glyph(character: u8) -> [u8; ROWS] {
    match character {
        b'0' => [0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e],
        b'1' => [0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e],
        b'2' => [0x0e, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1f],
        b'3' => [0x1f, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0e],
        b'4' => [0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02],
        b'5' => [0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e],
        b'6' => [0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e],
        b'7' => [0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08],
        b'8' => [0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e],
        b'9' => [0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c],
        b':' => [0x00, 0x0c, 0x0c, 0x00, 0x0c, 0x0c, 0x00],
        b'.' => [0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c],
        _ => [0; ROWS],
    }
}

/// Draws `text` (digits, colon, point; anything else is a space) white on a black box whose upper
/// left corner is at `(left, top)`; each dot is a square of `scale` pixels.
pub(crate) fn draw(picture: &mut Picture, text: &str, left: usize, top: usize, scale: usize) {
    let width = (text.len() * ADVANCE + 1) * scale;
    let height = (ROWS + 2) * scale;
    picture.fill_luma(left, top, width, height, BLACK);
    picture.fill_chroma_neutral(left, top, width, height);
    for (index, character) in text.bytes().enumerate() {
        for (row, dots) in glyph(character).into_iter().enumerate() {
            for column in (0..5).filter(|column| dots & (0x10 >> column) != 0) {
                let x = left + (index * ADVANCE + column + 1) * scale;
                picture.fill_luma(x, top + (row + 1) * scale, scale, scale, WHITE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_looks_different() {
        for a in b'0'..=b'9' {
            for b in (a + 1)..=b'9' {
                assert_ne!(glyph(a), glyph(b), "{} {}", a as char, b as char);
            }
        }
    }

    #[test]
    fn a_dot_is_a_square_of_the_scale() {
        let mut picture = Picture::new(64, 64);
        draw(&mut picture, ".", 0, 0, 4);
        let white_count = picture.luma().iter().filter(|&&luma| luma == WHITE).count();
        assert_eq!(white_count, 4 * 4 * 4);
    }
}
