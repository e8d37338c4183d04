//! Output of a session for its application.

use std::collections::VecDeque;

use super::Event;
use crate::counters::SessionCounters;

/// Events that the application has not taken yet, and the session's counts.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(super) events: VecDeque<Event>,
    pub(super) counters: SessionCounters,
}
