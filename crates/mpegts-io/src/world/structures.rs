//! Streams with every usual picture structure, cut into units, in sessions over lines that lose
//! packets. No frame is dropped while its own deadline allows its completion.

use anabranch_net::testing::World;
use anabranch_net::{Receiver, Sender};
use anabranch_video::input::InputKind;
use anabranch_video::mpeg_ts::TransportStreamWriter;

use super::{line, seconds};
use crate::units::{FilmUnit, Reading, UnitSplitter};

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

/// Returns MPEG-TS of 25 pictures a second, of four to six packets each.
fn film(head: Head) -> Vec<u8> {
    let mut writer = TransportStreamWriter::new(Vec::new());
    for number in 0..PICTURE_COUNT {
        let (mut picture, is_key) = head(number);
        let size = 5_000 + number * 37 % 2_000;
        // No zeros, so that there are no start codes.
        picture.extend((0..size).map(|at| (at * number % 255) as u8 + 1));
        let at = anabranch_units::Duration::from_millis(40 * number);
        writer.write(&picture, at, is_key).expect("memory");
    }
    writer.into_inner()
}

fn units(film: &[u8]) -> Vec<FilmUnit> {
    let mut splitter = UnitSplitter::stored(InputKind::MpegTs);
    splitter.push(film);
    core::iter::from_fn(|| splitter.next(Reading::HasEnded)).collect()
}

/// Sends a film over a line that loses packets, and expects all bytes at the other end.
fn all_arrives(head: Head) {
    let film = film(head);
    for seed in 0..2 {
        let world = World::new(seed);
        let (camera, studio) = (world.machine("camera"), world.machine("studio"));
        let interface = camera.attach("wlan0", &line(20, 20).with_loss(0.01));
        let address = studio.attach("eth0", &line(100, 0)).at(7_000);
        let (camera_key, studio_key) = (world.key("camera"), world.key("studio"));
        let (camera_name, studio_name) = (camera_key.public_key(), studio_key.public_key());
        let receiver = Receiver::builder()
            .key(studio_key)
            .allow(camera_name)
            .network(studio.network())
            .listen(address);
        let (_receiver, sessions) = receiver.start().expect("the address is free");
        let sender = Sender::builder()
            .key(camera_key)
            .peer(studio_name)
            .network(camera.network())
            .to(address)
            .via("wlan0");
        let sending = async {
            let connected = sender.latency(seconds(1)).connect_async().await;
            let (sender, _events) = connected.expect("the studio answers");
            let began_at = world.now();
            for unit in units(&film) {
                let due_at = began_at + unit.clock.unwrap_or_default();
                world.sleep(due_at.saturating_since(world.now())).await;
                sender
                    .send(unit.bytes, unit.importance)
                    .expect("it is taken");
            }
            sender.finish_async().await;
        };
        let receiving = async {
            let session = sessions.recv_async().await.expect("the camera comes");
            let mut received = Vec::new();
            while let Ok(frame) = session.recv_frame_async().await {
                received.extend_from_slice(&frame.bytes);
            }
            received
        };
        let both = async { tokio::join!(sending, receiving) };
        let ((), received) = world.block_on(both);
        assert!(received == film, "seed {seed}: {} bytes", received.len());
        let [up, _] = interface.link_statistics();
        assert!(up.dropped.total() > 0, "the line loses");
    }
}

#[test]
fn all_intra_frames_arrive_over_a_link_that_loses_one_packet_in_a_hundred() {
    all_arrives(all_intra);
}

#[test]
fn intra_refresh_arrives_over_a_link_that_loses_one_packet_in_a_hundred() {
    all_arrives(intra_refresh);
}

#[test]
fn open_groups_arrive_over_a_link_that_loses_one_packet_in_a_hundred() {
    all_arrives(open_groups);
}

#[test]
fn hierarchical_b_pictures_arrive_over_a_link_that_loses_one_packet_in_a_hundred() {
    all_arrives(hierarchical_b);
}
