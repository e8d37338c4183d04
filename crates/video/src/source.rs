//! Frame-size models: sequences of frames like an encoder's, without encoding.
//!
//! A model is one file in `source/` and one entry of [`SourceConfig`].

use core::fmt::Debug;
use core::str::FromStr;
use std::sync::Arc;

use anabranch_units::{DataRate, Duration, Importance, Instant, Seed, known_names};
use thiserror::Error;

use crate::frame_trace::FrameTrace;

mod audio;
mod cbr;
mod gop;
mod ideal;
mod ipb;
mod live;
mod packets;
mod paused;
mod schedule;
mod statistical;
mod stored;
#[cfg(test)]
mod tests;
mod trace;

pub use audio::Audio;
pub use cbr::Cbr;
pub use gop::Gop;
pub use ideal::Ideal;
pub use ipb::{Ipb, IpbPattern, IpbStructure};
pub use live::{Live, RateControl};
pub use packets::Packets;
pub use paused::Paused;
pub use statistical::Statistical;
pub use stored::Stored;
pub use trace::{FrameLadder, FrameLadderError, Trace};

/// Least time between key frames that losses request. Each key frame takes so large a part of the
/// paths' capacity that the frames behind it may be late, and request the next.
pub const LEAST_KEY_FRAME_INTERVAL: Duration = Duration::from_millis(500);

/// Properties of a frame that matter to a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameShape {
    /// Size of the encoded frame in bytes, at least 1.
    pub bytes: u32,
    /// Importance of the frame.
    pub importance: Importance,
}

/// A source of encoded frames that follows a target bitrate.
pub trait FrameSource: Debug + Send {
    /// Returns the time of the next frame; `None` once the source has ended.
    fn next_at(&self) -> Option<Instant>;

    /// Returns the due frame, encoded for `target`, over all paths together.
    ///
    /// # Panics
    /// If no frame is due at `now`.
    fn produce(&mut self, now: Instant, target: DataRate) -> FrameShape;

    /// Reports that a frame was given up, so that later ones cannot be decoded until the next key
    /// frame. A source that can makes the next one a key frame.
    fn on_frame_lost(&mut self) {}

    /// Returns the bitrate above which a higher target changes nothing; `None` if there is no such
    /// bitrate.
    fn max_rate(&self) -> Option<DataRate>;

    /// Returns whether frame sizes follow the target. A source that does not is sent at its own
    /// bitrate.
    fn is_adaptive(&self) -> bool;
}

/// A source in a scenario's terms.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceConfig {
    /// [`Ideal`]: frames of equal size that follow the target at once (`"ideal"`).
    Ideal {
        /// Frames per second; one of them is a key frame, and no larger than the others.
        frames_per_second: u32,
        /// Targets below this are raised to it.
        min_rate: DataRate,
        /// Targets above this are lowered to it.
        max_rate: DataRate,
    },
    /// [`Gop`]: on average like the ideal source, with larger key frames (`"gop"`); or [`Ipb`],
    /// with B-frames and sizes that vary.
    Gop {
        /// Frames per second.
        frames_per_second: u32,
        /// Targets below this are raised to it.
        min_rate: DataRate,
        /// Targets above this are lowered to it.
        max_rate: DataRate,
        /// Frames from one key frame to the next.
        key_frame_interval: u32,
        /// Size of a key frame over that of another frame, at least 1, without a structure.
        key_frame_ratio: f64,
        /// Whether a key frame follows at once after a frame was given up; unused with a structure.
        has_key_on_loss: bool,
        /// Differences between frame types and variation of sizes; `None`: no such differences or
        /// variation.
        structure: Option<IpbStructure>,
    },
    /// [`Live`]: an encoder that follows the target like real ones (`"live"`).
    Live {
        /// Frames per second.
        frames_per_second: u32,
        /// Targets below this are raised to it.
        min_rate: DataRate,
        /// Targets above this are lowered to it.
        max_rate: DataRate,
        /// Reaction to a new bitrate, and differences between frames.
        control: RateControl,
    },
    /// [`Cbr`]: a constant bitrate, independent of the target (`"cbr"`).
    Cbr {
        /// Frames per second; one of them is a key frame, and no larger than the others.
        frames_per_second: u32,
        /// The bitrate.
        rate: DataRate,
    },
    /// [`Statistical`]: the average behaviour of a live encoder (`"rfc8593"`), or with a ladder the
    /// steady sizes of a real one (`"hybrid"`).
    Statistical {
        /// Average number of frames per second.
        frames_per_second: u32,
        /// Targets below this are raised to it.
        min_rate: DataRate,
        /// Targets above this are lowered to it.
        max_rate: DataRate,
        /// The least time between two changes of the bitrate.
        reaction: Duration,
        /// Sizes of frames in the steady state; drawn at random without a ladder.
        ladder: Option<Arc<FrameLadder>>,
    },
    /// [`Trace`]: frame sizes that an encoder once produced (`"trace"`).
    Trace {
        /// Frames per second.
        frames_per_second: u32,
        /// Targets below this are raised to it.
        min_rate: DataRate,
        /// Targets above this are lowered to it.
        max_rate: DataRate,
        /// The sizes.
        ladder: Arc<FrameLadder>,
    },
    /// [`Stored`]: the frames of a film at their times (`"trace"`).
    Stored {
        /// Targets below this are raised to it.
        min_rate: DataRate,
        /// Targets above this are lowered to it. The same as the lowest: the film is not adapted.
        max_rate: DataRate,
        /// The frames.
        film: Arc<FrameTrace>,
    },
    /// [`Audio`]: a voice codec of constant bitrate (`"audio"`).
    Audio {
        /// The bitrate.
        rate: DataRate,
        /// Time between frames.
        interval: Duration,
    },
    /// [`Packets`]: packets of equal size, each a frame of its own (`"packets"`).
    Packets {
        /// Size of a packet.
        packet_bytes: u32,
        /// Targets below this are raised to it.
        min_rate: DataRate,
        /// Targets above this are lowered to it.
        max_rate: DataRate,
    },
}

