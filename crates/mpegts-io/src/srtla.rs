//! SRTLA over sockets: links of senders on one side, an SRT listener on the other.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anabranch_net::Clock;
use anabranch_net::{listen, local_address};
use anabranch_srtla::{Event, GroupId, LinkSummary, Receiver, SECRET_BYTES, Taken};
use anabranch_units::{Duration, Instant};
use anyhow::{Context, anyhow};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

use super::limited_lines::LimitedLines;
use super::links::{Link, Links};
use super::worker::Worker;

/// Longest wait for datagrams before the thread checks whether it should end.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// Time between updates of the links in the statistics.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Time between checks for silent links.
const TICK: Duration = Duration::from_secs(1);
/// Maximum datagrams read from one socket before the others have their turn.
const AT_ONCE: usize = 64;
/// Buffer size that is requested from the operating system.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Longest datagram on an Ethernet.
const MAX_DATAGRAM_BYTES: usize = 1_500;
/// Addresses from which groups were registered, by the sockets through which relays of this program
/// pass them on to an SRT listener. The listener limits callers by them.
static ORIGINS: Mutex<BTreeMap<SocketAddr, IpAddr>> = Mutex::new(BTreeMap::new());

/// Returns the origin of a datagram that has come from `caller`.
pub(super) fn origin(caller: SocketAddr) -> IpAddr {
    // No relay has a socket at another address.
    if !caller.ip().is_loopback() {
        return caller.ip();
    }
    let origins = ORIGINS.lock().unwrap_or_else(PoisonError::into_inner);
    origins.get(&caller).copied().unwrap_or(caller.ip())
}

/// The relay's thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Relay {
    _worker: Worker,
    seen: Links,
}

impl Relay {
    /// Listens for links at `listen`, and forwards their packets to the SRT listener at `srt`.
    ///
    /// # Errors
    /// The address is taken, or the system has no randomness.
    pub(super) fn start(
        name: &str,
        listen: SocketAddr,
        srt: SocketAddr,
        clock: &Clock,
    ) -> anyhow::Result<Self> {
        let links = socket(listen).with_context(|| format!("cannot listen at {name}"))?;
        local_address::enable(&links, listen).context("cannot set up a socket")?;
        let seen = Links::default();
        let mut secret = [0; SECRET_BYTES];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.map_err(|_| anyhow!("the system has no random numbers"))?;
        let hands = Hands {
            name: name.to_owned(),
            receiver: Receiver::new(&secret),
            links,
            local_addresses: BTreeMap::new(),
            seen: seen.clone(),
            answers: BTreeMap::new(),
            srt,
            clock: *clock,
            lines: LimitedLines::default(),
        };
        let worker = Worker::start("srtla", move |is_over| hands.run(&is_over))?;
        Ok(Relay {
            _worker: worker,
            seen,
        })
    }

    /// Returns the links for the statistics.
    pub(super) fn links(&self) -> Links {
        self.seen.clone()
    }
}

/// State of the thread.
struct Hands {
    name: String,
    receiver: Receiver,
    links: UdpSocket,
    /// This machine's address that each link has sent to, if the machine has several.
    local_addresses: BTreeMap<SocketAddr, IpAddr>,
    seen: Links,
    /// Socket of each group towards the SRT listener.
    answers: BTreeMap<GroupId, Inside>,
    srt: SocketAddr,
    clock: Clock,
    lines: LimitedLines,
}

/// Socket towards the SRT listener.
struct Inside {
    socket: UdpSocket,
    local_address: SocketAddr,
}

impl Inside {
    /// Opens the socket of a group that was registered from `origin`.
    fn open(srt: SocketAddr, origin: Option<IpAddr>) -> io::Result<Inside> {
        let socket = socket(SocketAddr::new(srt.ip(), 0))?;
        socket.connect(srt)?;
        let local_address = socket.local_addr()?;
        if let Some(origin) = origin {
            let mut origins = ORIGINS.lock().unwrap_or_else(PoisonError::into_inner);
            origins.insert(local_address, origin);
        }
        Ok(Inside {
            socket,
            local_address,
        })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut origins = ORIGINS.lock().unwrap_or_else(PoisonError::into_inner);
        origins.remove(&self.local_address);
    }
}

