//! The difference between a picture and its source: PSNR and SSIM of the luma.

use anabranch_units::percentile;

/// Side of the blocks that SSIM is taken over, in pixels.
const BLOCK: usize = 8;
/// Stabilisers (0.01 · 255)² and (0.03 · 255)² of SSIM (Wang, Bovik, Sheikh & Simoncelli 2004).
const C1: f64 = 6.502_5;
const C2: f64 = 58.522_5;
/// PSNR of two equal pictures instead of infinity, in dB, so that averages exist.
const MAX_PSNR: f64 = 100.0;

/// Similarity of a picture to its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fidelity {
    /// Peak signal-to-noise ratio in dB, at most 100.
    pub psnr: f64,
    /// Average structural similarity, 1 for equal pictures.
    pub ssim: f64,
}

/// A measure over many pictures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The average.
    pub mean: f64,
    /// Value that 5 % of the pictures fall below.
    pub percentile_5: f64,
    /// The worst.
    pub least: f64,
}

impl Spread {
    /// Returns the spread of the values; `None` without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Some(Spread {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            percentile_5: percentile(&values, 5)?,
            least: *values.first()?,
        })
    }
}

/// Compares two luma planes of `width` pixels a row, without padding. SSIM is the average over
/// adjacent blocks of 8 by 8 pixels. Pixels beyond the last block at the right and the lower edge
/// only count for PSNR.
///
/// # Panics
/// If the planes differ in length, or are not whole rows.
pub fn compare(source: &[u8], picture: &[u8], width: usize) -> Fidelity {
    assert!(source.len() == picture.len() && width > 0 && source.len().is_multiple_of(width));
    let mut squares = 0_u64;
    let mut similarity = 0.0;
    let mut block_count = 0_u64;
    for (source, picture) in source
        .chunks(BLOCK * width)
        .zip(picture.chunks(BLOCK * width))
    {
        let errors = source.iter().zip(picture);
        squares += errors
            .map(|(x, y)| u64::from(x.abs_diff(*y)).pow(2))
            .sum::<u64>();
        if source.len() < BLOCK * width {
            continue;
        }
        for left in (0..width / BLOCK).map(|block| block * BLOCK) {
            similarity += block_ssim(&source[left..], &picture[left..], width);
            block_count += 1;
        }
    }
    let mean_square = squares as f64 / source.len().max(1) as f64;
    Fidelity {
        psnr: match squares {
            0 => MAX_PSNR,
            _ => (10.0 * libm::log10(255.0 * 255.0 / mean_square)).min(MAX_PSNR),
        },
        ssim: match block_count {
            0 => f64::from(u8::from(squares == 0)),
            count => similarity / count as f64,
        },
    }
}

fn block_ssim(source: &[u8], picture: &[u8], width: usize) -> f64 {
    let (mut x_sum, mut y_sum, mut xx, mut yy, mut xy) = (0_u32, 0_u32, 0_u32, 0_u32, 0_u32);
    for row in 0..BLOCK {
        let source = &source[row * width..][..BLOCK];
        let picture = &picture[row * width..][..BLOCK];
        for (x, y) in source.iter().zip(picture) {
            let (x, y) = (u32::from(*x), u32::from(*y));
            x_sum += x;
            y_sum += y;
            xx += x * x;
            yy += y * y;
            xy += x * y;
        }
    }
    let count = (BLOCK * BLOCK) as f64;
    let (x_mean, y_mean) = (f64::from(x_sum) / count, f64::from(y_sum) / count);
    let x_variance = f64::from(xx) / count - x_mean * x_mean;
    let y_variance = f64::from(yy) / count - y_mean * y_mean;
    let covariance = f64::from(xy) / count - x_mean * y_mean;
    (2.0 * x_mean * y_mean + C1) * (2.0 * covariance + C2)
        / ((x_mean * x_mean + y_mean * y_mean + C1) * (x_variance + y_variance + C2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a slope over 32 by 16 pixels.
    fn slope() -> Vec<u8> {
        (0..32 * 16)
            .map(|at| (40 + at % 32 * 4 + at / 32) as u8)
            .collect()
    }

    #[test]
    fn equal_pictures_are_equal() {
        let fidelity = compare(&slope(), &slope(), 32);
        assert_eq!(fidelity.psnr, 100.0);
        assert!((fidelity.ssim - 1.0).abs() < 1e-12);
    }

    #[test]
    fn an_error_of_one_everywhere_is_48_13_db() {
        let brighter: Vec<u8> = slope().iter().map(|luma| luma + 1).collect();
        let fidelity = compare(&slope(), &brighter, 32);
        // 20 log10 255.
        assert!((fidelity.psnr - 48.1308).abs() < 1e-4, "{fidelity:?}");
        // The structure is the same.
        assert!(fidelity.ssim > 0.9999 && fidelity.ssim < 1.0);
        // 10 dB less for a mean square of 10: 40 of 64 pixels by 4.
        let mut noisy = slope();
        let pixels = noisy.iter_mut().enumerate();
        pixels
            .filter(|(at, _)| at % 8 < 5)
            .for_each(|(_, luma)| *luma += 4);
        let psnr = compare(&slope(), &noisy, 32).psnr;
        assert!((psnr - 38.1308).abs() < 1e-4, "{psnr}");
    }

    #[test]
    fn ssim_is_wang_et_als_formula() {
        // Constant blocks have no variance: (2xy + C1) / (x² + y² + C1).
        let fidelity = compare(&[100; 64], &[120; 64], 8);
        let expected = (2.0 * 100.0 * 120.0 + C1) / (100.0 * 100.0 + 120.0 * 120.0 + C1);
        assert!((fidelity.ssim - expected).abs() < 1e-12);
        // An inverted pattern of 0 and 200 around 100: the covariance is minus the variance.
        let pattern: Vec<u8> = (0..64).map(|at| at % 2 * 200).collect();
        let inverse: Vec<u8> = pattern.iter().map(|luma| 200 - luma).collect();
        let ssim = compare(&pattern, &inverse, 8).ssim;
        let expected = (C2 - 20_000.0) / (C2 + 20_000.0);
        assert!((ssim - expected).abs() < 1e-12, "{ssim}");
    }

    #[test]
    fn a_rest_beside_the_blocks_counts_for_psnr_alone() {
        let (source, mut picture) = (vec![90; 10 * 9], vec![90; 10 * 9]);
        picture[9] = 95;
        picture[80] = 95;
        let fidelity = compare(&source, &picture, 10);
        assert_eq!(fidelity.ssim, 1.0);
        assert!(fidelity.psnr < 60.0);
    }
}
