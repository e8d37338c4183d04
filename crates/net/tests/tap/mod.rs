//! A wire between a sender and a receiver, with an attacker on it.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration as StdDuration;

use anabranch_secure::{Kind, classify};

/// Returns the address 127.0.0.`last` with this port.
pub fn loopback(last: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, last), port).into()
}

/// Waits for `span`.
pub fn pause(span: StdDuration) {
    let (_keep, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(span);
}

/// A wire between sender and receiver with an attacker on it, which records initiations.
pub struct Tap {
    receiver: SocketAddr,
    sockets: [Arc<UdpSocket>; 2],
    initiations: Arc<Mutex<Vec<Vec<u8>>>>,
    pub front: SocketAddr,
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Tap {
    pub fn new(receiver: SocketAddr) -> Tap {
        let socket = || {
            let socket = UdpSocket::bind(loopback(1, 0)).expect("a port of loopback");
            let patience = StdDuration::from_millis(50);
            socket.set_read_timeout(Some(patience)).expect("a timeout");
            Arc::new(socket)
        };
        let (front, own, other) = (socket(), socket(), socket());
        let sender = Arc::new(Mutex::new(None));
        let initiations = Arc::new(Mutex::new(Vec::new()));
        let mut tap = Tap {
            receiver,
            sockets: [Arc::clone(&own), other],
            initiations: Arc::clone(&initiations),
            front: front.local_addr().expect("bound"),
            is_over: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        let forth = {
            let (own, sender) = (Arc::clone(&own), Arc::clone(&sender));
            move |datagram: &[u8], from: SocketAddr| {
                *sender.lock().expect("no panic") = Some(from);
                if classify(datagram) == Some(Kind::Initiation) {
                    let mut initiations = initiations.lock().expect("no panic");
                    initiations.push(datagram.to_vec());
                }
                let _ = own.send_to(datagram, receiver);
            }
        };
        tap.serve(Arc::clone(&front), forth);
        tap.serve(own, move |datagram, _| {
            if let Some(sender) = *sender.lock().expect("no panic") {
                let _ = front.send_to(datagram, sender);
            }
        });
        tap
    }

    fn serve(
        &mut self,
        socket: Arc<UdpSocket>,
        mut take: impl FnMut(&[u8], SocketAddr) + Send + 'static,
    ) {
        let is_over = Arc::clone(&self.is_over);
        self.threads.push(thread::spawn(move || {
            let mut buffer = [0; 2_048];
            while !is_over.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    take(&buffer[..length], from);
                }
            }
        }));
    }

    /// Sends all recorded initiations again, from the sender's address and from another, 25 times.
    pub fn replay(&self) {
        let initiations = self.initiations.lock().expect("no panic").clone();
        assert!(!initiations.is_empty(), "nothing was recorded");
        for _ in 0..25 {
            for socket in &self.sockets {
                for initiation in &initiations {
                    let _ = socket.send_to(initiation, self.receiver);
                }
            }
            pause(StdDuration::from_millis(20));
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
