//! GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11D), of which 2 is a generator.

const POLYNOMIAL: u16 = 0x11D;

/// Powers of 2, twice over so that a sum of two logarithms needs no reduction.
const EXP: [u8; 510] = powers();
const LOG: [u8; 256] = logarithms();

const fn powers() -> [u8; 510] {
    let mut table = [0; 510];
    let mut power: u16 = 1;
    let mut i = 0;
    while i < 510 {
        table[i] = power as u8;
        power <<= 1;
        if power > 0xFF {
            power ^= POLYNOMIAL;
        }
        i += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 255 {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
}

pub(crate) fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[usize::from(LOG[usize::from(a)]) + usize::from(LOG[usize::from(b)])]
}

/// Returns the inverse of a number other than zero.
pub(crate) fn inverse(a: u8) -> u8 {
    debug_assert_ne!(a, 0);
    EXP[255 - usize::from(LOG[usize::from(a)])]
}

/// Computes `sum += factor * term`, for as many bytes as the shorter of the two has.
pub(crate) fn multiply_add(sum: &mut [u8], term: &[u8], factor: u8) {
    let products: [u8; 8] = core::array::from_fn(|bit| multiply(factor, 1 << bit));
    for (sum, &term) in sum.iter_mut().zip(term) {
        let mut product = 0;
        for (bit, &of_bit) in products.iter().enumerate() {
            product ^= if term & (1 << bit) == 0 { 0 } else { of_bit };
        }
        *sum ^= product;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn multiply_by_shifts(a: u8, b: u8) -> u8 {
        let (mut a, mut product) = (u16::from(a), 0);
        for bit in 0..8 {
            if b & (1 << bit) != 0 {
                product ^= a;
            }
            a <<= 1;
            if a > 0xFF {
                a ^= POLYNOMIAL;
            }
        }
        product as u8
    }

    #[test]
    fn products_are_those_of_polynomials() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(multiply(a, b), multiply_by_shifts(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn a_number_times_its_inverse_is_one() {
        for a in 1..=255 {
            assert_eq!(multiply(a, inverse(a)), 1, "{a}");
        }
    }

    #[test]
    fn slices_of_any_length_are_multiplied_byte_by_byte() {
        let term: Vec<u8> = (0..300_u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for factor in 0..=255 {
            for length in [0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 300] {
                let mut sum: Vec<u8> = (0..length).map(|i| (i * 31) as u8).collect();
                let expected: Vec<u8> = sum
                    .iter()
                    .zip(&term)
                    .map(|(s, &t)| s ^ multiply(factor, t))
                    .collect();
                multiply_add(&mut sum, &term, factor);
                assert_eq!(sum, expected, "{factor} over {length} bytes");
            }
        }
    }
}
