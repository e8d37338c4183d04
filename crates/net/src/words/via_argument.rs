//! The text of a path: `wlan0`, or `wwan0,metered`.

use core::str::FromStr;

use anabranch_core::PathOptions;
use anabranch_units::{ByteCount, DataRate, ParseQuantityError};

use crate::via::Via;

/// An interface or address, with the user's options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViaArgument {
    /// Interface or address. An interface's name may contain `*` and `?`, and then stands for all
    /// that match.
    pub via: Via,
    /// Preferences for the scheduler.
    pub options: PathOptions,
    /// Volume in both directions and across restarts after which the path is on standby.
    pub cap: Option<ByteCount>,
}

/// Mistake in the text of a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseViaError {
    /// The weight is no number above zero.
    #[error("weight={text}: it must be a number above zero")]
    Weight {
        /// The text of the weight.
        text: String,
    },
    /// The maximum rate is no rate.
    #[error("max={0}")]
    Rate(ParseQuantityError),
    /// The maximum rate is zero.
    #[error("max=0: it must be above zero")]
    NoRate,
    /// The cap is no number of bytes.
    #[error("cap={0}")]
    Cap(ParseQuantityError),
    /// There is no such option.
    #[error("{option:?}: known are weight=N, metered, max=RATE and cap=AMOUNT")]
    Unknown {
        /// The option.
        option: String,
    },
}

impl FromStr for ViaArgument {
    type Err = ParseViaError;

    /// Parses `wlan0`, `192.0.2.7`, `wlan0,weight=2`, `wwan0,metered`, or a combination.
    fn from_str(text: &str) -> Result<Self, ParseViaError> {
        let mut parts = text.split(',');
        let Ok(via) = parts.next().unwrap_or_default().parse();
        let mut options = PathOptions::default();
        let mut cap = None;
        for part in parts {
            match part.split_once('=') {
                None if part == "metered" => options.is_metered = true,
                Some(("weight", number)) => {
                    let weight = number.parse().ok();
                    options.weight = weight
                        .filter(|weight: &f64| weight.is_finite() && *weight > 0.0)
                        .ok_or_else(|| ParseViaError::Weight {
                            text: number.to_owned(),
                        })?;
                }
                Some(("max", rate)) => {
                    let rate: DataRate = rate.parse().map_err(ParseViaError::Rate)?;
                    if rate == DataRate::ZERO {
                        return Err(ParseViaError::NoRate);
                    }
                    options.max_rate = Some(rate);
                }
                Some(("cap", bytes)) => {
                    cap = Some(bytes.parse().map_err(ParseViaError::Cap)?);
                }
                _ => {
                    let option = part.to_owned();
                    return Err(ParseViaError::Unknown { option });
                }
            }
        }
        Ok(ViaArgument { via, options, cap })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_out_has_options_behind_commas() {
        let argument: ViaArgument = "wwan0,metered,weight=0.5".parse().unwrap();
        assert_eq!(argument.via, Via::Interface("wwan0".to_owned()));
        assert_eq!(
            (argument.options.weight, argument.options.is_metered),
            (0.5, true)
        );
        let plain: ViaArgument = "192.0.2.7".parse().unwrap();
        assert_eq!(plain.options, PathOptions::default());
        assert!(matches!(plain.via, Via::Address(_)));
    }

    #[test]
    fn a_way_out_has_limits() {
        let argument: ViaArgument = "wwan*,max=3Mbit/s,cap=10GB".parse().unwrap();
        let max = DataRate::from_megabits_per_second(3);
        assert_eq!(argument.options.max_rate, Some(max));
        assert_eq!(argument.cap, Some(ByteCount(10_000_000_000)));
        assert_eq!(argument.via.pattern(), Some("wwan*"));
        assert_eq!("wwan0".parse::<ViaArgument>().unwrap().via.pattern(), None);
    }

    #[test]
    fn errors_name_the_part() {
        for (text, part) in [
            ("wlan0,weight=0", "weight=0"),
            ("wlan0,weight=-1", "above zero"),
            ("wlan0,weight=much", "much"),
            ("wlan0,meter", "known are"),
            ("wlan0,weight", "known are"),
            ("wlan0,max=3", "units"),
            ("wlan0,max=0", "above zero"),
            ("wlan0,cap=much", "cap="),
        ] {
            let parse_error = text.parse::<ViaArgument>().unwrap_err().to_string();
            assert!(parse_error.contains(part), "{parse_error}");
        }
    }
}
