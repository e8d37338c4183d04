//! Datagrams in sessions over loopback, in real time. Waits are generous: the machine may be busy.
//!
//! Needs a clock: a session's threads send over real sockets.

use std::collections::BTreeSet;
use std::time::Duration as StdDuration;

use anabranch_link::{LinkConfig, LossModel};
use anabranch_net::{
    AcceptedDatagrams, Clock, DatagramClient, DatagramOptions, Ended, Event, Events, Receiver,
    Refused, ServerConfig, StreamClient, StreamServer, datagram_transport,
};
use anabranch_secure::{Refusal, SecretKey};
use anabranch_units::{DataRate, Duration, Instant};
use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::bed::{client_config, copy, link, loopback, relay, streams, wait_for};
use crate::punctual::Watch;

fn datagrams() -> anabranch_core::Config {
    datagram_transport(Duration::from_secs(1))
}

/// Sends each datagram back.
async fn echo_all(mut accepted: UnboundedReceiver<AcceptedDatagrams>) {
    while let Some(AcceptedDatagrams { channel, .. }) = accepted.recv().await {
        tokio::spawn(async move {
            while let Some(datagram) = channel.recv().await {
                channel.send(datagram);
            }
        });
    }
}

fn start_echo(keys: [&SecretKey; 2]) -> (StreamServer, Events) {
    let config = ServerConfig {
        transport: streams(),
        ..ServerConfig::new(loopback(0), copy(keys[1]), vec![keys[0].public_key()])
    };
    let started = StreamServer::start_with_datagrams(config, datagrams());
    let (server, _, accepted, events) = started.expect("a port of loopback");
    tokio::spawn(echo_all(accepted));
    (server, events)
}

fn is_connected(event: &Event) -> bool {
    matches!(event, Event::Connected { .. })
}

