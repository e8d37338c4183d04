//! Network interfaces whose packets a program carries.

use core::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, bind, socket};
use rustix::net::{RecvFlags, recv, sockopt};

use crate::ip::complete_checksum;

/// Number of packets that the kernel holds while the relay waits for a processor. Chosen: 240 ms of
/// 100 Mbit/s in packets of 1,500 bytes.
const KERNEL_QUEUE_PACKETS: u32 = 2_000;
/// The same for packet sockets, whose unit is the memory of packets.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Length of an Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// Hardware address of both ends of an emulated link. Neither end resolves addresses, so a frame's
/// destination is the sender's own address.
pub(crate) const HARDWARE_ADDRESS: [u8; 6] = [0x02, 0, 0, 0, 0, 0x27];

/// An interface that gives packets of IP to this program and takes them from it. It never blocks.
pub trait Frames: fmt::Debug + Send + Sync {
    /// Takes the next packet that was sent out of the interface, in a part of `buffer`. It is empty
    /// if the frame is no packet of IP.
    ///
    /// # Errors
    /// Those of the operating system; `WouldBlock` without packets.
    fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a mut [u8]>;

    /// Lets a packet arrive at the interface.
    ///
    /// # Errors
    /// Those of the operating system.
    fn send(&self, packet: &[u8]) -> io::Result<()>;

    /// Returns the descriptor that is readable when packets can be received.
    fn source(&self) -> BorrowedFd<'_>;
}

/// A TUN interface. It vanishes when this is dropped.
pub struct TunInterface(tun_rs::SyncDevice);

impl TunInterface {
    /// Creates the interface in the thread's network namespace. It has no address and is down.
    ///
    /// # Errors
    /// This program may not, the system has no TUN interfaces, or the name is taken.
    pub fn open(name: &str) -> io::Result<TunInterface> {
        let device = tun_rs::DeviceBuilder::new()
            .name(name)
            .enable(false)
            .tx_queue_len(KERNEL_QUEUE_PACKETS)
            .build_sync()?;
        device.set_nonblocking(true)?;
        Ok(TunInterface(device))
    }
}

impl Frames for TunInterface {
    fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a mut [u8]> {
        let length = self.0.recv(buffer)?;
        Ok(&mut buffer[..length])
    }

    fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.0.send(packet).map(|_| ())
    }

    fn source(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl fmt::Debug for TunInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TunInterface")
            .field(&self.0.as_raw_fd())
            .finish()
    }
}

/// A packet socket on one end of a pair of virtual Ethernet interfaces. The other end is the
/// interface that programs use.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens a socket on the interface of this name in the thread's network namespace.
    ///
    /// # Errors
    /// This program may not, or there is no such interface.
    pub fn open(name: &str) -> io::Result<PacketSocket> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let (family, protocol) = (AddressFamily::Packet, SockProtocol::EthAll);
        let socket = socket(family, SockType::Raw, flags, protocol)?;
        let mut found = getifaddrs()?;
        let address = found.find_map(|interface| {
            if interface.interface_name != name {
                return None;
            }
            interface.address?.as_link_addr().copied()
        });
        bind(
            socket.as_raw_fd(),
            &address.ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, format!("no interface {name}"))
            })?,
        )?;
        if sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER_BYTES).is_err() {
            // The system may grant less, which is no error.
            let _ = sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES);
        }
        Ok(PacketSocket(socket))
    }
}

impl Frames for PacketSocket {
    fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a mut [u8]> {
        let (length, _) = recv(&self.0, &mut *buffer, RecvFlags::empty())?;
        let frame = &mut buffer[..length];
        let is_ip = frame.len() > ETHERNET_BYTES && ether_type(&frame[ETHERNET_BYTES..]).is_some();
        let packet = &mut frame[if is_ip { ETHERNET_BYTES } else { length }..];
        complete_checksum(packet);
        Ok(packet)
    }

    fn send(&self, packet: &[u8]) -> io::Result<()> {
        let ether_type = ether_type(packet)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no packet of IP"))?;
        let mut header = [0; ETHERNET_BYTES];
        header[..6].copy_from_slice(&HARDWARE_ADDRESS);
        header[6..12].copy_from_slice(&HARDWARE_ADDRESS);
        header[12..].copy_from_slice(&ether_type.to_be_bytes());
        rustix::io::writev(&self.0, &[IoSlice::new(&header), IoSlice::new(packet)])?;
        Ok(())
    }

    fn source(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the type of a frame with this packet (RFC 894, RFC 2464 §3).
fn ether_type(packet: &[u8]) -> Option<u16> {
    match packet.first()? >> 4 {
        4 => Some(0x0800),
        6 => Some(0x86dd),
        _ => None,
    }
}
