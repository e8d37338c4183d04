//! The statistical video traffic model of RFC 8593 §5, and with measured frame sizes the hybrid
//! model of its §7.

use std::sync::Arc;

use anabranch_units::{DataRate, Duration, Importance, Instant, Rng, Seed};

use super::{FrameLadder, FrameShape, FrameSource, SourceConfigError, check_rates};

/// The average behaviour of a live encoder: sizes and intervals vary, a new target is followed
/// after a while, and a large change begins with a large frame.
///
/// Deviations: §5.2 calls the reaction time after a change transient, and Table 1 the burst's 8
/// frames; here the frames are counted. The text does not define a large change: here it is one of
/// more than half of the bitrate, as in syncodecs, and the start. The text has no frame types: the
/// first frame of a burst is a key frame, and one of `frames_per_second` frames, as by
/// intra-refresh.
#[derive(Clone, Debug)]
pub struct Statistical {
    rng: Rng,
    frames_per_second: u32,
    frame_interval: Duration,
    min_rate: DataRate,
    max_rate: DataRate,
    reaction: Duration,
    /// Sizes of frames in the steady state; drawn at random if `None`.
    ladder: Option<Arc<FrameLadder>>,
    next_at: Instant,
    frame_count: u64,
    /// The present bitrate and its start; `None` before the first frame.
    rate: Option<(DataRate, Instant)>,
    /// Remaining frames of the burst.
    burst_frames: u32,
    /// Size of the frames after the burst's first.
    after_burst_bytes: f64,
}

/// K_B: size of the frame that a burst begins with (RFC 8593 Table 1).
const BURST_BYTES: f64 = 13_500.0;
/// K_d: number of frames of a burst.
const BURST_FRAMES: u32 = 8;
/// SCALE_B and SCALE_t: scale of the Laplace distribution of sizes and intervals, as a share.
const SCALE: f64 = 0.15;
/// Least size of the frames that make up for the large one, as a share of the average. Chosen.
const LEAST_SHARE: f64 = 0.2;
/// Relative change above which a burst begins.
const LARGE_CHANGE: f64 = 0.5;

impl Statistical {
    /// Creates a source whose first frame is due at `start`. A target that comes less than
    /// `reaction` (in the RFC `tau_v`) after the last change waits.
    ///
    /// # Errors
    /// If frames per second are not 1 to 1,000, or the rates not `0 < min_rate <= max_rate <=
    /// 100 Gbit/s`.
    pub fn new(
        start: Instant,
        seed: Seed,
        frames_per_second: u32,
        (min_rate, max_rate): (DataRate, DataRate),
        reaction: Duration,
        ladder: Option<Arc<FrameLadder>>,
    ) -> Result<Self, SourceConfigError> {
        check_rates(min_rate, max_rate)?;
        if !(1..=1_000).contains(&frames_per_second) {
            return Err(SourceConfigError::FramesPerSecond(frames_per_second));
        }
        Ok(Statistical {
            rng: seed.rng(),
            frames_per_second,
            frame_interval: Duration::from_secs(1) / u64::from(frames_per_second),
            min_rate,
            max_rate,
            reaction,
            ladder,
            next_at: start,
            frame_count: 0,
            rate: None,
            burst_frames: 0,
            after_burst_bytes: 0.0,
        })
    }

    /// Follows the target if it may, and begins a burst at a large change.
    fn follow(&mut self, now: Instant, target: DataRate) -> DataRate {
        let target = target.clamp(self.min_rate, self.max_rate);
        let is_large = match self.rate {
            None => true,
            Some((rate, since)) if target == rate || now - since < self.reaction => return rate,
            Some((rate, _)) => {
                let (old, new) = (
                    rate.bits_per_second() as f64,
                    target.bits_per_second() as f64,
                );
                (new - old).abs() > LARGE_CHANGE * old
            }
        };
        self.rate = Some((target, now));
        if is_large {
            self.burst_frames = BURST_FRAMES;
            let mean = self.mean_bytes(target);
            let rest = (f64::from(BURST_FRAMES) * mean - BURST_BYTES) / f64::from(BURST_FRAMES - 1);
            self.after_burst_bytes = rest.max(LEAST_SHARE * mean);
        }
        target
    }

