//! Set-ups that are refused before anything runs.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use anabranch_net::{ClientConfig, ClientPath, Receiver, Sender, ServerConfig, StartError, Via};
use anabranch_secure::SecretKey;

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn path(remote: SocketAddr) -> ClientPath {
    ClientPath::new(Via::Address(Ipv4Addr::LOCALHOST.into()), remote.into())
}

/// Returns the mistake in the set-up of a sender.
fn start(paths: Vec<ClientPath>) -> StartError {
    let [key, peer] = [(); 2].map(|()| SecretKey::generate());
    let config = ClientConfig::new(key, peer.public_key(), paths);
    Sender::start(config).map(|_| ()).expect_err("a mistake")
}

#[test]
fn mistakes_are_reported_before_anything_runs() {
    let remote = loopback(9);
    assert!(matches!(start(Vec::new()), StartError::NoPath));
    assert!(matches!(
        start(vec![path(remote); 33]),
        StartError::TooManyPaths { count: 33 }
    ));
    let taken = UdpSocket::bind(loopback(0)).expect("a port of loopback");
    let address = taken.local_addr().expect("it has one");
    let config = ServerConfig::new(address, SecretKey::generate(), Vec::new());
    assert!(matches!(
        Receiver::start(config),
        Err(StartError::Listen { .. })
    ));
}
