//! Number of repair symbols of a block of `k` symbols, and their paths.
//!
//! [`repair_count`] takes the fewest that leave a residual loss below a bound. With `q = P(arrival
//! -> loss)` and `r = P(loss -> arrival)` of Gilbert's model, the losses before the `k`-th arrival
//! are a first gap and `k - 1` independent ones, each empty with `1 - q` and else geometric:
//! generating function `G(z) = (A + B z) / (1 - C z)`, `A = 1 - q`, `B = q + r - 1`, `C = 1 - r`.
//! More than `m` of `k + m` packets are lost just if there are more than `m` losses before the
//! `k`-th arrival, so one series answers for all `m`. Its terms follow from `(A + B z)(1 - C z) H'
//! = (k - 1)(B + A C) H` for `H = G^(k-1)`, at a constant cost each. For `r = 1 - p` they are the
//! binomial model's.

use anabranch_units::{Duration, Instant};

use crate::loss_process::LossProcess;

/// Blocks of a key frame that may stay incomplete.
pub const KEY_FRAME_RESIDUAL: f64 = 1e-3;
/// Blocks of other frames that may stay incomplete.
pub const OTHER_FRAME_RESIDUAL: f64 = 1e-2;

/// Losses as Gilbert's model has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossModel {
    /// Share of packets lost, 0 to 1.
    pub ratio: f64,
    /// Mean number of packets lost in a row. Independent losses have `1 / (1 - ratio)`; a lower
    /// value counts as that.
    pub burst_packets: f64,
}

impl LossModel {
    /// Returns a model of losses that do not depend on one another.
    pub fn independent(ratio: f64) -> Self {
        LossModel {
            ratio,
            burst_packets: 1.0,
        }
    }

    /// Returns the losses that repairs must cover: the worst of a path's last ten seconds.
    pub fn of(process: &LossProcess, now: Instant) -> Self {
        LossModel {
            ratio: process.recent_max(now),
            burst_packets: process.burst_packets(),
        }
    }
}

/// Returns the least number of repair symbols, at most `k`, with which a block of `k` symbols stays
/// incomplete no more often than `residual`. Constant work for each.
pub fn repair_count(k: u16, loss: LossModel, residual: f64) -> u16 {
    let p = loss.ratio.clamp(0.0, 0.99);
    if k == 0 || p == 0.0 || p.is_nan() {
        return 0;
    }
    let r = (1.0 / loss.burst_packets.max(1.0)).min(1.0 - p);
    let q = p * r / (1.0 - p);
    let (a, b, c) = (1.0 - q, q + r - 1.0, 1.0 - r);
    let gaps = f64::from(k - 1);

    let (mut term, mut term_before) = (integer_power(a, k - 1), 0.0);
    // Terms of `H / (1 - C z)`: of a first gap that is not empty.
    let mut tail = 0.0;
    let mut recovered = 0.0;
    for m in 0..k {
        recovered += (1.0 - p) * term + p * r * tail;
        if recovered >= 1.0 - residual {
            return m;
        }
        let j = f64::from(m);
        tail = c * tail + term;
        let next = (gaps * (b + a * c) - (b - a * c) * j) * term + b * c * (j - 1.0) * term_before;
        term_before = term;
        term = next / (a * (j + 1.0));
    }
    k
}

fn integer_power(mut base: f64, mut exponent: u16) -> f64 {
    let mut power = 1.0;
    while exponent > 0 {
        if exponent % 2 == 1 {
            power *= base;
        }
        base *= base;
        exponent /= 2;
    }
    power
}

/// Most of all packets that WebRTC spends on protection.
const MAX_PROTECTION: f64 = 0.5;

/// Returns the number of repair symbols in WebRTC's way: a share of all packets that follows the
/// loss ratio, doubled for key frames, at most half; rounded, but at least one when there are
/// losses. WebRTC has a table by loss and bits per frame; here the share is `1.5 p + 0.02`.
pub fn proportional_repair_count(k: u16, ratio: f64, is_key: bool) -> u16 {
    if k == 0 || ratio.is_nan() || ratio <= 0.0 {
        return 0;
    }
    let delta = (1.5 * ratio + 0.02).min(MAX_PROTECTION);
    let share = if is_key {
        ratio.max(2.0 * delta).min(MAX_PROTECTION)
    } else {
        delta
    };
    let count = f64::from(k) * share / (1.0 - share);
    ((count + 0.5) as u16).clamp(1, k)
}

