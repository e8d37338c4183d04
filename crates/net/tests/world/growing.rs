//! Frames whose bytes are sent as they come.

use std::time::Duration;

use anabranch_core::HandOut;
use anabranch_core::media::SendFrameError;
use anabranch_link::LossModel;
use anabranch_net::{Event, Receiver, Reception, SendError, Sender};
use anabranch_units::{Importance, Instant};

use super::bed::{Bed, drain, line, millis};

fn session(bed: &Bed) -> (Receiver, Sender, Reception) {
    let server = bed
        .server()
        .configure(|config| config.transport.media.hand_out = HandOut::PartsInOrder);
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

/// Pieces of a picture.
const PIECES: u64 = 8;
const PIECE_BYTES: usize = 1_250;
const PIECE_INTERVAL: Duration = Duration::from_millis(5);
const LATENCY: Duration = Duration::from_millis(100);
const PICTURES: usize = 1_000;

/// Returns the numbers of the frames that have come, each with its delay.
fn delays(session: &Reception, captured_at: &[Instant]) -> Vec<(usize, anabranch_units::Duration)> {
    let mut delays = Vec::new();
    for event in drain(session.events()) {
        if let Event::FrameReceived(frame) = event {
            let number = frame.id.0 as usize;
            delays.push((
                number,
                frame.completed_at.saturating_since(captured_at[number]),
            ));
        }
    }
    delays
}

/// Sends pictures of 2 Mbit/s over 30 ms and bursts of five lost packets. Each picture takes 40 ms
/// to come, and leaves in frames of `pieces`, whole or as they come. Returns the share of pictures
/// that arrived within the latency: of whole frames from their end, of others from their beginning.
fn share_in_time(seed: u64, pieces: u64, is_whole: bool) -> f64 {
    let mut camera_line = line(6, 30);
    camera_line.up.loss = LossModel::GilbertElliott {
        good_to_bad: 0.01,
        bad_to_good: 0.2,
        loss_in_good: 0.0,
        loss_in_bad: 1.0,
    };
    let bed = Bed::new(seed, &[camera_line]);
    let (_receiver, sessions) = bed.server().latency(LATENCY).start().expect("it is free");
    let connecting = bed.client().latency(LATENCY).connect_async();
    let (sender, _events) = bed.world.block_on(connecting).expect("the studio answers");
    bed.world.run_for(millis(100));
    let session = sessions.try_recv().expect("it began");
    let frames_in_picture = (PIECES / pieces) as usize;
    let longest = Duration::from_millis(31) + LATENCY;
    let (mut captured_at, mut in_time) = (Vec::new(), vec![0; PICTURES]);
    for number in 0..PICTURES * frames_in_picture {
        let importance = if number == 0 {
            Importance::Key
        } else {
            Importance::Reference
        };
        let (now, begun_at) = (bed.camera.clock().now(), bed.studio.clock().now());
        let mut frame = (!is_whole).then(|| sender.begin_captured(importance, now));
        for piece in 0..pieces {
            if let Some(frame) = &mut frame {
                frame.write(&[7; PIECE_BYTES]).expect("taken");
            }
            if piece + 1 == pieces
                && let Some(frame) = frame.take()
            {
                frame.finish().expect("not empty");
            }
            bed.world.run_for(PIECE_INTERVAL);
        }
        if is_whole {
            let bytes = vec![7; PIECE_BYTES * pieces as usize];
            sender.send(bytes, importance).expect("taken");
        }
        captured_at.push(if is_whole {
            bed.studio.clock().now()
        } else {
            begun_at
        });
        for (number, delay) in delays(&session, &captured_at) {
            in_time[number / frames_in_picture] += u32::from(delay <= longest.into());
        }
    }
    bed.world.run_for(millis(500));
    for (number, delay) in delays(&session, &captured_at) {
        in_time[number / frames_in_picture] += u32::from(delay <= longest.into());
    }
    let whole = in_time
        .iter()
        .filter(|count| **count == frames_in_picture as u32);
    whole.count() as f64 / PICTURES as f64
}

#[test]
fn short_frames_recover_from_bursts_as_fast_as_whole_pictures() {
    let [as_it_comes, whole] = [(2, false), (PIECES, true)].map(|(pieces, is_whole)| {
        let shares = (1..=3).map(|seed| share_in_time(seed, pieces, is_whole));
        shares.sum::<f64>() / 3.0
    });
    println!("{as_it_comes} and {whole}");
    assert!(as_it_comes >= whole, "{as_it_comes} and {whole}");
}
