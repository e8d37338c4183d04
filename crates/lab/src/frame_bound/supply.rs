//! Capacity of a link until an instant, with all its rates, opportunities and outages known.

use anabranch_link::{LinkConfig, Schedule, Trace};
use anabranch_units::{DataRate, Duration, Instant};

use crate::metrics::least_delay;

/// Unit of amounts, bit · ns/s, in which a rate times a span is an exact integer.
const BIT_NANOS_PER_BYTE_SECOND: u128 = 8 * 1_000_000_000;

/// Converts bytes to an amount of a [`Supply`].
pub(super) fn bit_nanos_of(bytes: u64) -> u128 {
    u128::from(bytes) * BIT_NANOS_PER_BYTE_SECOND
}

/// Returns the least time from a link's bottleneck to its end.
pub(super) fn least_propagation(link: &LinkConfig) -> Duration {
    let jitter = link.jitter.as_ref();
    let advance = jitter.map_or(Duration::ZERO, |jitter| jitter.max_advance());
    least_delay(link).saturating_sub(advance)
}

/// Whether the link has a limit.
pub(super) fn is_limited(link: &LinkConfig) -> bool {
    let has_rate = link.rate.is_some() || !link.rate_schedule.is_empty();
    has_rate || link.trace.is_some() || !link.outages.is_empty()
}

/// Bits that pass a link from the clock's origin on if there is always data to send, and reach its
/// end. An outage also takes the packets in propagation when it begins.
#[derive(Clone, Debug)]
pub(crate) struct Supply {
    /// In the order of time, the first from the origin on.
    pieces: Vec<Piece>,
    trace: Option<Trace>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    from: Instant,
    /// Supply until then.
    bit_nanos_before: u128,
    service: Service,
}

#[derive(Clone, Copy, Debug)]
enum Service {
    Rate(DataRate),
    /// The opportunities of the trace.
    Opportunities,
}

impl Supply {
    /// Returns the capacity of a link; `None`: it has no limit.
    pub(crate) fn of_limited(link: &LinkConfig) -> Option<Supply> {
        is_limited(link).then(|| Supply::of(link))
    }

    pub(super) fn of(link: &LinkConfig) -> Supply {
        let delay = least_propagation(link);
        let outages: Vec<(Instant, Instant)> = link
            .outages
            .iter()
            .filter(|(_, span)| !span.is_zero())
            .map(|(at, span)| (at.saturating_sub(delay), *at + *span))
            .collect();
        let rates = Schedule::new(
            link.rate.unwrap_or(DataRate::MAX),
            link.rate_schedule.clone(),
        );
        let mut changes = vec![Instant::ZERO];
        changes.extend(link.rate_schedule.iter().map(|(at, _)| *at));
        changes.extend(outages.iter().flat_map(|(from, to)| [*from, *to]));
        changes.sort();
        changes.dedup();
        let mut supply = Supply {
            pieces: Vec::new(),
            trace: link.trace.clone(),
        };
        for from in changes {
            let bit_nanos_before = supply.bit_nanos_by(from);
            let is_out = outages
                .iter()
                .any(|(begin, end)| (*begin..*end).contains(&from));
            let service = match link.trace {
                _ if is_out => Service::Rate(DataRate::ZERO),
                Some(_) => Service::Opportunities,
                None => Service::Rate(rates.value_at(from)),
            };
            supply.pieces.push(Piece {
                from,
                bit_nanos_before,
                service,
            });
        }
        supply
    }

    /// Returns the supply until `at`.
    pub(crate) fn bit_nanos_by(&self, at: Instant) -> u128 {
        let passed = self.pieces.partition_point(|piece| piece.from <= at);
        let Some(piece) = passed.checked_sub(1).map(|last| self.pieces[last]) else {
            return 0;
        };
        piece.bit_nanos_before
            + match (piece.service, &self.trace) {
                (Service::Rate(rate), _) => {
                    u128::from(rate.bits_per_second()) * u128::from((at - piece.from).as_nanos())
                }
                (Service::Opportunities, Some(trace)) => {
                    bit_nanos_of(trace.bytes_by(at) - trace.bytes_by(piece.from))
                }
                (Service::Opportunities, None) => 0,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn kilobits(kilobits: u64) -> DataRate {
        DataRate::from_kilobits_per_second(kilobits)
    }

    /// Returns the bytes that have passed by each of these milliseconds, rounded down.
    fn bytes_by<const N: usize>(link: &LinkConfig, millis: [u64; N]) -> [u64; N] {
        let supply = Supply::of(link);
        millis.map(|at| (supply.bit_nanos_by(ms(at)) / BIT_NANOS_PER_BYTE_SECOND) as u64)
    }

    #[test]
    fn rates_hold_from_their_instant_on() {
        let link = LinkConfig {
            rate: Some(kilobits(8)),
            rate_schedule: vec![
                (ms(300), kilobits(80)),
                (ms(100), kilobits(0)),
                (ms(200), kilobits(16)),
            ],
            ..LinkConfig::default()
        };
        let passed = bytes_by(&link, [0, 50, 100, 200, 250, 300, 301]);
        assert_eq!(passed, [0, 50, 100, 100, 200, 300, 310]);
    }

    #[test]
    fn outage_drops_bytes_in_propagation() {
        let link = LinkConfig {
            rate: Some(kilobits(8)),
            delay: Duration::from_millis(20),
            outages: vec![
                (ms(100), Duration::from_millis(50)),
                (ms(140), Duration::from_millis(60)),
            ],
            ..LinkConfig::default()
        };
        let passed = bytes_by(&link, [79, 80, 100, 199, 200, 300]);
        assert_eq!(passed, [79, 80, 80, 80, 80, 180]);
    }

    #[test]
    fn a_trace_repeats_and_passes_nothing_while_the_link_is_out() {
        fn opportunities(link: &LinkConfig, millis: u64) -> u64 {
            bytes_by(link, [millis])[0] / 1_504
        }

        let trace = Trace::new(&[1, 1, 4]).unwrap();
        let mut link = LinkConfig {
            trace: Some(trace),
            ..LinkConfig::default()
        };
        let passed = [0, 1, 3, 4, 5, 8, 12].map(|at| opportunities(&link, at));
        assert_eq!(passed, [0, 2, 2, 3, 5, 6, 9]);
        // From 3 ms to 6 ms two and one are lost.
        link.outages = vec![(ms(3), Duration::from_millis(3))];
        let passed = [3, 4, 6, 8, 12].map(|at| opportunities(&link, at));
        assert_eq!(passed, [2, 2, 2, 3, 6]);
    }

    #[test]
    fn unlimited_supply_passes_at_once() {
        assert!(!is_limited(&LinkConfig::default()));
        let supply = Supply::of(&LinkConfig::default());
        assert!(supply.bit_nanos_by(Instant::from_nanos(1)) >= bit_nanos_of(1_000_000_000));
    }
}
