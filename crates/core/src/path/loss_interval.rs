//! Bytes that a path delivers between losses (OLIA's `l`, draft-khalili-mptcp-congestion-control-05
//! §2).

/// Bytes acknowledged between two times that losses showed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossInterval {
    last: u64,
    /// The path's bytes acknowledged when losses showed last.
    lost_at: u64,
}

impl LossInterval {
    /// Records the begin of a recovery, after `delivered_bytes` acknowledged bytes on the path in
    /// all. Losses within one recovery count as one.
    pub(super) fn on_recovery(&mut self, delivered_bytes: u64) {
        self.last = delivered_bytes - self.lost_at;
        self.lost_at = delivered_bytes;
    }

    /// Returns the larger of the last interval and the present one.
    pub(super) fn bytes(&self, delivered_bytes: u64) -> u64 {
        self.last.max(delivered_bytes - self.lost_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_the_last_interval_and_the_present_one_counts() {
        let mut interval = LossInterval::default();
        let mut delivered = 0;
        for (acked, is_lost, expected) in [
            (1_000, false, 1_000),
            (500, true, 1_500),
            (1_200, false, 1_500),
            (400, false, 1_600),
            (0, true, 1_600),
            (0, true, 0),
        ] {
            delivered += acked;
            if is_lost {
                interval.on_recovery(delivered);
            }
            assert_eq!(interval.bytes(delivered), expected);
        }
    }
}
