//! A full window of the peer, as Linux answers it.
//!
//! A slower path that should have delivered the awaited segment is penalised. If that path is much
//! slower or its window is too small, its copy does not count, and the nearest path that could send
//! takes another. Both follow Linux's `mptcp_rcv_buf_optimization` (`mptcp_sched.c`; Raiciu et al.,
//! NSDI 2012, §4.2).

use anabranch_core::reinjection::{Occasion, Reinjector, Request, Segments};
use anabranch_core::{PathId, PathView};
use anabranch_units::{Duration, Instant};

/// Ratio of round-trip times from which a path is much slower than another (Linux,
/// `mptcp_sched.c`). Below it, copies would cost more than the wait.
const MUCH_SLOWER: u64 = 4;
/// Number of packets up to which a window counts as too small (same source).
const HARDLY_A_WINDOW: u64 = 4;

pub(super) fn build() -> Box<dyn Reinjector> {
    Box::<Linux>::default()
}

#[derive(Debug, Default)]
struct Linux {
    /// By path: when it was penalised last.
    penalised_at: Vec<Instant>,
}

impl Linux {
    /// Returns whether a path may be penalised: at most once a round trip. Counts it if so.
    fn is_penalised(&mut self, now: Instant, path: PathId, rtt: Duration) -> bool {
        if self.penalised_at.len() <= path.index() {
            self.penalised_at.resize(path.index() + 1, Instant::ZERO);
        }
        let penalised_at = &mut self.penalised_at[path.index()];
        if *penalised_at + rtt > now {
            return false;
        }
        *penalised_at = now;
        true
    }
}

impl Reinjector for Linux {
    fn reinject(
        &mut self,
        now: Instant,
        _occasion: Occasion,
        segments: &Segments,
        paths: &[PathView],
        out: &mut Vec<Request>,
    ) {
        let open = paths.iter().filter(|view| super::is_open(view));
        let Some(by) = open.min_by_key(|view| super::rtt(view)) else {
            return;
        };
        let Some(awaited) = segments.awaited else {
            return;
        };
        if !segments.is_window_full || awaited.in_flight_on.contains(by.id) {
            return;
        }
        let small_window = HARDLY_A_WINDOW * u64::from(segments.max_packet_bytes);
        let mut is_worth_a_copy = false;
        for holder in awaited.in_flight_on.iter() {
            let view = &paths[holder.index()];
            let holder_rtt = super::rtt(view);
            let has_hardly_a_window = view.congestion_window.is_some_and(|it| it <= small_window);
            is_worth_a_copy |= has_hardly_a_window || super::rtt(by) * MUCH_SLOWER < holder_rtt;
            if holder_rtt > super::rtt(by) && self.is_penalised(now, holder, holder_rtt) {
                out.push(Request::Penalise(holder));
            }
        }
        if is_worth_a_copy {
            out.push(Request::Copy {
                by: by.id,
                below: awaited.end,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::PathSet;
    use anabranch_core::reinjection::Awaited;

    use super::*;
    use crate::testing::windowed;

    const NEAR: PathId = PathId(0);
    const FAR: PathId = PathId(1);
    const COPY: Request = Request::Copy {
        by: NEAR,
        below: 1_000,
    };

    /// Returns segments behind a full window, of which the first is on the far path.
    fn full() -> Segments {
        Segments {
            is_window_full: true,
            awaited: Some(Awaited {
                end: 1_000,
                in_flight_on: PathSet::only(FAR),
            }),
            max_packet_bytes: 1_000,
            ..Segments::default()
        }
    }

    /// Returns the requests at this moment. `far` holds the far path's round-trip time in
    /// milliseconds and its window in packets; the near path has 10 ms.
    fn asked(linux: &mut Linux, now: u64, segments: &Segments, far: (u64, u64)) -> Vec<Request> {
        let paths = [windowed(0, 10, 10, 0), windowed(1, far.0, far.1, 0)];
        let mut out = Vec::new();
        let now = Instant::from_millis(now);
        linux.reinject(now, Occasion::NothingElse, segments, &paths, &mut out);
        out
    }

    #[test]
    fn a_slower_path_is_penalised_once_a_round_trip_and_a_much_slower_one_copied() {
        let mut linux = Linux::default();
        let penalty = Request::Penalise(FAR);
        assert_eq!(asked(&mut linux, 1_000, &full(), (40, 10)), [penalty]);
        assert_eq!(asked(&mut linux, 1_039, &full(), (40, 10)), []);
        assert_eq!(asked(&mut linux, 1_040, &full(), (40, 10)), [penalty]);
        assert_eq!(asked(&mut linux, 1_050, &full(), (41, 10)), [COPY]);
        assert_eq!(asked(&mut linux, 1_100, &full(), (41, 10)), [penalty, COPY]);
    }

    #[test]
    fn a_path_with_hardly_a_window_is_copied_though_it_is_nearer() {
        for (packets, expected) in [(5, [].as_slice()), (4, &[COPY])] {
            let mut paths = [windowed(0, 10, 10, 0), windowed(1, 5, packets, 0)];
            paths[1].sendable_bytes = 0;
            let (now, mut out) = (Instant::from_secs(1), Vec::new());
            Linux::default().reinject(now, Occasion::NothingElse, &full(), &paths, &mut out);
            assert_eq!(out, expected, "{packets} packets");
        }
    }

    #[test]
    fn without_a_full_window_or_with_the_segment_on_the_nearest_path_nothing_is_asked() {
        let mut linux = Linux::default();
        let open = Segments {
            is_window_full: false,
            ..full()
        };
        let mut near = full();
        near.awaited = near.awaited.map(|awaited| Awaited {
            in_flight_on: PathSet::only(NEAR),
            ..awaited
        });
        for segments in [open, near] {
            assert_eq!(asked(&mut linux, 1_000, &segments, (400, 10)), []);
        }
    }
}
