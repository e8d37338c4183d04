//! The standard beds on which properties of real-time controllers are measured.

use anabranch_core::control::ControllerConfig;
use anabranch_core::recovery::LossDetection;
use anabranch_units::{DataRate, Duration, Instant, Seed};

use super::build;
use super::{Bed, Link, Outcome, PACKET_BYTES, Source};
use crate::by_name;

/// 10 Mbit/s.
pub(crate) const CAPACITY: DataRate = DataRate::from_megabits_per_second(10);

/// Returns a link of 10 Mbit/s and 50 ms with a queue of `queue_millis`.
pub(crate) fn ten_megabits(queue_millis: u64) -> Link {
    Link::new(
        CAPACITY,
        Duration::from_millis(25),
        Duration::from_millis(queue_millis),
    )
}

/// Returns the configuration of controllers on the beds, without limits that bind.
pub(crate) fn bed_config(seed: u64) -> ControllerConfig {
    ControllerConfig {
        max_packet_bytes: PACKET_BYTES,
        seed: Seed(seed),
        ..ControllerConfig::default()
    }
}

/// Flow: the controller's name and options, its source, and the second of its start.
pub(crate) type FlowOf<'a> = (&'a str, Source, u64);

/// Adds flows that run until that second.
pub(crate) fn with_flows(
    bed: Bed,
    config: &ControllerConfig,
    flows: &[FlowOf<'_>],
    until: u64,
) -> Bed {
    flows.iter().fold(bed, |bed, &(name, source, from)| {
        let controller = build(name, config).unwrap();
        let (from, to) = (Instant::from_secs(from), Instant::from_secs(until));
        let share = by_name(name).unwrap().rate().encoder_share(1.0);
        bed.flow(controller, source, LossDetection::PerPacket, from, to)
            .with_encoder_share(share)
    })
}

/// Runs flows over a link for a number of seconds.
pub(crate) fn run_flows(
    link: Link,
    config: &ControllerConfig,
    flows: &[FlowOf<'_>],
    until: u64,
) -> Vec<Outcome> {
    with_flows(Bed::new(link), config, flows, until).run(Instant::from_secs(until))
}

/// Measures of one flow between two seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measures {
    /// Delivered share of the 10 Mbit/s.
    pub(crate) utilisation: f64,
    /// One-way delay above the link's 25 ms.
    pub(crate) queue_millis: f64,
    /// Share of dropped packets.
    pub(crate) loss_ratio: f64,
}

impl Measures {
    pub(crate) fn of(outcome: &Outcome, from: usize, to: usize) -> Self {
        let rate = outcome.rate_between(from, to);
        let delay = outcome.one_way_delay_between(from, to);
        let dropped = outcome.dropped_between(from, to) as f64;
        let delivered = outcome.delivered_between(from, to) as f64 / f64::from(super::PACKET_BYTES);
        let serialization = CAPACITY.time_for(u64::from(super::PACKET_BYTES));
        Measures {
            utilisation: rate.megabits_per_second() / CAPACITY.megabits_per_second(),
            queue_millis: delay.as_millis_f64() - 25.0 - serialization.as_millis_f64(),
            loss_ratio: dropped / (dropped + delivered).max(1.0),
        }
    }
}
