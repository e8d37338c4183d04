//! UDP sockets of viewers by WebRTC: one for each address of this machine by which a viewer has
//! come.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

/// Most sockets. Chosen: more addresses than machines have.
const MAX_SOCKETS: usize = 16;
/// Datagrams that wait to be read by the viewers' thread.
const MAX_WAITING: usize = 64;
/// Bytes that are read at once: the kernel joins datagrams of one sender.
const READ_BYTES: usize = 64 << 10;
/// Buffer for sending. A key picture leaves at once: half a second of 60 Mbit/s.
const SEND_BUFFER: usize = 4 << 20;

/// A datagram that has come.
pub(crate) struct Datagram {
    pub(crate) local: SocketAddr,
    pub(crate) source: SocketAddr,
    pub(crate) bytes: Bytes,
}

/// A socket with the kernel's means for many datagrams at once.
struct Open {
    local: SocketAddr,
    socket: UdpSocket,
    state: UdpSocketState,
}

/// The open sockets. They need a runtime of tokio.
pub(crate) struct Sockets {
    open: Vec<Arc<Open>>,
    sender: mpsc::Sender<Datagram>,
    datagrams: mpsc::Receiver<Datagram>,
}

impl Sockets {
    pub(crate) fn new() -> Self {
        let (sender, datagrams) = mpsc::channel(MAX_WAITING);
        Sockets {
            open: Vec::new(),
            sender,
            datagrams,
        }
    }

    /// Returns the address of the socket at `address`, which is opened if there is none. If its
    /// port is another program's, the system chooses one.
    ///
    /// # Errors
    /// There are too many sockets, or none can be opened there.
    pub(crate) fn at(&mut self, address: IpAddr, port: u16) -> io::Result<SocketAddr> {
        if let Some(open) = self.open.iter().find(|open| open.local.ip() == address) {
            return Ok(open.local);
        }
        if self.open.len() >= MAX_SOCKETS {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let wanted = SocketAddr::new(address, port);
        let socket = open(wanted).or_else(|_| open(SocketAddr::new(address, 0)))?;
        let open = Arc::new(Open {
            local: socket.local_addr()?,
            state: UdpSocketState::new(UdpSockRef::from(&socket))?,
            socket,
        });
        let local = open.local;
        tokio::spawn(read(Arc::clone(&open), self.sender.clone()));
        self.open.push(open);
        Ok(local)
    }

    /// Waits for a datagram.
    pub(crate) async fn receive(&mut self) -> Option<Datagram> {
        self.datagrams.recv().await
    }

    /// Returns the largest number of datagrams that the socket at `local` sends at once.
    pub(crate) fn batch_len(&self, local: SocketAddr) -> usize {
        let open = self.open.iter().find(|open| open.local == local);
        open.map_or(1, |open| open.state.max_gso_segments())
    }

    /// Sends bytes as datagrams of `datagram_len` bytes each; the last may be shorter. If there is
    /// no room for them, viewers ask for them again.
    pub(crate) fn send(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
        bytes: &[u8],
        datagram_len: usize,
    ) {
        let Some(open) = self.open.iter().find(|open| open.local == source) else {
            return;
        };
        let transmit = Transmit {
            destination,
            ecn: None,
            contents: bytes,
            segment_size: (bytes.len() > datagram_len).then_some(datagram_len),
            src_ip: None,
        };
        let socket = UdpSockRef::from(&open.socket);
        let _ = open.socket.try_io(Interest::WRITABLE, || {
            open.state.try_send(socket, &transmit)
        });
    }
}

fn open(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    socket.set_nonblocking(true)?;
    // The system may allow less.
    let _ = socket.set_send_buffer_size(SEND_BUFFER);
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

async fn read(open: Arc<Open>, sender: mpsc::Sender<Datagram>) {
    let Open {
        local,
        socket,
        state,
    } = &*open;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let mut metas = [RecvMeta::default()];
        let read = socket.async_io(Interest::READABLE, || {
            let mut slices = [IoSliceMut::new(&mut buffer)];
            state.recv(UdpSockRef::from(socket), &mut slices, &mut metas)
        });
        // An error is of one destination, which has closed its port.
        if read.await.is_err() {
            tokio::task::yield_now().await;
            continue;
        }
        let [meta] = metas;
        for bytes in buffer[..meta.len].chunks(meta.stride.max(1)) {
            let datagram = Datagram {
                local: *local,
                source: meta.addr,
                bytes: Bytes::copy_from_slice(bytes),
            };
            if sender.send(datagram).await.is_err() {
                return;
            }
        }
    }
}