impl Hands {
    fn run(mut self, is_over: &AtomicBool) {
        let mut buffer = [0; MAX_DATAGRAM_BYTES];
        let mut tick_at = self.clock.now();
        let mut look_at = tick_at;
        while !is_over.load(Ordering::SeqCst) {
            self.wait();
            let now = self.clock.now();
            self.read_links(now, &mut buffer);
            self.read_answers(now, &mut buffer);
            if now >= tick_at {
                tick_at = now + TICK;
                self.receiver.handle_time(now);
            }
            self.take_events(now);
            if now >= look_at {
                look_at = now + LOOK_INTERVAL;
                self.show_links(now);
            }
        }
    }

    /// Waits for datagrams.
    fn wait(&self) {
        let inside = self.answers.values().map(|inside| &inside.socket);
        let sockets = core::iter::once(&self.links).chain(inside);
        let mut awaited: Vec<_> = sockets
            .map(|socket| PollFd::new(socket, PollFlags::IN))
            .collect();
        // After an error, reads still return the waiting datagrams and do not block.
        let _ = poll(&mut awaited, Some(&PATIENCE));
    }

    fn read_links(&mut self, now: Instant, buffer: &mut [u8]) {
        for _ in 0..AT_ONCE {
            // Other errors concern earlier datagrams and can be ignored.
            let (length, from, to) = match local_address::recv(&self.links, buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => continue,
            };
            let datagram = &buffer[..length];
            let taken = self.receiver.handle_link(now, from, datagram);
            // Later answers of the listener use the same address.
            if let Some(to) = to
                && self.receiver.has_link(from)
            {
                self.local_addresses.insert(from, to);
            }
            // A datagram that finds no room is lost, as anywhere in the network.
            let answer = |bytes: &[u8]| drop(local_address::send(&self.links, bytes, from, to));
            match taken {
                Taken::Nothing => {}
                Taken::Answer(bytes) => answer(&bytes),
                Taken::Forward { group, ack } => {
                    ack.inspect(|ack| answer(ack));
                    self.forward(now, group, datagram);
                }
            }
        }
    }

    fn forward(&mut self, now: Instant, group: GroupId, datagram: &[u8]) {
        if let std::collections::btree_map::Entry::Vacant(place) = self.answers.entry(group) {
            match Inside::open(self.srt, self.receiver.address(group)) {
                Ok(inside) => _ = place.insert(inside),
                Err(error) => {
                    return self.note(now, format_args!("no socket for a sender: {error}"));
                }
            }
        }
        if let Some(inside) = self.answers.get(&group) {
            // A listener that is being restarted refuses; SRT retransmits.
            let _ = inside.socket.send(datagram);
        }
    }

    fn read_answers(&mut self, now: Instant, buffer: &mut [u8]) {
        for (&group, inside) in &self.answers {
            for _ in 0..AT_ONCE {
                let length = match inside.socket.recv(buffer) {
                    Ok(length) => length,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => continue,
                };
                let datagram = &buffer[..length];
                for to in self.receiver.handle_srt(now, group, datagram) {
                    let from = self.local_addresses.get(&to).copied();
                    let _ = local_address::send(&self.links, datagram, to, from);
                }
            }
        }
    }

    fn show_links(&self, now: Instant) {
        let links = self.receiver.accepted_links(now);
        let links = links.map(|(summary, heard_at)| Link {
            address: summary.address,
            datagram_count: summary.datagram_count,
            bytes: summary.bytes,
            heard_at,
            is_there: true,
            quality: None,
        });
        self.seen.set(&links.collect::<Vec<_>>());
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.receiver.poll_event() {
            match event {
                Event::LinkAccepted(group, link) => {
                    let count = self.receiver.links(group).count();
                    self.note(now, format_args!("link {link} is there, of {count}"));
                }
                Event::LinkLeft(_, summary) => {
                    self.local_addresses.remove(&summary.address);
                    if summary.was_accepted {
                        self.note(now, format_args!("{}", describe_link(&summary)));
                    }
                }
                Event::GroupEnded(group) => {
                    self.answers.remove(&group);
                }
            }
        }
    }

