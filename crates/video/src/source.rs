//! Frame-size models: what an encoder would produce, without encoding anything.
//!
//! A model is one file in `source/` and one entry of [`SourceConfig`].

use core::fmt::Debug;
use core::str::FromStr;

use anabranch_units::{DataRate, Duration, Instant};
use thiserror::Error;

mod cbr;
mod gop;
mod ideal;
mod schedule;

pub use cbr::Cbr;
pub use gop::Gop;
pub use ideal::Ideal;

/// What of a frame matters to a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameShape {
    /// Size of the encoded frame in bytes, at least 1.
    pub bytes: u32,
    /// Whether decoding can start at this frame.
    pub is_key: bool,
}

/// A source of encoded frames that is told a target bitrate.
pub trait FrameSource: Debug + Send {
    /// When the next frame is due; `None` once the source has ended.
    fn next_at(&self) -> Option<Instant>;

    /// The frame that is due, encoded for `target`, over all paths together.
    ///
    /// # Panics
    /// If no frame is due at `now`.
    fn produce(&mut self, now: Instant, target: DataRate) -> FrameShape;

    /// The bitrate above which a higher target changes nothing; `None` if there is no such bitrate.
    fn max_rate(&self) -> Option<DataRate>;

    /// Whether frame sizes follow the target. A source that does not is sent at its own bitrate.
    fn is_adaptive(&self) -> bool;
}

/// A source as a scenario describes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SourceConfig {
    /// [`Ideal`]: frames of equal size that follow the target at once (`"ideal"`).
    Ideal {
        /// Frames per second; every such number of frames, one is flagged as key frame.
        frames_per_second: u32,
        /// Targets below this are raised to it.
        min_rate: DataRate,
        /// Targets above this are lowered to it.
        max_rate: DataRate,
    },
    /// [`Gop`]: as ideal in the mean, with larger key frames (`"gop"`).
    Gop {
        /// Frames per second.
        frames_per_second: u32,
        /// Targets below this are raised to it.
        min_rate: DataRate,
        /// Targets above this are lowered to it.
        max_rate: DataRate,
        /// Frames from one key frame to the next.
        key_frame_interval: u32,
        /// Size of a key frame over that of another frame, at least 1.
        key_frame_ratio: f64,
    },
    /// [`Cbr`]: a constant bitrate, whatever the target (`"cbr"`).
    Cbr {
        /// Frames per second; every such number of frames, one is flagged as key frame.
        frames_per_second: u32,
        /// The bitrate.
        rate: DataRate,
    },
}

/// A source that cannot be.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SourceConfigError {
    /// No model has this name.
    #[error("no source is called {name:?}; known are {}", SourceConfig::NAMES.join(", "))]
    UnknownName {
        /// The name that was given.
        name: String,
    },
    /// Frames per second outside 1 to 1,000.
    #[error("frames_per_second must be 1 to 1000, not {0}")]
    FramesPerSecond(u32),
    /// The lowest bitrate exceeds the highest, or a bitrate is zero or above 100 Gbit/s.
    #[error("{min_rate} to {max_rate}: bitrates must be in order, above zero, at most 100 Gbit/s")]
    Rates {
        /// The lowest bitrate.
        min_rate: DataRate,
        /// The highest bitrate.
        max_rate: DataRate,
    },
    /// A key frame interval of zero frames.
    #[error("key_frame_interval must be at least 1 frame")]
    KeyFrameInterval,
    /// A ratio below 1 or above 1,000.
    #[error("key_frame_ratio must be 1 to 1000, not {0}")]
    KeyFrameRatio(f64),
}

impl SourceConfig {
    /// The models' names, as [`SourceConfig::from_str`] reads them.
    pub const NAMES: [&str; 3] = ["ideal", "gop", "cbr"];

    /// The name of this model.
    pub const fn name(&self) -> &'static str {
        match self {
            SourceConfig::Ideal { .. } => Self::NAMES[0],
            SourceConfig::Gop { .. } => Self::NAMES[1],
            SourceConfig::Cbr { .. } => Self::NAMES[2],
        }
    }

    /// A source whose first frame is due at `start`.
    ///
    /// # Errors
    /// A [`SourceConfigError`] that names the field outside its range.
    pub fn build(&self, start: Instant) -> Result<Box<dyn FrameSource>, SourceConfigError> {
        Ok(match *self {
            SourceConfig::Ideal {
                frames_per_second,
                min_rate,
                max_rate,
            } => Box::new(Ideal::new(start, frames_per_second, min_rate, max_rate)?),
            SourceConfig::Gop {
                frames_per_second,
                min_rate,
                max_rate,
                key_frame_interval,
                key_frame_ratio,
            } => {
                let ideal = Ideal::new(start, frames_per_second, min_rate, max_rate)?;
                Box::new(Gop::new(ideal, key_frame_interval, key_frame_ratio)?)
            }
            SourceConfig::Cbr {
                frames_per_second,
                rate,
            } => Box::new(Cbr::new(start, frames_per_second, rate)?),
        })
    }
}

