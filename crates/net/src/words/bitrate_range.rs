//! The text of an encoder's bitrates: `500kbit/s..6Mbit/s`.

use core::str::FromStr;

use anabranch_units::{DataRate, ParseQuantityError};

/// Capabilities of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitrateRange {
    /// Least bitrate, above zero.
    pub min: DataRate,
    /// Largest bitrate.
    pub max: DataRate,
}

/// Mistake in the text of an encoder's bitrates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseBitrateRangeError {
    /// There are not two bitrates with `..` between them.
    #[error("expected two bitrates, as 500kbit/s..6Mbit/s")]
    Syntax,
    /// One of them is no bitrate.
    #[error(transparent)]
    Bitrate(#[from] ParseQuantityError),
    /// The first one is zero or above the second.
    #[error("the first bitrate must be above zero and not above the second")]
    Order,
}

impl FromStr for BitrateRange {
    type Err = ParseBitrateRangeError;

    fn from_str(text: &str) -> Result<Self, ParseBitrateRangeError> {
        let (first, second) = text
            .split_once("..")
            .ok_or(ParseBitrateRangeError::Syntax)?;
        let (min, max): (DataRate, DataRate) = (first.parse()?, second.parse()?);
        if min.is_zero() || min > max {
            return Err(ParseBitrateRangeError::Order);
        }
        Ok(BitrateRange { min, max })
    }
}
