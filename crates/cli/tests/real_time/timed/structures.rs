//! A stream of key frames alone, through the real program, over a link with outages. No frame is
//! dropped while its own deadline allows its completion.
//!
//! Needs a clock: real programs exchange packets over sockets.

use anabranch_link::LinkConfig;
use anabranch_units::{Duration, Instant};

use crate::bed::{Bed, relay, transport_stream_with};
use crate::punctual::Watch;

/// Start code.
const START: [u8; 4] = [0, 0, 0, 1];
/// NAL unit header of an IDR slice.
const IDR: u8 = 0x65;
const PICTURE_COUNT: u64 = 150;

/// Makes every picture an IDR picture, as MJPEG, ProRes, JPEG XS and `keyint=1` do.
fn all_intra(_: u64) -> (Vec<u8>, bool) {
    ([&START[..], &[IDR]].concat(), true)
}

/// Adds outages. Pictures after an outage are complete before those in it, which have half of their
/// time left.
fn with_outages(link: LinkConfig) -> LinkConfig {
    let times = [2, 4].map(Instant::from_secs);
    LinkConfig {
        outages: times.map(|at| (at, Duration::from_millis(300))).to_vec(),
        ..link
    }
}

/// Pictures of four to six packets.
#[test]
fn key_frames_of_an_outage_wait_as_long_as_their_own_deadline_allows() {
    let bed = Bed::new();
    let stream = transport_stream_with(
        PICTURE_COUNT,
        |number| 5_000 + number * 37 % 2_000,
        all_intra,
    );
    std::fs::write(bed.path("in.ts"), &stream).unwrap();
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &[]);
    let relay = relay(&address, with_outages);
    let to = relay.listen_addr(0).to_string();
    let (watch, options) = (Watch::start(), ["--latency", "1 s"]);
    let (send_code, sent) = bed.send(&to, &bed.text("in.ts"), &options).finish();
    let (recv_code, received) = recv.finish();
    let what = "all frames in time";
    let said: [&str; 2] = [&sent, &received];
    // Less than half of the frames in time are a failure of its own, 5.
    let is_well = (send_code, recv_code) == (0, 0);
    assert!(
        watch.allows(is_well, what, &said),
        "{send_code} {recv_code}: {sent}\n{received}"
    );
    assert!(relay.statistics(0).forward.link.dropped.total() > 0);
    let all = format!("of {PICTURE_COUNT} pictures {PICTURE_COUNT} in time, 0 late or lost");
    let has_all = received.contains(&all);
    assert!(watch.allows(has_all, what, &said), "{sent}\n{received}");
    let written = std::fs::read(bed.path("out.ts")).unwrap();
    let is_whole = written == stream;
    assert!(watch.allows(is_whole, what, &said), "{sent}\n{received}");
}
