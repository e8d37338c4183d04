//! A receiver of SRTLA before an SRT listener of any kind:
//!
//! ```text
//! cargo run -p anabranch-srtla --example relay -- 0.0.0.0:5000 127.0.0.1:9000
//! ```
//!
//! takes links at port 5000, and forwards each sender's SRT to the listener at port 9000.

#![allow(
    clippy::disallowed_methods,
    reason = "a driver of the sans-IO receiver reads the clock"
)]

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch_srtla::{GroupId, Receiver, SECRET_BYTES, Taken};
use anabranch_units::Instant;
use ring::rand::{SecureRandom, SystemRandom};

const MAX_DATAGRAM: usize = 2_048;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(listen), Some(service)) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::other("usage: relay LISTEN-ADDRESS SRT-LISTENER"));
    };
    let mut secret = [0; SECRET_BYTES];
    let random = SystemRandom::new().fill(&mut secret);
    random.map_err(|_| io::Error::other("the system has no random numbers"))?;
    let relay = Relay {
        links: UdpSocket::bind(&listen)?,
        service,
        receiver: Mutex::new(Receiver::new(&secret)),
        began_at: std::time::Instant::now(),
    };
    println!("listening at {listen}");
    Arc::new(relay).run()
}

struct Relay {
    links: UdpSocket,
    service: String,
    receiver: Mutex<Receiver>,
    began_at: std::time::Instant,
}

impl Relay {
    fn now(&self) -> Instant {
        Instant::from_micros(self.began_at.elapsed().as_micros() as u64)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Receiver) -> T) -> T {
        act(&mut self.receiver.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forwards datagrams of links. Each sender has a socket of its own at the listener.
    fn run(self: Arc<Self>) -> io::Result<()> {
        self.links.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut sockets: BTreeMap<GroupId, Arc<UdpSocket>> = BTreeMap::new();
        let mut buffer = [0; MAX_DATAGRAM];
        loop {
            let now = self.now();
            self.with(|receiver| receiver.handle_time(now));
            let Ok((length, from)) = self.links.recv_from(&mut buffer) else {
                continue;
            };
            let datagram = &buffer[..length];
            let now = self.now();
            match self.with(|receiver| receiver.handle_link(now, from, datagram)) {
                Taken::Nothing => {}
                Taken::Answer(answer) => self.answer(&answer, from),
                Taken::Forward { group, ack } => {
                    if !sockets.contains_key(&group) {
                        sockets.retain(|&known, _| {
                            self.with(|receiver| receiver.links(known).next().is_some())
                        });
                        sockets.insert(group, self.call(group)?);
                    }
                    // A listener that is not there yet refuses datagrams.
                    let _ = sockets[&group].send(datagram);
                    if let Some(ack) = ack {
                        self.answer(&ack, from);
                    }
                }
            }
        }
    }

    fn answer(&self, datagram: &[u8], to: SocketAddr) {
        // A link that is gone loses it, as a network does.
        let _ = self.links.send_to(datagram, to);
    }

    /// Opens a socket to the listener, and a thread for its answers while the sender has links.
    fn call(self: &Arc<Self>, group: GroupId) -> io::Result<Arc<UdpSocket>> {
        let socket = Arc::new(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?);
        socket.connect(&self.service)?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        let (relay, answers) = (Arc::clone(self), Arc::clone(&socket));
        std::thread::spawn(move || {
            let mut buffer = [0; MAX_DATAGRAM];
            while relay.with(|receiver| receiver.links(group).next().is_some()) {
                let Ok(length) = answers.recv(&mut buffer) else {
                    continue;
                };
                let answer = &buffer[..length];
                let now = relay.now();
                for link in relay.with(|receiver| receiver.handle_srt(now, group, answer)) {
                    relay.answer(answer, link);
                }
            }
        });
        Ok(socket)
    }
}
