//! Proxy and server in a world in memory: sessions over its lines, and applications and targets
//! beside them, in virtual time.

mod connections;
pub(super) mod datagrams;
pub(super) mod memory;

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_net::testing::{Interface, Line, Machine, World};
use anabranch_net::{AcceptedDatagrams, DatagramClient, Events, StreamClient, StreamServer};
use anabranch_secure::PublicKey;
use anabranch_units::DataRate;
use tokio::sync::mpsc::UnboundedReceiver;

use super::connection::{Connection, Dialer};
use super::peer::Peer;
use super::policy::Policy;
use super::proxy::{self, Protocol};
use super::{Target, streams};
use memory::{Memory, Targets};

/// Time by which the world and the tasks advance together.
const TICK: Duration = Duration::from_millis(1);

/// Runs a task, and all that it spawns, in the world's time. The tasks' clock stands still while
/// one of them can run.
pub(super) fn run<T>(world: &World, task: impl Future<Output = T>) -> T {
    let tasks = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    tasks.expect("a runtime without sockets").block_on(async {
        tokio::pin!(task);
        loop {
            tokio::select! {
                biased;
                done = &mut task => return done,
                () = tokio::time::sleep(TICK) => world.run_for(TICK),
            }
        }
    })
}

/// Lifetime of datagrams.
const DEADLINE: Duration = Duration::from_secs(1);

/// Returns a line of this rate in megabits a second and this one-way delay in milliseconds.
pub(super) fn line(megabits: u64, delay: u64) -> Line {
    let rate = DataRate::from_megabits_per_second(megabits);
    Line::new(rate, Duration::from_millis(delay))
}

/// A proxy with two lines, a server, and targets beside it.
pub(super) struct Bed {
    pub(super) world: World,
    pub(super) proxy: Machine,
    pub(super) lines: Vec<Interface>,
    pub(super) server: Machine,
    address: SocketAddr,
    pub(super) targets: Targets,
}

impl Bed {
    pub(super) fn new(seed: u64, lines: &[Line]) -> Bed {
        let world = World::new(seed);
        let (proxy, server) = (world.machine("proxy"), world.machine("server"));
        let lines = lines
            .iter()
            .enumerate()
            .map(|(index, line)| proxy.attach(&format!("line{index}"), line))
            .collect();
        let address = server.attach("eth0", &line(1_000, 1)).at(7_000);
        Bed {
            world,
            proxy,
            lines,
            server,
            address,
            targets: Targets::default(),
        }
    }

    /// Returns the rules of a server that forwards to a target, and leads to others by rules.
    pub(super) fn policy(&self, forward: Option<SocketAddr>, connect: &[&str]) -> Arc<Policy> {
        let allowed = [Peer {
            key: self.proxy_key(),
            name: "peer".to_owned(),
            connect: None,
        }];
        let forward = forward.and_then(|target| Target::of(&target.to_string()));
        let connect = connect.iter().map(|rule| rule.parse().expect("a rule"));
        Arc::new(Policy::new(
            forward,
            connect.collect(),
            &allowed,
            Arc::default(),
        ))
    }

    /// Starts a server, in a task of [`run`].
    pub(super) fn serve(&self, policy: Arc<Policy>) -> (StreamServer, Events) {
        let server = StreamServer::builder()
            .key(self.world.key("server"))
            .allow(self.proxy_key())
            .network(self.server.network())
            .listen(self.address);
        let (server, accepted, events) = server.start().expect("the address is free");
        let dialer = Dialer::Memory(self.targets.clone());
        tokio::spawn(streams::serve_by(accepted, policy, dialer));
        (server, events)
    }

    /// Starts a proxy's session, and waits until it is up.
    pub(super) async fn connect(&self) -> (Arc<StreamClient>, Events) {
        let client = StreamClient::builder()
            .key(self.world.key("proxy"))
            .peer(self.world.key("server").public_key())
            .network(self.proxy.network())
            .to(self.address)
            .via("line0")
            .via("line1");
        let (client, events) = client.connect_async().await.expect("the server answers");
        (Arc::new(client), events)
    }

    /// Starts a server of datagrams. Returns its sessions, too.
    pub(super) fn serve_datagrams(&self) -> (StreamServer, UnboundedReceiver<AcceptedDatagrams>) {
        let server = StreamServer::builder()
            .key(self.world.key("server"))
            .allow(self.proxy_key())
            .network(self.server.network())
            .listen(self.address);
        let started = server.start_with_datagrams(DEADLINE);
        let (server, _, accepted, _) = started.expect("the address is free");
        (server, accepted)
    }

    /// Starts a proxy's session of datagrams, and waits until it is up.
    pub(super) async fn connect_datagrams(&self) -> DatagramClient {
        let client = DatagramClient::builder()
            .key(self.world.key("proxy"))
            .peer(self.world.key("server").public_key())
            .network(self.proxy.network())
            .to(self.address)
            .deadline(DEADLINE)
            .via("line0")
            .via("line1");
        let (client, _) = client.connect_async().await.expect("the server answers");
        client
    }

    pub(super) fn proxy_key(&self) -> PublicKey {
        self.world.key("proxy").public_key()
    }

    /// Opens an application's connection to the proxy.
    pub(super) fn application(&self, client: &Arc<StreamClient>, protocol: Protocol) -> Memory {
        let (ours, theirs) = memory::pair(([127, 0, 0, 1], 8_080).into());
        let client = Arc::clone(client);
        let connection = Connection::Memory(theirs);
        tokio::spawn(async move { proxy::carry(connection, protocol, &client).await });
        ours
    }
}
