//! `fixed`: a constant rate that ignores the network. It is not for networks that others use: it
//! exists as the control of experiments, which must fail with it.

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::Feedback;
use anabranch_core::{PathView, SessionView};
use anabranch_units::{DataRate, Instant};

#[derive(Debug)]
struct Fixed {
    rate: DataRate,
}

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Fixed {
        rate: config.fixed_rate.max(config.min_rate),
    })
}

impl CongestionController for Fixed {
    fn looks_at_paths(&self) -> bool {
        false
    }

    fn on_feedback(
        &mut self,
        _now: Instant,
        _feedback: &Feedback<'_>,
        _session: &SessionView,
        _paths: &[PathView],
    ) {
    }

    fn on_timeout(&mut self, _now: Instant, _cause: Timeout) {}

    fn control(&self) -> ControlParameters {
        ControlParameters {
            pacing_rate: Some(self.rate),
            ..ControlParameters::of(self.rate)
        }
    }

    fn state(&self) -> &'static str {
        "Fixed"
    }
}
