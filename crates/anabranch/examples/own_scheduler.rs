//! Sends over two paths of loopback by a scheduler of its own, which alternates between them
//! frame by frame, and prints the packets of each path.
//!
//! `cargo run --example own_scheduler`

use std::error::Error;

use anabranch::scheduler::{OneByOne, PacketView, PathChoice, SchedulerFactory, eligible_paths};
use anabranch::units::Instant;
use anabranch::{Importance, PathId, PathView, Receiver, SecretKey, Sender};

/// Sends even frames on the first usable path and odd ones on the second.
#[derive(Debug)]
struct Alternating;

impl PathChoice for Alternating {
    fn choose(&mut self, _now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let usable: Vec<PathId> = eligible_paths(packet, paths).map(|path| path.id).collect();
        let turn = packet.frame.0 as usize % usable.len().max(1);
        usable.get(turn).copied()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (camera, studio) = (SecretKey::generate(), SecretKey::generate());
    let (camera_name, studio_name) = (camera.public_key(), studio.public_key());
    let (receiver, sessions) = Receiver::builder()
        .key(studio)
        .allow(camera_name)
        .listen("127.0.0.1:0")
        .start()?;

    let (sender, _events) = Sender::builder()
        .key(camera)
        .peer(studio_name)
        .to(receiver.local_addr())
        .via("127.0.0.1")
        .via("127.0.0.2")
        .scheduler(SchedulerFactory::new("alternating", || {
            Box::new(OneByOne::new(Alternating)) as _
        }))
        .connect()?;
    let session = sessions.recv()?;
    for number in 0..20 {
        sender.send(vec![number; 4_000], Importance::key_if(number == 0))?;
        let frame = session.recv_frame()?;
        assert_eq!(frame.bytes, [number; 4_000]);
    }
    for (path, via) in sender
        .snapshot()
        .paths
        .iter()
        .zip(["127.0.0.1", "127.0.0.2"])
    {
        println!("{via}: {} packets", path.counters.sent_packets);
    }
    println!("{}", sender.finish());
    Ok(())
}
