//! The frame number as a strip of black and white cells, which a machine can read after any
//! encoding that people would still watch.
//!
//! The strip is [`CELL_COUNT`] cells of 16 by 16 pixels from the upper left corner: 32 bits of
//! frame number, most significant first, and 8 bits of check value. A cell is one macroblock, so
//! that quantization moves its brightness as a whole and never smears one bit into the next.

use crate::picture::Picture;

/// Side of a cell in pixels: one macroblock.
pub const CELL_SIDE: usize = 16;
/// Cells of the strip: 32 of number, 8 of check value.
pub const CELL_COUNT: usize = 40;

const WHITE: u8 = 235;
const BLACK: u8 = 16;
/// Bounds of a cell's average: between these it is neither black nor white, and there is no strip.
const BLACK_MAXIMUM: u32 = 90;
const WHITE_MINIMUM: u32 = 160;
/// Number of ignored pixels at a cell's border: the deblocking filter changes up to three.
const BORDER: usize = 4;

/// Returns the CRC-8 with polynomial x^8 + x^2 + x + 1 over the big-endian number. The initial
/// value keeps an all-black and an all-white strip from being valid.
fn check_value(number: u32) -> u8 {
    number.to_be_bytes().into_iter().fold(0xa7, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc: u8, _| {
            if crc & 0x80 != 0 {
                (crc << 1) ^ 0x07
            } else {
                crc << 1
            }
        })
    })
}

/// Draws the strip for `frame_number` along the picture's upper edge.
///
/// # Panics
/// If the picture is narrower than the strip (640 pixels) or lower than a cell.
pub fn write(picture: &mut Picture, frame_number: u32) {
    assert!(picture.width() >= CELL_COUNT * CELL_SIDE && picture.height() >= CELL_SIDE);
    let bits = u64::from(frame_number) << 8 | u64::from(check_value(frame_number));
    for cell in 0..CELL_COUNT {
        let is_white = bits >> (CELL_COUNT - 1 - cell) & 1 != 0;
        let luma = if is_white { WHITE } else { BLACK };
        picture.fill_luma(cell * CELL_SIDE, 0, CELL_SIDE, CELL_SIDE, luma);
    }
    picture.fill_chroma_neutral(0, 0, CELL_COUNT * CELL_SIDE, CELL_SIDE);
}

/// Reads the frame number off a decoded picture's luma plane of `width` by `height` pixels whose
/// rows are `stride` bytes apart; `None` if there is no intact strip.
pub fn read(luma: &[u8], stride: usize, width: usize, height: usize) -> Option<u32> {
    let is_large_enough = width >= CELL_COUNT * CELL_SIDE && height >= CELL_SIDE;
    if !is_large_enough || stride < width || luma.len() < stride * (CELL_SIDE - 1) + width {
        return None;
    }
    let mut bits = 0_u64;
    for cell in 0..CELL_COUNT {
        bits = bits << 1 | u64::from(read_cell(luma, stride, cell * CELL_SIDE)?);
    }
    let number = (bits >> 8) as u32;
    (check_value(number) == bits as u8).then_some(number)
}

fn read_cell(luma: &[u8], stride: usize, left: usize) -> Option<bool> {
    let inner = BORDER..CELL_SIDE - BORDER;
    let side = inner.len() as u32;
    let sum: u32 = inner
        .clone()
        .flat_map(|y| &luma[y * stride + left..][inner.clone()])
        .map(|&luma| u32::from(luma))
        .sum();
    match sum / (side * side) {
        mean if mean <= BLACK_MAXIMUM => Some(false),
        mean if mean >= WHITE_MINIMUM => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip_of(number: u32) -> Picture {
        let mut picture = Picture::new(640, 32);
        write(&mut picture, number);
        picture
    }

    #[test]
    fn a_number_written_is_read_back() {
        for number in [0, 1, 25, 0x8000_0000, 0x5555_5555, u32::MAX] {
            assert_eq!(read(strip_of(number).luma(), 640, 640, 32), Some(number));
        }
    }

    #[test]
    fn pictures_without_a_strip_have_no_number() {
        for luma in [0, 16, 128, 235, 255] {
            assert_eq!(read(&[luma; 640 * 32], 640, 640, 32), None, "{luma}");
        }
        let picture = strip_of(7);
        assert_eq!(read(picture.luma(), 640, 639, 32), None);
        assert_eq!(read(&picture.luma()[..640], 640, 640, 32), None);
    }

    #[test]
    fn any_one_or_two_wrong_cells_are_noticed() {
        fn wrong(picture: &mut Picture, cell: usize) {
            let luma = BLACK + WHITE - picture.luma()[cell * CELL_SIDE];
            picture.fill_luma(cell * CELL_SIDE, 0, CELL_SIDE, CELL_SIDE, luma);
        }
        for first in 0..CELL_COUNT {
            for second in first..CELL_COUNT {
                let mut picture = strip_of(12_345);
                wrong(&mut picture, first);
                if second != first {
                    wrong(&mut picture, second);
                }
                assert_eq!(read(picture.luma(), 640, 640, 32), None, "{first} {second}");
            }
        }
    }
}
