//! `test:` in a build without an encoder: there is none.

use anabranch_core::SourceLimits;
use anabranch_units::Duration;
use anyhow::bail;

use super::{Unit, Wanted};

/// Never asked for.
pub(super) const LIMITS: SourceLimits = SourceLimits::Fixed;

/// The camera that cannot be had.
#[derive(Debug)]
pub(super) enum AdaptiveCamera {}

impl AdaptiveCamera {
    pub(super) fn new(_: Option<Duration>) -> anyhow::Result<Self> {
        bail!(
            "this build is without test:, the built-in camera: it was built without the cargo \
             feature `codec`"
        )
    }

    pub(super) fn next_clock(&self) -> Option<Duration> {
        match *self {}
    }

    pub(super) fn take(&mut self, _: Duration, _: Wanted) -> anyhow::Result<Unit> {
        match *self {}
    }
}
