//! The end of Startup in BBRv1 and Delay-BBR: a pipe that has become full.

use anabranch_units::DataRate;

/// Growth of a round below which the pipe may be full.
const GROWTH_TARGET: f64 = 1.25;
/// Rounds without growth after which the pipe counts as full.
const ROUNDS_WITHOUT_GROWTH: u32 = 3;

/// Detects a bandwidth that no longer grows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FullPipe {
    bandwidth_at_last_growth: DataRate,
    rounds_without_growth: u32,
    pub(crate) is_full: bool,
}

impl FullPipe {
    /// Requires new growth, whatever has been reached.
    pub(crate) fn restart_growth(&mut self) {
        self.bandwidth_at_last_growth = DataRate::ZERO;
    }

    /// Starts again: the path is not the cause of the slow growth.
    pub(crate) fn restart(&mut self) {
        self.restart_growth();
        self.rounds_without_growth = 0;
    }

    /// Handles a round that has ended with this estimate. Returns whether it has grown enough.
    pub(crate) fn on_round(&mut self, bandwidth: DataRate) -> bool {
        if bandwidth >= self.bandwidth_at_last_growth.mul_f64(GROWTH_TARGET) {
            self.bandwidth_at_last_growth = bandwidth;
            self.rounds_without_growth = 0;
            return true;
        }
        self.rounds_without_growth = self.rounds_without_growth.saturating_add(1);
        self.is_full |= self.rounds_without_growth >= ROUNDS_WITHOUT_GROWTH;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipe_is_full_after_three_rounds_of_less_than_a_quarter_more() {
        let mut pipe = FullPipe::default();
        let full: Vec<bool> = [100, 200, 400, 450, 499, 500, 510, 520, 530]
            .map(|rate| {
                pipe.on_round(DataRate::from_kilobits_per_second(rate));
                pipe.is_full
            })
            .into();
        // 500 is a quarter more than 400, so the count starts again there.
        assert_eq!(
            full,
            [false, false, false, false, false, false, false, false, true]
        );
    }
}
