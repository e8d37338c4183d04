//! Receives a sender's frames and writes their bytes to a file:
//! `receive ADDRESS:PORT SENDER_KEY FILE`.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

use anabranch::{Ended, Receiver};

fn main() -> Result<(), Box<dyn Error>> {
    let key = anabranch::read_or_create_key("receiver.key")?;
    println!("this receiver's key: {}", key.public_key());
    let mut arguments = env::args().skip(1);
    let (Some(address), Some(sender), Some(file)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        println!("usage: receive ADDRESS:PORT SENDER_KEY FILE");
        return Ok(());
    };

    let (receiver, sessions) = Receiver::builder()
        .key(key)
        .allow(sender.parse()?)
        .listen(address)
        .latency(Duration::from_millis(300))
        .start()?;
    println!("listening at {}", receiver.local_addr());

    let mut output = File::create(file)?;
    let session = sessions.recv()?;
    println!("a session with {}", session.peer());
    let mut count = 0;
    let over = loop {
        match session.recv_frame() {
            Ok(frame) => {
                output.write_all(&frame.bytes)?;
                count += 1;
            }
            Err(over) => break over,
        }
    };
    println!("{count} frames received");
    match over.ended {
        Some(Ended::ClosedByPeer) => Ok(()),
        _ => Err(over.into()),
    }
}
