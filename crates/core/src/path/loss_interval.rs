//! How much a path carries between losses (OLIA's `l`, draft-khalili-mptcp-congestion-control-05
//! §2).

/// Bytes acknowledged between two times that losses showed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossInterval {
    last: u64,
    since: u64,
}

impl LossInterval {
    /// So many bytes have been acknowledged. Losses of one recovery count as one.
    pub(super) fn on_digest(&mut self, acked_bytes: u64, is_recovery_begun: bool) {
        self.since += acked_bytes;
        if is_recovery_begun {
            self.last = core::mem::take(&mut self.since);
        }
    }

    /// The more of the last interval and the present one.
    pub(super) fn bytes(&self) -> u64 {
        self.last.max(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_the_last_interval_and_the_present_one_counts() {
        let mut interval = LossInterval::default();
        let mut bytes = |acked, is_lost| {
            interval.on_digest(acked, is_lost);
            interval.bytes()
        };
        assert_eq!(bytes(1_000, false), 1_000);
        assert_eq!(bytes(500, true), 1_500);
        assert_eq!(bytes(1_200, false), 1_500);
        assert_eq!(bytes(400, false), 1_600);
        assert_eq!(bytes(0, true), 1_600);
        assert_eq!(bytes(0, true), 0);
    }
}
