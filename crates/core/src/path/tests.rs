use anabranch_units::Importance;

use super::*;
use crate::media::FrameId;
use crate::path_view::PathSet;

#[test]
fn media_comes_late_a_sixteenth_before_its_deadline_and_a_retransmission_after_it() {
    fn late(reason: SendReason, deadline: Option<Instant>, millis: u64) -> bool {
        let packet = PacketView {
            frame: FrameId(0),
            fragment: 0,
            fragment_count: 1,
            reason,
            importance: Importance::Reference,
            bytes: 1_000,
            deadline,
            in_flight_on: PathSet::EMPTY,
            avoid: PathSet::EMPTY,
        };
        comes_late(
            Instant::from_millis(millis),
            &packet,
            Duration::from_millis(320),
        )
    }

    let due_at = Instant::from_millis(1_000);
    for reason in [SendReason::New, SendReason::Repair] {
        assert!(!late(reason, Some(due_at), 980));
        assert!(late(reason, Some(due_at), 981));
    }
    assert!(!late(SendReason::Lost, Some(due_at), 1_000));
    assert!(late(SendReason::Lost, Some(due_at), 1_001));
    assert!(!late(SendReason::New, None, 9_000), "a key frame");
}
