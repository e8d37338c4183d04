//! The network of a machine, as its programs see it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;

use super::datagrams::SocketState;
pub(crate) use super::datagrams::VirtualSocket;
use super::fabric::{Due, Fabric};
use super::pipe::{VirtualAcceptor, VirtualStream};
use super::process::ProcessHandle;
use crate::clock::Clock;
use crate::names::{Reply, Resolve, ResolveError};
use crate::remote::{HostName, Remote};
use crate::surroundings::OnAddresses;
use crate::via::{Via, ViaError};

/// A machine of a world.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(super) fabric: Fabric,
    pub(super) machine: usize,
}

impl Host {
    /// Reserves a process, which is to be started.
    pub(crate) fn process(&self) -> ProcessHandle {
        ProcessHandle::new(self.fabric.clone(), self.machine)
    }

    /// Returns the machine's clock.
    pub(crate) fn clock(&self) -> Clock {
        Clock::by_hand(self.fabric.lock().machines[self.machine].hand)
    }

    /// Opens a socket that reaches `remote` by this way.
    ///
    /// # Errors
    /// The interface or address is absent.
    pub(crate) fn open(&self, via: &Via, remote: SocketAddr) -> Result<VirtualSocket, ViaError> {
        let line = self.line_of(via, remote)?;
        let mut state = self.fabric.lock();
        let port = state.free_port(self.machine);
        let local = match line {
            Some(line) => state.address_of(line, port),
            None if remote.is_ipv4() => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
            None => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
        };
        let number = state.number();
        let socket = SocketState::new(self.machine, line, local);
        state.sockets.insert(number, socket);
        drop(state);
        Ok(self.socket(number))
    }

    /// Returns whether both are the same machine of the same world.
    pub(crate) fn is_same(&self, other: &Host) -> bool {
        self.machine == other.machine && self.fabric.is_same(&other.fabric)
    }

    /// Resolves a remote end as [`Surroundings::resolve_beside`](crate::Surroundings) does.
    pub(crate) fn resolve_beside(&self, remote: &Remote, on_addresses: OnAddresses) {
        let outcome = match remote {
            Remote::Address(address) => Ok(vec![*address]),
            Remote::Name(name) => self.resolve(name),
        };
        let mut state = self.fabric.lock();
        let at = state.now + state.resolver_delay;
        state.schedule(at, Due::Addresses(on_addresses, outcome));
    }

    fn socket(&self, number: u64) -> VirtualSocket {
        VirtualSocket {
            fabric: self.fabric.clone(),
            number,
        }
    }

    /// Returns the line of a way out; `None`: the default route's, which may change.
    pub(super) fn line_of(&self, via: &Via, remote: SocketAddr) -> Result<Option<usize>, ViaError> {
        via.check()?;
        let state = self.fabric.lock();
        let lines = state.machines[self.machine].lines.iter().copied();
        let mut present = lines.filter(|line| state.lines[*line].is_plugged);
        match via {
            Via::DefaultRoute => Ok(None),
            Via::Interface(name) => {
                let line = present.find(|line| state.lines[*line].name == *name);
                line.map(Some).ok_or_else(|| ViaError::UnknownInterface {
                    name: name.clone(),
                    known: String::new(),
                })
            }
            Via::Address(local) if local.is_ipv4() != remote.is_ipv4() => Err(ViaError::Family {
                local: *local,
                remote,
            }),
            Via::Address(local) => {
                let line = present.find(|line| state.lines[*line].address == *local);
                line.map(Some).ok_or_else(|| ViaError::Socket {
                    via: via.clone(),
                    source: Errno::ADDRNOTAVAIL.into(),
                })
            }
            // It is the operating system's, which a world does not have.
            Via::Socket(_) => Err(ViaError::Socket {
                via: via.clone(),
                source: io::ErrorKind::Unsupported.into(),
            }),
        }
    }