    fn note(&mut self, now: Instant, line: core::fmt::Arguments<'_>) {
        self.lines.note(now, &self.name, line);
    }
}

/// Summarizes a removed link.
fn describe_link(summary: &LinkSummary) -> String {
    let megabytes = summary.bytes as f64 / 1e6;
    let rtt = summary.info.map_or(String::new(), |info| {
        format!(", round trip {} ms", info.rtt_millis)
    });
    format!(
        "link {} is silent; it brought {megabytes:.1} MB{rtt}",
        summary.address
    )
}

/// Opens a socket that does not block.
pub(super) fn socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = listen::udp(address)?;
    socket.set_nonblocking(true)?;
    let options = SockRef::from(&socket);
    // The system may grant less, which is no error.
    let _ = options.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _ = options.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    Ok(socket)
}

// Needs a clock: links are real sockets.
#[cfg(test)]
mod real_time_tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn received(socket: &UdpSocket) -> Vec<u8> {
        let mut buffer = [0; MAX_DATAGRAM_BYTES];
        let length = socket.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    }

    fn plain() -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let patience = core::time::Duration::from_secs(10);
        socket.set_read_timeout(Some(patience)).unwrap();
        socket
    }

    #[test]
    fn a_sender_of_two_links_reaches_the_listener_and_its_answers_come_back() {
        // An address of its own, so that no other test takes the port meanwhile.
        let free = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 7), 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        a_sender_of_two_links_is_served(address, [address; 2]);
    }

    /// A link accepts answers only from the address that it has sent to.
    #[test]
    fn at_every_address_answers_leave_from_the_one_that_was_asked() {
        let port = plain().local_addr().unwrap().port();
        let asked = [2, 3].map(|last| SocketAddr::from(([127, 0, 0, last], port)));
        for any in ["0.0.0.0", "::"] {
            let any: IpAddr = any.parse().unwrap();
            a_sender_of_two_links_is_served((any, port).into(), asked);
        }
    }

    fn a_sender_of_two_links_is_served(listen: SocketAddr, asked: [SocketAddr; 2]) {
        let (listener, clock) = (plain(), Clock::start());
        let srt = listener.local_addr().unwrap();
        let relay = Relay::start("srtla://test", listen, srt, &clock).unwrap();
        let links = [plain(), plain()];
        for (link, asked) in links.iter().zip(asked) {
            link.connect(asked).unwrap();
        }
        links[0]
            .send(&[&[0x92, 0][..], &[1; 256]].concat())
            .unwrap();
        let group = received(&links[0]);
        assert_eq!((group.len(), &group[..3]), (258, &[0x92, 1, 1][..]));
        assert_ne!(group[130..], [1; 128], "its own half");
        for link in &links {
            link.send(&group).unwrap();
            assert_eq!(received(link)[..2], [0x92, 2]);
        }
        for number in 0..20_u8 {
            let packet = [&[0, 0, 0, number][..], &[0x47; 1_000]].concat();
            links[usize::from(number % 2)].send(&packet).unwrap();
            assert_eq!(received(&listener), packet);
        }
        for (index, link) in links.iter().enumerate() {
            let ack = received(link);
            assert_eq!((ack.len(), ack[1], ack[7]), (44, 0, index as u8));
        }
        let mut buffer = [0; 2_000];
        links[0].send(&[0x80; 64]).unwrap();
        let (_, from) = listener.recv_from(&mut buffer).unwrap();
        listener
            .send_to(&[&[0x80, 2][..], &[0; 42]].concat(), from)
            .unwrap();
        assert!(links.iter().all(|link| received(link)[..2] == [0x80, 2]));
        let deadline = clock.now() + Duration::from_secs(10);
        while relay
            .links()
            .get()
            .iter()
            .map(|link| link.bytes)
            .sum::<u64>()
            < 20 * 1_004
        {
            assert!(clock.now() < deadline, "{:?}", relay.links());
            std::thread::park_timeout(core::time::Duration::from_millis(20));
        }
        let seen = relay.links().get();
        assert!(
            seen.iter()
                .all(|link| link.is_there && link.datagram_count >= 10)
        );
        drop(relay);
        UdpSocket::bind(listen).expect("it listens no more");
    }
}