impl FromStr for SourceConfig {
    type Err = SourceConfigError;

    /// The model of that name with its usual settings: 25 frames per second, 500 kbit/s to 2 Mbit/s
    /// (Zhang & Lei); a key frame of five times the others every 2 s; a constant 1 Mbit/s.
    fn from_str(name: &str) -> Result<Self, SourceConfigError> {
        let frames_per_second = 25;
        let min_rate = DataRate::from_kilobits_per_second(500);
        let max_rate = DataRate::from_megabits_per_second(2);
        Ok(match name {
            "ideal" => SourceConfig::Ideal {
                frames_per_second,
                min_rate,
                max_rate,
            },
            "gop" => SourceConfig::Gop {
                frames_per_second,
                min_rate,
                max_rate,
                key_frame_interval: 2 * frames_per_second,
                key_frame_ratio: 5.0,
            },
            "cbr" => SourceConfig::Cbr {
                frames_per_second,
                rate: DataRate::from_megabits_per_second(1),
            },
            _ => {
                return Err(SourceConfigError::UnknownName {
                    name: name.to_owned(),
                });
            }
        })
    }
}

/// The fastest that any source may be, so that a frame's size fits 32 bits.
const MAX_RATE: DataRate = DataRate::from_megabits_per_second(100_000);

fn check_rates(min_rate: DataRate, max_rate: DataRate) -> Result<(), SourceConfigError> {
    if min_rate.is_zero() || min_rate > max_rate || max_rate > MAX_RATE {
        return Err(SourceConfigError::Rates { min_rate, max_rate });
    }
    Ok(())
}

/// The mean frame's size in bytes at `rate`: rate / (8 fps).
fn mean_frame_bytes(rate: DataRate, frames_per_second: u32) -> u64 {
    rate.bytes_in(Duration::from_secs(1)) / u64::from(frames_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_builds_a_source_whose_first_frame_is_key_and_due_at_the_start() {
        for name in SourceConfig::NAMES {
            let config: SourceConfig = name.parse().unwrap();
            assert_eq!(config.name(), name);
            let start = Instant::from_secs(3);
            let mut source = config.build(start).unwrap();
            assert_eq!(source.next_at(), Some(start));
            assert!(
                source
                    .produce(start, DataRate::from_megabits_per_second(1))
                    .is_key
            );
            assert_eq!(source.next_at(), Some(start + Duration::from_millis(40)));
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "webcam".parse::<SourceConfig>().unwrap_err().to_string();
        assert!(error.contains("ideal, gop, cbr"), "{error}");
    }

    #[test]
    fn settings_outside_their_range_are_refused() {
        let rate = DataRate::from_megabits_per_second(1);
        let refused = [
            SourceConfig::Cbr {
                frames_per_second: 0,
                rate,
            },
            SourceConfig::Cbr {
                frames_per_second: 25,
                rate: DataRate::ZERO,
            },
            SourceConfig::Cbr {
                frames_per_second: 25,
                rate: DataRate::MAX,
            },
            SourceConfig::Ideal {
                frames_per_second: 25,
                min_rate: rate + rate,
                max_rate: rate,
            },
            SourceConfig::Gop {
                frames_per_second: 25,
                min_rate: rate,
                max_rate: rate,
                key_frame_interval: 0,
                key_frame_ratio: 5.0,
            },
            SourceConfig::Gop {
                frames_per_second: 25,
                min_rate: rate,
                max_rate: rate,
                key_frame_interval: 50,
                key_frame_ratio: f64::NAN,
            },
        ];
        for config in refused {
            assert!(config.build(Instant::ZERO).is_err(), "{config:?}");
        }
    }

    #[test]
    #[should_panic(expected = "no frame is due")]
    fn a_frame_is_not_produced_before_it_is_due() {
        let mut source = "cbr"
            .parse::<SourceConfig>()
            .unwrap()
            .build(Instant::from_secs(1))
            .unwrap();
        source.produce(Instant::ZERO, DataRate::MAX);
    }
}