    /// Opens a socket at an address of the machine.
    ///
    /// # Errors
    /// The address is taken, or not the machine's.
    pub(crate) fn listen(&self, address: SocketAddr) -> io::Result<VirtualSocket> {
        let mut state = self.fabric.lock();
        let mut lines = state.machines[self.machine].lines.iter().copied();
        let line = lines.find(|line| state.lines[*line].address == address.ip());
        let is_own = address.ip().is_unspecified() || address.ip().is_loopback();
        if line.is_none() && !is_own {
            return Err(Errno::ADDRNOTAVAIL.into());
        }
        let is_taken = state
            .sockets
            .values()
            .any(|socket| socket.machine == self.machine && socket.local == address);
        if is_taken {
            return Err(Errno::ADDRINUSE.into());
        }
        let port = match address.port() {
            0 => state.free_port(self.machine),
            port => port,
        };
        let local = SocketAddr::new(address.ip(), port);
        let number = state.number();
        let socket = SocketState::new(self.machine, None, local);
        state.sockets.insert(number, socket);
        drop(state);
        Ok(self.socket(number))
    }

    /// Accepts TCP connections at an address of the machine.
    ///
    /// # Errors
    /// As [`listen`](Self::listen).
    pub(crate) fn listen_tcp(&self, address: SocketAddr) -> io::Result<VirtualAcceptor> {
        VirtualAcceptor::bind(&self.fabric, self.machine, address)
    }

    /// Begins to connect to `peer`.
    ///
    /// # Errors
    /// The interface or address is absent.
    pub(crate) fn dial(&self, via: &Via, peer: SocketAddr) -> Result<VirtualStream, ViaError> {
        let line = self
            .line_of(via, peer)?
            .or_else(|| self.fabric.lock().default_line(self.machine, peer.ip()));
        match line {
            Some(line) => Ok(VirtualStream::dial(&self.fabric, line, peer)),
            None => Err(via.refused(Errno::NETUNREACH.into())),
        }
    }

    /// Lists the interfaces by which `remote` may be reached.
    pub(crate) fn interfaces(&self, remote: &Remote) -> Vec<String> {
        let state = self.fabric.lock();
        let lines = state.machines[self.machine]
            .lines
            .iter()
            .map(|line| &state.lines[*line])
            .filter(|line| {
                let may_reach = match remote {
                    Remote::Address(remote) => remote.is_ipv4() == line.address.is_ipv4(),
                    Remote::Name(_) => true,
                };
                line.is_plugged && may_reach
            });
        lines.map(|line| line.name.clone()).collect()
    }

    /// Returns whether a way out leads to `remote` now.
    pub(crate) fn has_route(&self, via: &Via, remote: SocketAddr) -> bool {
        let Ok(line) = self.line_of(via, remote) else {
            return false;
        };
        let state = self.fabric.lock();
        match line {
            Some(line) => state.lines[line].address.is_ipv4() == remote.is_ipv4(),
            None => state.default_line(self.machine, remote.ip()).is_some(),
        }
    }
}

impl Resolve for Host {
    fn resolve(&self, name: &HostName) -> Result<Vec<SocketAddr>, ResolveError> {
        let state = self.fabric.lock();
        let found = state.names.get(name.host()).cloned().unwrap_or_else(|| {
            let text = "Name or service not known".to_owned();
            Err(ResolveError::Resolver(text))
        });
        let addresses = found?.into_iter();
        Ok(addresses
            .map(|address| SocketAddr::new(address, name.port()))
            .collect())
    }

    fn answer(&self, name: &HostName, reply: Reply) -> bool {
        let outcome = self.resolve(name);
        let delay = self.fabric.lock().resolver_delay;
        if delay.is_zero() {
            reply.send(outcome);
        } else {
            let mut state = self.fabric.lock();
            let at = state.now + delay;
            state.schedule(at, Due::Reply(reply, outcome));
        }
        true
    }
}
