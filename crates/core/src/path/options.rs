//! Set-up of a path.

use anabranch_units::DataRate;

use crate::control::ControlParameters;

/// Set-up of a path, by the driver that adds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathOptions {
    /// The user's preference, above zero; shares of traffic follow it where the scheduler may
    /// choose.
    pub weight: f64,
    /// Whether the user pays by volume.
    pub is_metered: bool,
    /// Whether the user pays for it beyond an amount: it is not padded while another path carries
    /// the stream.
    pub is_capped: bool,
    /// The path is never sent on faster than this, whatever it carries.
    pub max_rate: Option<DataRate>,
    /// The rate that it begins with: the estimate of an earlier session. `None`:
    /// [`Config::initial_rate`](crate::Config::initial_rate).
    pub initial_rate: Option<DataRate>,
}

impl Default for PathOptions {
    fn default() -> Self {
        PathOptions {
            weight: 1.0,
            is_metered: false,
            is_capped: false,
            max_rate: None,
            initial_rate: None,
        }
    }
}

impl PathOptions {
    /// Returns the controller's parameters within the user's limits.
    pub(super) fn limit(&self, mut control: ControlParameters) -> ControlParameters {
        if let Some(max) = self.max_rate {
            control.pacing_rate = Some(control.pacing_rate.map_or(max, |rate| rate.min(max)));
            control.target_rate = control.target_rate.min(max);
            control.padding_rate = control.padding_rate.min(max);
            (control.burst_bytes, control.group_bytes) = (0, 0);
        }
        control
    }
}
