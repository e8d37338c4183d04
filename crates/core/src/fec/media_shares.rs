//! Over which paths media goes.

use anabranch_units::Instant;

use crate::path_view::{PathId, PathView};

/// Number of seconds that are counted, of which the present one has only begun.
const SECONDS: usize = 4;

/// Counter of bytes of first transmissions on each path.
#[derive(Debug)]
pub(crate) struct MediaShares {
    second: u64,
    /// Bytes by the second modulo the length.
    bytes: [[u32; PathId::LIMIT]; SECONDS],
}

impl MediaShares {
    pub(crate) fn new() -> Self {
        MediaShares {
            second: 0,
            bytes: [[0; PathId::LIMIT]; SECONDS],
        }
    }

    /// Counts media that has left on a path.
    pub(crate) fn on_sent(&mut self, now: Instant, path: PathId, bytes: u32) {
        self.forget_until(now);
        let count = &mut self.bytes[self.second as usize % SECONDS][path.index()];
        *count = count.saturating_add(bytes);
    }

    /// Writes each path's share into its view. Without recent media, all are zero.
    pub(crate) fn write_shares(&mut self, now: Instant, paths: &mut [PathView]) {
        self.forget_until(now);
        let total: u64 = (0..PathId::LIMIT).map(|index| self.bytes_on(index)).sum();
        for path in paths {
            path.risk.media_share = self.bytes_on(path.id.index()) as f64 / total.max(1) as f64;
        }
    }

    fn bytes_on(&self, index: usize) -> u64 {
        let bytes = self.bytes.iter().map(|second| u64::from(second[index]));
        bytes.sum()
    }

    fn forget_until(&mut self, now: Instant) {
        let second = now.as_micros() / 1_000_000;
        let begun = second.saturating_sub(self.second);
        for later in (1..=begun).take(SECONDS) {
            self.bytes[(self.second + later) as usize % SECONDS] = [0; PathId::LIMIT];
        }
        self.second = self.second.max(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_last_seconds() {
        fn write(shares: &mut MediaShares, millis: u64, paths: &mut [PathView; 2]) -> [f64; 2] {
            shares.write_shares(Instant::from_millis(millis), paths);
            paths.map(|path| path.risk.media_share)
        }

        let mut shares = MediaShares::new();
        let mut paths = [0, 1].map(|id| PathView {
            id: PathId(id),
            ..PathView::default()
        });
        assert_eq!(write(&mut shares, 0, &mut paths), [0.0, 0.0]);
        shares.on_sent(Instant::from_millis(900), PathId(0), 3_000);
        shares.on_sent(Instant::from_millis(1_900), PathId(1), 1_000);
        assert_eq!(write(&mut shares, 3_999, &mut paths), [0.75, 0.25]);
        assert_eq!(write(&mut shares, 4_000, &mut paths), [0.0, 1.0]);
        shares.on_sent(Instant::from_millis(4_500), PathId(0), 1_000);
        assert_eq!(write(&mut shares, 4_900, &mut paths), [0.5, 0.5]);
        assert_eq!(write(&mut shares, 60_000, &mut paths), [0.0, 0.0]);
    }
}
