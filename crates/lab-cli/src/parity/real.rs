//! A run of connections over links in real time.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::Duration as StdDuration;

use anabranch_emu::{Damage, Ends, Network};
use anabranch_net::Clock;
use anabranch_units::{Duration, Instant, Seed};
use anyhow::Context;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::plan::{Connection, Plan};
use super::verdict::RealRun;
use crate::over_link::links::{Links, LinksConfig, MTU};

/// Port of the first connection's receiver.
const FIRST_PORT: u16 = 9_000;
/// Time that a receiver waits for bytes after the run's end, and a sender for room.
const PATIENCE: StdDuration = StdDuration::from_secs(10);

/// Runs the plan once.
///
/// # Errors
/// The network cannot be made, or a connection fails.
pub(super) fn run(plan: &Plan, seed: Seed) -> anyhow::Result<RealRun> {
    let config = LinksConfig {
        routes: &plan.routes,
        seed,
        mtus: vec![MTU; plan.routes.len()],
        reports_mtu: true,
        damage: Damage::default(),
        has_mptcp: plan
            .connections
            .iter()
            .any(|connection| connection.is_multipath),
    };
    let (links, listeners) = Links::open(&config, Duration::ZERO, |network| {
        let indices = 0..plan.connections.len();
        let listeners = indices.map(|index| listen(network, plan, index));
        listeners.collect::<anyhow::Result<Vec<Socket>>>()
    })?;
    let (network, clock) = (&links.network, links.clock);
    let goodputs = std::thread::scope(|scope| {
        let mut receivers = Vec::new();
        let mut senders = Vec::new();
        for (index, listener) in listeners.iter().enumerate() {
            receivers.push(scope.spawn(move || receive(listener, &clock, plan.window)));
            senders.push(scope.spawn(move || send(network, plan, index, &clock)));
        }
        for sender in senders {
            joined(sender.join())?;
        }
        let goodputs = receivers
            .into_iter()
            .map(|receiver| joined(receiver.join()));
        goodputs.collect::<anyhow::Result<Vec<f64>>>()
    })?;
    Ok(RealRun {
        goodputs,
        errors: links.relay.release_errors(),
    })
}

fn joined<T>(result: std::thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn port(index: usize) -> u16 {
    FIRST_PORT + index as u16
}

fn open(connection: &Connection) -> std::io::Result<Socket> {
    let protocol = if connection.is_multipath {
        Protocol::MPTCP
    } else {
        Protocol::TCP
    };
    Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))
}

/// Returns the socket at which a connection arrives at the far end.
fn listen(network: &Network, plan: &Plan, index: usize) -> anyhow::Result<Socket> {
    let connection = &plan.connections[index];
    let socket = network.far.run(|| {
        let socket = open(connection)?;
        let any: SocketAddr = ([0, 0, 0, 0], port(index)).into();
        socket.bind(&any.into())?;
        socket.listen(1)?;
        Ok(socket)
    });
    socket.context("cannot listen at the far end")
}

/// Receives a connection's bytes until its end. Returns its goodput within the window, in bits per
/// second.
fn receive(listener: &Socket, clock: &Clock, window: [Duration; 2]) -> anyhow::Result<f64> {
    let (mut connection, _) = listener.accept().context("no connection")?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = vec![0; 1 << 16];
    let mut count = 0;
    let [from, to] = window;
    loop {
        let length = connection
            .read(&mut buffer)
            .context("the connection has stopped")?;
        if length == 0 {
            break;
        }
        let at = clock.now() - Instant::ZERO;
        if at >= from && at < to {
            count += length as u64;
        }
    }
    Ok(count as f64 * 8.0 / (to - from).as_secs_f64())
}

/// Sends bytes from the connection's start to its end.
fn send(network: &Network, plan: &Plan, index: usize, clock: &Clock) -> anyhow::Result<()> {
    let connection = &plan.connections[index];
    wait_until(clock, Instant::ZERO + connection.start);
    let Ends { near, far } = network.addresses.v4(connection.first_route);
    let mut socket = network
        .near
        .run(|| {
            let socket = open(connection)?;
            let controller = connection.controller.as_bytes();
            socket.set_tcp_congestion(controller)?;
            socket.bind(&address(near.into(), 0))?;
            socket.connect(&address(far.into(), port(index)))?;
            Ok(socket)
        })
        .with_context(|| {
            let (name, controller) = (&connection.name, connection.controller);
            format!("flow {name:?}: cannot connect with the kernel's controller {controller}")
        })?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let bytes = vec![7; 1 << 15];
    while clock.now() < Instant::ZERO + connection.stop {
        socket
            .write_all(&bytes)
            .context("the connection has stopped")?;
    }
    socket.shutdown(Shutdown::Write)?;
    Ok(())
}

fn wait_until(clock: &Clock, at: Instant) {
    while clock.now() < at {
        std::thread::park_timeout(at.saturating_since(clock.now()).to_std());
    }
}

fn address(address: IpAddr, port: u16) -> SockAddr {
    SocketAddr::from((address, port)).into()
}
