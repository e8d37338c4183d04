//! Frames whose bytes are sent as they come.

use anabranch_core::HandOut;
use anabranch_core::media::SendFrameError;
use anabranch_net::{Event, Receiver, Reception, SendError, Sender};
use anabranch_units::Importance;

use super::bed::{Bed, drain, line, millis};

fn session(bed: &Bed) -> (Receiver, Sender, Reception) {
    let server = bed.server();
    let server = server.configure(|config| config.transport.media.hand_out = HandOut::PartsInOrder);
    let (receiver, sessions) = server.start().expect("the address is free");
    let (sender, _events) = bed.world.block_on(bed.connect());
    bed.world.run_for(millis(100));
    let session = sessions.try_recv().expect("it began");
    (receiver, sender, session)
}

#[test]
fn bytes_of_a_frame_arrive_before_its_end_is_known() {
    let bed = Bed::new(1, &[line(10, 10)]);
    let (_receiver, sender, session) = session(&bed);
    let whole: Vec<u8> = (0..20_000).map(|at| (at % 251) as u8).collect();
    let mut picture = sender.begin(Importance::Key);
    let (mut handed_out, mut frame) = (Vec::new(), None);
    for bytes in whole.chunks(5_000) {
        picture.write(bytes).expect("taken");
        bed.world.run_for(millis(60));
        let before = handed_out.len();
        for event in drain(session.events()) {
            if let Event::FramePart(part) = event {
                handed_out.extend(part.bytes);
            }
        }
        assert!(handed_out.len() > before);
    }
    assert_eq!(picture.finish().expect("whole").0, 0);
    bed.world.run_for(millis(100));
    for event in drain(session.events()) {
        match event {
            Event::FramePart(part) => handed_out.extend(part.bytes),
            Event::FrameReceived(received) => frame = Some(received),
            _ => {}
        }
    }
    let frame = frame.expect("it came");
    assert_eq!(frame.bytes, whole);
    assert_eq!(handed_out, whole[..frame.parted_bytes]);
}

fn is_unfinished<T>(result: &Result<T, SendError>) -> bool {
    matches!(
        result,
        Err(SendError::Transport(SendFrameError::Unfinished))
    )
}

#[test]
fn another_frame_waits_for_the_end_of_the_first() {
    let bed = Bed::new(2, &[line(10, 10)]);
    let (_receiver, sender, session) = session(&bed);
    let empty = sender.begin(Importance::Key).finish();
    assert!(empty.is_err(), "nothing was written");
    let mut picture = sender.begin(Importance::Key);
    picture.write(&[1; 3_000]).expect("taken");
    assert!(is_unfinished(&sender.send(vec![2; 10], Importance::Key)));
    let mut other = sender.begin(Importance::Key);
    assert!(is_unfinished(&other.write(&[3])));
    assert!(is_unfinished(&other.finish()), "the first error stays");
    // A writer that is dropped gives its frame up.
    drop(picture);
    sender.send(vec![4; 10], Importance::Key).expect("taken");
    bed.world.run_for(millis(1_000));
    let frames = drain(session.events())
        .into_iter()
        .filter_map(|event| match event {
            Event::FrameReceived(frame) => Some((frame.id.0, frame.bytes)),
            _ => None,
        });
    assert_eq!(frames.collect::<Vec<_>>(), [(1, vec![4; 10])]);
}
