//! Sockets for MPEG-TS in datagrams with the URL's parameters: interface, group, time to live.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use anabranch_net::system::interface_index;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

use super::udp_error::{SocketError, UdpError};
use super::udp_url::{Direction, UdpUrl};

/// The local side of a socket.
#[derive(Debug)]
struct LocalSide<'a> {
    url: &'a UdpUrl,
    address: Option<IpAddr>,
    interface: Option<&'a str>,
    /// The only accepted senders to a group.
    sources: Vec<IpAddr>,
}

impl<'a> LocalSide<'a> {
    /// Reads the local side of a URL. An address before an `@` is this machine's address at which a
    /// group is joined, or else a sender's, as in VLC and TSDuck.
    fn of(url: &'a UdpUrl) -> Self {
        let parameters = &url.parameters;
        let mut side = LocalSide {
            url,
            address: parameters.local_address,
            interface: parameters.interface.as_deref(),
            sources: parameters.sources.clone(),
        };
        match url.before_at {
            Some(address) if is_local(address) => side.address = side.address.or(Some(address)),
            source => side.sources.extend(source),
        }
        side
    }

    fn is_chosen(&self) -> bool {
        self.address.is_some() || self.interface.is_some()
    }

    /// Returns the index of the interface; `None` if the URL names none.
    fn index(&self, socket: &Socket) -> Result<Option<u32>, SocketError> {
        if let Some(name) = self.interface {
            return match interface_index(socket, name) {
                Some(index) => Ok(Some(index)),
                None => Err(SocketError::NoInterface {
                    url: self.url.to_string(),
                    name: name.to_owned(),
                    known: known_interfaces(),
                }),
            };
        }
        let Some(address) = self.address else {
            return Ok(None);
        };
        let interfaces = if_addrs::get_if_addrs().map_err(SocketError::Interfaces)?;
        let found = interfaces.iter().find(|found| found.ip() == address);
        match found.and_then(|found| found.index) {
            Some(index) => Ok(Some(index)),
            None => Err(SocketError::NoInterfaceWith {
                url: self.url.to_string(),
                address,
                known: known_interfaces(),
            }),
        }
    }

