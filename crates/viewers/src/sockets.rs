//! UDP sockets of viewers by WebRTC: one for each address of this machine by which a viewer has
//! come.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

/// Most sockets. Chosen: more addresses than machines have.
const MAX_SOCKETS: usize = 16;
/// Datagrams that wait to be read by the viewers' thread.
const MAX_WAITING: usize = 64;
/// Longest datagram that is read; longer ones are none of WebRTC's.
const MAX_DATAGRAM_LEN: usize = 2_048;
/// Buffer for sending. A key picture leaves at once: half a second of 60 Mbit/s.
const SEND_BUFFER: usize = 4 << 20;

/// A datagram that has come.
pub(crate) struct Datagram {
    pub(crate) local: SocketAddr,
    pub(crate) source: SocketAddr,
    pub(crate) bytes: Bytes,
}

/// The open sockets. They need a runtime of tokio.
pub(crate) struct Sockets {
    open: Vec<(SocketAddr, Arc<UdpSocket>)>,
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
        if let Some((local, _)) = self.open.iter().find(|(local, _)| local.ip() == address) {
            return Ok(*local);
        }
        if self.open.len() >= MAX_SOCKETS {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let wanted = SocketAddr::new(address, port);
        let socket = open(wanted).or_else(|_| open(SocketAddr::new(address, 0)))?;
        let local = socket.local_addr()?;
        let socket = Arc::new(socket);
        tokio::spawn(read(local, Arc::clone(&socket), self.sender.clone()));
        self.open.push((local, socket));
        Ok(local)
    }

    /// Waits for a datagram.
    pub(crate) async fn receive(&mut self) -> Option<Datagram> {
        self.datagrams.recv().await
    }

    /// Sends a datagram. If there is no room for it, viewers ask for it again.
    pub(crate) fn send(&self, source: SocketAddr, destination: SocketAddr, bytes: &[u8]) {
        if let Some((_, socket)) = self.open.iter().find(|(local, _)| *local == source) {
            let _ = socket.try_send_to(bytes, destination);
        }
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

async fn read(local: SocketAddr, socket: Arc<UdpSocket>, sender: mpsc::Sender<Datagram>) {
    let mut buffer = [0; MAX_DATAGRAM_LEN];
    loop {
        // An error is of one destination, which has closed its port.
        let Ok((len, source)) = socket.recv_from(&mut buffer).await else {
            tokio::task::yield_now().await;
            continue;
        };
        let datagram = Datagram {
            local,
            source,
            bytes: Bytes::copy_from_slice(&buffer[..len]),
        };
        if sender.send(datagram).await.is_err() {
            return;
        }
    }
}
