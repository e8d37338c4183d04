//! What everybody may know of a path: its name, its state and one read model.

use core::fmt;

use anabranch_units::{DataRate, Duration, Instant};

/// Names one path of a session, the same at both ends. Paths are numbered from zero in the order in
/// which they are added; numbers are not used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u8);

impl PathId {
    /// How many paths a session may have in its life.
    pub const LIMIT: usize = 32;

    /// The path's number, for indexing.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathSet(u32);

impl PathSet {
    /// No path.
    pub const EMPTY: PathSet = PathSet(0);

    /// The set of this one path.
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

    /// Whether the path is in the set.
    pub const fn contains(self, path: PathId) -> bool {
        self.0 & (1 << path.0) != 0
    }

    /// Whether no path is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many paths are in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The paths in ascending order.
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

/// How much a path is trusted.
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
    /// Whether anything but a path challenge may be sent.
    pub const fn is_usable(self) -> bool {
        matches!(self, PathState::Active | PathState::Suspect)
    }
}

/// The one read model of a path, for schedulers, coupled controllers, the dashboard and reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathView {
    /// Which path.
    pub id: PathId,
    /// How much it is trusted.
    pub state: PathState,
    /// Smoothed round-trip time (RFC 6298 §2); `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// The newest round-trip time sample.
    pub latest_rtt: Option<Duration>,
    /// Mean deviation of the round-trip time (RFC 6298 §2).
    pub rtt_variation: Duration,
    /// What stands in the path's queues, there and back, as far as it is no jitter.
    pub queueing_delay: Duration,
    /// The least round-trip time seen.
    pub min_rtt: Option<Duration>,
    /// Bytes on the wire sent, not acknowledged and not declared lost.
    pub bytes_in_flight: u64,
    /// Bytes on the wire bound to this path that wait for its pacer or window.
    pub queued_bytes: u64,
    /// Retransmissions among them, which leave first.
    pub queued_retransmission_bytes: u64,
    /// The controller's window in bytes, if it has one.
    pub congestion_window: Option<u64>,
    /// The controller's pacing rate, if it paces.
    pub pacing_rate: Option<DataRate>,
    /// The controller's estimate of the rate that the path carries for this session.
    pub bandwidth: DataRate,
    /// Bytes that the path may take now without waiting; also for controllers without a window.
    pub sendable_bytes: u64,
    /// Lost / sent packets, smoothed over about a hundred packets, 0 to 1.
    pub loss_ratio: f64,
    /// The highest share of packets lost over about a second, of the last ten seconds, 0 to 1; zero
    /// if none was lost in them.
    /// Followed from the first loss on, with forward error correction from the start.
    pub recent_max_loss: f64,
    /// Mean number of packets lost in a row, over about ten seconds; at least 1. Followed from
    /// the first loss on, with forward error correction from the start.
    pub loss_burst_packets: f64,
    /// The share of media that went over this path in the last few seconds, 0 to 1, as policies of
    /// forward error correction are told it; else, and without media of late, zero.
    pub media_share: f64,
    /// The user's preference: traffic shares follow it where the scheduler can choose freely.
    /// Schedulers are shown times and rates with the weight in them already.
    pub weight: f64,
    /// Whether the user pays by volume.
    pub is_metered: bool,
    /// Whether the path is held in reserve: to be taken only when no other path will do. The
    /// session says so of metered paths while the others suffice.
    pub is_standby: bool,
    /// When its pacer lets the next packet go; in the past if it might have gone already. Bytes
    /// that are bound to it go before.
    pub ready_at: Instant,
    /// For how long the oldest packet in flight has been due for its acknowledgement, by the
    /// smoothed round-trip time; before the first sample by [`PathView::UNKNOWN_RTT`].
    pub overdue: Duration,
    /// When a packet sent on this path was last acknowledged: what is known of it is as old.
    pub last_acked_at: Option<Instant>,
    /// The largest IP packet that it carries; `None` while that is searched, or if it is not.
    pub mtu: Option<u32>,
}

