//! Frames that are sent while their bytes come, over loopback. Waits are generous.
//!
//! Needs a clock: a session's threads send over real sockets.

use std::time::Duration;

use anabranch_core::HandOut;
use anabranch_core::media::SendFrameError;
use anabranch_net::{Event, Events, Receiver, Reception, SendError, Sender};
use anabranch_secure::SecretKey;
use anabranch_units::Importance;

const PATIENCE: Duration = Duration::from_secs(20);

/// Returns both ends of a session whose receiver hands out parts.
fn session() -> (Receiver, Sender, Reception) {
    let (camera, studio) = (SecretKey::generate(), SecretKey::generate());
    let studio_name = studio.public_key();
    let (receiver, sessions) = Receiver::builder()
        .key(studio)
        .allow(camera.public_key())
        .listen("127.0.0.1:0")
        .configure(|config| config.transport.media.hand_out = HandOut::PartsInOrder)
        .start()
        .unwrap();
    let (sender, _events) = Sender::builder()
        .key(camera)
        .peer(studio_name)
        .to(receiver.local_addr())
        .via("127.0.0.1")
        .latency(Duration::from_secs(5))
        .connect()
        .unwrap();
    let session = sessions.recv_timeout(PATIENCE).unwrap();
    (receiver, sender, session)
}

fn wait_for<T>(events: &Events, mut pick: impl FnMut(Event) -> Option<T>) -> T {
    loop {
        let event = events.recv_timeout(PATIENCE).expect("an event in time");
        if let Some(picked) = pick(event) {
            return picked;
        }
    }
}

#[test]
fn bytes_of_a_frame_arrive_before_its_end_is_known() {
    let (_receiver, sender, session) = session();
    let whole: Vec<u8> = (0..20_000).map(|at| (at % 251) as u8).collect();
    let mut picture = sender.begin(Importance::Key);
    let mut handed_out = Vec::new();
    for bytes in whole.chunks(5_000) {
        picture.write(bytes).unwrap();
        let before = handed_out.len();
        while handed_out.len() == before {
            handed_out.extend(wait_for(session.events(), |event| match event {
                Event::FramePart(part) => Some(part.bytes),
                _ => None,
            }));
        }
    }
    assert_eq!(picture.finish().unwrap().0, 0);
    let frame = wait_for(session.events(), |event| match event {
        Event::FrameReceived(frame) => Some(frame),
        Event::FramePart(part) => {
            handed_out.extend(part.bytes);
            None
        }
        _ => None,
    });
    assert_eq!(frame.bytes, whole);
    assert_eq!(handed_out, whole[..frame.parted_bytes]);
}

#[test]
fn another_frame_waits_for_the_end_and_a_writer_that_is_dropped_gives_its_frame_up() {
    let (_receiver, sender, session) = session();
    let unfinished = |result: Result<_, SendError>| {
        matches!(
            result,
            Err(SendError::Transport(SendFrameError::Unfinished))
        )
    };
    assert!(
        sender.begin(Importance::Key).finish().is_err(),
        "nothing was written"
    );
    let mut picture = sender.begin(Importance::Key);
    picture.write(&[1; 3_000]).unwrap();
    assert!(unfinished(sender.send(vec![2; 10], Importance::Key)));
    let mut other = sender.begin(Importance::Key);
    assert!(unfinished(
        other.write(&[3]).map(|()| anabranch_core::FrameId(0))
    ));
    assert!(unfinished(other.finish()), "the first error stays");
    drop(picture);
    sender.send(vec![4; 10], Importance::Key).unwrap();
    let frame = wait_for(session.events(), |event| match event {
        Event::FrameReceived(frame) => Some(frame),
        _ => None,
    });
    assert_eq!((frame.id.0, frame.bytes), (1, vec![4; 10]));
}
