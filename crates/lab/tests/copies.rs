//! Number of copies that a loss, or a delay that looks like one, causes: enough, and no more.

use crate::means::means;

const SEEDS: u64 = 40;

/// With two copies for the last try 99.983 % are in time over the one path. Over two it is 99.970 %
/// if one copy is enough where 1 % is lost.
#[test]
fn single_losses_cost_no_frame() {
    for (row, most) in [
        ("contest/row-2-one-path-5-percent.toml", 0.13),
        ("contest/row-4-two-paths.toml", 0.0845),
    ] {
        let (in_time, overhead) = means(row, SEEDS);
        assert!(in_time >= 0.9999, "{row}: {in_time}");
        assert!(overhead <= most, "{row}: {overhead}");
    }
}

/// If jitter counted as congestion, packets in flight would be copied to the other path, which is
/// then busy with copies: 99.72 % in time, and 11.6 % of overhead.
#[test]
fn jitter_is_not_answered_by_copies() {
    let (in_time, overhead) = means("weather/jitter-two-paths-80.toml", SEEDS);
    assert!(in_time >= 0.9985, "{in_time}");
    assert!(overhead <= 0.085, "{overhead}");
}
