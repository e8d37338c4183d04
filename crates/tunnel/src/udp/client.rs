//! The proxy's end: from applications to the session and back.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_net::{DatagramChannel, listen};
use anabranch_terminal::print;
use anyhow::Context;
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
    pub async fn open(rules: &[Rule]) -> anyhow::Result<Ports> {
        let mut ports = Vec::new();
        for rule in rules {
            let socket = listen::udp(rule.listen)
                .and_then(|socket| {
                    socket.set_nonblocking(true)?;
                    UdpSocket::from_std(socket)
                })
                .with_context(|| format!("--udp {}", rule.listen))?;
            set_up(&socket);
            let socket = Port::new(socket).with_context(|| format!("--udp {}", rule.listen))?;
            print::note(format_args!(
                "taking datagrams at {} for {} (--udp)",
                socket.local_addr()?,
                rule.target
            ));
            ports.push(OpenPort {
                meter: FlowMeter::new(rule.name(), rule.max_rate),
                rule: rule.clone(),
                socket,
            });
        }
        Ok(Ports(ports))
    }

    /// Returns the counts of all rules, which go on while the ports are used.
    pub fn meters(&self) -> Vec<FlowMeter> {
        self.0.iter().map(|port| port.meter.clone()).collect()
    }
}

#[cfg(test)]
impl OpenPort {
    /// Returns a port in memory.
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
                    print::note(format_args!("--udp to {}: {answer}", rule.target));
                }
            }
            Message::Opening { .. } => {}
        }
    }
}