    /// Returns B_0 at a rate.
    fn mean_bytes(&self, rate: DataRate) -> f64 {
        rate.bits_per_second() as f64 / 8.0 * self.frame_interval.as_secs_f64()
    }

    fn size(&mut self, rate: DataRate) -> f64 {
        if let Some(left) = self.burst_frames.checked_sub(1) {
            self.burst_frames = left;
            return match left + 1 {
                BURST_FRAMES => BURST_BYTES,
                _ => self.after_burst_bytes,
            };
        }
        match &self.ladder {
            Some(ladder) => f64::from(ladder.frame_bytes(self.frame_count, rate)),
            None => self.mean_bytes(rate) * (1.0 + laplace(&mut self.rng, SCALE)),
        }
    }
}

/// Draws a number from the Laplace distribution with mean zero.
fn laplace(rng: &mut Rng, scale: f64) -> f64 {
    let u = rng.next_f64() - 0.5;
    // 1 - 2|u| is zero only for u = -1/2.
    let magnitude = -libm::log((1.0 - 2.0 * u.abs()).max(f64::MIN_POSITIVE));
    scale * magnitude.copysign(u)
}

impl FrameSource for Statistical {
    fn next_at(&self) -> Option<Instant> {
        Some(self.next_at)
    }

    fn produce(&mut self, now: Instant, target: DataRate) -> FrameShape {
        let next_at = self.next_at;
        assert!(
            now >= next_at,
            "no frame is due at {now}, the next is at {next_at}"
        );
        let rate = self.follow(now, target);
        let is_refreshed = self
            .frame_count
            .is_multiple_of(u64::from(self.frames_per_second));
        let is_key = self.burst_frames == BURST_FRAMES || is_refreshed;
        let bytes = (self.size(rate) + 0.5).clamp(1.0, f64::from(u32::MAX)) as u32;
        let interval = (1.0 + laplace(&mut self.rng, SCALE)).max(0.0);
        self.next_at += self.frame_interval.mul_f64(interval);
        self.frame_count += 1;
        let importance = Importance::key_if(is_key);
        FrameShape { bytes, importance }
    }

    fn max_rate(&self) -> Option<DataRate> {
        Some(self.max_rate)
    }

