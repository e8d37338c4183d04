//! Counts and maximum rate of the datagrams of one rule.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_units::{DataRate, Duration};
use tokio::time::Instant;

/// Time of the maximum rate that may come at once (chosen): a key frame is no excess.
const BURST: Duration = Duration::from_millis(200);
/// Minimum of the same in bytes: the longest datagrams.
const MIN_BURST_BYTES: u64 = 1 << 16;

/// Datagrams in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of them.
    pub datagrams: u64,
    /// Their bytes, without any header.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, length: usize) {
        self.datagrams += 1;
        self.bytes += length as u64;
    }
}

/// Datagrams of a rule since the start of the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// From applications, handed to the session.
    pub to_server: Count,
    /// From the server, handed to applications.
    pub to_application: Count,
    /// From applications, dropped because they exceeded the rule's maximum rate.
    pub above_max: Count,
}

/// Counts of one rule, which a proxy's tasks update.
#[derive(Clone, Debug)]
pub struct FlowMeter {
    name: String,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    counts: FlowCounts,
    bucket: Option<Bucket>,
}

impl FlowMeter {
    pub(super) fn new(name: &str, max_rate: Option<DataRate>) -> Self {
        let bucket = max_rate.map(|max| Bucket::full(max, Instant::now()));
        let counts = FlowCounts::default();
        FlowMeter {
            name: name.to_owned(),
            state: Arc::new(Mutex::new(State { counts, bucket })),
        }
    }

    /// Returns the rule's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the counts.
    pub fn counts(&self) -> FlowCounts {
        self.state(|state| state.counts)
    }

    /// Counts an application's datagram. Returns whether the maximum rate permits it.
    pub(super) fn admit(&self, now: Instant, length: usize) -> bool {
        self.state(|state| {
            let bucket = state.bucket.as_mut();
            let may_pass = bucket.is_none_or(|bucket| bucket.take(now, length as u64));
            if may_pass {
                state.counts.to_server.add(length)
            } else {
                state.counts.above_max.add(length)
            }
            may_pass
        })
    }

    /// Counts a datagram for an application.
    pub(super) fn on_answer(&self, length: usize) {
        self.state(|state| state.counts.to_application.add(length));
    }

    fn state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A token bucket.
#[derive(Debug)]
struct Bucket {
    max: DataRate,
    /// Bytes that may come at once.
    room: u64,
    filled_at: Instant,
}

impl Bucket {
    fn full(max: DataRate, now: Instant) -> Self {
        Bucket {
            max,
            room: capacity(max),
            filled_at: now,
        }
    }

    fn take(&mut self, now: Instant, bytes: u64) -> bool {
        let since = now.saturating_duration_since(self.filled_at);
        let since = Duration::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX));
        let earned = self.max.bytes_in(since.min(BURST * 1_000));
        if earned > 0 {
            self.room = (self.room + earned).min(capacity(self.max));
            self.filled_at = now;
        }
        let has_room = self.room >= bytes;
        if has_room {
            self.room -= bytes;
        }
        has_room
    }
}

fn capacity(max: DataRate) -> u64 {
    max.bytes_in(BURST).max(MIN_BURST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_holds_on_average_and_every_datagram_counts_once() {
        let max = DataRate::from_megabits_per_second(4);
        let meter = FlowMeter::new("cam", Some(max));
        let begin = Instant::now();
        for index in 0..10_000_u64 {
            // 8 Mbit/s for ten seconds.
            let now = begin + core::time::Duration::from_millis(index);
            meter.admit(now, 1_000);
        }
        meter.on_answer(44);
        let FlowCounts {
            to_server,
            to_application,
            above_max,
        } = meter.counts();
        assert_eq!(to_server.datagrams + above_max.datagrams, 10_000);
        let most = max.bytes_in(Duration::from_secs(10)) + capacity(max);
        assert!(
            (4_990_000..=most).contains(&to_server.bytes),
            "{to_server:?}"
        );
        assert_eq!((to_application.datagrams, to_application.bytes), (1, 44));
    }

    #[test]
    fn without_a_maximum_everything_passes() {
        let meter = FlowMeter::new("cam", None);
        assert!((0..1_000).all(|_| meter.admit(Instant::now(), 60_000)));
        assert_eq!(meter.counts().above_max, Count::default());
    }
}