/// Mistakes in a source's set-up.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SourceConfigError {
    /// No model has this name.
    #[error(
        "no source is called {name:?}; known are {}",
        known_names(name, SourceConfig::all_names())
    )]
    UnknownName {
        /// The name that was given.
        name: String,
    },
    /// The model requires a file.
    #[error("the source {name:?} needs a file of frame sizes")]
    FileMissing {
        /// The name that was given.
        name: String,
    },
    /// An interval outside 1 ms to 1 s.
    #[error("a frame's interval must be 1 ms to 1 s, not {0}")]
    FrameInterval(Duration),
    /// A packet of no or too many bytes.
    #[error("a packet must be 1 B to 65535 B, not {0} B")]
    PacketBytes(u32),
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
    /// Numbers of an [`IpbStructure`] outside their ranges.
    #[error(
        "a group has at most 16 B-frames between others, ratios above 0 and at most 1000, noise \
         and variation of 0 to 2, and a variation time above zero"
    )]
    Structure,
    /// Noise of frame sizes outside 0 to 2.
    #[error("noise must be 0 to 2, not {0}")]
    Noise(f64),
    /// An invalid pattern of frames.
    #[error("the pattern {0:?} must be an I, then as often as you like B's and a P, as in IBBP")]
    Pattern(String),
    /// A ratio below 1 or above 1,000.
    #[error("key_frame_ratio must be 1 to 1000, not {0}")]
    KeyFrameRatio(f64),
}

impl SourceConfig {
    /// The models' names, as [`SourceConfig::from_str`] reads them.
    pub const NAMES: [&str; 7] = ["ideal", "gop", "live", "cbr", "rfc8593", "audio", "packets"];

    /// Names of the models that also need a file of frame sizes.
    pub const NAMES_WITH_FILE: [&str; 2] = ["trace", "hybrid"];

