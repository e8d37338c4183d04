//! Receivers of SRTLA and SRT by their addresses.

use anabranch_net::{Clock, PlainSocket, Surroundings, Via};
use anabranch_srt::{Caller, Entropy, Settings};

use super::*;
use crate::ReceiverEvent;

const LATENCY: &str = "latency=1000";

/// Returns packets of MPEG-TS, each of them another one.
fn transport_stream(packets: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..packets {
        // Identifier 256, payload alone, a counter of four bits.
        bytes.extend([0x47, 0x01, 0x00, 0x10 | (number % 16) as u8]);
        bytes.extend(number.to_be_bytes().repeat(46));
    }
    bytes
}

impl Bed {
    fn srt_receiver(&self, scheme: &str, parameters: &str) -> Receiver {
        let text = format!("{scheme}://{}?{parameters}", self.address);
        let receiver = Receiver::new_in(&text, &self.studio.network()).expect("it is complete");
        receiver.start().expect("the address is free");
        receiver
    }

    fn srtla_sender(&self, parameters: &str) -> Sender {
        let text = format!(
            "to = 'srtla://{}?{parameters}'\nvia = ['wlan0', 'wwan0']\n",
            self.address
        );
        let sender = Sender::new_in(&text, &self.camera.network()).expect("it is complete");
        sender.start().expect("it can start");
        sender
    }

