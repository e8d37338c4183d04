//! Tests with applications, proxy, server and targets over loopback.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anabranch_core::PathOptions;
use anabranch_net::{
    AcceptedDatagrams, ClientConfig, ClientPath, DatagramClient, Event, Events, ServerConfig,
    StreamServer, Via, datagram_transport, stream_transport,
};
use anabranch_secure::{PublicKey, SecretKey};
use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::server::{self, Flow, MAX_QUEUED_BYTES, ServerEnd};
use super::{FlowOptions, MAX_FLOWS, Rule, client};
use crate::policy::{Peer, Policy};
use crate::tun::server::Member;

const PATIENCE: Duration = Duration::from_secs(20);
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

struct Ends {
    client: DatagramClient,
    client_key: PublicKey,
    _events: [Events; 2],
    _server: StreamServer,
}

fn start() -> (Ends, UnboundedReceiver<AcceptedDatagrams>) {
    let (ours, theirs) = (SecretKey::generate(), SecretKey::generate());
    let (client_key, remote_key) = (ours.public_key(), theirs.public_key());
    let deadline = anabranch_units::Duration::from_secs(1);
    let config = ServerConfig {
        transport: stream_transport(
            anabranch_controllers::default_controller(),
            anabranch_schedulers::default_scheduler(),
        ),
        ..ServerConfig::new((LOOPBACK, 0).into(), theirs, vec![client_key])
    };
    let started = StreamServer::start_with_datagrams(config, datagram_transport(deadline));
    let (server, _, accepted, server_events) = started.unwrap();
    let path = ClientPath {
        via: Via::Address(LOOPBACK),
        remote: server.local_addr().into(),
        options: PathOptions::default(),
    };
    let config = ClientConfig {
        transport: datagram_transport(deadline),
        ..ClientConfig::new(ours, remote_key, vec![path])
    };
    let (client, events) = DatagramClient::start(config).unwrap();
    while !matches!(events.recv_timeout(PATIENCE), Ok(Event::Connected { .. })) {}
    let ends = Ends {
        client,
        client_key,
        _events: [events, server_events],
        _server: server,
    };
    (ends, accepted)
}

/// Starts a target that answers each datagram with its source and its bytes.
async fn target() -> SocketAddr {
    let socket = UdpSocket::bind((LOOPBACK, 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            let mut answer = from.port().to_be_bytes().to_vec();
            answer.extend_from_slice(&buffer[..length]);
            socket.send_to(&answer, from).await.unwrap();
        }
    });
    address
}

/// Returns a policy with rules of `--connect`.
fn policy(rules: &[&str], peer: PublicKey) -> Arc<Policy> {
    let allowed = [Peer {
        key: peer,
        name: "peer".to_owned(),
        connect: None,
    }];
    let connect = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    Arc::new(Policy::new(None, connect, &allowed, Arc::default()))
}

async fn application(proxy: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((LOOPBACK, 0)).await.unwrap();
    socket.connect(proxy).await.unwrap();
    socket
}

/// Sends a datagram, and returns the port from which it reached the target.
async fn ask(application: &UdpSocket, bytes: &[u8]) -> Option<u16> {
    application.send(bytes).await.unwrap();
    let mut buffer = vec![0; 1 << 16];
    let answer = tokio::time::timeout(Duration::from_secs(2), application.recv(&mut buffer));
    let length = answer.await.ok()?.ok()?;
    assert_eq!(&buffer[2..length], bytes);
    Some(u16::from_be_bytes([buffer[0], buffer[1]]))
}

#[tokio::test]
async fn each_flow_has_a_socket_of_its_own_and_answers_go_back_to_it() {
    let (ends, accepted) = start();
    let (target, forbidden) = (target().await, target().await);
    // A rule for a port does not reach this machine.
    let any = format!("*:{}", forbidden.port());
    let policy = policy(&[&target.to_string(), &any], ends.client_key);
    tokio::spawn(server::serve_all(accepted, policy, None));
    let rule = |to: SocketAddr, options| format!("0={to}{options}").parse::<Rule>().unwrap();
    let rules = [rule(target, ",unordered"), rule(forbidden, "")];
    let ports = client::Ports::open(&rules).await.unwrap();
    let proxies: Vec<_> = ports
        .0
        .iter()
        .map(|port| port.socket.local_addr().unwrap())
        .collect();
    tokio::spawn(client::run(ports, None, ends.client.channel().clone()));
    let (first, second) = (application(proxies[0]).await, application(proxies[0]).await);
    let mut from = [None; 2];
    for round in 0..20_usize {
        for (index, application) in [&first, &second].into_iter().enumerate() {
            let bytes = vec![index as u8; round * 150];
            let port = ask(application, &bytes).await;
            assert!(port.is_some(), "{round}");
            assert_eq!(*from[index].get_or_insert(port), port, "it is one flow");
        }
    }
    assert_ne!(from[0], from[1]);
    let refused = application(proxies[1]).await;
    assert_eq!(
        ask(&refused, b"x").await,
        None,
        "the server does not lead there"
    );
}

#[tokio::test]
async fn a_flood_of_flows_is_bounded() {
    let (ends, mut accepted) = start();
    let target = target().await.to_string();
    let AcceptedDatagrams { peer, channel } = accepted.recv().await.unwrap();
    let mut server = ServerEnd {
        tun: Member::new(None, peer, channel.clone()),
        channel,
        peer,
        policy: policy(&["127.0.0.0/8:*"], peer),
        flows: BTreeMap::new(),
        room: Arc::new(Semaphore::new(MAX_QUEUED_BYTES)),
        began_at: Instant::now(),
    };
    // No task runs meanwhile, as if all targets' names were being resolved.
    let long = Bytes::from(vec![7; 60_000]);
    for number in 0..1_000 {
        server.open(number, &target, FlowOptions::default(), long.clone());
    }
    let queued = |flow: &Flow| flow.queue.max_capacity() - flow.queue.capacity();
    let queued: usize = server.flows.values().map(queued).sum();
    let max = MAX_QUEUED_BYTES / long.len();
    assert_eq!(queued, max, "datagrams in queues");
    for number in 0..3_000 {
        server.open(
            number,
            &target,
            FlowOptions::default(),
            Bytes::from_static(b"x"),
        );
        // The first flow is the one in use.
        tokio::time::sleep(Duration::from_micros(10)).await;
        server.flows[&0].used.set();
    }
    assert_eq!(server.flows.len(), MAX_FLOWS);
    assert!(server.flows.contains_key(&0));
    drop(ends);
}
