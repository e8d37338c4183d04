//! Sockets for datagrams in memory: beside a proxy or a server, where nothing is lost.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

/// Ports of sockets that do not ask for one.
const FIRST_PORT: u16 = 40_000;

#[derive(Debug, Default)]
struct Queue {
    datagrams: Mutex<VecDeque<(SocketAddr, Vec<u8>)>>,
    arrived: Notify,
}

/// A network of sockets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Datagrams(Arc<Mutex<BTreeMap<SocketAddr, Arc<Queue>>>>);

/// A socket, which closes when it is dropped.
#[derive(Debug)]
pub(crate) struct MemorySocket {
    network: Datagrams,
    local: SocketAddr,
    queue: Arc<Queue>,
}

impl Datagrams {
    /// Returns a socket at an address; port 0 is one that is free.
    pub(crate) fn bind(&self, at: SocketAddr) -> MemorySocket {
        let mut sockets = self.0.lock().unwrap();
        let mut ports = FIRST_PORT..=u16::MAX;
        let free = ports.find(|port| !sockets.contains_key(&(at.ip(), *port).into()));
        let port = match at.port() {
            0 => free.expect("a port is free"),
            port => port,
        };
        let (local, queue) = (SocketAddr::new(at.ip(), port), Arc::<Queue>::default());
        sockets.insert(local, Arc::clone(&queue));
        MemorySocket {
            network: self.clone(),
            local,
            queue,
        }
    }
}

impl MemorySocket {
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Sends a datagram. It is lost if nobody listens.
    pub(crate) fn send_to(&self, bytes: &[u8], to: SocketAddr) {
        let queue = self.network.0.lock().unwrap().get(&to).cloned();
        if let Some(queue) = queue {
            let datagram = (self.local, bytes.to_vec());
            queue.datagrams.lock().unwrap().push_back(datagram);
            queue.arrived.notify_one();
        }
    }

    pub(crate) async fn readable(&self) {
        while self.queue.datagrams.lock().unwrap().is_empty() {
            self.queue.arrived.notified().await;
        }
    }

    pub(crate) fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let next = self.queue.datagrams.lock().unwrap().pop_front();
        let (from, bytes) = next.ok_or(ErrorKind::WouldBlock)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok((bytes.len(), from))
    }

    /// Waits for a datagram. Returns its bytes and its source.
    pub(crate) async fn recv(&self) -> (Vec<u8>, SocketAddr) {
        self.readable().await;
        let mut buffer = vec![0; 1 << 16];
        let (length, from) = self.try_recv_from(&mut buffer).expect("it is readable");
        buffer.truncate(length);
        (buffer, from)
    }
}

impl Drop for MemorySocket {
    fn drop(&mut self) {
        self.network.0.lock().unwrap().remove(&self.local);
    }
}