    /// Returns the address by which IPv4 names the interface, where an index is not accepted.
    fn ipv4_address(&self, socket: &Socket) -> Result<Ipv4Addr, SocketError> {
        let Some(name) = self.interface else {
            return Ok(match self.address {
                Some(IpAddr::V4(address)) => address,
                _ => Ipv4Addr::UNSPECIFIED,
            });
        };
        self.index(socket)?;
        let interfaces = if_addrs::get_if_addrs().map_err(SocketError::Interfaces)?;
        let mut addresses = interfaces.iter().filter(|found| found.name == name);
        let address = addresses.find_map(|found| match found.ip() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        address.ok_or_else(|| SocketError::NoIpv4 {
            url: self.url.to_string(),
            interface: name.to_owned(),
        })
    }

    /// Joins the group at one interface.
    fn join(&self, socket: &Socket, group: SocketAddr) -> Result<(), SocketError> {
        let scope_id = match group {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(group) => group.scope_id(),
        };
        match group.ip() {
            IpAddr::V4(group) if self.sources.is_empty() => match self.interface {
                Some(_) => {
                    let index = self.index(socket)?.unwrap_or_default();
                    let interface = InterfaceIndexOrAddress::Index(index);
                    socket.join_multicast_v4_n(&group, &interface)?;
                }
                None => socket.join_multicast_v4(&group, &self.ipv4_address(socket)?)?,
            },
            IpAddr::V4(group) => {
                let interface = self.ipv4_address(socket)?;
                for source in &self.sources {
                    if let IpAddr::V4(source) = source {
                        socket.join_ssm_v4(source, &group, &interface)?;
                    }
                }
            }
            IpAddr::V6(group) => {
                if !self.sources.is_empty() {
                    return Err(SocketError::SourcesOfIpv6 {
                        url: self.url.to_string(),
                    });
                }
                let index = self.index(socket)?.unwrap_or(scope_id);
                socket.join_multicast_v6(&group, index)?;
            }
        }
        if self.is_chosen() || scope_id != 0 || !self.sources.is_empty() {
            ignore_joins_of_others(socket);
        }
        Ok(())
    }
}

/// Returns the names and addresses of this machine's interfaces.
fn known_interfaces() -> String {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let known: Vec<_> = interfaces
        .iter()
        .map(|known| format!("{} ({})", known.name, known.ip()))
        .collect();
    known.join(", ")
}

/// Opens the socket of an input: it listens at the address, and joins if that is a group.
///
/// # Errors
/// The address is taken or invalid, or the system refuses a setting.
pub(super) fn open_input(url: &UdpUrl) -> Result<UdpSocket, UdpError> {
    let opened = open_input_at(url, url.resolve()?);
    opened.map_err(|source| UdpError::Listen {
        url: url.to_string(),
        source,
    })
}

fn open_input_at(url: &UdpUrl, listen: SocketAddr) -> Result<UdpSocket, SocketError> {
    let side = LocalSide::of(url);
    let is_group = listen.ip().is_multicast();
    let mut bound = listen;
    bound.set_port(url.parameters.local_port.unwrap_or(listen.port()));
    if !is_group && let Some(address) = side.address {
        if !listen.ip().is_unspecified() && listen.ip() != address {
            return Err(SocketError::TwoAddresses {
                local: address,
                listen: listen.ip(),
            });
        }
        bound.set_ip(address);
    }
    let socket = new(listen)?;
    socket.set_reuse_address(url.parameters.is_shared.unwrap_or(is_group))?;
    if !is_group && let Some(name) = side.interface {
        bind_device(&socket, &side, name)?;
    }
    socket.bind(&bound.into())?;
    if is_group {
        side.join(&socket, listen).map_err(|error| {
            if side.is_chosen() {
                SocketError::Join(Box::new(error))
            } else {
                SocketError::JoinAtDefault(Box::new(error))
            }
        })?;
    }
    if let Some(bytes) = url.parameters.buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
        warn_of_small_buffer(url, bytes, socket.recv_buffer_size()?, "rmem_max");
    }
    log_without_effect(url, Direction::Input);
    Ok(socket.into())
}

/// Opens the two sockets of an output to `to`, with the address and interface of the URL.
///
/// # Errors
/// The system refuses a parameter.
pub(super) fn open_outputs(url: &UdpUrl, to: SocketAddr) -> Result<[UdpSocket; 2], UdpError> {
    let (first, second) = (open_output(url, to)?, open_output(url, to)?);
    if let Some(bytes) = url.parameters.buffer_bytes {
        let granted = first.send_buffer_size().map_err(UdpError::Buffer)?;
        warn_of_small_buffer(url, bytes, granted, "wmem_max");
    }
    log_without_effect(url, Direction::Output);
    Ok([first.into(), second.into()])
}

fn open_output(url: &UdpUrl, to: SocketAddr) -> Result<Socket, UdpError> {
    open_output_to(url, to).map_err(|source| UdpError::Output {
        url: url.to_string(),
        source,
    })
}

fn open_output_to(url: &UdpUrl, to: SocketAddr) -> Result<Socket, SocketError> {
    let side = LocalSide::of(url);
    if let Some(sender) = side.sources.first() {
        return Err(SocketError::OtherSender { sender: *sender });
    }
    let socket = new(to)?;
    if let Some(name) = side.interface {
        bind_device(&socket, &side, name)?;
    }
    // Both sockets of an output send from this port.
    socket.set_reuse_address(url.parameters.local_port.is_some())?;
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let address = side.address.unwrap_or(any.ip());
    let port = url.parameters.local_port.unwrap_or(0);
    let bound = socket.bind(&SocketAddr::new(address, port).into());
    bound.map_err(|source| SocketError::Bind {
        address,
        port,
        source,
    })?;
    set_interface_and_ttl(&socket, &side, to.ip())?;
    if let Some(bytes) = url.parameters.buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    Ok(socket)
}

