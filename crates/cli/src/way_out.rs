//! What `--via` says of a path.

use core::str::FromStr;

use anabranch_core::PathOptions;
use anabranch_net::Via;

/// A way out of this machine, and what the user thinks of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WayOut {
    pub(crate) via: Via,
    pub(crate) options: PathOptions,
}

impl FromStr for WayOut {
    type Err = String;

    /// `wlan0`, `192.0.2.7`, `wlan0,weight=2`, `wwan0,metered`, or with both.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let Ok(via) = parts.next().unwrap_or_default().parse();
        let mut options = PathOptions::default();
        for part in parts {
            match part.split_once('=') {
                None if part == "metered" => options.is_metered = true,
                Some(("weight", number)) => {
                    let weight = number.parse().ok();
                    options.weight = weight
                        .filter(|weight: &f64| weight.is_finite() && *weight > 0.0)
                        .ok_or_else(|| {
                            format!("weight={number}: it must be a number above zero")
                        })?;
                }
                _ => return Err(format!("{part:?}: known are weight=N and metered")),
            }
        }
        Ok(WayOut { via, options })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_out_has_options_behind_commas() {
        let way: WayOut = "wwan0,metered,weight=0.5".parse().unwrap();
        assert_eq!(way.via, Via::Interface("wwan0".to_owned()));
        assert_eq!((way.options.weight, way.options.is_metered), (0.5, true));
        let plain: WayOut = "192.0.2.7".parse().unwrap();
        assert_eq!(plain.options, PathOptions::default());
        assert!(matches!(plain.via, Via::Address(_)));
    }

    #[test]
    fn a_mistake_is_told() {
        for (text, part) in [
            ("wlan0,weight=0", "weight=0"),
            ("wlan0,weight=-1", "above zero"),
            ("wlan0,weight=much", "much"),
            ("wlan0,meter", "known are"),
            ("wlan0,weight", "known are"),
        ] {
            let told = text.parse::<WayOut>().unwrap_err();
            assert!(told.contains(part), "{told}");
        }
    }
}
