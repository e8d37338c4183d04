//! Sessions of datagrams.

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_net::testing::Line;
use anabranch_net::{
    AcceptedDatagrams, ClientBuilder, DatagramClient, DatagramOptions, Ended, Event, Events,
    Receiver, Refused, StreamClient, StreamServer, datagram_transport,
};
use anabranch_secure::Refusal;
use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::UnboundedReceiver;

use super::bed::{Bed, drain, line, millis};
use super::streams::all;

/// Time after which a datagram is worthless.
const DEADLINE: Duration = Duration::from_secs(1);

/// Sends each datagram back.
async fn echo(mut accepted: UnboundedReceiver<AcceptedDatagrams>) {
    let mut echoes = Vec::new();
    loop {
        tokio::select! {
            next = accepted.recv() => match next {
                Some(accepted) => echoes.push(Box::pin(echo_one(accepted))),
                None => return,
            },
            () = all(&mut echoes), if !echoes.is_empty() => echoes.clear(),
        }
    }
}

async fn echo_one(AcceptedDatagrams { channel, .. }: AcceptedDatagrams) {
    while let Some(datagram) = channel.recv().await {
        channel.send(datagram);
    }
}

fn server(bed: &Bed) -> (StreamServer, UnboundedReceiver<AcceptedDatagrams>, Events) {
    let server = StreamServer::builder()
        .key(bed.world.key("studio"))
        .allow(bed.world.key("camera").public_key())
        .network(bed.studio.network())
        .listen(bed.address())
        .start_with_datagrams(DEADLINE);
    let (server, _streams, accepted, events) = server.expect("the address is free");
    (server, accepted, events)
}

fn client(bed: &Bed) -> ClientBuilder<DatagramClient> {
    let mut client = DatagramClient::builder()
        .key(bed.world.key("camera"))
        .peer(bed.world.key("studio").public_key())
        .network(bed.camera.network())
        .to(bed.address())
        .configure(|config| config.transport = datagram_transport(DEADLINE.into()));
    for index in 0..bed.lines.len() {
        client = client.via(format!("line{index}").as_str());
    }
    client
}