    /// Returns all models' names.
    pub fn all_names() -> Vec<&'static str> {
        [&Self::NAMES[..], &Self::NAMES_WITH_FILE].concat()
    }

    /// Returns the name of this model.
    pub const fn name(&self) -> &'static str {
        match self {
            SourceConfig::Ideal { .. } => Self::NAMES[0],
            SourceConfig::Gop { .. } => Self::NAMES[1],
            SourceConfig::Live { .. } => Self::NAMES[2],
            SourceConfig::Cbr { .. } => Self::NAMES[3],
            SourceConfig::Statistical { ladder: None, .. } => Self::NAMES[4],
            SourceConfig::Audio { .. } => Self::NAMES[5],
            SourceConfig::Packets { .. } => Self::NAMES[6],
            SourceConfig::Trace { .. } | SourceConfig::Stored { .. } => Self::NAMES_WITH_FILE[0],
            SourceConfig::Statistical { .. } => Self::NAMES_WITH_FILE[1],
        }
    }

    /// Creates a source whose first frame is due at `start`, and whose random numbers, if any, come
    /// from `seed`.
    ///
    /// # Errors
    /// A [`SourceConfigError`] that names the field outside its range.
    pub fn build(
        &self,
        start: Instant,
        seed: Seed,
    ) -> Result<Box<dyn FrameSource>, SourceConfigError> {
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
                has_key_on_loss,
                structure,
            } => {
                let ideal = Ideal::new(start, frames_per_second, min_rate, max_rate)?;
                match structure {
                    None => {
                        let gop = Gop::new(ideal, key_frame_interval, key_frame_ratio)?;
                        Box::new(gop.with_key_on_loss(has_key_on_loss))
                    }
                    Some(structure) => {
                        Box::new(Ipb::new(ideal, key_frame_interval, structure, seed)?)
                    }
                }
            }
            SourceConfig::Stored {
                min_rate,
                max_rate,
                ref film,
            } => Box::new(Stored::new(start, (min_rate, max_rate), film.clone())?),
            SourceConfig::Live {
                frames_per_second: rate,
                min_rate: min,
                max_rate: max,
                control,
            } => Box::new(Live::new(start, seed, rate, (min, max), control)?),
            SourceConfig::Cbr {
                frames_per_second,
                rate,
            } => Box::new(Cbr::new(start, frames_per_second, rate)?),
            SourceConfig::Statistical {
                frames_per_second,
                min_rate,
                max_rate,
                reaction,
                ref ladder,
            } => {
                let (rates, ladder) = ((min_rate, max_rate), ladder.clone());
                let new = Statistical::new(start, seed, frames_per_second, rates, reaction, ladder);
                Box::new(new?)
            }
            SourceConfig::Trace {
                frames_per_second,
                min_rate,
                max_rate,
                ref ladder,
            } => {
                let rates = (min_rate, max_rate);
                Box::new(Trace::new(start, frames_per_second, rates, ladder.clone())?)
            }
            SourceConfig::Audio { rate, interval } => Box::new(Audio::new(start, rate, interval)?),
            SourceConfig::Packets {
                packet_bytes,
                min_rate,
                max_rate,
            } => Box::new(Packets::new(start, packet_bytes, min_rate, max_rate)?),
        })
    }
}

impl FromStr for SourceConfig {
    type Err = SourceConfigError;

    /// Returns the model of that name with its usual settings: 25 frames per second, 500 kbit/s to
    /// 2 Mbit/s (Zhang & Lei); a key frame of five times the others every 2 s; up to 6 Mbit/s and
    /// [`RateControl::default`]; a constant 1 Mbit/s; the values of RFC 8593 Table 1; 20 kbit/s of
    /// voice in frames of 20 ms; packets of 1,316 B at a constant 1 Mbit/s.
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
                has_key_on_loss: false,
                structure: None,
            },
            "live" => SourceConfig::Live {
                frames_per_second,
                min_rate,
                max_rate: DataRate::from_megabits_per_second(6),
                control: RateControl::default(),
            },
            "cbr" => SourceConfig::Cbr {
                frames_per_second,
                rate: DataRate::from_megabits_per_second(1),
            },
            "rfc8593" => SourceConfig::Statistical {
                frames_per_second: 30,
                min_rate: DataRate::from_kilobits_per_second(150),
                max_rate: DataRate::from_kilobits_per_second(1_500),
                reaction: Duration::from_millis(200),
                ladder: None,
            },
            "audio" => SourceConfig::Audio {
                rate: DataRate::from_kilobits_per_second(20),
                interval: Duration::from_millis(20),
            },
            "packets" => SourceConfig::Packets {
                packet_bytes: 1_316,
                min_rate: DataRate::from_megabits_per_second(1),
                max_rate: DataRate::from_megabits_per_second(1),
            },
            _ if Self::NAMES_WITH_FILE.contains(&name) => {
                return Err(SourceConfigError::FileMissing {
                    name: name.to_owned(),
                });
            }
            _ => {
                return Err(SourceConfigError::UnknownName {
                    name: name.to_owned(),
                });
            }
        })
    }
}

/// Maximum rate of any source, so that a frame's size fits 32 bits.
const MAX_RATE: DataRate = DataRate::from_megabits_per_second(100_000);

fn check_rates(min_rate: DataRate, max_rate: DataRate) -> Result<(), SourceConfigError> {
    if min_rate.is_zero() || min_rate > max_rate || max_rate > MAX_RATE {
        return Err(SourceConfigError::Rates { min_rate, max_rate });
    }
    Ok(())
}

/// Returns the average frame size in bytes at `rate`: rate / (8 fps).
fn mean_frame_bytes(rate: DataRate, frames_per_second: u32) -> u64 {
    rate.bytes_in(Duration::from_secs(1)) / u64::from(frames_per_second)
}
