//! Stored video of usual encoders: I-, P- and B-frames in groups, sizes that vary from frame to
//! frame and from scene to scene, and an exact average.

use core::str::FromStr;
use std::collections::VecDeque;

use anabranch_units::{DataRate, Duration, Importance, Instant, Rng, Seed};

use super::{FrameShape, FrameSource, Ideal, SourceConfigError};

/// Differences between the frames of a group, and the variation of their sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IpbStructure {
    /// Number of B-frames between two frames that others need, at most 16.
    pub b_frames: u32,
    /// Average sizes of I-, P- and B-frames relative to one another, each above 0, at most 1,000.
    pub ratio: [f64; 3],
    /// Standard deviation of the logarithm of a frame's size within its group, at most 2.
    pub noise: f64,
    /// Standard deviation of a group's size in the same sense: scenes differ.
    pub variation: f64,
    /// Duration of scenes: the time in which the correlation of groups' sizes falls to 1/e.
    pub variation_time: Duration,
}

impl Default for IpbStructure {
    /// Returns IBBP with sizes of 6:2:1, as in many films; the spread is our choice.
    fn default() -> Self {
        IpbStructure {
            b_frames: 2,
            ratio: [6.0, 2.0, 1.0],
            noise: 0.25,
            variation: 0.2,
            variation_time: Duration::from_secs(10),
        }
    }
}

/// The number of B-frames in a pattern in the order of display: `IP`, `IBP`, `IBBP`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpbPattern(pub u32);

impl FromStr for IpbPattern {
    type Err = SourceConfigError;

    fn from_str(text: &str) -> Result<Self, SourceConfigError> {
        let pattern = text.strip_prefix('I').and_then(|rest| {
            let b_frames = rest.find('P')?;
            let group = &rest[..=b_frames];
            let is_repeated = rest.len() % group.len() == 0
                && rest
                    .as_bytes()
                    .chunks(group.len())
                    .all(|part| part == group.as_bytes());
            let is_known = group[..b_frames].bytes().all(|letter| letter == b'B');
            (is_repeated && is_known).then_some(IpbPattern(b_frames as u32))
        });
        pattern.ok_or_else(|| SourceConfigError::Pattern(text.to_owned()))
    }
}

/// Number of groups over which the average is exact: of 2 s each, a minute.
const BLOCK_GROUPS: usize = 30;

/// Groups of one I-frame, followed in coding order by P-frames, each with the B-frames before it.
/// B-frames are disposable. Sizes are lognormal; groups' sizes follow an AR(1) process.
///
/// Frames come evenly in coding order; the constant delay of reordering is left out. The noise of a
/// group is scaled so that its frames add up to the group's size. The sizes of 30 groups are scaled
/// so that they add up to the average bitrate.
#[derive(Clone, Debug)]
pub struct Ipb {
    ideal: Ideal,
    structure: IpbStructure,
    key_frame_interval: u32,
    /// Correlation of a group's size with the next one's.
    correlation: f64,
    rng: Rng,
    /// The process in the unit of its standard deviation.
    state: f64,
    /// Sizes of the next groups, relative to the average.
    groups: VecDeque<f64>,
    /// Sizes of the next frames in the present group, relative to the average, last first.
    frames: Vec<f64>,
}

impl Ipb {
    /// Shapes the frames of `ideal` in groups of `key_frame_interval`.
    ///
    /// # Errors
    /// If the interval is zero, or a number of the structure out of its range.
    pub fn new(
        ideal: Ideal,
        key_frame_interval: u32,
        structure: IpbStructure,
        seed: Seed,
    ) -> Result<Self, SourceConfigError> {
        if key_frame_interval == 0 {
            return Err(SourceConfigError::KeyFrameInterval);
        }
        let spreads = [structure.noise, structure.variation];
        if structure.b_frames > 16
            || !structure
                .ratio
                .into_iter()
                .all(|part| part > 0.0 && part <= 1_000.0)
            || !spreads.iter().all(|spread| (0.0..=2.0).contains(spread))
            || structure.variation_time == Duration::ZERO
        {
            return Err(SourceConfigError::Structure);
        }
        let group = f64::from(key_frame_interval) / f64::from(ideal.frames_per_second());
        let mut rng = seed.rng();
        Ok(Ipb {
            correlation: libm::exp(-group / structure.variation_time.as_secs_f64()),
            state: normal(&mut rng),
            ideal,
            structure,
            key_frame_interval,
            rng,
            groups: VecDeque::new(),
            frames: Vec::new(),
        })
    }

