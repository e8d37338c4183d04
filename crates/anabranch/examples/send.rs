//! Sends a file as if it came from an encoder, a frame every 40 ms at the target bitrate:
//! `send RECEIVER:PORT RECEIVER_KEY FILE [INTERFACE OR LOCAL ADDRESS]...`.

use std::error::Error;
use std::time::Duration;
use std::{env, fs};

use anabranch::{DataRate, Ended, Importance, Sender};

const FRAME_INTERVAL: Duration = Duration::from_millis(40);

fn main() -> Result<(), Box<dyn Error>> {
    let key = anabranch::read_or_create_key("sender.key")?;
    println!("this sender's key: {}", key.public_key());
    let mut arguments = env::args().skip(1);
    let (Some(receiver), Some(peer), Some(file)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        println!("usage: send RECEIVER:PORT RECEIVER_KEY FILE [INTERFACE OR LOCAL ADDRESS]...");
        return Ok(());
    };
    let film = fs::read(file)?;

    let mut builder = Sender::builder()
        .key(key)
        .peer(peer.parse()?)
        .to(receiver)
        .latency(Duration::from_millis(300))
        .bitrate(DataRate::from_megabits_per_second(1)..=DataRate::from_megabits_per_second(8));
    for via in arguments {
        builder = builder.via(via.as_str());
    }
    let (sender, events) = builder.connect()?;

    let (clock, mut rest, mut number) = (sender.clock(), &film[..], 0);
    let mut due_at = clock.now();
    while !rest.is_empty() {
        // An encoder would produce a frame for this bitrate; here it is the next part of the file.
        let bytes = sender.target_bitrate().bytes_in(FRAME_INTERVAL.into()) as usize;
        let (frame, others) = rest.split_at(bytes.clamp(1, rest.len()));
        sender.send(frame.to_vec(), Importance::key_if(number % 50 == 0))?;
        (rest, number) = (others, number + 1);
        // Shows events until the next frame is due.
        due_at += FRAME_INTERVAL.into();
        while let Ok(event) = events.recv_timeout(due_at.saturating_since(clock.now()).into()) {
            println!("{event:?}");
        }
    }
    println!("{number} frames of {} bytes sent", film.len());
    match sender.finish() {
        Ended::Closed => Ok(()),
        failed => Err(failed.into()),
    }
}
