//! The proxy's end: from applications to the session and back.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_net::{DatagramChannel, listen};
use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::flows::{Flows, Source};
use super::message::{self, Message};
use super::port::Port;
use super::{FlowMeter, MAX_BATCH, Rule, set_up, with_buffer};
use crate::tun;
#[cfg(test)]
use crate::world::datagrams::MemorySocket;

/// Error of a port that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("--udp {listen}")]
#[non_exhaustive]
pub struct PortError {
    /// Address of the port.
    pub listen: SocketAddr,
    /// The system's error.
    #[source]
    pub source: io::Error,
}

/// The open ports, with their rules.
#[derive(Debug)]
pub struct Ports(pub(super) Vec<OpenPort>);

/// An open port.
#[derive(Debug)]
pub(super) struct OpenPort {
    rule: Rule,
    pub(super) socket: Port,
    meter: FlowMeter,
}

impl Ports {
    /// Opens the ports of all rules.
    ///
    /// # Errors
    /// One cannot be opened.
    pub async fn open(rules: &[Rule]) -> Result<Ports, PortError> {
        let mut ports = Vec::new();
        for rule in rules {
            let port = OpenPort::open(rule).map_err(|source| PortError {
                listen: rule.listen,
                source,
            })?;
            ports.push(port);
        }
        Ok(Ports(ports))
    }

    /// Returns the counts of all rules, which go on while the ports are used.
    pub fn meters(&self) -> Vec<FlowMeter> {
        self.0.iter().map(|port| port.meter.clone()).collect()
    }
}

impl OpenPort {
    fn open(rule: &Rule) -> io::Result<OpenPort> {
        let bound = listen::udp(rule.listen)?;
        bound.set_nonblocking(true)?;
        let tokio_socket = UdpSocket::from_std(bound)?;
        set_up(&tokio_socket);
        let socket = Port::new(tokio_socket)?;
        let (local, target) = (socket.local_addr()?, &rule.target);
        log::info!("taking datagrams at {local} for {target} (--udp)");
        Ok(OpenPort {
            meter: FlowMeter::new(rule.name(), rule.max_rate),
            rule: rule.clone(),
            socket,
        })
    }

    /// Returns a port in memory.
    #[cfg(test)]
    pub(super) fn in_memory(rule: &Rule, socket: MemorySocket) -> Self {
        OpenPort {
            meter: FlowMeter::new(rule.name(), rule.max_rate),
            rule: rule.clone(),
            socket: Port::Memory(socket),
        }
    }
}

/// State that the tasks share.
#[derive(Debug)]
struct ClientEnd {
    ports: Vec<OpenPort>,
    flows: Mutex<Flows>,
    channel: DatagramChannel,
}

/// Carries datagrams in both directions as long as the channel exists, and packets of the
/// interface, if there is one.
pub async fn run(
    ports: Ports,
    interface: Option<tun::client::Interface>,
    channel: DatagramChannel,
) {
    let tun = interface.map(|interface| tun::client::ClientEnd::start(interface, channel.clone()));
    let client = Arc::new(ClientEnd {
        ports: ports.0,
        flows: Mutex::default(),
        channel,
    });
    for index in 0..client.ports.len() {
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            loop {
                client.forward(index).await;
            }
        });
    }
    while let Some(datagram) = client.channel.recv().await {
        match &tun {
            Some(tun) if tun::is_of_tun(&datagram) => tun.take(datagram).await,
            _ => client.take(datagram).await,
        }
    }
}

impl ClientEnd {
    fn flows<T>(&self, act: impl FnOnce(&mut Flows) -> T) -> T {
        act(&mut self.flows.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for datagrams at a port and sends them.
    async fn forward(&self, index: usize) {
        // Errors of earlier datagrams are ignored.
        let _ = self.ports[index].socket.readable().await;
        for _ in 0..MAX_BATCH {
            match self.forward_one(index) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                _ => {}
            }
        }
        tokio::task::yield_now().await;
    }

    fn forward_one(&self, index: usize) -> io::Result<()> {
        let OpenPort {
            rule,
            socket,
            meter,
        } = &self.ports[index];
        with_buffer(|buffer| {
            let (length, from, to) = socket.try_recv(buffer)?;
            let source = Source {
                port: index,
                from,
                to,
            };
            let outgoing = self.flows(|flows| flows.outgoing(Instant::now(), source));
            if let Some(outgoing) = outgoing
                && meter.admit(Instant::now(), length)
            {
                let opening = (rule.target.as_str(), rule.options);
                let opening = outgoing.is_named.then_some(opening);
                let datagram = message::datagram(outgoing.flow, opening, &buffer[..length]);
                let options = rule.options.of_datagram(outgoing.flow);
                // Without a session the datagram is lost, as on a network that is down.
                self.channel.send_with(datagram, options);
            }
            Ok(())
        })
    }

    async fn take(&self, datagram: Bytes) {
        let Some((flow, message)) = Message::read(datagram) else {
            return;
        };
        let now = Instant::now();
        match message {
            Message::Datagram(bytes) => {
                if let Some(source) = self.flows(|flows| flows.incoming(now, flow)) {
                    let port = &self.ports[source.port];
                    port.meter.on_answer(bytes.len());
                    // Errors are ignored, because the application may have ended.
                    let _ = port.socket.send(&bytes, source.from, source.to).await;
                }
            }
            Message::Known => self.flows(|flows| flows.set_known(flow, true)),
            Message::Unknown => self.flows(|flows| flows.set_known(flow, false)),
            Message::Refused(answer) => {
                if let Some(port) = self.flows(|flows| flows.refuse(now, flow)) {
                    let rule = &self.ports[port].rule;
                    log::info!("--udp to {}: {answer}", rule.target);
                }
            }
            Message::Opening { .. } => {}
        }
    }
}