    /// Returns the importance of a group's frame, and its average size relative to the others'.
    fn frame(&self, index: u32) -> (Importance, f64) {
        let [i, p, b] = self.structure.ratio;
        match index.checked_sub(1) {
            None => (Importance::Key, i),
            Some(index) if index % (self.structure.b_frames + 1) == 0 => (Importance::Reference, p),
            Some(_) => (Importance::Disposable, b),
        }
    }

    fn draw_groups(&mut self) {
        let innovation = (1.0 - self.correlation * self.correlation).sqrt();
        for _ in 0..BLOCK_GROUPS {
            let size = libm::exp(self.structure.variation * self.state);
            self.groups.push_back(size);
            self.state = self.correlation * self.state + innovation * normal(&mut self.rng);
        }
        let mean = self.groups.iter().sum::<f64>() / self.groups.len() as f64;
        self.groups.iter_mut().for_each(|size| *size /= mean);
    }

    fn draw_frames(&mut self) {
        if self.groups.is_empty() {
            self.draw_groups();
        }
        let size = self.groups.pop_front().unwrap_or(1.0);
        for index in (0..self.key_frame_interval).rev() {
            let (_, mean) = self.frame(index);
            let noise = libm::exp(self.structure.noise * normal(&mut self.rng));
            self.frames.push(mean * noise);
        }
        let mean = self.frames.iter().sum::<f64>() / self.frames.len() as f64;
        self.frames
            .iter_mut()
            .for_each(|frame| *frame *= size / mean);
    }
}

impl FrameSource for Ipb {
    fn next_at(&self) -> Option<Instant> {
        self.ideal.next_at()
    }

    fn produce(&mut self, now: Instant, target: DataRate) -> FrameShape {
        let (index, mean_bytes) = self.ideal.advance(now, target);
        if self.frames.is_empty() {
            self.draw_frames();
        }
        let share = self.frames.pop().unwrap_or(1.0);
        let (importance, _) = self.frame((index % u64::from(self.key_frame_interval)) as u32);
        FrameShape {
            bytes: ((mean_bytes as f64 * share + 0.5) as u32).max(1),
            importance,
        }
    }

    fn max_rate(&self) -> Option<DataRate> {
        self.ideal.max_rate()
    }

    fn is_adaptive(&self) -> bool {
        self.ideal.is_adaptive()
    }
}

