//! The text of an encoder's bitrates: `500kbit/s..6Mbit/s`.

use core::str::FromStr;

use anabranch_units::DataRate;

/// Capabilities of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitrateRange {
    /// Least bitrate, above zero.
    pub min: DataRate,
    /// Largest bitrate.
    pub max: DataRate,
}

impl FromStr for BitrateRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (min, max) = text
            .split_once("..")
            .ok_or("expected two bitrates, as 500kbit/s..6Mbit/s")?;
        let rate = |text: &str| text.parse::<DataRate>().map_err(|error| error.to_string());
        let (min, max) = (rate(min)?, rate(max)?);
        if min.is_zero() || min > max {
            return Err("the first bitrate must be above zero and not above the second".to_owned());
        }
        Ok(BitrateRange { min, max })
    }
}
