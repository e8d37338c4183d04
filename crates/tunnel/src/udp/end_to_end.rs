//! Tests with applications, proxy, server and targets, in worlds.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_net::AcceptedDatagrams;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::client::{self, OpenPort, Ports};
use super::server::{self, Flow, MAX_QUEUED_BYTES, ServerEnd};
use super::{FlowOptions, IDLE_AFTER, MAX_FLOWS, Rule};
use crate::connection::Dialer;
use crate::tun::server::Member;
use crate::world::datagrams::{Datagrams, MemorySocket};
use crate::world::{Bed, line, run};

/// Addresses beside the proxy.
const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

/// An address of a target (RFC 5737).
fn address(port: u16) -> SocketAddr {
    ([203, 0, 113, 5], port).into()
}

/// Starts a target that answers each datagram with its source and its bytes.
fn start_target(bed: &Bed, at: SocketAddr) {
    let socket = bed.targets.datagrams.bind(at);
    tokio::spawn(async move {
        loop {
            let (bytes, from) = socket.recv().await;
            let port = from.port().to_be_bytes();
            socket.send_to(&[&port, &bytes[..]].concat(), from);
        }
    });
}

/// An application beside the proxy.
struct Application {
    socket: MemorySocket,
    proxy: SocketAddr,
}

impl Application {
    /// Returns an application that sends to a port of the proxy.
    fn new(local: &Datagrams, port: u16) -> Self {
        Application {
            socket: local.bind((LOOPBACK, 0).into()),
            proxy: (LOOPBACK, port).into(),
        }
    }

    /// Sends a datagram, and returns the port from which it reached the target.
    async fn ask(&self, bytes: &[u8]) -> Option<u16> {
        self.socket.send_to(bytes, self.proxy);
        let (answer, from) = timeout(Duration::from_secs(2), self.socket.recv())
            .await
            .ok()?;
        assert_eq!((&answer[2..], from), (bytes, self.proxy));
        Some(u16::from_be_bytes([answer[0], answer[1]]))
    }
}

/// Returns a bed over a line that loses 5 % and one that loses nothing.
fn bed(seed: u64) -> Bed {
    Bed::new(seed, &[line(20, 5).with_loss(0.05), line(20, 20)])
}

#[test]
fn each_flow_has_a_socket_of_its_own_and_answers_go_back_to_it() {
    let bed = bed(1);
    run(&bed.world, async {
        let (target, forbidden) = (address(80), ([10, 0, 0, 1], 81).into());
        start_target(&bed, target);
        start_target(&bed, forbidden);
        let (_server, accepted) = bed.serve_datagrams();
        // A rule for a port does not reach special addresses.
        let policy = bed.policy(None, &["203.0.113.5:80", "*:81"]);
        let dialer = Dialer::Memory(bed.targets.clone());
        tokio::spawn(server::serve_by(accepted, policy, None, dialer));
        let client = bed.connect_datagrams().await;
        let local = Datagrams::default();
        let rules = [(5_000, target, ",unordered"), (5_001, forbidden, "")];
        let ports = rules.map(|(port, to, options)| {
            let rule: Rule = format!("{port}={to}{options}").parse().expect("a rule");
            OpenPort::in_memory(&rule, local.bind((LOOPBACK, port).into()))
        });
        tokio::spawn(client::run(
            Ports(ports.into()),
            None,
            client.channel().clone(),
        ));
        let (first, second) = (
            Application::new(&local, 5_000),
            Application::new(&local, 5_000),
        );
        let mut from = [None; 2];
        for round in 0..20_usize {
            for (index, application) in [&first, &second].into_iter().enumerate() {
                let bytes = vec![index as u8; round * 150];
                let port = application.ask(&bytes).await;
                assert!(port.is_some(), "{round}");
                assert_eq!(*from[index].get_or_insert(port), port, "it is one flow");
            }
        }
        assert_ne!(from[0], from[1]);
        let refused = Application::new(&local, 5_001).ask(b"x").await;
        assert_eq!(refused, None, "the server does not lead there");
        // A flow that is idle ends; its next datagram begins another one.
        sleep(IDLE_AFTER * 2).await;
        assert!(first.ask(b"again").await.is_some());
    });
}

#[test]
fn a_flood_of_flows_is_bounded() {
    let bed = bed(2);
    run(&bed.world, async {
        let (_server, mut accepted) = bed.serve_datagrams();
        let _client = bed.connect_datagrams().await;
        let accepted = accepted.recv().await;
        let AcceptedDatagrams { peer, channel } = accepted.expect("a session");
        let mut server = ServerEnd {
            tun: Member::new(None, peer, channel.clone()),
            channel,
            peer,
            policy: bed.policy(None, &["203.0.113.5:80"]),
            dialer: Dialer::Memory(bed.targets.clone()),
            flows: BTreeMap::new(),
            room: Arc::new(Semaphore::new(MAX_QUEUED_BYTES)),
            began_at: Instant::now(),
        };
        let target = address(80).to_string();
        // No task runs meanwhile, as if all targets' names were being resolved.
        let long = Bytes::from(vec![7; 60_000]);
        for number in 0..1_000 {
            server.open(number, &target, FlowOptions::default(), long.clone());
        }
        let mut queued = 0;
        for Flow { queue, .. } in server.flows.values() {
            queued += queue.max_capacity() - queue.capacity();
        }
        let max = MAX_QUEUED_BYTES / long.len();
        assert_eq!(queued, max, "datagrams in queues");
        for number in 0..3_000 {
            let short = Bytes::from_static(b"x");
            server.open(number, &target, FlowOptions::default(), short);
            // The first flow is the one in use.
            sleep(Duration::from_millis(1)).await;
            server.flows[&0].used.set();
        }
        assert_eq!(server.flows.len(), MAX_FLOWS);
        assert!(server.flows.contains_key(&0));
    });
}
