//! Prints delays of bytes through a sender and a receiver over loopback, at 8 Mbit/s: of pictures
//! that are sent when they are whole, and while their bytes come. Both ends share a clock.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration as StdDuration;

use anabranch_core::{Frame, HandOut};
use anabranch_net::{Clock, Event, FrameWriter, Receiver, Reception, Sender};
use anabranch_secure::SecretKey;
use anabranch_units::{Duration, Importance, Instant};

/// Payload of a datagram of MPEG-TS.
const PIECE_BYTES: usize = 7 * 188;
/// Bytes of a picture: 40 ms of 8 Mbit/s.
const PICTURE_BYTES: usize = 40_000;
const PICTURE_INTERVAL: Duration = Duration::from_millis(40);
const RUN: Duration = Duration::from_secs(20);
/// The beginning, in which the rate of the path is unknown, does not count.
const WARM_UP: Duration = Duration::from_secs(1);
const LATENCY: StdDuration = StdDuration::from_millis(100);

/// Times of a source's datagrams.
#[derive(Clone, Copy, Debug)]
enum Source {
    Constant,
    Bursts,
}

impl Source {
    fn at(self, index: usize) -> Duration {
        let bytes = (index * PIECE_BYTES) as u64;
        match self {
            Source::Constant => PICTURE_INTERVAL * bytes / PICTURE_BYTES as u64,
            Source::Bursts => PICTURE_INTERVAL * picture(index),
        }
    }
}

/// Returns the number of the picture that a datagram belongs to.
fn picture(index: usize) -> u64 {
    (index * PIECE_BYTES / PICTURE_BYTES) as u64
}

/// Returns the position behind the last byte, and the time, of everything that was handed out.
fn arrivals(session: &Reception, clock: Clock) -> BTreeMap<usize, Instant> {
    let (mut end, mut arrivals) = (0, BTreeMap::new());
    for event in session.events().iter() {
        let byte_count = match event {
            Event::FramePart(part) => part.bytes.len(),
            Event::FrameReceived(frame) => frame.size_bytes - frame.parted_bytes,
            Event::Ended(_) => break,
            _ => 0,
        };
        if byte_count > 0 {
            end += byte_count;
            arrivals.insert(end, clock.now());
        }
    }
    arrivals
}

/// Sends the source's pictures, each with its first byte's time. Returns the position and the time
/// of every datagram.
#[allow(clippy::disallowed_methods, reason = "nothing wakes the source early")]
fn feed(sender: &Sender, source: Source, grows: bool) -> Vec<(usize, Instant)> {
    let clock = sender.clock();
    let began_at = clock.now();
    let (mut written, mut held) = (Vec::new(), Vec::new());
    let mut captured_at = began_at;
    let mut writer: Option<FrameWriter<'_>> = None;
    for index in 0.. {
        let due_at = began_at + source.at(index);
        thread::sleep(due_at.saturating_since(clock.now()).into());
        let now = clock.now();
        if index > 0 && picture(index) != picture(index - 1) {
            if let Some(picture) = writer.take() {
                picture.finish().expect("it was written");
            } else if !grows {
                let bytes = core::mem::take(&mut held);
                let whole = Frame::new(bytes, Importance::Reference, captured_at);
                sender.send_frame(&whole).expect("a session");
            }
            captured_at = now;
        }
        if due_at > began_at + RUN {
            return written;
        }
        written.push((index * PIECE_BYTES, now));
        let bytes = [index as u8; PIECE_BYTES];
        if grows {
            let writer = writer.get_or_insert_with(|| sender.begin(Importance::Reference));
            writer.write(&bytes).expect("a session");
        } else {
            held.extend(bytes);
        }
    }
    written
}

fn run(source: Source, grows: bool) {
    let (camera, studio) = (SecretKey::generate(), SecretKey::generate());
    let studio_name = studio.public_key();
    let (receiver, sessions) = Receiver::builder()
        .key(studio)
        .allow(camera.public_key())
        .listen("127.0.0.1:0")
        .latency(LATENCY)
        .configure(|config| config.transport.media.hand_out = HandOut::PartsInOrder)
        .start()
        .expect("loopback");
    let (sender, _events) = Sender::builder()
        .key(camera)
        .peer(studio_name)
        .to(receiver.local_addr())
        .via("127.0.0.1")
        .latency(LATENCY)
        .connect()
        .expect("loopback");
    let session = sessions.recv().expect("a session");
    let clock = sender.clock();
    let reader = thread::spawn(move || arrivals(&session, clock));
    let written = feed(&sender, source, grows);
    let counters = sender.snapshot().paths[0].counters;
    sender.finish();
    let arrived = reader.join().expect("it only reads");
    let counts_from = written[0].1 + WARM_UP;
    let mut delays: Vec<Duration> = written
        .iter()
        .filter_map(|(offset, at)| {
            let (_, came_at) = arrived.range(offset + 1..).next()?;
            (*at >= counts_from).then(|| came_at.saturating_since(*at))
        })
        .collect();
    delays.sort_unstable();
    let [median, p99] = [50, 99].map(|percent| delays[(delays.len() - 1) * percent / 100]);
    let media_bytes = (written.len() * PIECE_BYTES) as f64;
    let overhead = counters.sent_bytes as f64 / media_bytes - 1.0;
    println!(
        "{source:?}, {}: p50 {}, p99 {}, overhead {:.2} %",
        if grows { "as bytes come" } else { "whole" },
        median,
        p99,
        overhead * 100.0,
    );
}

fn main() {
    for source in [Source::Constant, Source::Bursts] {
        for grows in [false, true] {
            run(source, grows);
        }
    }
}
