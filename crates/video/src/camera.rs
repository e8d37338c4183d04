//! The built-in camera: a moving picture that is not trivial to encode, with its frame number and
//! time burnt in for people and for machines.
//!
//! The motion is chosen for the sizes of the encoded frames. Fine grain that changes in every
//! frame, like a sensor's, cannot be predicted, so frames between key frames are not tiny. The
//! still background is smooth, so key frames hold little beyond the other frames. A picture of
//! static detail would make key frames ten times the size of the others, and delay with them.

use anabranch_units::{Duration, Rng, Seed};

use crate::burnt_in;
use crate::digits;
use crate::picture::Picture;

/// Width of the camera's pictures in pixels.
pub const WIDTH: usize = 640;
/// Height of the camera's pictures in pixels.
pub const HEIGHT: usize = 360;
/// Pictures per second.
pub const FRAMES_PER_SECOND: u32 = 25;

/// Length of the grain: a prime, so that consecutive rows cut out of it do not repeat a pattern.
const GRAIN_LEN: usize = 65_521;

/// Maximum of the grain, in luma steps up and down. Chosen.
const GRAIN_AMPLITUDE: i16 = 17;

/// A disc that bounces between the picture's borders.
struct Disc {
    radius: i64,
    /// Horizontal speed in pixels per frame.
    speed_x: u64,
    speed_y: u64,
    luma: u8,
    chroma_blue: u8,
    chroma_red: u8,
}

const DISCS: [Disc; 3] = [
    Disc {
        radius: 52,
        speed_x: 5,
        speed_y: 3,
        luma: 120,
        chroma_blue: 90,
        chroma_red: 200,
    },
    Disc {
        radius: 36,
        speed_x: 7,
        speed_y: 4,
        luma: 170,
        chroma_blue: 60,
        chroma_red: 140,
    },
    Disc {
        radius: 26,
        speed_x: 4,
        speed_y: 7,
        luma: 90,
        chroma_blue: 200,
        chroma_red: 100,
    },
];

/// Draws pictures of [`WIDTH`] by [`HEIGHT`] pixels. The same frame number, time and seed give the
/// same picture.
pub struct Camera {
    picture: Picture,
    /// Grain, uniform in -127..=127.
    grain: Vec<i16>,
    grain_seed: Seed,
}

impl core::fmt::Debug for Camera {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Camera")
            .field("grain_seed", &self.grain_seed)
            .finish_non_exhaustive()
    }
}

impl Camera {
    /// Creates a camera whose grain comes from `seed`.
    pub fn new(seed: Seed) -> Self {
        let grain_seed = seed.derive("camera/grain");
        let mut rng = grain_seed.rng();
        let grain = (0..GRAIN_LEN)
            .map(|_| rng.below(255) as i16 - 127)
            .collect();
        Camera {
            picture: Picture::new(WIDTH, HEIGHT),
            grain,
            grain_seed,
        }
    }

    /// Draws the picture of frame `frame_number`, taken `at` after the start.
    pub fn render(&mut self, frame_number: u32, at: Duration) -> &Picture {
        self.draw_background(frame_number);
        for disc in &DISCS {
            draw_disc(&mut self.picture, disc, frame_number);
        }
        self.add_grain(frame_number);
        digits::draw(&mut self.picture, &format!("{frame_number:06}"), 32, 48, 7);
        let centiseconds = at.as_millis() / 10;
        let (minutes, seconds) = (centiseconds / 6_000, centiseconds / 100 % 60);
        let time = format!("{minutes:02}:{seconds:02}.{:02}", centiseconds % 100);
        digits::draw(&mut self.picture, &time, 32, 120, 4);
        burnt_in::write(&mut self.picture, frame_number);
        &self.picture
    }

    /// Draws a smooth slope of brightness and colour that drifts.
    fn draw_background(&mut self, frame_number: u32) {
        let drift = u64::from(frame_number);
        for y in 0..HEIGHT {
            let slope = triangle(y as u64 + drift, 360) / 6;
            for (x, luma) in self.picture.luma_row_mut(y).iter_mut().enumerate() {
                *luma = (60 + slope + triangle(x as u64 + 2 * drift, 480) / 6) as u8;
            }
        }
        for y in 0..HEIGHT / 2 {
            let (blue, red) = self.picture.chroma_rows_mut(y);
            blue.fill((108 + triangle(y as u64 + drift, 180) / 4) as u8);
            red.fill((112 + triangle(2 * y as u64 + drift, 300) / 6) as u8);
        }
    }

