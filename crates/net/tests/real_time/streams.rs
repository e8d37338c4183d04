//! Streams in sessions over loopback, in real time. Waits are generous: the machine may be busy.
//!
//! Needs a clock: a session's threads send over real sockets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration as StdDuration;

use anabranch_link::{LinkConfig, LossModel};
use anabranch_net::{
    Accepted, ByteStream, Clock, Ended, Event, Events, OpenError, PathSnapshot, Refused,
    ServerConfig, StreamClient, StreamServer,
};
use anabranch_secure::{Refusal, SecretKey};
use anabranch_units::{DataRate, Duration, Instant, Seed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::bed::{PATIENCE, client_config, copy, link, loopback, relay, streams, wait_for};

/// A server that sends all data back, and ends where the client ends.
struct Echo {
    key: SecretKey,
    server: StreamServer,
    events: Events,
}

async fn echo_all(mut accepted: UnboundedReceiver<Accepted>) {
    while let Some(Accepted { mut stream, .. }) = accepted.recv().await {
        tokio::spawn(async move {
            let mut buffer = vec![0; 32 << 10];
            while let Ok(count) = stream.read(&mut buffer).await {
                if count == 0 {
                    let _ = stream.shutdown().await;
                    return;
                }
                if stream.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        });
    }
}

impl Echo {
    fn start(key: SecretKey, client: &SecretKey, listen: SocketAddr) -> Echo {
        let config = ServerConfig {
            transport: streams(),
            ..ServerConfig::new(listen, copy(&key), vec![client.public_key()])
        };
        let (server, accepted, events) = StreamServer::start(config).expect("a port of loopback");
        tokio::spawn(echo_all(accepted));
        Echo {
            key,
            server,
            events,
        }
    }

    fn client(&self, key: &SecretKey, remotes: &[SocketAddr]) -> (StreamClient, Events) {
        let config = client_config([key, &self.key], remotes, streams());
        StreamClient::start(config).expect("loopback")
    }
}

fn is_connected(event: &Event) -> bool {
    matches!(event, Event::Connected { .. } | Event::Reconnected { .. })
}

fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Seed(seed).rng();
    let mut bytes = vec![0; length];
    for chunk in bytes.chunks_mut(8) {
        let random = rng.next_u64().to_le_bytes();
        chunk.copy_from_slice(&random[..chunk.len()]);
    }
    bytes
}

/// Sends bytes, ends the writing half, and reads the answer to its end.
async fn there_and_back(mut stream: ByteStream, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut back = Vec::new();
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    let write = async {
        writer.write_all(bytes).await?;
        writer.shutdown().await
    };
    let (written, read) = tokio::join!(write, reader.read_to_end(&mut back));
    written.and(read)?;
    Ok(back)
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.expect("it is done in time")
}

fn lossy(delay: u64) -> LinkConfig {
    LinkConfig {
        rate: Some(DataRate::from_megabits_per_second(40)),
        delay: Duration::from_millis(delay),
        loss: LossModel::Bernoulli { probability: 0.01 },
        ..LinkConfig::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_streams_at_once_come_back_byte_by_byte_over_paths_that_lose() {
    let key = SecretKey::generate();
    let echo = Echo::start(SecretKey::generate(), &key, loopback(0));
    let target = echo.server.local_addr();
    let links = vec![
        link("near", target, lossy(2)),
        link("far", target, lossy(20)),
    ];
    let relay = relay(links, &Clock::start());
    let remotes = [relay.listen_addr(0), relay.listen_addr(1)];
    let (client, events) = echo.client(&key, &remotes);
    wait_for(&events, is_connected);
    // A path whose first question is lost is asked again a second later, when the test may be over.
    in_time(async {
        let is_known = |path: &PathSnapshot| path.view.rtt.least.is_some();
        while !client.snapshot().paths.iter().all(is_known) {
            tokio::time::sleep(StdDuration::from_millis(10)).await;
        }
    })
    .await;
    let streams = (0..100).map(|number| {
        let stream = client.open().expect("it is connected");
        tokio::spawn(async move {
            let bytes = pattern(number, 1 + number as usize * 997);
            let back = there_and_back(stream, &bytes).await.expect("an echo");
            assert!(back == bytes, "stream {number}");
        })
    });
    let streams: Vec<_> = streams.collect();
    for stream in streams {
        in_time(stream).await.expect("it came back");
    }
    let snapshot = client.snapshot();
    for path in &snapshot.paths {
        assert!(path.counters.acked_packets > 100, "{path:?}");
    }
    client.close();
    wait_for(&events, |event| *event == Event::Ended(Ended::Closed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_does_not_notice_that_a_path_dies() {
    let key = SecretKey::generate();
    let echo = Echo::start(SecretKey::generate(), &key, loopback(0));
    let target = echo.server.local_addr();
    let clock = Clock::start();
    let steady = LinkConfig {
        rate: Some(DataRate::from_megabits_per_second(8)),
        delay: Duration::from_millis(10),
        ..LinkConfig::default()
    };
    let dies = LinkConfig {
        outages: vec![(Instant::from_secs(1), Duration::from_secs(60))],
        ..steady.clone()
    };
    let relay = relay(
        vec![link("dies", target, dies), link("lives", target, steady)],
        &clock,
    );
    let remotes = [relay.listen_addr(0), relay.listen_addr(1)];
    let (client, events) = echo.client(&key, &remotes);
    wait_for(&events, is_connected);
    let bytes = pattern(7, 4_000_000);
    let stream = client.open().expect("it is connected");
    let back = in_time(there_and_back(stream, &bytes))
        .await
        .expect("an echo");
    assert!(back == bytes);
    assert!(
        clock.now() > Instant::from_millis(1_500),
        "it died after the end"
    );
}

/// Gives one path a smaller MTU than the other, whose MTU then falls silently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_grow_to_what_paths_carry_and_every_byte_outlives_an_mtu_that_falls() {
    let key = SecretKey::generate();
    let echo = Echo::start(SecretKey::generate(), &key, loopback(0));
    let target = echo.server.local_addr();
    let clock = Clock::start();
    let narrow = LinkConfig {
        rate: Some(DataRate::from_megabits_per_second(8)),
        delay: Duration::from_millis(10),
        mtu: Some(1_492),
        ..LinkConfig::default()
    };
    let falls = LinkConfig {
        mtu: None,
        mtu_schedule: vec![(Instant::from_secs(10), 1_400)],
        ..narrow.clone()
    };
    let links = vec![link("falls", target, falls), link("narrow", target, narrow)];
    let relay = relay(links, &clock);
    let remotes = [relay.listen_addr(0), relay.listen_addr(1)];
    let (client, events) = echo.client(&key, &remotes);
    wait_for(&events, is_connected);
    let mtus = || {
        let views = client.snapshot().paths;
        views.iter().map(|path| path.view.mtu).collect::<Vec<_>>()
    };
    while mtus() != [Some(1_500), Some(1_492)] {
        assert!(clock.now() < Instant::from_secs(10), "{:?}", mtus());
        tokio::time::sleep(StdDuration::from_millis(20)).await;
    }
    // Only the loss of packets reveals an MTU that falls.
    let bytes = pattern(7, 4_000_000);
    while mtus() != [Some(1_400), Some(1_492)] {
        assert!(clock.now() < Instant::from_secs(60), "{:?}", mtus());
        let stream = client.open().expect("it is connected");
        let back = in_time(there_and_back(stream, &bytes)).await;
        assert!(back.expect("an echo") == bytes);
    }
    assert!(
        clock.now() > Instant::from_secs(10),
        "the MTU had not fallen yet"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_started_again_ends_streams_and_takes_new_ones() {
    let key = SecretKey::generate();
    let server_key = SecretKey::generate();
    let echo = Echo::start(copy(&server_key), &key, loopback(0));
    let address = echo.server.local_addr();
    let (client, events) = echo.client(&key, &[address, address]);
    let (nobodys, _events) = echo.client(&key, &[loopback(9)]);
    assert_eq!(nobodys.open().unwrap_err(), OpenError::NotConnected);
    wait_for(&events, is_connected);
    let mut stream = client.open().expect("it is connected");
    stream.write_all(b"before").await.expect("there is room");
    let mut back = [0; 6];
    in_time(stream.read_exact(&mut back))
        .await
        .expect("an echo");
    drop(echo);
    let echo = Echo::start(server_key, &key, address);
    let broken = in_time(stream.read(&mut back))
        .await
        .expect_err("its session is over");
    assert_eq!(broken.kind(), io::ErrorKind::ConnectionAborted);
    wait_for(&events, is_connected);
    let bytes = pattern(9, 100_000);
    let stream = client.open().expect("it is connected again");
    let back = in_time(there_and_back(stream, &bytes))
        .await
        .expect("an echo");
    assert!(back == bytes);
    wait_for(&echo.events, is_connected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_clients_have_sessions_at_once() {
    let keys = [(); 3].map(|()| SecretKey::generate());
    let server_key = SecretKey::generate();
    let config = ServerConfig {
        transport: streams(),
        max_sessions: 2,
        ..ServerConfig::new(
            loopback(0),
            copy(&server_key),
            keys.iter().map(SecretKey::public_key).collect(),
        )
    };
    let (server, accepted, _events) = StreamServer::start(config).expect("a port of loopback");
    tokio::spawn(echo_all(accepted));
    let address = server.local_addr();
    let echo = Echo::start(server_key, &keys[0], loopback(0));
    let clients = [0, 1].map(|index| echo.client(&keys[index], &[address]));
    for (index, (client, events)) in clients.iter().enumerate() {
        wait_for(events, is_connected);
        let stream = client.open().expect("it is connected");
        let bytes = pattern(index as u64, 10_000);
        let back = in_time(there_and_back(stream, &bytes))
            .await
            .expect("an echo");
        assert!(back == bytes);
    }
    assert_eq!(server.snapshots().len(), 2);
    let (_third, events) = echo.client(&keys[2], &[address]);
    // The receiver reports it, and gives it no place later either.
    let no_place = Event::Refused(Refused::ByReceiver(Refusal::NoPlace));
    assert_eq!(events.recv_timeout(PATIENCE), Ok(no_place));
    let later = events.recv_timeout(StdDuration::from_secs(2));
    assert!(later.is_err(), "there is no room: {later:?}");
}