fn datagram(number: u16) -> Bytes {
    let length = 2 + usize::from(number) * 13 % 3_000;
    let mut bytes = vec![number as u8; length];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

/// Checks a datagram. Returns its number.
fn number_of(bytes: &Bytes) -> u16 {
    let number = u16::from_be_bytes([bytes[0], bytes[1]]);
    assert!(*bytes == datagram(number), "{number}");
    number
}

/// Sends numbered datagrams at an even pace. Returns the numbers of those that came back unchanged.
async fn ping(bed: &Bed, client: &DatagramClient, count: u16, interval: Duration) -> BTreeSet<u16> {
    let channel = client.channel();
    let mut back = BTreeSet::new();
    let sending = async {
        for number in 0..count {
            assert!(channel.send(datagram(number)));
            bed.world.sleep(interval).await;
        }
        bed.world.sleep(millis(2_000)).await;
    };
    let receiving = async {
        while let Some(bytes) = channel.recv().await {
            let number = number_of(&bytes);
            assert!(back.insert(number), "{number} came twice");
        }
    };
    tokio::select! {
        () = sending => {}
        () = receiving => panic!("the session is over"),
    }
    back
}

/// Runs a task beside an echo.
fn run<T>(
    bed: &Bed,
    accepted: UnboundedReceiver<AcceptedDatagrams>,
    task: impl Future<Output = T>,
) -> T {
    bed.world.block_on(async {
        tokio::select! {
            value = task => value,
            () = echo(accepted) => panic!("the server is over"),
        }
    })
}

fn has(events: &Events, wanted: &Event) -> bool {
    drain(events).contains(wanted)
}

fn lossy(probability: f64) -> Line {
    line(20, 10).with_loss(probability)
}

#[test]
fn datagrams_of_any_size_come_back_over_a_path_that_loses_and_one_that_dies() {
    let bed = Bed::new(1, &[line(20, 10), lossy(0.01)]);
    let (_server, accepted, _events) = server(&bed);
    let (back, events) = run(&bed, accepted, async {
        let (client, events) = client(&bed).connect_async().await.expect("an answer");
        let dying = async {
            bed.world.sleep(millis(1_000)).await;
            bed.lines[0].block_udp(true);
        };
        let (back, ()) = tokio::join!(ping(&bed, &client, 800, millis(5)), dying);
        client.close();
        bed.world.sleep(millis(1_000)).await;
        (back, events)
    });
    assert!(back.len() >= 792, "{} of 800 came back", back.len());
    assert!(has(&events, &Event::Ended(Ended::Closed)));
}

/// Sends datagrams of two groups, and others between them, over a path that loses 5 %.
#[test]
fn datagrams_of_a_group_arrive_in_order_and_none_is_lost_for_it() {
    const COUNT: u16 = 900;
    let bed = Bed::new(2, &[lossy(0.05)]);
    let (_server, mut accepted, _events) = server(&bed);
    let mut arrived: [Vec<u16>; 3] = Default::default();
    bed.world.block_on(async {
        let (client, _events) = client(&bed).connect_async().await.expect("an answer");
        let sending = async {
            for number in 0..COUNT {
                let options = DatagramOptions {
                    group: [None, Some(1), Some(2)][usize::from(number % 3)],
                    lifetime: None,
                };
                assert!(client.channel().send_with(datagram(number), options));
                bed.world.sleep(millis(2)).await;
            }
            bed.world.sleep(millis(2_000)).await;
        };
        let receiving = async {
            let AcceptedDatagrams { channel, .. } = accepted.recv().await.expect("a session");
            while let Some(bytes) = channel.recv().await {
                let number = number_of(&bytes);
                arrived[usize::from(number % 3)].push(number);
            }
        };
        tokio::select! {
            () = sending => {}
            () = receiving => panic!("the session is over"),
        }
    });
    for (group, numbers) in arrived.iter().enumerate() {
        assert!(numbers.len() >= 297, "{group}: {} of 300", numbers.len());
    }
    assert!(arrived[1..].iter().all(|numbers| numbers.is_sorted()));
    assert!(!arrived[0].is_sorted(), "these do not wait for lost ones");
}

/// Checks that reports are not answered: a session whose last datagram was a report has not lost
/// its peer.
#[test]
fn a_session_in_which_nothing_is_said_any_more_lasts_and_ends_with_its_client() {
    let bed = Bed::new(3, &[line(20, 10), line(20, 15)]);
    let (_server, accepted, server_events) = server(&bed);
    let (count, past_sessions, events) = run(&bed, accepted, async {
        let (client, events) = client(&bed).connect_async().await.expect("an answer");
        let count = ping(&bed, &client, 100, millis(1)).await.len();
        bed.world.sleep(millis(20_000)).await;
        let past_sessions = client.snapshot().past_sessions;
        client.close();
        bed.world.sleep(millis(1_000)).await;
        (count, past_sessions, events)
    });
    assert_eq!((count, past_sessions), (100, 0));
    assert!(has(&events, &Event::Ended(Ended::Closed)));
    assert!(has(&server_events, &Event::Ended(Ended::ClosedByPeer)));
}

#[test]
fn one_key_has_a_session_of_each_kind_and_a_newer_one_replaces_its_own_kind() {
    let bed = Bed::new(4, &[line(20, 10)]);
    let (server, accepted, _events) = server(&bed);
    let first_events = run(&bed, accepted, async {
        let streams = StreamClient::builder()
            .key(bed.world.key("camera"))
            .peer(bed.world.key("studio").public_key())
            .network(bed.camera.network())
            .to(bed.address());
        let (streams, _events) = streams.connect_async().await.expect("an answer");
        let mut stream = streams.open().expect("it is connected");
        stream.write_all(b"here").await.expect("there is room");
        let (first, first_events) = client(&bed).connect_async().await.expect("an answer");
        assert_eq!(ping(&bed, &first, 10, millis(1)).await.len(), 10);
        assert_eq!(server.snapshots().len(), 2, "both at once");
        let (second, _second_events) = client(&bed).connect_async().await.expect("an answer");
        assert_eq!(ping(&bed, &second, 10, millis(1)).await.len(), 10);
        first.channel().send(datagram(1));
        bed.world.sleep(millis(1_000)).await;
        assert_eq!(server.snapshots().len(), 2, "the streams go on");
        first_events
    });
    assert!(has(&first_events, &Event::Ended(Ended::Replaced)));
}

#[test]
fn a_receiver_of_frames_takes_no_datagrams_and_says_so() {
    let bed = Bed::new(5, &[line(20, 10)]);
    let (receiver, _sessions): (Receiver, _) = bed.receiver();
    let client = client(&bed).connect_timeout(DEADLINE);
    let (_client, events) = client.start().expect("the set-up works");
    bed.world.run_for(millis(3_000));
    let not_carried = Refused::ByReceiver(Refusal::NotCarried);
    let seen = drain(&events);
    assert!(
        seen.iter().any(|event| match event {
            Event::Ended(Ended::Refused { refused, .. }) => *refused == not_carried,
            _ => false,
        }),
        "{seen:?}"
    );
    assert!(receiver.snapshot().edge.refused_handshakes > 0);
}
