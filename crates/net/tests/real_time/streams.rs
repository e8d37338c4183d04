//! Streams in sessions over loopback, in real time. Waits are generous: the machine may be busy.
//!
//! Needs a clock: a session's threads send over real sockets.

use std::net::SocketAddr;
use std::time::Duration as StdDuration;

use anabranch_net::{Accepted, Event, Events, Refused, ServerConfig, StreamClient, StreamServer};
use anabranch_secure::{Refusal, SecretKey};
use anabranch_units::Seed;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::bed::{PATIENCE, client_config, copy, loopback, streams, there_and_back, wait_for};

/// A server that sends all data back, and ends where the client ends.
struct Echo {
    key: SecretKey,
    /// Kept until the test is over.
    _server: StreamServer,
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
        let (server, accepted, _events) = StreamServer::start(config).expect("a port of loopback");
        tokio::spawn(echo_all(accepted));
        Echo {
            key,
            _server: server,
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

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.expect("it is done in time")
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