    fn is_adaptive(&self) -> bool {
        self.min_rate < self.max_rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABIT: DataRate = DataRate::from_megabits_per_second(1);
    const RATES: (DataRate, DataRate) = (
        DataRate::from_kilobits_per_second(150),
        DataRate::from_kilobits_per_second(1_500),
    );
    const REACTION: Duration = Duration::from_millis(200);

    fn source(seed: u64) -> Statistical {
        Statistical::new(Instant::ZERO, Seed(seed), 30, RATES, REACTION, None).unwrap()
    }

    /// Returns instant and size of each frame up to `end`, with `target` by time.
    fn frames(
        source: &mut Statistical,
        end: Instant,
        target: impl Fn(Instant) -> DataRate,
    ) -> Vec<(Instant, FrameShape)> {
        std::iter::from_fn(|| {
            let now = source.next_at().filter(|at| *at < end)?;
            Some((now, source.produce(now, target(now))))
        })
        .collect()
    }

    fn total(frames: &[(Instant, FrameShape)]) -> f64 {
        frames.iter().map(|(_, frame)| f64::from(frame.bytes)).sum()
    }

    #[test]
    fn the_mean_rate_over_a_minute_is_the_target() {
        for seed in 1..=5 {
            let frames = frames(&mut source(seed), Instant::from_secs(60), |_| MEGABIT);
            let rate = total(&frames) * 8.0 / 60.0;
            assert!((980_000.0..1_020_000.0).contains(&rate), "{rate}");
        }
    }

    #[test]
    fn sizes_and_intervals_vary_by_scale_times_root_two() {
        let frames = frames(&mut source(1), Instant::from_secs(600), |_| MEGABIT);
        let steady = &frames[BURST_FRAMES as usize..];
        let sizes = steady
            .iter()
            .map(|(_, frame)| f64::from(frame.bytes))
            .collect();
        let intervals = steady
            .windows(2)
            .map(|pair| (pair[1].0 - pair[0].0).as_secs_f64());
        for samples in [sizes, intervals.collect::<Vec<f64>>()] {
            let count = samples.len() as f64;
            let mean = samples.iter().sum::<f64>() / count;
            let variance = samples.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
            let coefficient = variance.sqrt() / mean;
            // 18,000 samples: the estimate's own deviation is 0.0019.
            assert!((coefficient - 0.2121).abs() < 0.006, "{coefficient}");
        }
    }

    #[test]
    fn a_burst_of_eight_frames_has_eight_mean_frames_bytes() {
        let step = Instant::from_secs(10);
        let frames = frames(&mut source(1), Instant::from_secs(12), |now| {
            if now < step {
                MEGABIT.mul_f64(0.9)
            } else {
                MEGABIT.mul_f64(1.4)
            }
        });
        let keys: Vec<usize> = (0..frames.len())
            .filter(|index| frames[*index].1.importance.is_key())
            .collect();
        let bursts: Vec<usize> = keys
            .iter()
            .copied()
            .filter(|index| !index.is_multiple_of(30) || *index == 0)
            .collect();
        let [0, change] = bursts[..] else {
            panic!("{keys:?}")
        };
        assert!(
            keys.windows(2).all(|pair| pair[1] - pair[0] <= 30),
            "{keys:?}"
        );
        for (first, rate) in [(0, 900_000.0), (change, 1_400_000.0)] {
            let burst = total(&frames[first..first + 8]) / (8.0 * rate / 8.0 / 30.0);
            assert!((0.99..=1.01).contains(&burst), "{burst}");
            assert_eq!(frames[first].1.bytes, 13_500);
        }
        assert!(frames[change].0 - step < Duration::from_millis(100));
    }

    #[test]
    fn at_low_rates_the_frames_after_the_large_one_keep_a_fifth_of_the_mean() {
        let low = DataRate::from_kilobits_per_second(240);
        let frames = frames(&mut source(1), Instant::from_secs(1), |_| low);
        let sizes: Vec<u32> = frames
            .iter()
            .take(8)
            .map(|(_, frame)| frame.bytes)
            .collect();
        assert_eq!(sizes, [13_500, 200, 200, 200, 200, 200, 200, 200]);
    }

    #[test]
    fn a_target_is_followed_within_the_reaction_time_and_a_frame() {
        fn target(now: Instant, first: Instant, second: Instant) -> DataRate {
            match now {
                now if now < first => MEGABIT,
                now if now < second => MEGABIT.mul_f64(1.1),
                _ => MEGABIT.mul_f64(1.2),
            }
        }

        let (first, second) = (Instant::from_secs(1), Instant::from_millis(1_100));
        for seed in 1..=50 {
            let mut source = source(seed);
            let mut changes = Vec::new();
            let mut longest = Duration::ZERO;
            while let Some(now) = source.next_at().filter(|now| *now < Instant::from_secs(2)) {
                let before = source.rate;
                source.produce(now, target(now, first, second));
                longest = longest.max(source.next_at - now);
                if source.rate != before {
                    changes.push(now);
                }
            }
            let [_, followed_first, followed_second] = changes[..] else {
                panic!("{changes:?}");
            };
            assert!(followed_first - first <= longest, "{followed_first}");
            assert!(
                followed_second - followed_first >= REACTION,
                "{followed_second}"
            );
            assert!(
                followed_second - second <= REACTION + longest,
                "{followed_second}"
            );
        }
    }

    #[test]
    fn the_target_is_clamped() {
        let frames = frames(&mut source(1), Instant::from_secs(60), |_| DataRate::MAX);
        let rate = total(&frames) * 8.0 / 60.0;
        assert!((1_470_000.0..1_530_000.0).contains(&rate), "{rate}");
    }

    #[test]
    fn the_hybrid_takes_steady_sizes_from_its_ladder() {
        let text = format!(
            "frame,1 Mbit/s\n{}",
            (0..40)
                .map(|n| format!("{n},{}\n", 4_000 + n))
                .collect::<String>()
        );
        let ladder = Some(Arc::new(FrameLadder::parse(&text).unwrap()));
        let mut source =
            Statistical::new(Instant::ZERO, Seed(1), 30, RATES, REACTION, ladder).unwrap();
        let frames = frames(&mut source, Instant::from_secs(1), |_| MEGABIT);
        assert_eq!(frames[0].1.bytes, 13_500);
        assert_eq!(frames[8].1.bytes, 4_008);
        assert_eq!(frames[20].1.bytes, 4_020);
    }
}