    /// Adds grain, from none at the left border to [`GRAIN_AMPLITUDE`] at the right. With any
    /// quantizer, some of it is near vanishing. The encoded size therefore follows the quantizer
    /// smoothly, and the rate control does not oscillate.
    fn add_grain(&mut self, frame_number: u32) {
        let mut rng = self.frame_rng(frame_number);
        for y in 0..HEIGHT {
            let start = rng.below((GRAIN_LEN - WIDTH) as u64) as usize;
            let grain = &self.grain[start..start + WIDTH];
            let row = self.picture.luma_row_mut(y);
            for (block, (luma, grain)) in row.chunks_mut(16).zip(grain.chunks(16)).enumerate() {
                let amplitude = (block * 16) as i16 * GRAIN_AMPLITUDE / WIDTH as i16;
                for (luma, grain) in luma.iter_mut().zip(grain) {
                    *luma = luma.saturating_add_signed((grain * amplitude / 128) as i8);
                }
            }
        }
    }

    fn frame_rng(&self, frame_number: u32) -> Rng {
        Seed(self.grain_seed.0 ^ u64::from(frame_number)).rng()
    }
}

fn draw_disc(picture: &mut Picture, disc: &Disc, frame_number: u32) {
    let Disc { radius, .. } = *disc;
    let room_x = WIDTH as u64 - 2 * radius as u64;
    let room_y = HEIGHT as u64 - 2 * radius as u64;
    let center_x = radius + triangle(u64::from(frame_number) * disc.speed_x, 2 * room_x) as i64;
    let center_y = radius + triangle(u64::from(frame_number) * disc.speed_y, 2 * room_y) as i64;
    for y in center_y - radius..center_y + radius {
        let dy = y - center_y;
        let half_width = ((radius * radius - dy * dy) as u64).isqrt() as i64;
        let span = (center_x - half_width) as usize..(center_x + half_width) as usize;
        // Stripes that turn with the frame number make the inside of the disc move.
        let stripe = (dy + i64::from(frame_number) * 2).rem_euclid(24) < 12;
        let luma = if stripe { disc.luma } else { disc.luma - 24 };
        picture.luma_row_mut(y as usize)[span.clone()].fill(luma);
        if y % 2 == 0 {
            let (blue, red) = picture.chroma_rows_mut(y as usize / 2);
            blue[span.start / 2..span.end / 2].fill(disc.chroma_blue);
            red[span.start / 2..span.end / 2].fill(disc.chroma_red);
        }
    }
}

/// Returns a triangle wave of the given period, from 0 up to half the period and back.
const fn triangle(phase: u64, period: u64) -> u64 {
    let position = phase % period;
    if position < period / 2 {
        position
    } else {
        period - position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(a: &[u8], b: &[u8]) -> usize {
        a.iter().zip(b).filter(|(a, b)| a != b).count()
    }

    #[test]
    fn the_number_can_be_read_off_the_picture() {
        let mut camera = Camera::new(Seed(1));
        for number in [0, 1, 999_999, u32::MAX] {
            let picture = camera.render(number, Duration::ZERO);
            assert_eq!(
                burnt_in::read(picture.luma(), WIDTH, WIDTH, HEIGHT),
                Some(number)
            );
        }
    }

    #[test]
    fn the_same_frame_and_seed_give_the_same_picture() {
        let at = Duration::from_millis(40);
        let mut camera = Camera::new(Seed(1));
        camera.render(7, at);
        let picture = camera.render(1, at).clone();
        assert_eq!(*Camera::new(Seed(1)).render(1, at), picture);
        assert_ne!(*Camera::new(Seed(2)).render(1, at), picture);
    }

    #[test]
    fn most_of_the_picture_changes_from_frame_to_frame() {
        let mut camera = Camera::new(Seed(1));
        let first = camera.render(0, Duration::ZERO).clone();
        let second = camera.render(1, Duration::ZERO);
        assert!(difference(first.luma(), second.luma()) > WIDTH * HEIGHT / 2);
    }

    #[test]
    fn the_time_is_burnt_in_for_people() {
        let mut camera = Camera::new(Seed(1));
        let at_start = camera.render(0, Duration::ZERO).clone();
        let later = camera.render(0, Duration::from_secs(83));
        let changed = difference(at_start.luma(), later.luma());
        assert!((100..WIDTH * HEIGHT / 20).contains(&changed), "{changed}");
    }
}
