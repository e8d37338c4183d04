//! Tests of streams with every usual picture structure, through the real program, over links that
//! lose packets. No frame is dropped while its own deadline allows its completion.
//!
//! Needs a clock: real programs exchange packets over sockets.

use anabranch_link::{LinkConfig, LossModel};
use anabranch_units::{Duration, Instant};

use crate::bed::{Bed, relay, transport_stream_with};
use crate::punctual::Watch;

/// Start code.
const START: [u8; 4] = [0, 0, 0, 1];
/// SEI message of a recovery point (ITU-T H.264 §D.1.8).
const RECOVERY_POINT: [u8; 9] = [0, 0, 0, 1, 0x06, 6, 1, 0xc4, 0x80];
/// NAL unit headers of an IDR slice, of a slice that others refer to, and of one that none does.
const IDR: u8 = 0x65;
const REFERENCE: u8 = 0x41;
const DISPOSABLE: u8 = 0x01;
const PICTURE_COUNT: u64 = 150;

type Head = fn(u64) -> (Vec<u8>, bool);

fn slice(header: u8) -> Vec<u8> {
    [&START[..], &[header]].concat()
}

fn after_recovery_point(header: u8) -> Vec<u8> {
    [&RECOVERY_POINT[..], &slice(header)].concat()
}

/// Makes every picture an IDR picture, as MJPEG, ProRes, JPEG XS and `keyint=1` do.
fn all_intra(_: u64) -> (Vec<u8>, bool) {
    (slice(IDR), true)
}

/// Begins a new refresh each second. Only the first picture is intra-coded as a whole.
fn intra_refresh(number: u64) -> (Vec<u8>, bool) {
    match number % 25 {
        _ if number == 0 => (slice(IDR), true),
        0 => (after_recovery_point(REFERENCE), true),
        _ => (slice(REFERENCE), false),
    }
}

/// Begins groups with an intra-coded picture; the two pictures after it refer across it.
fn open_groups(number: u64) -> (Vec<u8>, bool) {
    match number % 24 {
        _ if number == 0 => (slice(IDR), true),
        0 => (after_recovery_point(REFERENCE), true),
        at if at % 3 == 0 => (slice(REFERENCE), false),
        _ => (slice(DISPOSABLE), false),
    }
}

/// Repeats in coding order: a P picture, a referenced B picture, and two unreferenced ones.
fn hierarchical_b(number: u64) -> (Vec<u8>, bool) {
    match number % 24 {
        0 => (slice(IDR), true),
        at if at % 4 < 2 => (slice(REFERENCE), false),
        _ => (slice(DISPOSABLE), false),
    }
}

/// Sends pictures of four to six packets over a link, and expects all bytes at the other end.
fn all_arrives(head: Head, there: impl Fn(LinkConfig) -> LinkConfig) {
    let bed = Bed::new();
    let stream = transport_stream_with(PICTURE_COUNT, |number| 5_000 + number * 37 % 2_000, head);
    std::fs::write(bed.path("in.ts"), &stream).unwrap();
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &[]);
    let relay = relay(&address, there);
    let to = relay.listen_addr(0).to_string();
    let (watch, options) = (Watch::start(), ["--latency", "1 s"]);
    let (send_code, sent) = bed.send(&to, &bed.text("in.ts"), &options).finish();
    let (recv_code, received) = recv.finish();
    let allows = |is_so| watch.allows(is_so, "all frames in time", &[&sent, &received]);
    // Less than half of the frames in time are a failure of its own, 5.
    let is_well = (send_code, recv_code) == (0, 0);
    assert!(
        allows(is_well),
        "{send_code} {recv_code}: {sent}\n{received}"
    );
    assert!(relay.statistics(0).forward.link.dropped.total() > 0);
    let all = format!("frames: {PICTURE_COUNT} complete, 0 dropped");
    assert!(allows(received.contains(&all)), "{sent}\n{received}");
    let written = std::fs::read(bed.path("out.ts")).unwrap();
    assert!(allows(written == stream), "{sent}\n{received}");
}

fn with_loss(link: LinkConfig) -> LinkConfig {
    LinkConfig {
        loss: LossModel::Bernoulli { probability: 0.01 },
        ..link
    }
}

/// Adds outages. Pictures after an outage are complete before those in it, which have half of their
/// time left.
fn with_outages(link: LinkConfig) -> LinkConfig {
    let outage = |at| (Instant::from_secs(at), Duration::from_millis(300));
    LinkConfig {
        outages: vec![outage(2), outage(4)],
        ..link
    }
}

#[test]
fn all_intra_frames_arrive_over_a_link_that_loses_one_packet_in_a_hundred() {
    all_arrives(all_intra, with_loss);
}

#[test]
fn intra_refresh_arrives_over_a_link_that_loses_one_packet_in_a_hundred() {
    all_arrives(intra_refresh, with_loss);
}

#[test]
fn open_groups_arrive_over_a_link_that_loses_one_packet_in_a_hundred() {
    all_arrives(open_groups, with_loss);
}

#[test]
fn hierarchical_b_pictures_arrive_over_a_link_that_loses_one_packet_in_a_hundred() {
    all_arrives(hierarchical_b, with_loss);
}

#[test]
fn all_intra_frames_of_an_outage_wait_as_long_as_their_own_deadline_allows() {
    all_arrives(all_intra, with_outages);
}
