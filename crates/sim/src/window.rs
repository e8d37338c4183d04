//! How far the world can be moved at a time.

use anabranch_units::{Duration, Instant};

/// A stretch of time in which nothing that a flow does reaches any other: what is sent in it arrives
/// after it. So each flow can be moved through all of it on its own, with its state in the
/// processor's caches, and the result is that of moving from event to event (conservative
/// synchronisation: Chandy & Misra 1979).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The first instant.
    pub(crate) start: Instant,
    /// Whether a packet sent at `start` may arrive then, so that there is more to do at `start`
    /// when the window is over.
    is_instant: bool,
    before: Instant,
}

impl Window {
    /// From `start` on, as long as the `lookahead` is, but not beyond `until`. Without lookahead it
    /// is one instant.
    pub(crate) fn of(start: Instant, lookahead: Duration, until: Instant) -> Window {
        let tick = Duration::from_nanos(1);
        let before = (start + lookahead.max(tick)).min(until + tick);
        Window {
            start,
            is_instant: lookahead.is_zero(),
            before,
        }
    }

    /// The first instant after it.
    pub(crate) fn before(self) -> Instant {
        self.before
    }

    /// When the next window may start.
    pub(crate) fn resumed_at(self) -> Instant {
        match self.is_instant {
            true => self.start,
            false => self.before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_as_long_as_the_lookahead_and_never_nothing() {
        let at = Instant::from_nanos;
        let span = Duration::from_nanos;
        let window = |lookahead, until| {
            let window = Window::of(at(100), span(lookahead), at(until));
            (window.before(), window.resumed_at())
        };
        assert_eq!(window(20, 1_000), (at(120), at(120)));
        assert_eq!(
            window(20, 110),
            (at(111), at(111)),
            "the end's instant is in it"
        );
        assert_eq!(window(0, 1_000), (at(101), at(100)));
        assert_eq!(window(1, 1_000), (at(101), at(101)));
    }
}