    /// Sends a stream at 2 Mbit/s.
    async fn send_stream(&self, sender: &Sender, stream: &[u8]) {
        for part in stream.chunks(2_500) {
            sender.send_ts(part).expect("the session takes it");
            self.world.sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Takes all frames of a session. Returns their bytes and the last error.
async fn bytes_of(session: &Session) -> (Vec<u8>, String) {
    let (mut bytes, mut next) = (Vec::new(), 0);
    loop {
        match session.next_frame_async().await {
            Ok(frame) => {
                assert_eq!(frame.id.0, next);
                next += 1;
                bytes.extend(frame.bytes);
            }
            Err(error) => {
                assert_eq!(error.code, ErrorCode::Ended);
                return (bytes, error.text);
            }
        }
    }
}

/// Takes the events that have come.
fn present_events(receiver: &Receiver) -> Vec<ReceiverEvent> {
    core::iter::from_fn(|| receiver.next_event(Duration::ZERO).ok().flatten()).collect()
}

#[test]
fn srtla_over_two_links_of_which_one_fails_arrives_as_it_was() {
    for seed in 0..3 {
        let bed = Bed::new(seed);
        let parameters = format!("{LATENCY}&streamid=van&passphrase=correct-horse");
        let receiver = bed.srt_receiver("srtla", &parameters);
        let sender = bed.srtla_sender(&parameters);
        let stream = transport_stream(12_000);
        let sending = async {
            let connected = sender.wait_connected_async().await;
            connected.expect("the studio answers");
            let (head, rest) = stream.split_at(stream.len() / 3);
            bed.send_stream(&sender, head).await;
            bed.lines[0].unplug();
            bed.send_stream(&sender, rest).await;
            sender.close_async().await.expect("it ends");
        };
        let receiving = async {
            let session = receiver.accept_async().await.expect("the camera comes");
            assert_eq!((session.number(), session.peer().as_str()), (0, "van"));
            bed.world.sleep(Duration::from_secs(3)).await;
            let seen = session.statistics();
            assert_eq!(seen.paths.len(), 2, "{seen:?}");
            assert!(seen.paths.iter().all(|path| path.received_bytes > 50_000));
            let (bytes, reason) = bytes_of(&session).await;
            (bytes, reason, session.statistics())
        };
        let ((), (bytes, reason, last)) = bed
            .world
            .block_on(async { tokio::join!(sending, receiving) });
        assert!(bytes == stream, "{} of {} bytes", bytes.len(), stream.len());
        assert!(reason.contains("the peer has ended"), "{reason}");
        assert_eq!(last.frames_dropped, 0);
        let events = present_events(&receiver);
        assert!(
            events
                .iter()
                .all(|event| event.peer.as_deref() == Some("van"))
        );
        assert_eq!(events[0].event, Event::SessionBegan);
        let changes: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.event {
                Event::PathState { state, .. } => Some(*state),
                _ => None,
            })
            .collect();
        assert_eq!(changes[..3], ["active", "active", "out"], "{events:?}");
        let end = &events.last().expect("events").event;
        assert!(matches!(end, Event::SessionEnded { .. }), "{end:?}");
    }
}

#[test]
fn srtla_with_another_passphrase_or_stream_is_refused_and_reported() {
    for (its, expected) in [
        ("streamid=van&passphrase=correct-house", "wrong passphrase"),
        (
            "streamid=roof&passphrase=correct-horse",
            "no stream of this ID",
        ),
        ("streamid=van", "only one end has a passphrase"),
    ] {
        let bed = Bed::new(7);
        let receiver = bed.srt_receiver("srtla", "streamid=van&passphrase=correct-horse");
        let sender = bed.srtla_sender(its);
        bed.world.run_for(Duration::from_secs(3));
        assert!(!sender.statistics().connected, "{its}");
        assert_eq!(
            receiver
                .accept(Duration::ZERO)
                .map(|session| session.is_some()),
            Ok(false)
        );
        let events = present_events(&receiver);
        assert!(!events.is_empty(), "{its}");
        for event in events {
            let Event::SenderRefused { reason, from } = event.event else {
                panic!("{its}: {:?}", event.event);
            };
            assert!(reason.contains(expected), "{its}: {reason}");
            let hosts = bed.lines.each_ref().map(|line| line.address().to_string());
            assert!(hosts.contains(&from), "{from}");
        }
    }
}

#[test]
fn an_application_ends_a_session_and_the_receiver() {
    let bed = Bed::new(8);
    let receiver = bed.srt_receiver("srtla", LATENCY);
    let sender = bed.srtla_sender(LATENCY);
    let task = async {
        let session = receiver.accept_async().await.expect("the camera comes");
        session.close();
        let (_, reason) = bytes_of(&session).await;
        assert!(reason.contains("this end has ended"), "{reason}");
        // The sender calls again.
        let again = receiver.accept_async().await.expect("the camera comes");
        assert_eq!(again.number(), 1);
        receiver.close().expect("it is started");
        bytes_of(&again).await;
        receiver.accept_async().await.expect_err("it is over")
    };
    let error = bed.world.block_on(task);
    assert_eq!(error.code, ErrorCode::Ended);
    let link = receiver.pairing_link("studio", Duration::from_secs(1));
    assert_eq!(link.expect_err("SRT has none").code, ErrorCode::State);
    drop(sender);
}

/// A caller of SRT alone, as `ffmpeg` or OBS is.
struct SrtCaller {
    socket: PlainSocket,
    caller: Caller,
    clock: Clock,
}

impl SrtCaller {
    fn new(bed: &Bed, stream_id: Option<&str>) -> SrtCaller {
        let surroundings = Surroundings::of(&bed.camera.network(), bed.camera.clock());
        let socket = PlainSocket::open(&surroundings, &Via::DefaultRoute, bed.address);
        let clock = *surroundings.clock();
        let entropy = Entropy::new(&surroundings.random_bytes().expect("a world has it"));
        let settings = Settings::default();
        let caller = Caller::new(clock.now(), bed.address, stream_id, settings, entropy);
        SrtCaller {
            socket: socket.expect("a route"),
            caller,
            clock,
        }
    }

    /// Passes datagrams for a while, and sends a part of a stream once it is connected.
    fn run(&mut self, world: &World, millis: u64, part: &[u8]) {
        let mut payloads = part.chunks(1_316);
        for _ in 0..millis {
            let now = self.clock.now();
            let mut buffer = [0; 1_500];
            while let Ok((length, _, _)) = self.socket.recv(&mut buffer) {
                self.caller.handle_datagram(now, &buffer[..length]);
            }
            self.caller.handle_timeout(now);
            if let Some(connection) = self.caller.connection()
                && let Some(payload) = payloads.next()
            {
                connection.send(now, payload).expect("there is room");
            }
            while let Some(packet) = self.caller.poll_transmit(now) {
                self.socket.send(&packet).expect("a route");
            }
            world.run_for(Duration::from_millis(1));
        }
        assert_eq!(payloads.len(), 0, "all is sent");
    }
}

#[test]
fn callers_of_srt_have_sessions_of_their_own_by_stream_id() {
    let bed = Bed::new(9);
    let text = format!("listen = 'srt://{}'\nmax-sessions = 2", bed.address);
    let receiver = Receiver::new_in(&text, &bed.studio.network()).expect("it is complete");
    receiver.start().expect("the address is free");
    let stream = transport_stream(700);
    let mut sessions = Vec::new();
    for name in [Some("front"), None] {
        let mut caller = SrtCaller::new(&bed, name);
        caller.run(&bed.world, 1_000, &stream);
        let session = receiver.accept(Duration::ZERO).expect("it runs");
        sessions.push((caller, session.expect("the camera has come")));
    }
    let mut third = SrtCaller::new(&bed, Some("roof"));
    third.run(&bed.world, 500, &[]);
    assert!(third.caller.connection().is_none(), "there are two places");
    let hosts = [&bed.lines[0], &bed.lines[1]].map(|line| line.address().to_string());
    let peers: Vec<String> = sessions.iter().map(|(_, session)| session.peer()).collect();
    assert_eq!(peers[0], "front");
    assert!(hosts.contains(&peers[1]), "{peers:?}");
    for (mut caller, session) in sessions {
        let now = caller.clock.now();
        caller.caller.finish(now);
        caller.run(&bed.world, 1_000, &[]);
        let (bytes, _) = bed.world.block_on(bytes_of(&session));
        assert!(bytes == stream, "{} of {} bytes", bytes.len(), stream.len());
        assert_eq!(session.statistics().paths.len(), 1);
    }
    let events = present_events(&receiver);
    assert!(
        events
            .iter()
            .any(|event| matches!(event.event, Event::SenderRefused { .. })),
        "{events:?}"
    );
}
