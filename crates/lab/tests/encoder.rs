//! Live encoders that follow the target, over links that stand still.

use crate::means::means;

/// A link stands still for 0.6 of every 20 s, and CoDel then drops from the queue that has stood.
/// By an outflow averaged over the pause, packets that it drops would be given up as late, and
/// packets in the queue be sent twice: 99.49 %.
#[test]
fn frames_caught_in_a_gap_of_a_cellular_link_are_in_time() {
    let (mean, _) = means("encoder/cellular.toml", 100);
    assert!(mean >= 0.995, "{mean}");
}
