use std::net::Ipv4Addr;

use anabranch_core::PathOptions;
use anabranch_net::{Remote, Via};

use super::*;

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
fn srt(first: u32) -> Vec<u8> {
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
    let relay = crate::srtla::Relay::start("srtla://test", place, behind, &clock).unwrap();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let paths = [path("127.0.0.1", place), path("127.0.0.2", place)];
    let sender =
        BondedSender::start(any, Callers::SameUser, &paths, SourceLimits::Fixed, clock).unwrap();
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
    caller.send(&srt(0x8000_0000)).unwrap();
    let mut buffer = [0; 2_000];
    let (length, from) = listener.recv_from(&mut buffer).unwrap();
    assert_eq!(buffer[..length], srt(0x8000_0000));
    listener.send_to(&srt(0x8000_0000), from).unwrap();
    assert_eq!(
        caller.recv(&mut buffer).unwrap(),
        64,
        "the answer comes back"
    );
    for number in 0..40 {
        caller.send(&srt(number)).unwrap();
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

#[test]
fn an_absent_address_is_waited_for_and_reported_once() {
    let (clock, place) = (Clock::start(), plain().local_addr().unwrap());
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    // A network for documentation, of which no machine has an address.
    let paths = [path("192.0.2.77", place)];
    let sender =
        BondedSender::start(any, Callers::All, &paths, SourceLimits::Fixed, clock).unwrap();
    await_event(&sender, |event| matches!(event, Event::PathAbsent { .. }));
    std::thread::park_timeout(core::time::Duration::from_millis(600));
    assert_eq!(sender.next_event(), None);
    let seen = sender
        .replace_path(PathId(0), path("127.0.0.1", place))
        .unwrap();
    assert!(seen.unsent_datagrams > 0);
    await_event(&sender, |event| matches!(event, Event::PathPresent { .. }));
    assert!(
        sender
            .replace_path(PathId(1), path("127.0.0.1", place))
            .is_err()
    );
}