/// Draws a number from the standard normal distribution (Box and Muller).
pub(super) fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * libm::log(1.0 - rng.next_f64())).sqrt();
    radius * libm::cos(core::f64::consts::TAU * rng.next_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first frames of S3's film: 5.24 Mbit/s, 24 frames a second, groups of 2 s.
    fn film(structure: IpbStructure, seconds: u64) -> Vec<FrameShape> {
        let rate = DataRate::from_kilobits_per_second(5_240);
        let ideal = Ideal::new(Instant::ZERO, 24, rate, rate).unwrap();
        let mut source = Ipb::new(ideal, 48, structure, Seed(1)).unwrap();
        (0..24 * seconds)
            .map(|_| source.produce(source.next_at().unwrap(), DataRate::ZERO))
            .collect()
    }

    fn total(frames: &[FrameShape]) -> f64 {
        frames.iter().map(|frame| f64::from(frame.bytes)).sum()
    }

    fn mean(frames: &[FrameShape], importance: Importance) -> f64 {
        let of: Vec<FrameShape> = frames
            .iter()
            .filter(|frame| frame.importance == importance)
            .copied()
            .collect();
        total(&of) / of.len() as f64
    }

    fn deviation(samples: &[f64]) -> f64 {
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let squares = samples
            .iter()
            .map(|sample| (sample - mean) * (sample - mean));
        (squares.sum::<f64>() / samples.len() as f64).sqrt()
    }

    #[test]
    fn s3s_film_has_409_megabytes() {
        let bytes = total(&film(IpbStructure::default(), 624));
        assert!((bytes / 408.7e6 - 1.0).abs() < 0.01, "{bytes}");
    }

    #[test]
    fn every_minute_has_the_mean_bitrate() {
        for minute in film(IpbStructure::default(), 600).chunks(24 * 60) {
            let rate = total(minute) * 8.0 / 60.0;
            assert!((rate / 5.24e6 - 1.0).abs() < 0.001, "{rate}");
        }
    }

    #[test]
    fn sizes_are_as_six_to_two_to_one() {
        let frames = film(IpbStructure::default(), 1_800);
        let b = mean(&frames, Importance::Disposable);
        let p = mean(&frames, Importance::Reference) / b;
        let i = mean(&frames, Importance::Key) / b;
        assert!((p / 2.0 - 1.0).abs() < 0.02, "P:B {p}");
        assert!((i / 6.0 - 1.0).abs() < 0.02, "I:B {i}");
    }

    #[test]
    fn b_frames_follow_the_p_frame_that_they_need() {
        let frames = film(IpbStructure::default(), 4);
        let letters: String = frames[..52]
            .iter()
            .map(|frame| match frame.importance {
                Importance::Key => 'I',
                Importance::Reference => 'P',
                Importance::Disposable => 'b',
            })
            .collect();
        // 47 frames after the key frame: fifteen times PBB, and two more.
        assert_eq!(letters, format!("I{}PbIPbb", "Pbb".repeat(15)));
    }

    #[test]
    fn a_frames_size_varies_by_its_noise() {
        fn of(importance: Importance, frames: &[FrameShape]) -> f64 {
            let frames = frames.iter().filter(|frame| frame.importance == importance);
            let logs: Vec<f64> = frames
                .map(|frame| libm::log(f64::from(frame.bytes)))
                .collect();
            deviation(&logs)
        }

        let steady = IpbStructure {
            variation: 0.0,
            ..IpbStructure::default()
        };
        let frames = film(steady, 1_800);
        assert!((of(Importance::Disposable, &frames) / 0.25 - 1.0).abs() < 0.02);
        assert!((of(Importance::Reference, &frames) / 0.25 - 1.0).abs() < 0.02);
    }

    #[test]
    fn groups_sizes_are_an_ar1_process() {
        let smooth = IpbStructure {
            noise: 0.0,
            ..IpbStructure::default()
        };
        let frames = film(smooth, 20_000);
        let groups: Vec<f64> = frames
            .chunks(48)
            .map(|group| libm::log(total(group)))
            .collect();
        // Variation slower than the minute whose average is exact is missing. That is about 25 % of
        // the variance: the variance of the average of 30 numbers whose neighbours have a
        // correlation of 0.82.
        let spread = deviation(&groups);
        assert!((0.16..0.19).contains(&spread), "{spread}");
        let mean = groups.iter().sum::<f64>() / groups.len() as f64;
        // Within the minutes.
        let mut product = 0.0;
        for minute in groups.chunks_exact(30) {
            let pairs = minute
                .windows(2)
                .map(|pair| (pair[0] - mean) * (pair[1] - mean));
            product += pairs.sum::<f64>() / 29.0;
        }
        let correlation = product / (groups.len() / 30) as f64 / (spread * spread);
        // exp(-2/10) is 0.82; with a share s of the variance missing (0.82 - s) / (1 - s).
        assert!((0.72..0.82).contains(&correlation), "{correlation}");
    }

    #[test]
    fn a_target_scales_the_frames() {
        fn source(min: DataRate, max: DataRate) -> Ipb {
            let ideal = Ideal::new(Instant::ZERO, 25, min, max).unwrap();
            Ipb::new(ideal, 50, IpbStructure::default(), Seed(7)).unwrap()
        }

        let (low, high) = (1_000, 4_000);
        let (min, max) = (
            DataRate::from_kilobits_per_second(low),
            DataRate::from_kilobits_per_second(high),
        );
        let (mut slow, mut fast) = (source(min, max), source(min, max));
        for _ in 0..500 {
            let now = slow.next_at().unwrap();
            let (small, large) = (slow.produce(now, min), fast.produce(now, max));
            assert!(large.bytes.abs_diff(4 * small.bytes) <= 4);
        }
    }

    #[test]
    fn patterns_count_b_frames() {
        for (text, b_frames) in [("IP", 0), ("IPPP", 0), ("IBP", 1), ("IBBPBBP", 2)] {
            assert_eq!(text.parse(), Ok(IpbPattern(b_frames)), "{text}");
        }
        for text in ["", "I", "PBB", "IBB", "IBBPBP", "IXP", "ibbp"] {
            assert!(text.parse::<IpbPattern>().is_err(), "{text}");
        }
    }
}