/// Sets interface and time to live of datagrams to `to`.
fn set_interface_and_ttl(
    socket: &Socket,
    side: &LocalSide<'_>,
    to: IpAddr,
) -> Result<(), SocketError> {
    let ttl = side.url.parameters.ttl.map(u32::from);
    if ttl == Some(0) && !to.is_multicast() {
        return Err(SocketError::TimeToLive);
    }
    match to {
        IpAddr::V4(to) if to.is_multicast() => {
            if let Some(IpAddr::V4(address)) = side.address {
                socket.set_multicast_if_v4(&address)?;
            }
            ttl.map_or(Ok(()), |ttl| socket.set_multicast_ttl_v4(ttl))?;
        }
        IpAddr::V6(to) if to.is_multicast() => {
            if let Some(index) = side.index(socket)? {
                socket.set_multicast_if_v6(index)?;
            }
            ttl.map_or(Ok(()), |ttl| socket.set_multicast_hops_v6(ttl))?;
        }
        IpAddr::V4(_) => ttl.map_or(Ok(()), |ttl| socket.set_ttl_v4(ttl))?,
        IpAddr::V6(_) => ttl.map_or(Ok(()), |ttl| socket.set_unicast_hops_v6(ttl))?,
    }
    Ok(())
}

fn new(address: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
}