/// Loss ratio below which paths are treated alike: such losses hardly matter.
const MIN_LOSS_RATIO: f64 = 0.01;

/// Returns a path's weight for repair symbols of a block. It falls with the path's losses and rises
/// with the part of the block on *other* paths. So an outage does not take both a symbol and its
/// repair.
pub fn repair_weight(share_of_block: f64, loss_ratio: f64) -> f64 {
    (1.0 - share_of_block) / loss_ratio.max(MIN_LOSS_RATIO)
}

/// Returns whether a retransmission still arrives in time, so that repair symbols are not needed:
/// the loss is noticed after `reorder_wait`, and `margin` is kept of the remaining time.
pub fn is_retransmission_enough(
    rtt: Duration,
    reorder_wait: Duration,
    time_left: Duration,
    margin: Duration,
) -> bool {
    rtt.as_nanos().saturating_add(reorder_wait.as_nanos())
        < time_left.saturating_sub(margin).as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns P(more than `m` of `n` packets are lost), packet by packet.
    fn residual(n: usize, m: usize, loss: LossModel) -> f64 {
        let p = loss.ratio;
        let r = (1.0 / loss.burst_packets).min(1.0 - p);
        let q = p * r / (1.0 - p);
        let (mut good, mut bad) = (vec![0.0; n + 1], vec![0.0; n + 1]);
        (good[0], bad[1]) = (1.0 - p, p);
        for _ in 1..n {
            let (mut next_good, mut next_bad) = (vec![0.0; n + 1], vec![0.0; n + 1]);
            for losses in 0..=n {
                next_good[losses] += good[losses] * (1.0 - q) + bad[losses] * r;
                if losses < n {
                    next_bad[losses + 1] += good[losses] * q + bad[losses] * (1.0 - r);
                }
            }
            (good, bad) = (next_good, next_bad);
        }
        (m + 1..=n).map(|losses| good[losses] + bad[losses]).sum()
    }

    const RATIOS: [f64; 7] = [0.001, 0.01, 0.03, 0.05, 0.1, 0.2, 0.4];

    #[test]
    fn repairs_are_the_fewest_that_meet_the_residual() {
        fn of(m: usize, k: usize, loss: LossModel) -> f64 {
            residual(k + m, m, loss)
        }

        for k in [1, 2, 5, 10, 20, 50, 128] {
            for ratio in RATIOS {
                for burst_packets in [1.0, 1.5, 3.0, 8.0, 40.0] {
                    let loss = LossModel {
                        ratio,
                        burst_packets,
                    };
                    for bound in [KEY_FRAME_RESIDUAL, OTHER_FRAME_RESIDUAL] {
                        let m = usize::from(repair_count(k, loss, bound));
                        let k = usize::from(k);
                        assert!(
                            m == k || of(m, k, loss) <= bound,
                            "{k} {m} {loss:?}: {}",
                            of(m, k, loss)
                        );
                        assert!(
                            m == 0 || of(m - 1, k, loss) > bound,
                            "{k} {m} {loss:?}: {}",
                            of(m - 1, k, loss)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn some_counts_by_the_binomial_distribution() {
        fn count(k: u16, p: f64, bound: f64) -> u16 {
            repair_count(k, LossModel::independent(p), bound)
        }
        // P[Binomial(2, 0.01) > 1] = 1e-4, P[Binomial(13, 0.05) > 3] = 0.0031.
        assert_eq!(count(1, 0.01, 1e-3), 1);
        assert_eq!(count(10, 0.05, 1e-2), 3);
        assert_eq!(count(10, 0.05, 1e-3), 4);
        assert_eq!(count(0, 0.5, 1e-3), 0);
        assert_eq!(count(50, 0.0, 1e-3), 0);
        assert_eq!(count(50, 1.0, 1e-3), 50);
        assert_eq!(count(50, f64::NAN, 1e-3), 0);
    }

    #[test]
    fn overhead_is_monotone_in_loss() {
        for burst_packets in [1.0, 2.0, 6.0] {
            for k in [1, 5, 20, 50, 128] {
                let mut before = [0; 4];
                for step in 0..=1_000 {
                    let ratio = f64::from(step) / 1_000.0;
                    let loss = LossModel {
                        ratio,
                        burst_packets,
                    };
                    let now = [
                        repair_count(k, loss, KEY_FRAME_RESIDUAL),
                        repair_count(k, loss, OTHER_FRAME_RESIDUAL),
                        proportional_repair_count(k, ratio, true),
                        proportional_repair_count(k, ratio, false),
                    ];
                    assert!(
                        (0..4).all(|i| now[i] >= before[i] && now[i] <= k),
                        "{k} {ratio}"
                    );
                    before = now;
                }
            }
        }
    }

    #[test]
    fn bursts_need_more_than_independent_losses() {
        fn count(burst_packets: f64) -> u16 {
            repair_count(
                20,
                LossModel {
                    ratio: 0.02,
                    burst_packets,
                },
                OTHER_FRAME_RESIDUAL,
            )
        }
        assert_eq!([1.0, 3.0, 8.0].map(count), [2, 8, 15]);
    }

    #[test]
    fn without_loss_repairs_end_within_ten_seconds() {
        let mut process = LossProcess::new();
        let mut ended_at = None;
        for packet in 0..10_000_u64 {
            let is_lost = packet < 5_000 && packet % 20 == 0;
            let now = Instant::from_nanos(packet * 2_000_000);
            process.on_outcome(now, is_lost);
            if repair_count(50, LossModel::of(&process, now), KEY_FRAME_RESIDUAL) > 0 {
                ended_at = Some(packet + 1);
            }
        }
        let silent = Duration::from_millis(2) * (ended_at.unwrap() - 4_980);
        assert!(silent <= Duration::from_secs(10), "{silent}");
        assert!(silent >= Duration::from_secs(8), "{silent}");
    }

    /// Frames of 20 packets, 25 a second, on a path that begins to lose one packet in 20.
    #[test]
    fn two_seconds_after_a_step_to_5_percent_frames_are_as_safe_as_asked() {
        use anabranch_units::Seed;
        let mut rng = Seed(5).rng();
        let mut process = LossProcess::new();
        let (mut incomplete, mut repairs) = (0, 0_u32);
        let frames = 15_000;
        for frame in 0..frames + 50_u64 {
            let captured_at = Instant::from_nanos(frame * 40_000_000);
            let m = repair_count(
                20,
                LossModel::of(&process, captured_at),
                OTHER_FRAME_RESIDUAL,
            );
            let mut lost_count = 0;
            for _ in 0..20 + m {
                let is_lost = rng.chance(0.05);
                lost_count += u16::from(is_lost);
                process.on_outcome(captured_at, is_lost);
            }
            if frame >= 50 {
                incomplete += u32::from(lost_count > m);
                repairs += u32::from(m);
            }
        }
        let residual = f64::from(incomplete) / frames as f64;
        assert!(residual <= OTHER_FRAME_RESIDUAL, "{residual}");
        // The highest ratio of ten seconds is above the mean: 5.0 repairs where 4 would do, and
        // a residual of 0.0017.
        let mean = f64::from(repairs) / frames as f64;
        assert!(
            (4.0..6.0).contains(&mean),
            "{mean} repairs a frame, residual {residual}"
        );
    }

    #[test]
    fn proportional_counts_follow_the_share_of_all_packets() {
        // Half of all packets: as many as there are symbols.
        assert_eq!(proportional_repair_count(20, 0.4, false), 20);
        // 1.5 * 0.05 + 0.02 = 0.095 of all is 0.105 of the symbols; twice that 0.19, 0.2346.
        assert_eq!(proportional_repair_count(40, 0.05, false), 4);
        assert_eq!(proportional_repair_count(40, 0.05, true), 9);
        assert_eq!(proportional_repair_count(2, 0.001, false), 1);
        assert_eq!(proportional_repair_count(40, 0.0, true), 0);
    }

    #[test]
    fn retransmission_is_enough_while_a_round_trip_fits() {
        let ms = Duration::from_millis;
        assert!(is_retransmission_enough(ms(20), ms(10), ms(500), ms(20)));
        assert!(is_retransmission_enough(ms(69), ms(10), ms(100), ms(20)));
        assert!(!is_retransmission_enough(ms(70), ms(10), ms(100), ms(20)));
        assert!(!is_retransmission_enough(ms(0), ms(0), ms(10), ms(20)));
    }
}
