//! Uncompressed pictures in I420: the camera's output and the encoder's input.

/// One picture in I420 (planar YCbCr 4:2:0, BT.601 video range): luma at full size, both chroma
/// planes at half width and half height, rows without padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    luma: Vec<u8>,
    chroma_blue: Vec<u8>,
    chroma_red: Vec<u8>,
}

impl Picture {
    /// Creates a mid-grey picture.
    ///
    /// # Panics
    /// If a side is zero or odd: 4:2:0 halves both.
    pub fn new(width: usize, height: usize) -> Self {
        assert!(width > 0 && height > 0 && width.is_multiple_of(2) && height.is_multiple_of(2));
        let chroma_len = width / 2 * (height / 2);
        Picture {
            width,
            height,
            luma: vec![128; width * height],
            chroma_blue: vec![128; chroma_len],
            chroma_red: vec![128; chroma_len],
        }
    }

    /// Returns width of the luma plane in pixels.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Returns height of the luma plane in pixels.
    pub const fn height(&self) -> usize {
        self.height
    }

    /// Returns the luma plane: `width * height` bytes, 16 (black) to 235 (white).
    pub fn luma(&self) -> &[u8] {
        &self.luma
    }

    /// Returns the Cb plane: a quarter of the luma plane's bytes, 128 is neutral.
    pub fn chroma_blue(&self) -> &[u8] {
        &self.chroma_blue
    }

    /// Returns the Cr plane: a quarter of the luma plane's bytes, 128 is neutral.
    pub fn chroma_red(&self) -> &[u8] {
        &self.chroma_red
    }

    /// Returns one row of luma, for drawing.
    pub(crate) fn luma_row_mut(&mut self, y: usize) -> &mut [u8] {
        &mut self.luma[y * self.width..][..self.width]
    }

    /// Returns row `y` (in chroma rows) of Cb and Cr, for drawing.
    pub(crate) fn chroma_rows_mut(&mut self, y: usize) -> (&mut [u8], &mut [u8]) {
        let half = self.width / 2;
        (
            &mut self.chroma_blue[y * half..][..half],
            &mut self.chroma_red[y * half..][..half],
        )
    }

    /// Takes the colour out of a rectangle, given in luma pixels; parts outside of the picture are
    /// cut off.
    pub(crate) fn fill_chroma_neutral(
        &mut self,
        left: usize,
        top: usize,
        width: usize,
        height: usize,
    ) {
        let right = (left + width).div_ceil(2).min(self.width / 2);
        for y in top / 2..(top + height).div_ceil(2).min(self.height / 2) {
            let (blue, red) = self.chroma_rows_mut(y);
            blue[(left / 2).min(right)..right].fill(128);
            red[(left / 2).min(right)..right].fill(128);
        }
    }

    /// Fills a rectangle's luma; parts outside of the picture are cut off.
    pub(crate) fn fill_luma(
        &mut self,
        left: usize,
        top: usize,
        width: usize,
        height: usize,
        luma: u8,
    ) {
        let right = (left + width).min(self.width);
        for y in top..(top + height).min(self.height) {
            self.luma_row_mut(y)[left.min(right)..right].fill(luma);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_have_the_sizes_of_four_two_zero() {
        let picture = Picture::new(640, 360);
        assert_eq!(picture.luma().len(), 640 * 360);
        assert_eq!(picture.chroma_blue().len(), 320 * 180);
        assert_eq!(picture.chroma_red().len(), 320 * 180);
    }

    #[test]
    fn filling_is_cut_off_at_the_border() {
        let mut picture = Picture::new(16, 16);
        picture.fill_luma(14, 14, 100, 100, 235);
        assert_eq!(
            picture.luma().iter().filter(|&&luma| luma == 235).count(),
            4
        );
        picture.fill_luma(20, 0, 5, 5, 16);
        assert!(!picture.luma().contains(&16));
    }
}
