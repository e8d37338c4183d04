//! Parts of a frame's delay.

use anabranch_units::{Duration, Instant};

use super::frames::Arrival;

/// Time from a frame's capture until it is complete, beyond the fastest path's propagation, by the
/// packet that completes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Propagation on its path, beyond the fastest path's.
    pub propagation: Duration,
    /// Time in the links' queues and transmissions, and the variation of their delays.
    pub queues: Duration,
    /// Time at the sender: the wait for the pacer, and until the retransmission if copies are lost.
    pub sender: Duration,
}

impl Parts {
    /// Returns the parts of a frame whose last packet went by a path of this propagation delay.
    pub(super) fn of(
        captured_at: Instant,
        last: Arrival,
        path_delay: Duration,
        least_delay: Duration,
    ) -> Parts {
        Parts {
            propagation: path_delay.saturating_sub(least_delay),
            queues: (last.at - last.sent_at).saturating_sub(path_delay),
            sender: last.sent_at - captured_at,
        }
    }

    /// Returns the sum of the parts.
    pub fn sum(&self) -> Duration {
        self.propagation + self.queues + self.sender
    }

    /// Returns the mean; `None` without any.
    pub(super) fn mean(parts: &[Parts]) -> Option<Parts> {
        if parts.is_empty() {
            return None;
        }
        Some(Parts {
            propagation: mean_of(parts, |parts| parts.propagation),
            queues: mean_of(parts, |parts| parts.queues),
            sender: mean_of(parts, |parts| parts.sender),
        })
    }
}

fn mean_of(parts: &[Parts], of: fn(&Parts) -> Duration) -> Duration {
    parts.iter().map(of).sum::<Duration>() / parts.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::PathId;

    #[test]
    fn the_parts_are_all_of_the_time_beyond_the_fastest_path() {
        let ms = Duration::from_millis;
        let last = Arrival {
            path: PathId(1),
            sent_at: Instant::from_millis(115),
            at: Instant::from_millis(195),
        };
        let parts = Parts::of(Instant::from_millis(100), last, ms(50), ms(20));
        let expected = Parts {
            propagation: ms(30),
            queues: ms(30),
            sender: ms(15),
        };
        assert_eq!(parts, expected);
        assert_eq!(parts.sum(), ms(95 - 20));
        let mean = Parts::mean(&[parts, Parts::default()]);
        assert_eq!(mean.unwrap().propagation, ms(15));
        assert_eq!(Parts::mean(&[]), None);
    }
}
