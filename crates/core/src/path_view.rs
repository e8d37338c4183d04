//! Public knowledge of a path: its name, its state and one read model.

use core::fmt;

use anabranch_units::{DataRate, Duration};

use crate::forecast::{Forecast, Priority};

/// Names one path of a session, the same at both ends. Paths are numbered from zero in the order in
/// which they are added. A path may take the number of one that is gone
/// ([`Session::replace_path`](crate::Session::replace_path)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u8);

impl PathId {
    /// Maximum number of paths of a session at a time.
    pub const LIMIT: usize = 32;

    /// Returns the path's number, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of paths.
///
/// ```
/// use anabranch_core::{PathId, PathSet};
///
/// let mut paths = PathSet::only(PathId(0));
/// paths.insert(PathId(2));
/// assert!(paths.contains(PathId(2)) && !paths.contains(PathId(1)));
/// assert_eq!(paths.iter().collect::<Vec<_>>(), [PathId(0), PathId(2)]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathSet(u32);

impl PathSet {
    /// No path.
    pub const EMPTY: PathSet = PathSet(0);

    /// Returns the set of this one path.
    pub const fn only(path: PathId) -> Self {
        PathSet(1 << path.0)
    }

    /// Adds a path.
    pub const fn insert(&mut self, path: PathId) {
        self.0 |= 1 << path.0;
    }

    /// Takes a path out.
    pub const fn remove(&mut self, path: PathId) {
        self.0 &= !(1 << path.0);
    }

    /// Returns the paths of this set that are not in the other one.
    pub const fn without(self, other: PathSet) -> PathSet {
        PathSet(self.0 & !other.0)
    }

    /// Returns whether the path is in the set.
    pub const fn contains(self, path: PathId) -> bool {
        self.0 & (1 << path.0) != 0
    }

    /// Returns whether no path is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of paths in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Iterates over the paths in ascending order.
    pub fn iter(self) -> impl Iterator<Item = PathId> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let first = rest.trailing_zeros();
            // Clears the lowest bit.
            rest &= rest.wrapping_sub(1);
            (first < u32::BITS).then_some(PathId(first as u8))
        })
    }
}

impl FromIterator<PathId> for PathSet {
    fn from_iter<I: IntoIterator<Item = PathId>>(paths: I) -> Self {
        let mut set = PathSet::EMPTY;
        paths.into_iter().for_each(|path| set.insert(path));
        set
    }
}

/// Degree of trust in a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathState {
    /// Carries data.
    #[default]
    Active,
    /// Silent for one probe timeout with packets outstanding: their copies go elsewhere.
    Suspect,
    /// Silent for max(3 SRTT, 200 ms) with packets outstanding: carries only path challenges.
    Out,
    /// Taken out of the session by the driver.
    Removed,
}

impl PathState {
    /// Returns whether packets other than path challenges may be sent.
    pub const fn is_usable(self) -> bool {
        matches!(self, PathState::Active | PathState::Suspect)
    }
}

/// The one read model of a path, for schedulers, coupled controllers, the dashboard and reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathView {
    /// Which path.
    pub id: PathId,
    /// Degree of trust in the path.
    pub state: PathState,
    /// Whether the path is held in reserve: to be taken only when no other path will do. The
    /// session says so of metered paths while the others suffice, and of paths that their
    /// controllers have given up.
    pub is_standby: bool,
    /// The user's preference ([`PathView::preferred`]).
    pub weight: f64,
    /// Its round-trip time.
    pub rtt: PathRtt,
    /// Bytes on the wire sent, not acknowledged and not declared lost.
    pub bytes_in_flight: u64,
    /// Bytes on the wire bound to this path that wait for its pacer or window.
    pub queued_bytes: u64,
    /// Bytes of retransmissions among these, which leave first.
    pub retransmission_bytes: u64,
    /// The controller's window in bytes, if it has one.
    pub congestion_window: Option<u64>,
    /// The controller's pacing rate, if it paces.
    pub pacing_rate: Option<DataRate>,
    /// The controller's estimate of the rate that the path carries for this session.
    pub bandwidth: DataRate,
    /// Bytes that the path may take now without waiting; also for controllers without a window.
    pub sendable_bytes: u64,
    /// When packets will arrive by it.
    pub forecast: Forecast,
    /// Losses of the path.
    pub risk: Risk,
    /// The largest IP packet that it carries; `None` while that is searched, or if it is not.
    pub mtu: Option<u32>,
    /// Whether it does not even carry packets of the size that every path must carry
    /// ([`MtuDiscovery::base_bytes`](crate::MtuDiscovery)): long packets get lost, short ones
    /// arrive.
    pub is_mtu_too_small: bool,
}

/// The round-trip time of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathRtt {
    /// Smoothed (RFC 6298 §2); `None` before the first sample, as the others.
    pub smoothed: Option<Duration>,
    /// The newest sample.
    pub latest: Option<Duration>,
    /// The least seen.
    pub least: Option<Duration>,
    /// The mean deviation (RFC 6298 §2).
    pub variation: Duration,
}