fn is_local(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Warns if Linux, which counts each byte twice, grants less than the URL requests. Other systems
/// refuse such a buffer.
fn warn_of_small_buffer(url: &UdpUrl, asked: usize, granted: usize, limit: &str) {
    if cfg!(target_os = "linux") && granted / 2 < asked {
        log::warn!(
            "{url}: of a buffer of {asked} bytes the system grants {}: raise net.core.{limit}",
            granted / 2
        );
    }
}

fn log_without_effect(url: &UdpUrl, direction: Direction) {
    if let Some(note) = url.without_effect(direction) {
        log::info!("{note}");
    }
}

#[cfg(target_os = "linux")]
fn bind_device(socket: &Socket, side: &LocalSide<'_>, name: &str) -> Result<(), SocketError> {
    side.index(socket)?;
    let bound = socket.bind_device(Some(name.as_bytes()));
    bound.map_err(|source| SocketError::Device {
        interface: name.to_owned(),
        source,
    })
}

#[cfg(not(target_os = "linux"))]
fn bind_device(_: &Socket, _: &LocalSide<'_>, name: &str) -> Result<(), SocketError> {
    Err(SocketError::NoDevices {
        interface: name.to_owned(),
    })
}

/// Rejects datagrams that arrive by interfaces at which other sockets have joined the group.
#[cfg(target_os = "linux")]
fn ignore_joins_of_others(socket: &Socket) {
    // Each setting exists in one address family.
    let _ = socket.set_multicast_all_v4(false);
    let _ = socket.set_multicast_all_v6(false);
}

#[cfg(not(target_os = "linux"))]
fn ignore_joins_of_others(_: &Socket) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::WithCauses;

    fn url(text: &str) -> UdpUrl {
        text.parse().unwrap()
    }

    fn output(text: &str) -> Result<UdpSocket, UdpError> {
        let url = url(text);
        let to = url.resolve().unwrap();
        open_outputs(&url, to).map(|[socket, _]| socket)
    }

    #[test]
    fn outputs_have_the_ttl_and_the_address_that_are_asked_for() {
        let unicast =
            Socket::from(output("udp://127.0.0.1:6000?ttl=7&localaddr=127.0.0.2").unwrap());
        assert_eq!(unicast.ttl_v4().unwrap(), 7);
        let from = unicast.local_addr().unwrap().as_socket().unwrap();
        assert_eq!(from.ip(), IpAddr::from([127, 0, 0, 2]));
        let group = Socket::from(output("udp://239.1.1.2:6000").unwrap());
        assert_eq!(
            group.multicast_ttl_v4().unwrap(),
            1,
            "it stays in its network"
        );
        let text = "udp://239.1.1.2:6000?ttl=8&localaddr=127.0.0.1";
        let group = Socket::from(output(text).unwrap());
        assert_eq!(group.multicast_ttl_v4().unwrap(), 8);
        assert_eq!(group.multicast_if_v4().unwrap(), Ipv4Addr::LOCALHOST);
        assert_eq!(
            group.ttl_v4().unwrap(),
            64,
            "of unicast as the system has it"
        );
    }

    #[test]
    fn outputs_leave_from_the_port_that_is_asked_for() {
        let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let text = format!("udp://127.0.0.1:6000?localport={port}");
        let two = [output(&text).unwrap(), output(&text).unwrap()];
        assert!(
            two.iter()
                .all(|socket| socket.local_addr().unwrap().port() == port)
        );
    }

    #[test]
    fn inputs_listen_at_the_given_address() {
        let loopback = open_input(&url("udp://@:0?localaddr=127.0.0.2")).unwrap();
        let address = loopback.local_addr().unwrap();
        assert_eq!(address.ip(), IpAddr::from([127, 0, 0, 2]));
        for (text, part) in [
            (
                "udp://127.0.0.1:0?localaddr=127.0.0.2",
                ": localaddr=127.0.0.2 names another address than 127.0.0.1",
            ),
            (
                "udp://239.1.1.1:0?iface=nowhere0",
                ": cannot join the group: udp://239.1.1.1:0?iface=nowhere0: there is no network \
                 interface \"nowhere0\": there are ",
            ),
        ] {
            let error = WithCauses(&open_input(&url(text)).unwrap_err()).to_string();
            let begin = format!("cannot listen at input {text}{part}");
            assert!(error.starts_with(&begin), "{error}");
        }
    }

    #[test]
    fn buffers_are_as_large_as_asked_for() {
        let socket = open_input(&url("udp://127.0.0.1:0?rcvbuf=20000")).unwrap();
        // Linux doubles the size.
        let granted = Socket::from(socket).recv_buffer_size().unwrap();
        assert!((20_000..=40_000).contains(&granted), "{granted}");
        let socket = output("udp://127.0.0.1:6000?buffer_size=20000").unwrap();
        let granted = Socket::from(socket).send_buffer_size().unwrap();
        assert!((20_000..=40_000).contains(&granted), "{granted}");
    }

    /// Loopback has no multicast flag, but groups can be joined at its address.
    #[test]
    fn groups_are_joined_at_an_address_with_and_without_a_source() {
        for text in [
            "udp://127.0.0.1@239.255.77.1:0",
            "udp://239.255.77.1:0?localaddr=127.0.0.1",
            "udp://239.255.77.1:0?iface=lo",
            "udp://239.255.77.1:0?localaddr=127.0.0.1&sources=127.0.0.1",
        ] {
            let input = open_input(&url(text)).unwrap();
            let port = input.local_addr().unwrap().port();
            let to = format!("udp://239.255.77.1:{port}?localaddr=127.0.0.1");
            let sender = output(&to).unwrap();
            sender.send_to(b"x", ("239.255.77.1", port)).unwrap();
            assert_eq!(input.recv(&mut [0; 9]).unwrap(), 1, "{text}");
        }
        let text = "udp://239.255.77.1:0?localaddr=127.0.0.1&sources=127.0.0.9";
        let input = open_input(&url(text)).unwrap();
        let port = input.local_addr().unwrap().port();
        let sender = output(&format!("udp://239.255.77.1:{port}?localaddr=127.0.0.1")).unwrap();
        let allowed = output(&format!("udp://239.255.77.1:{port}?localaddr=127.0.0.9")).unwrap();
        // The first datagram is of the requested source, although another was earlier.
        sender.send_to(b"x", ("239.255.77.1", port)).unwrap();
        allowed.send_to(b"right", ("239.255.77.1", port)).unwrap();
        assert_eq!(input.recv(&mut [0; 9]).unwrap(), 5, "from another sender");
    }

    #[test]
    fn outputs_refuse_other_sources_and_a_ttl_that_nothing_survives() {
        for (text, part) in [
            (
                "udp://192.0.2.77@239.1.1.1:6000",
                "no address of this machine",
            ),
            (
                "udp://127.0.0.1:6000?ttl=0",
                "ttl=0 is for multicast groups",
            ),
            (
                "udp://127.0.0.1:6000?localaddr=192.0.2.77",
                "cannot send from 192.0.2.77",
            ),
        ] {
            let error = WithCauses(&output(text).unwrap_err()).to_string();
            assert!(error.contains(text) && error.contains(part), "{error}");
        }
    }
}
