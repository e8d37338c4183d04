//! No datagram makes two servers answer each other.
//!
//! Needs a clock: a session's threads send over real sockets.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration as StdDuration;

use anabranch_net::{Receiver, Receptions, ServerConfig};
use anabranch_net::{SessionKind, SessionParameters};
use anabranch_secure::{Initiator, Kind, PublicKey, SecretKey};

/// Longest wait for an answer, on a busy machine.
const PATIENCE: StdDuration = StdDuration::from_secs(20);

fn loopback(last: u8) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, last), 0).into()
}

fn start_server(key: SecretKey, allowed: PublicKey) -> (Receiver, Receptions) {
    let config = ServerConfig::new(loopback(1), key, vec![allowed]);
    Receiver::start(config).expect("a port of loopback")
}

/// Returns a server's answers to these datagrams: those until there are of `kinds` different ones,
/// and those until it is silent for a while.
fn answers_of(server: SocketAddr, datagrams: &[&[u8]], kinds: usize) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind(loopback(2)).unwrap();
    for datagram in datagrams {
        socket.send_to(datagram, server).unwrap();
    }
    let (mut buffer, mut seen) = ([0; 2_000], BTreeSet::new());
    let answers = std::iter::from_fn(|| {
        let patience = match seen.len() < kinds {
            true => PATIENCE,
            false => StdDuration::from_millis(300),
        };
        socket.set_read_timeout(Some(patience)).unwrap();
        let length = socket.recv(&mut buffer).ok()?;
        seen.insert(buffer[0]);
        Some(buffer[..length].to_vec())
    });
    answers.collect()
}

/// Starts two servers, to each of which somebody sends datagrams with the other's address as their
/// source.
#[test]
fn what_a_server_answers_no_server_answers() {
    let keys = [SecretKey::generate(), SecretKey::generate()];
    let (sender, stranger) = (SecretKey::generate(), SecretKey::generate());
    let publics = keys.each_ref().map(SecretKey::public_key);
    let servers = keys.map(|key| start_server(key, sender.public_key()));
    let addresses = servers.each_ref().map(|(server, _)| server.local_addr());
    let parameters = SessionParameters::of(SessionKind::Frames).to_block();
    let allowed = Initiator::new(&sender, &publics[0], 7, parameters);
    let unknown = [&[Kind::Data as u8][..], &[0; 59]].concat();
    // More than are admitted without a cookie.
    let asking = (0..200).map(|index| Initiator::new(&stranger, &publics[0], index, parameters));
    let asking: Vec<Initiator> = asking.collect();
    let mut questions: Vec<&[u8]> = vec![allowed.message(), &unknown];
    questions.extend(asking.iter().map(Initiator::message));
    let answers = answers_of(addresses[0], &questions, 3);
    let kinds: BTreeSet<_> = answers.iter().map(|answer| answer[0]).collect();
    let expected = [Kind::Response, Kind::CookieReply, Kind::Reset].map(|kind| kind as u8);
    assert_eq!(kinds, expected.into());
    let answers: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
    for server in addresses {
        assert!(answers_of(server, &answers, 0).is_empty());
    }
}
