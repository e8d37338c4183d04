//! The replay window of one path: a sliding bitmap of the counters already accepted (RFC 6479).

const WORD_BITS: u64 = u64::BITS as u64;
const WORDS: usize = 32;

/// Number of datagrams by which a datagram may trail the greatest counter of its path and still be
/// accepted: about 0.2 s of reordering at 100 Mbit/s. Paths do not trail each other: each has its
/// own window.
///
/// One word less than the bitmap holds, so that the window advances by whole words (RFC 6479 §2).
pub const REPLAY_WINDOW_DATAGRAMS: u64 = (WORDS as u64 - 1) * WORD_BITS;

/// The window's verdict on a counter that has not been accepted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    Fresh,
    Replayed,
    TooOld,
}

/// Accepted counters of one path, in 264 bytes.
#[derive(Clone, Default)]
pub(crate) struct ReplayWindow {
    /// One more than the greatest accepted counter.
    expected: u64,
    /// Bit `c % 64` of word `c / 64 % WORDS` stands for counter `c`.
    accepted: [u64; WORDS],
}

impl ReplayWindow {
    /// Returns one more than the greatest accepted counter; 0 if there is none.
    pub(crate) fn expected(&self) -> u64 {
        self.expected
    }

    /// Returns whether a datagram with this counter may still be accepted. Changes nothing: an
    /// unauthenticated datagram must not move the window.
    pub(crate) fn check(&self, counter: u64) -> Freshness {
        if counter >= self.expected {
            Freshness::Fresh
        } else if self.expected - counter > REPLAY_WINDOW_DATAGRAMS {
            Freshness::TooOld
        } else if self.accepted[word_of(counter)] & bit_of(counter) != 0 {
            Freshness::Replayed
        } else {
            Freshness::Fresh
        }
    }

    /// Records a counter that [`check`](Self::check) called fresh and whose datagram is authentic.
    pub(crate) fn accept(&mut self, counter: u64) {
        debug_assert_eq!(self.check(counter), Freshness::Fresh);
        if counter >= self.expected {
            // Before the first accepted counter every word is clear, so starting from word 0 is
            // also right.
            let newest_word = self.expected.saturating_sub(1) / WORD_BITS;
            let entered_words = (counter / WORD_BITS - newest_word).min(WORDS as u64);
            for entered in 0..entered_words {
                self.accepted[word_of(counter - entered * WORD_BITS)] = 0;
            }
            self.expected = counter + 1;
        }
        self.accepted[word_of(counter)] |= bit_of(counter);
    }
}

fn word_of(counter: u64) -> usize {
    (counter / WORD_BITS) as usize % WORDS
}

fn bit_of(counter: u64) -> u64 {
    1 << (counter % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A set of counters that never forgets, as a model of the bitmap.
    #[derive(Default)]
    struct NaiveWindow {
        accepted: BTreeSet<u64>,
    }

    impl NaiveWindow {
        fn check(&self, counter: u64) -> Freshness {
            let expected = self.accepted.last().map_or(0, |greatest| greatest + 1);
            if counter + REPLAY_WINDOW_DATAGRAMS < expected {
                Freshness::TooOld
            } else if self.accepted.contains(&counter) {
                Freshness::Replayed
            } else {
                Freshness::Fresh
            }
        }
    }

    #[test]
    fn edges_of_the_window() {
        let mut window = ReplayWindow::default();
        let greatest = 10_000;
        window.accept(greatest);
        assert_eq!(window.check(greatest), Freshness::Replayed);
        assert_eq!(window.check(greatest + 1), Freshness::Fresh);
        let oldest = greatest + 1 - REPLAY_WINDOW_DATAGRAMS;
        assert_eq!(window.check(oldest), Freshness::Fresh);
        assert_eq!(window.check(oldest - 1), Freshness::TooOld);
        window.accept(oldest);
        assert_eq!(window.check(oldest), Freshness::Replayed);
    }

    #[test]
    fn counter_zero_is_a_counter() {
        let mut window = ReplayWindow::default();
        assert_eq!(window.check(0), Freshness::Fresh);
        window.accept(0);
        assert_eq!(window.check(0), Freshness::Replayed);
    }

    /// Generates a step from the greatest counter so far: mostly near the window's edges, sometimes
    /// far ahead.
    fn step() -> impl Strategy<Value = i64> {
        let window = REPLAY_WINDOW_DATAGRAMS as i64;
        prop_oneof![
            4 => -70i64..70,
            2 => -window - 130..-window + 130,
            2 => -window..0,
            1 => 0..3 * window,
            1 => 0..1i64 << 33,
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_all_counters(
            start in 0u64..1 << 33, steps in prop::collection::vec(step(), 1..400),
        ) {
            let mut window = ReplayWindow::default();
            let mut naive = NaiveWindow::default();
            for step in steps {
                let from = naive.accepted.last().copied().unwrap_or(start);
                let counter = from.saturating_add_signed(step);
                let freshness = naive.check(counter);
                prop_assert_eq!(window.check(counter), freshness, "counter {}", counter);
                if freshness == Freshness::Fresh {
                    window.accept(counter);
                    naive.accepted.insert(counter);
                }
            }
        }
    }
}
