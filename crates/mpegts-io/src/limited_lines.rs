//! A limit on lines that senders cause.

use anabranch_units::{Duration, Instant};

/// Maximum lines in a period, since links and callers that come and go cause them. It allows all 16
/// links of a sender to join and fall silent once.
const MAX_LINES: u64 = 32;
const LINES_PERIOD: Duration = Duration::from_secs(30);

/// Limit on the lines of one input or output.
#[derive(Debug, Default)]
pub(super) struct LimitedLines {
    since: Instant,
    count: u64,
}

impl LimitedLines {
    /// Logs a line that begins with `name`, and before it the number of suppressed ones, if the
    /// limit allows it.
    pub(super) fn note(&mut self, now: Instant, name: &str, line: core::fmt::Arguments<'_>) {
        let Some(left_out) = self.admit(now) else {
            return;
        };
        if left_out > 0 {
            log::info!("{name}: {left_out} lines left out");
        }
        log::info!("{name}: {line}");
    }

    /// Returns the number of suppressed lines if another line may be logged.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        let mut left_out = 0;
        if now.saturating_since(self.since) > LINES_PERIOD {
            left_out = self.count.saturating_sub(MAX_LINES);
            *self = LimitedLines {
                since: now,
                count: 0,
            };
        }
        self.count += 1;
        (self.count <= MAX_LINES).then_some(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_limited_and_those_left_out_are_counted() {
        fn millis(millis: u64) -> Instant {
            Instant::from_millis(millis)
        }

        let mut lines = LimitedLines::default();
        let said = (0..20_000).filter_map(|at| lines.admit(millis(at)));
        assert_eq!(said.collect::<Vec<_>>(), [0; MAX_LINES as usize]);
        assert_eq!(lines.admit(millis(30_001)), Some(20_000 - MAX_LINES));
        assert_eq!(lines.admit(millis(30_002)), Some(0));
    }
}
