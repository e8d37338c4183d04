//! Sessions of streams between ends at loopback.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration as StdDuration;

use anabranch_core::{Config, PathOptions};
use anabranch_net::{ByteStream, ClientConfig, ClientPath, Event, Events, Via, stream_transport};
use anabranch_secure::SecretKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Limit for any wait: the machine may be busy.
pub const PATIENCE: StdDuration = StdDuration::from_secs(20);

pub fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Returns the set-up of sessions of streams.
#[allow(dead_code, reason = "one of the tests carries frames")]
pub fn streams() -> Config {
    let controller = anabranch_controllers::by_name("cubic").expect("it is one");
    stream_transport(controller, anabranch_schedulers::default_scheduler())
}

pub fn copy(key: &SecretKey) -> SecretKey {
    SecretKey::from_text(&key.to_text()).expect("it is a key")
}

/// Returns the set-up of a client of the first key, with a path to each address of the second key's
/// server.
pub fn client_config(
    keys: [&SecretKey; 2],
    remotes: &[SocketAddr],
    transport: Config,
) -> ClientConfig {
    let path = |remote: &SocketAddr| ClientPath {
        via: Via::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        remote: (*remote).into(),
        options: PathOptions::default(),
    };
    let paths = remotes.iter().map(path).collect();
    ClientConfig {
        transport,
        ..ClientConfig::new(copy(keys[0]), keys[1].public_key(), paths)
    }
}

/// Waits for an event and skips others.
pub fn wait_for(events: &Events, mut is_it: impl FnMut(&Event) -> bool) -> Event {
    loop {
        let event = events.recv_timeout(PATIENCE).expect("an event in time");
        if is_it(&event) {
            return event;
        }
    }
}

/// Sends bytes, ends the writing half, and reads the answer to its end.
pub async fn there_and_back(mut stream: ByteStream, bytes: &[u8]) -> io::Result<Vec<u8>> {
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
