//! The set-up of a link.

use core::fmt;

use anabranch_units::{DataRate, Duration, Instant};

use crate::detour::DetourModel;
use crate::discipline::Discipline;
use crate::jitter::{JitterAmount, JitterModel, JitterOrder};
use crate::loss::LossModel;
use crate::queue::QueueLimit;
use crate::trace::Trace;

/// One direction of a link. The default is a perfect one: no limit, no delay, no loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// Rate of the bottleneck; `None` has no limit.
    pub rate: Option<DataRate>,
    /// Rates that hold from an instant on, in any order. At rate zero the link neither sends nor
    /// loses packets.
    pub rate_schedule: Vec<(Instant, DataRate)>,
    /// Time that each packet takes beside that of its bytes: a radio's preamble, interframe spaces
    /// and acknowledgement. It needs a rate.
    pub frame_time: Duration,
    /// Number of unused bytes of a pause that may leave at once afterwards: a token bucket. It
    /// needs a rate and a drop-tail queue.
    pub burst_bytes: u64,
    /// Opportunities to send, instead of a rate and its schedule.
    pub trace: Option<Trace>,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// Propagation delays that hold from an instant on, in any order.
    pub delay_schedule: Vec<(Instant, Duration)>,
    /// Whether packets overtake those before them when the delay falls; otherwise they catch up
    /// with these and keep their order.
    pub overtaking: bool,
    /// Variation of the propagation delay.
    pub jitter: Option<JitterModel>,
    /// Packets that take longer than others, and are overtaken.
    pub detour: Option<DetourModel>,
    /// Capacity of the queue in front of the bottleneck.
    pub queue: QueueLimit,
    /// Discipline of that queue.
    pub discipline: Discipline,
    /// Losses behind the bottleneck.
    pub loss: LossModel,
    /// Start and duration of each outage; see [`Outage`](crate::Outage).
    pub outages: Vec<(Instant, Duration)>,
    /// The longest packet that passes; longer ones vanish without a word. `None` has no limit.
    pub mtu: Option<u32>,
    /// Such limits that hold from an instant on, in any order.
    pub mtu_schedule: Vec<(Instant, u32)>,
}

impl LinkConfig {
    /// Returns whether the link only delays packets: it neither queues nor loses any.
    pub(crate) fn is_line(&self) -> bool {
        self.rate.is_none()
            && self.trace.is_none()
            && self.rate_schedule.is_empty()
            && self.queue == QueueLimit::Unlimited
            && self.loss == LossModel::None
            && self.outages.is_empty()
            && self.mtu.is_none()
            && self.mtu_schedule.is_empty()
    }

    /// Returns the same set-up, with everything that it schedules `later`.
    #[must_use]
    pub fn postponed(&self, later: Duration) -> LinkConfig {
        let mut config = self.clone();
        for (at, _) in &mut config.rate_schedule {
            *at += later;
        }
        for (at, _) in &mut config.delay_schedule {
            *at += later;
        }
        for (at, _) in &mut config.mtu_schedule {
            *at += later;
        }
        for (at, _) in &mut config.outages {
            *at += later;
        }
        config.trace = config.trace.map(|trace| trace.postponed(later));
        config
    }

    pub(crate) fn check(&self) -> Result<(), LinkConfigError> {
        if let Some(probability) = self.loss.invalid_probability() {
            return Err(LinkConfigError::Probability(probability));
        }
        if let Some(mistake) = self.discipline.mistake() {
            return Err(LinkConfigError::Discipline(mistake));
        }
        let has_rate = self.rate.is_some() || !self.rate_schedule.is_empty();
        if self.trace.is_some() && has_rate {
            return Err(LinkConfigError::RateAndTrace);
        }
        let is_drop_tail = matches!(self.discipline, Discipline::DropTail { .. });
        if !self.frame_time.is_zero() && (self.rate.is_none() || self.burst_bytes > 0) {
            return Err(LinkConfigError::FrameTime);
        }
        if self.burst_bytes > 0 && (self.rate.is_none() || !is_drop_tail) {
            return Err(LinkConfigError::Burst);
        }
        if let Some(detour) = &self.detour
            && !(0.0..=1.0).contains(&detour.share)
        {
            return Err(LinkConfigError::DetourShare(detour.share));
        }
        if let Some(jitter) = &self.jitter {
            self.check_jitter(jitter)?;
        }
        Ok(())
    }

