//! A receiver's view of its sender's links.

use anabranch_core::{PathId, PathOptions, PathState};
use anabranch_net::{LinkCap, LinkReport, PathSnapshot, Reception, Sender};
use anabranch_units::{DataRate, Duration};

use super::bed::{Bed, line, millis};

const CAP: LinkCap = LinkCap {
    used_bytes: 3_000_000,
    limit_bytes: 10_000_000,
};
const DELAY: u64 = 20;

fn states(reception: &Reception) -> Vec<PathState> {
    let paths = reception.snapshot().paths;
    paths.iter().map(PathSnapshot::state).collect()
}

fn reported(path: &PathSnapshot) -> &LinkReport {
    path.link.as_ref().expect("it was reported")
}

#[test]
fn a_receiver_sees_its_senders_links_by_name_and_notices_those_that_carry_nothing() {
    let bed = Bed::new(1, &[line(10, DELAY), line(10, DELAY)]);
    let (_receiver, sessions) = bed.receiver();
    let options = PathOptions {
        max_rate: Some(DataRate::from_megabits_per_second(3)),
        ..PathOptions::default()
    };
    let client = Sender::builder()
        .key(bed.world.key("camera"))
        .peer(bed.world.key("studio").public_key())
        .network(bed.camera.network())
        .to(bed.address())
        .via("line0")
        .via_with("line1", options);
    let connected = bed.world.block_on(client.connect_async());
    let (sender, _events) = connected.expect("an answer");
    sender.set_cap(PathId(1), Some(CAP));
    bed.send_for(&sender, millis(2_000));
    let reception = sessions.try_recv().expect("a session");
    assert_eq!(states(&reception), [PathState::Active; 2]);
    bed.lines[1].block_udp(true);
    bed.send_for(&sender, millis(3_000));
    assert_eq!(states(&reception), [PathState::Active, PathState::Out]);
    let paths = reception.snapshot().paths;
    for (index, path) in paths.iter().enumerate() {
        let link = reported(path);
        assert_eq!(link.name, format!("line{index}"));
        let rtt = link.rtt.expect("it was measured");
        assert!(rtt >= Duration::from_millis(2 * DELAY), "{rtt}");
    }
    assert_eq!(
        (reported(&paths[0]).max_rate, reported(&paths[0]).cap),
        (None, None)
    );
    assert_eq!(reported(&paths[1]).max_rate, options.max_rate);
    assert_eq!(reported(&paths[1]).cap, Some(CAP));
    // No path can report that any more.
    bed.lines[0].block_udp(true);
    bed.send_for(&sender, millis(3_000));
    assert_eq!(states(&reception), [PathState::Out; 2]);
    let seen = reception.snapshot();
    let until = seen.media_until.expect("frames have come");
    assert!(until < seen.at, "{until}");
}
