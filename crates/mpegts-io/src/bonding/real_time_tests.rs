//! One sender and one receiver over loopback, in their threads. Worlds in memory have the others.

use std::net::{Ipv4Addr, UdpSocket};

use anabranch_core::{PathOptions, PathState};
use anabranch_net::{Clock, Remote, Via};

use super::*;
use crate::srt::Origins;

fn plain() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let patience = core::time::Duration::from_secs(10);
    socket.set_read_timeout(Some(patience)).unwrap();
    socket
}

fn path(via: &str, remote: SocketAddr) -> ClientPath {
    ClientPath {
        via: Via::from(via),
        remote: Remote::Address(remote),
        options: PathOptions::default(),
    }
}

/// Returns a datagram of SRT with this first word.
fn packet(first: u32) -> Vec<u8> {
    [&first.to_be_bytes()[..], &[0; 60]].concat()
}

/// Waits for an event.
fn await_event(sender: &BondedSender, is_it: impl Fn(&Event) -> bool) {
    let clock = Clock::start();
    loop {
        if sender.next_event().is_some_and(|event| is_it(&event)) {
            return;
        }
        assert!(clock.now() < Instant::from_secs(10), "no such event");
        std::thread::park_timeout(core::time::Duration::from_millis(10));
    }
}

#[test]
fn an_srt_sender_reaches_a_listener_behind_our_receiver_by_two_links() {
    let (listener, clock) = (plain(), Clock::start());
    let place = plain().local_addr().unwrap();
    let behind = listener.local_addr().unwrap();
    let surroundings = Surroundings::system(clock);
    let srt = (behind, Origins::default());
    let relay = crate::srtla::Relay::start("srtla://test", place, srt, &surroundings).unwrap();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let paths = [path("127.0.0.1", place), path("127.0.0.2", place)];
    let sender = BondedSender::start(
        any,
        Callers::SameUser,
        &paths,
        SourceLimits::Fixed,
        &surroundings,
    )
    .unwrap();
    for _ in paths {
        await_event(&sender, |event| {
            matches!(
                event,
                Event::PathState {
                    state: PathState::Active,
                    ..
                }
            )
        });
    }
    let caller = plain();
    caller.connect(sender.address()).unwrap();
    caller.send(&packet(0x8000_0000)).unwrap();
    let mut buffer = [0; 2_000];
    let (length, from) = listener.recv_from(&mut buffer).unwrap();
    assert_eq!(buffer[..length], packet(0x8000_0000));
    listener.send_to(&packet(0x8000_0000), from).unwrap();
    assert_eq!(
        caller.recv(&mut buffer).unwrap(),
        64,
        "the answer comes back"
    );
    for number in 0..40 {
        caller.send(&packet(number)).unwrap();
    }
    let mut numbers: Vec<u8> = (0..40)
        .map(|_| {
            listener.recv(&mut buffer).unwrap();
            buffer[3]
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..40).collect::<Vec<u8>>());
    let seen = sender.snapshot();
    assert_eq!((seen.session.frames_sent, seen.paths.len()), (40, 2));
    assert!(seen.paths.iter().all(|path| path.peer == Some(place)));
    drop((relay, sender));
}