fn datagram(number: u16) -> Bytes {
    let length = 2 + usize::from(number) * 13 % 3_000;
    let mut bytes = vec![number as u8; length];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

/// Sends numbered datagrams at an even pace and returns the numbers of those that came back
/// unchanged.
async fn ping(client: &DatagramClient, count: u16, interval: StdDuration) -> BTreeSet<u16> {
    let channel = client.channel().clone();
    let send = tokio::spawn(async move {
        for number in 0..count {
            assert!(channel.send(datagram(number)));
            tokio::time::sleep(interval).await;
        }
    });
    let mut back = BTreeSet::new();
    while back.len() < usize::from(count) {
        let next = client.channel().recv();
        let Ok(Some(bytes)) = tokio::time::timeout(StdDuration::from_secs(3), next).await else {
            break;
        };
        let number = u16::from_be_bytes([bytes[0], bytes[1]]);
        assert!(bytes == datagram(number), "{number}");
        assert!(back.insert(number), "{number} came twice");
    }
    send.await.expect("all were sent");
    back
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_of_any_size_come_back_over_a_path_that_loses_and_one_that_dies() {
    let keys = [&SecretKey::generate(), &SecretKey::generate()];
    let (server, _events) = start_echo(keys);
    let clock = Clock::start();
    let steady = LinkConfig {
        rate: Some(DataRate::from_megabits_per_second(20)),
        delay: Duration::from_millis(10),
        ..LinkConfig::default()
    };
    let dies = LinkConfig {
        outages: vec![(Instant::from_secs(2), Duration::from_secs(60))],
        ..steady.clone()
    };
    let loses = LinkConfig {
        loss: LossModel::Bernoulli { probability: 0.01 },
        ..steady
    };
    let target = server.local_addr();
    let links = vec![link("dies", target, dies), link("loses", target, loses)];
    let relay = relay(links, &clock);
    let remotes = [relay.listen_addr(0), relay.listen_addr(1)];
    let config = client_config(keys, &remotes, datagrams());
    let (client, events) = DatagramClient::start(config).expect("loopback");
    wait_for(&events, is_connected);
    let watch = Watch::start();
    let back = ping(&client, 800, StdDuration::from_millis(5)).await;
    let is_right = watch.allows(back.len() >= 792, "datagrams that come back", &[]);
    assert!(is_right, "{} of 800 came back", back.len());
    assert!(clock.now() > Instant::from_secs(3), "it died after the end");
    client.close();
    wait_for(&events, |event| *event == Event::Ended(Ended::Closed));
}

/// Sends datagrams of two groups, and others between them, over a path that loses 5 %.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_of_a_group_arrive_in_order_and_none_is_lost_for_it() {
    let keys = [&SecretKey::generate(), &SecretKey::generate()];
    let config = ServerConfig {
        transport: streams(),
        ..ServerConfig::new(loopback(0), copy(keys[1]), vec![keys[0].public_key()])
    };
    let started = StreamServer::start_with_datagrams(config, datagrams());
    let (server, _, mut accepted, _events) = started.expect("a port of loopback");
    let loses = LinkConfig {
        delay: Duration::from_millis(10),
        loss: LossModel::Bernoulli { probability: 0.05 },
        ..LinkConfig::default()
    };
    let relay = relay(
        vec![link("loses", server.local_addr(), loses)],
        &Clock::start(),
    );
    let config = client_config(keys, &[relay.listen_addr(0)], datagrams());
    let (client, events) = DatagramClient::start(config).expect("loopback");
    wait_for(&events, is_connected);
    let channel = client.channel().clone();
    const COUNT: u16 = 900;
    let watch = Watch::start();
    let send = tokio::spawn(async move {
        for number in 0..COUNT {
            let options = DatagramOptions {
                group: [None, Some(1), Some(2)][usize::from(number % 3)],
                lifetime: None,
            };
            assert!(channel.send_with(datagram(number), options));
            tokio::time::sleep(StdDuration::from_millis(2)).await;
        }
    });
    let AcceptedDatagrams { channel, .. } = accepted.recv().await.expect("a session");
    let mut arrived: [Vec<u16>; 3] = Default::default();
    while arrived.iter().map(Vec::len).sum::<usize>() < usize::from(COUNT) {
        let next = tokio::time::timeout(StdDuration::from_secs(5), channel.recv()).await;
        let Ok(Some(bytes)) = next else { break };
        let number = u16::from_be_bytes([bytes[0], bytes[1]]);
        assert!(bytes == datagram(number), "{number}");
        arrived[usize::from(number % 3)].push(number);
    }
    send.await.expect("all were sent");
    for (group, numbers) in arrived.iter().enumerate() {
        // A busy machine may exceed the deadline of a second.
        let is_right = watch.allows(numbers.len() >= 297, "datagrams of a group", &[]);
        assert!(is_right, "{group}: {} of 300", numbers.len());
    }
    assert!(arrived[1..].iter().all(|numbers| numbers.is_sorted()));
    assert!(!arrived[0].is_sorted(), "these do not wait for lost ones");
}

/// Checks that reports are not answered: a session whose last datagram was a report has not lost
/// its peer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_in_which_nothing_is_said_any_more_lasts_and_ends_with_its_client() {
    let keys = [&SecretKey::generate(), &SecretKey::generate()];
    let (server, server_events) = start_echo(keys);
    let address = server.local_addr();
    let config = client_config(keys, &[address, address], datagrams());
    let (client, events) = DatagramClient::start(config).expect("loopback");
    wait_for(&events, is_connected);
    let watch = Watch::start();
    let count = ping(&client, 100, StdDuration::from_millis(1)).await.len();
    assert!(
        watch.allows(count == 100, "datagrams that come back", &[]),
        "{count}"
    );
    tokio::time::sleep(StdDuration::from_millis(1_800)).await;
    assert_eq!(client.snapshot().past_sessions, 0);
    client.close();
    wait_for(&events, |event| *event == Event::Ended(Ended::Closed));
    let is_over = |event: &Event| *event == Event::Ended(Ended::ClosedByPeer);
    wait_for(&server_events, is_over);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_has_a_session_of_each_kind_and_a_newer_one_replaces_its_own_kind() {
    let keys = [&SecretKey::generate(), &SecretKey::generate()];
    let (server, _events) = start_echo(keys);
    let remotes = [server.local_addr()];
    let (client, events) =
        StreamClient::start(client_config(keys, &remotes, streams())).expect("loopback");
    wait_for(&events, is_connected);
    let mut stream = client.open().expect("it is connected");
    stream.write_all(b"here").await.expect("there is room");
    let start = || {
        let config = client_config(keys, &remotes, datagrams());
        let (client, events) = DatagramClient::start(config).expect("loopback");
        wait_for(&events, is_connected);
        (client, events)
    };
    let (first, first_events) = start();
    assert_eq!(
        ping(&first, 10, StdDuration::from_millis(1)).await.len(),
        10
    );
    assert_eq!(server.snapshots().len(), 2, "both at once");
    let (second, _second_events) = start();
    assert_eq!(
        ping(&second, 10, StdDuration::from_millis(1)).await.len(),
        10
    );
    first.channel().send(datagram(1));
    wait_for(&first_events, |event| {
        *event == Event::Ended(Ended::Replaced)
    });
    assert_eq!(server.snapshots().len(), 2, "the streams go on");
}

#[test]
fn a_receiver_of_frames_takes_no_datagrams_and_says_so() {
    const NOT_CARRIED: Refused = Refused::ByReceiver(Refusal::NotCarried);
    let keys = [&SecretKey::generate(), &SecretKey::generate()];
    let config = ServerConfig::new(loopback(0), copy(keys[1]), vec![keys[0].public_key()]);
    let (receiver, _sessions) = Receiver::start(config).expect("a port of loopback");
    let mut config = client_config(keys, &[receiver.local_addr()], datagrams());
    config.connect_timeout = Duration::from_secs(1);
    let (_client, events) = DatagramClient::start(config).expect("loopback");
    let ended = wait_for(&events, |event| matches!(event, Event::Ended(_)));
    assert!(
        matches!(ended, Event::Ended(Ended::Refused { refused, .. }) if refused == NOT_CARRIED),
        "{ended:?}"
    );
    assert!(receiver.snapshot().edge.refused_handshakes > 0);
}
