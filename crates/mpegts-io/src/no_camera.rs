//! `test:` in a build without an encoder: the camera does not exist.

use anabranch_core::SourceLimits;
use anabranch_units::Duration;

use super::input_error::InputError;
use super::unit::{Unit, Wanted};

/// Placeholder that is never used.
pub(super) const LIMITS: SourceLimits = SourceLimits::Fixed;

/// A camera that does not exist.
#[derive(Debug)]
pub(super) enum AdaptiveCamera {}

impl AdaptiveCamera {
    pub(super) fn new(_: Option<Duration>) -> Result<Self, InputError> {
        Err(InputError::NoCamera)
    }

    pub(super) fn next_clock(&self) -> Option<Duration> {
        match *self {}
    }

    pub(super) fn catch_up(&mut self, _: Duration) -> u32 {
        match *self {}
    }

    pub(super) fn take(&mut self, _: Duration, _: Wanted) -> Result<Unit, InputError> {
        match *self {}
    }
}