impl PathView {
    /// The round-trip time that a cost is computed with before the first sample
    /// (`docs/algorithms.md`: an unknown round-trip time counts as 100 ms).
    pub const UNKNOWN_RTT: Duration = Duration::from_millis(100);

    /// The newest round-trip time; before the first sample [`PathView::UNKNOWN_RTT`], or as long as
    /// an answer has been waited for.
    pub fn expected_rtt(&self) -> Duration {
        self.latest_rtt.unwrap_or(Self::UNKNOWN_RTT + self.overdue)
    }

    /// The rate at which queued bytes leave: the pacing rate, else the window per round trip, else
    /// the bandwidth estimate. Never zero.
    pub fn drain_rate(&self) -> DataRate {
        let rtt = self.smoothed_rtt.unwrap_or(Self::UNKNOWN_RTT);
        self.pacing_rate
            .or_else(|| {
                self.congestion_window
                    .map(|window| DataRate::from_bytes_per(window, rtt))
            })
            .unwrap_or(self.bandwidth)
            .max(DataRate::from_bits_per_second(1))
    }

    /// The smoothed loss ratio, which by itself ends only as packets arrive: none if none was lost
    /// in the last ten seconds. Followed as [`PathView::recent_max_loss`] is.
    pub fn recent_loss(&self) -> f64 {
        match self.recent_max_loss > 0.0 {
            true => self.loss_ratio,
            false => 0.0,
        }
    }

    /// Makes of this the path as schedulers are shown it: `weight` times as near and as fast as it
    /// is. So costs in time fall and shares of bandwidth rise with the weight, in every scheduler
    /// alike. Bytes and windows stay what they are.
    pub(crate) fn apply_weight(&mut self) {
        let weight = self.weight;
        if weight == 1.0 || !weight.is_finite() || weight <= 0.0 {
            self.weight = 1.0;
            return;
        }
        let nearer = |time: Duration| time.mul_f64(1.0 / weight);
        self.smoothed_rtt = self.smoothed_rtt.map(nearer);
        self.latest_rtt = self.latest_rtt.map(nearer);
        self.min_rtt = self.min_rtt.map(nearer);
        self.rtt_variation = nearer(self.rtt_variation);
        self.queueing_delay = nearer(self.queueing_delay);
        self.pacing_rate = self.pacing_rate.map(|rate| rate.mul_f64(weight));
        self.bandwidth = self.bandwidth.mul_f64(weight);
    }

    /// A time that a scheduler has computed of this view, as clocks have it: without the weight.
    pub(crate) fn unweighted(&self, time: Duration) -> Duration {
        match self.weight {
            1.0 => time,
            weight => time.mul_f64(weight),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_makes_a_path_nearer_and_faster_and_nothing_else() {
        let mut view = PathView {
            latest_rtt: Some(Duration::from_millis(90)),
            pacing_rate: Some(DataRate::from_megabits_per_second(4)),
            bandwidth: DataRate::from_megabits_per_second(2),
            queued_bytes: 7,
            weight: 3.0,
            ..PathView::default()
        };
        view.apply_weight();
        assert_eq!(view.latest_rtt, Some(Duration::from_millis(30)));
        assert_eq!(view.drain_rate(), DataRate::from_megabits_per_second(12));
        assert_eq!(view.bandwidth, DataRate::from_megabits_per_second(6));
        assert_eq!((view.queued_bytes, view.smoothed_rtt), (7, None));
        assert_eq!(
            view.unweighted(Duration::from_millis(30)),
            Duration::from_millis(90)
        );
        // What is no weight counts as one.
        for weight in [1.0, 0.0, -1.0, f64::NAN] {
            let mut same = PathView { weight, ..view };
            same.apply_weight();
            assert_eq!((same.weight, same.bandwidth), (1.0, view.bandwidth));
        }
    }

    #[test]
    fn a_path_set_holds_what_was_put_in() {
        let mut set: PathSet = [PathId(3), PathId(0), PathId(31)].into_iter().collect();
        set.remove(PathId(0));
        assert_eq!(set.iter().collect::<Vec<_>>(), [PathId(3), PathId(31)]);
        assert_eq!((set.len(), set.is_empty()), (2, false));
    }
}
