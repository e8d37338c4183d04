//! Names and numbers of paths where UDP is blocked and TCP is not.

use super::*;
use crate::carrier::Carrier;
use crate::streams::StreamServer;

/// A host that is reached by TCP only: its UDP port does not answer.
struct Host {
    receiver: Receiver,
    _sessions: Receptions,
    _silent: UdpSocket,
    /// Address of the name.
    address: SocketAddr,
    tcp: SocketAddr,
}

impl Host {
    fn start(keys: &Keys, last: u8, tcp_port: u16) -> Host {
        let mut tcp = loopback(last);
        tcp.set_port(tcp_port);
        let allowed = vec![keys.sender.public_key()];
        let mut config = ServerConfig::new(loopback(last), copy(&keys.receiver), allowed);
        config.listen_tcp = Some(tcp);
        let (receiver, sessions) = Receiver::start(config).expect("ports of loopback");
        let silent = UdpSocket::bind(loopback(last)).expect("a port of loopback");
        Host {
            tcp: receiver.local_tcp_addr().expect("it listens"),
            address: silent.local_addr().expect("it has one"),
            receiver,
            _sessions: sessions,
            _silent: silent,
        }
    }
}

impl Client {
    /// Waits until `count` paths report TCP as their carrier. Returns their numbers.
    fn wait_by_tcp(&self, count: usize) -> Vec<usize> {
        let mut paths = Vec::new();
        while paths.len() < count {
            paths.push(self.wait_for(|event| match event {
                Event::PathCarrier {
                    path,
                    carrier: Carrier::Tcp,
                } => Some(path.index()),
                _ => None,
            }));
        }
        paths.sort_unstable();
        paths
    }
}

fn is_by_tcp(seen: &Snapshot) -> bool {
    seen.paths.iter().all(|path| path.carrier == Carrier::Tcp)
}

#[test]
fn tcp_reaches_the_address_of_a_name_that_answers_and_paths_stay_there() {
    let keys = Keys::new();
    let host = Host::start(&keys, 3, 0);
    let (_silent, nowhere) = nobody();
    let answers = vec![Ok(vec![nowhere, host.address])];
    let tcp = TcpFallback::Port(host.tcp.port());
    let client = Client::start_with(&keys, &["127.0.0.1", "127.0.0.2"], answers, tcp);
    client.wait_connected();
    client.wait_for(|event| (event == Event::UdpBlocked { remote: host.tcp }).then_some(()));
    assert_eq!(client.wait_by_tcp(2), [0, 1]);
    client.wait_until(|seen| {
        client.send_frame();
        leads_to(seen, host.address) && is_by_tcp(seen)
    });
    assert!(is_by_tcp(&host.receiver.snapshot()));
}

#[test]
fn a_name_that_moves_is_followed_by_tcp() {
    let keys = Keys::new();
    let first = Host::start(&keys, 1, 0);
    let second = Host::start(&keys, 3, first.tcp.port());
    let answers = vec![Ok(vec![first.address])];
    let tcp = TcpFallback::Port(first.tcp.port());
    let client = Client::start_with(&keys, &["127.0.0.1", "127.0.0.2"], answers, tcp);
    client.wait_connected();
    client.wait_by_tcp(2);
    let moved_to = second.address;
    *client.script.0.lock().unwrap() = vec![Ok(vec![moved_to])];
    drop(first);
    client.send_frame();
    client.wait_for(|event| matches!(event, Event::Reconnected { .. }).then_some(()));
    client.wait_until(|seen| {
        client.send_frame();
        leads_to(seen, moved_to) && is_by_tcp(seen)
    });
    assert!(is_by_tcp(&second.receiver.snapshot()));
}

#[test]
fn a_path_that_takes_a_number_where_udp_is_blocked_goes_by_tcp_too() {
    let keys = Keys::new();
    let host = Host::start(&keys, 1, 0);
    let tcp = TcpFallback::Port(host.tcp.port());
    let vias = ["127.0.0.1", "127.0.0.2"];
    let client = Client::start_with(&keys, &vias, vec![Ok(vec![host.address])], tcp);
    client.wait_connected();
    assert_eq!(client.wait_by_tcp(2), [0, 1]);
    for turn in 1..=3 {
        let old = client.replace_second_path(turn, host.address);
        assert_eq!(old.carrier, Carrier::Tcp);
        assert_eq!(client.wait_by_tcp(1), [1], "the new one says so, too");
        client.wait_until(|seen| {
            client.send_frame();
            let path = &seen.paths[1];
            let is_there = path.succession == turn && path.view.state == PathState::Active;
            is_there && path.carrier == Carrier::Tcp
        });
    }
    client.wait_until(|_| {
        client.send_frame();
        let from = host.receiver.snapshot().paths[1].peer;
        from.map(|from| from.ip()) == Some([127, 0, 1, 3].into())
    });
}

#[test]
fn a_receiver_that_refuses_by_udp_is_not_asked_by_tcp() {
    let keys = Keys::new();
    let allowed = vec![keys.sender.public_key()];
    let mut config = ServerConfig::new(loopback(1), copy(&keys.receiver), allowed);
    config.listen_tcp = Some(loopback(1));
    // It carries streams, and the client's session is one of frames.
    let (server, ..) = StreamServer::start(config).expect("ports of loopback");
    let tcp = TcpFallback::Port(server.local_tcp_addr().expect("it listens").port());
    let answers = vec![Ok(vec![server.local_addr()])];
    let client = Client::start_with(&keys, &["127.0.0.1"], answers, tcp);
    client.wait_for(|event| matches!(event, Event::Refused(_)).then_some(()));
    wait(StdDuration::from_secs(5));
    let events: Vec<_> = std::iter::from_fn(|| client.events.try_recv().ok()).collect();
    assert_eq!(events, [], "UDP answers, if not with a session");
}

#[test]
fn an_answer_by_tcp_is_the_hosts_whatever_its_port() {
    let address: SocketAddr = "192.0.2.1:7000".parse().expect("an address");
    let path = ClientPath {
        via: Via::DefaultRoute,
        remote: address.into(),
        options: PathOptions::default(),
    };
    let (waker, _wakeup) = crate::waker::pair().expect("a pipe");
    let resolver = Arc::new(Scripted::new(vec![Ok(Vec::new())]));
    let paths = PathManager::new(vec![path], Network::default(), resolver, Arc::new(waker));
    for (from, carrier, known) in [
        ("192.0.2.1:443", Carrier::Tcp, Some(address)),
        ("192.0.2.1:443", Carrier::Udp, None),
        ("192.0.2.1:7000", Carrier::Udp, Some(address)),
        ("192.0.2.2:7000", Carrier::Tcp, None),
    ] {
        let arrival = Arrival {
            socket: 0,
            from: from.parse().expect("an address"),
            to: None,
            received_at: Instant::ZERO,
            ecn: anabranch_units::Ecn::NotEct,
            carrier,
        };
        assert_eq!(paths.address_of(&arrival), known, "{from} {carrier}");
    }
}