    fn check_jitter(&self, jitter: &JitterModel) -> Result<(), LinkConfigError> {
        if let JitterAmount::Normal { max_deviations, .. } = jitter.amount
            && !(0.0..=1e6).contains(&max_deviations)
        {
            return Err(LinkConfigError::JitterDeviations(max_deviations));
        }
        if self.overtaking && jitter.order != JitterOrder::Reordered {
            return Err(LinkConfigError::OvertakingInOrder);
        }
        let delays = self.delay_schedule.iter().map(|(_, delay)| *delay);
        let delay = delays.fold(self.delay, Duration::min);
        let needed = jitter.max_advance();
        if delay < needed {
            return Err(LinkConfigError::JitterExceedsDelay { delay, needed });
        }
        Ok(())
    }
}

/// Reasons for which a link cannot be built.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum LinkConfigError {
    /// A probability of the loss model is outside 0..=1.
    Probability(f64),
    /// An invalid number of the queue discipline, with a description of the valid ones.
    Discipline(&'static str),
    /// A rate, or a schedule of rates, together with a trace.
    RateAndTrace,
    /// A time for each packet without a rate, or with a token bucket.
    FrameTime,
    /// A token bucket without a rate, or with a queue that is managed.
    Burst,
    /// A share of packets that take a detour outside 0..=1.
    DetourShare(f64),
    /// An invalid number of deviations at which jitter is cut off.
    JitterDeviations(f64),
    /// Jitter that exceeds the delay at some time.
    JitterExceedsDelay {
        /// The shortest delay.
        delay: Duration,
        /// The least delay that the jitter needs.
        needed: Duration,
    },
    /// Packets that overtake, and jitter that keeps their order.
    OvertakingInOrder,
}

impl fmt::Display for LinkConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkConfigError::Probability(value) => {
                write!(
                    f,
                    "a loss model's probability is {value}: it must lie between 0 and 1"
                )
            }
            LinkConfigError::Discipline(mistake) => f.write_str(mistake),
            LinkConfigError::FrameTime => {
                f.write_str("a frame time needs a rate, and excludes a burst")
            }
            LinkConfigError::Burst => f.write_str("a burst needs a rate and a drop-tail queue"),
            LinkConfigError::RateAndTrace => f.write_str("a link has a rate or a trace, not both"),
            LinkConfigError::DetourShare(value) => {
                write!(
                    f,
                    "{value} of the packets take a detour: write a share between 0 and 1"
                )
            }
            LinkConfigError::JitterDeviations(value) => {
                write!(
                    f,
                    "jitter is cut off at {value} deviations: write 0 to 1000000"
                )
            }
            LinkConfigError::OvertakingInOrder => {
                f.write_str("packets that overtake need jitter whose order is \"reordered\"")
            }
            LinkConfigError::JitterExceedsDelay { delay, needed } => {
                write!(
                    f,
                    "packets may be {needed} early: a delay of {delay} is too short for that"
                )
            }
        }
    }
}

impl core::error::Error for LinkConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_scheduled_is_postponed() {
        fn with(second: u64) -> LinkConfig {
            let at = Instant::from_secs(second);
            LinkConfig {
                rate_schedule: vec![(at, DataRate::ZERO)],
                delay_schedule: vec![(at, Duration::ZERO)],
                outages: vec![(at, Duration::from_secs(5))],
                mtu_schedule: vec![(at, 1_280)],
                trace: Trace::new(&[900, 5_000])
                    .map(|trace| trace.postponed(Duration::from_secs(second)))
                    .ok(),
                ..LinkConfig::default()
            }
        }

        assert_eq!(with(10).postponed(Duration::from_secs(2)), with(12));
    }
}