impl PathRtt {
    /// Returns the round-trip time of a path that has never had another one.
    pub const fn constant(rtt: Duration) -> Self {
        PathRtt {
            smoothed: Some(rtt),
            latest: Some(rtt),
            least: Some(rtt),
            variation: Duration::ZERO,
        }
    }
}

/// Loss statistics of a path: the basis of forward error correction, also used by coupled
/// controllers and schedulers of streams. Shares of losses are measured from the first loss on,
/// with forward error correction from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Risk {
    /// Lost / sent packets, smoothed over about a hundred packets, 0 to 1.
    pub loss_ratio: f64,
    /// The highest share of packets lost over about a second, of the last ten seconds, 0 to 1; zero
    /// if none was lost in them.
    pub recent_max_loss: f64,
    /// Mean number of packets lost in a row, over about ten seconds; at least 1.
    pub loss_burst_packets: f64,
    /// Share of media that went over this path in the last few seconds, 0 to 1, for policies of
    /// forward error correction. Without these, and without recent media, it is zero.
    pub media_share: f64,
    /// Whether losses are being repaired: some packets in flight at the last detected loss are
    /// still in flight (RFC 6582 §3.2).
    pub is_in_recovery: bool,
    /// The more of two: bytes acknowledged since the last time that losses showed, and between that
    /// time and the one before.
    pub loss_interval_bytes: u64,
}

impl Risk {
    /// Returns the smoothed loss ratio; zero if none was lost in the last ten seconds. By itself
    /// the ratio only falls as packets arrive.
    pub fn recent_loss(&self) -> f64 {
        if self.recent_max_loss > 0.0 {
            self.loss_ratio
        } else {
            0.0
        }
    }
}

impl PathView {
    /// The round-trip time that a cost is computed with before the first sample.
    pub const UNKNOWN_RTT: Duration = Forecast::UNKNOWN_RTT;

    /// Returns the rate at which queued bytes leave: the pacing rate, else the window per round
    /// trip, else the bandwidth estimate. Never zero.
    pub fn drain_rate(&self) -> DataRate {
        let rtt = self.rtt.smoothed.unwrap_or(Self::UNKNOWN_RTT);
        self.pacing_rate
            .or_else(|| {
                self.congestion_window
                    .map(|window| DataRate::from_bytes_per(window, rtt))
            })
            .unwrap_or(self.bandwidth)
            .max(DataRate::from_bits_per_second(1))
    }

    /// Returns whether the path is active and not held in reserve.
    pub fn is_in_service(&self) -> bool {
        self.state == PathState::Active && !self.is_standby
    }

    /// Returns the time until a packet of `bytes` bytes arrives that is bound now, and leaves in
    /// `priority`.
    pub fn arrival(&self, priority: Priority, bytes: u64) -> Duration {
        let ahead_bytes = match priority {
            Priority::New => self.queued_bytes,
            Priority::Retransmission => self.retransmission_bytes,
        };
        self.forecast.arrival(ahead_bytes + bytes)
    }

    /// Returns a cost in time, adjusted by the user's preference: of two paths, one of twice the
    /// weight is chosen though it takes twice as long.
    pub fn preferred(&self, cost: Duration) -> Duration {
        match self.preference() {
            1.0 => cost,
            preference => cost.mul_f64(1.0 / preference),
        }
    }

    /// Returns a rate, adjusted by the user's preference, for schedulers that share by it: one of
    /// twice the weight gets twice the share.
    pub fn preferred_rate(&self, rate: DataRate) -> DataRate {
        match self.preference() {
            1.0 => rate,
            preference => rate.mul_f64(preference),
        }
    }

    /// Returns the weight, or one if it is no valid weight.
    fn preference(&self) -> f64 {
        if self.weight > 0.0 && self.weight.is_finite() {
            self.weight
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_divides_costs_and_multiplies_rates() {
        fn cost(weight: f64) -> u64 {
            let view = PathView {
                weight,
                ..PathView::default()
            };
            let rate = view.preferred_rate(DataRate::from_bits_per_second(90));
            assert_eq!(rate.bits_per_second(), (90.0 * view.preference()) as u64);
            view.preferred(Duration::from_millis(90)).as_millis()
        }
        assert_eq!([cost(1.0), cost(3.0), cost(0.5)], [90, 30, 180]);
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(cost(weight), 90);
        }
    }

    #[test]
    fn retransmissions_wait_only_for_retransmissions() {
        let view = PathView {
            queued_bytes: 5_000,
            retransmission_bytes: 2_000,
            forecast: Forecast::constant(
                Duration::from_millis(60),
                DataRate::from_megabits_per_second(8),
            ),
            ..PathView::default()
        };
        // A kilobyte takes a millisecond.
        assert_eq!(view.arrival(Priority::New, 1_000).as_millis(), 36);
        assert_eq!(
            view.arrival(Priority::Retransmission, 1_000).as_millis(),
            33
        );
    }

    #[test]
    fn path_set_holds_inserted_paths() {
        let mut set: PathSet = [PathId(3), PathId(0), PathId(31)].into_iter().collect();
        set.remove(PathId(0));
        assert_eq!(set.iter().collect::<Vec<_>>(), [PathId(3), PathId(31)]);
        assert_eq!((set.len(), set.is_empty()), (2, false));
    }
}
