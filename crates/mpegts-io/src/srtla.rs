//! SRTLA over sockets: links of senders on one side, an SRT listener on the other.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};

use anabranch_net::{PlainSocket, Surroundings, Work, Worker};
use anabranch_srtla::{Event, GroupId, LinkSummary, Receiver, Taken};
use anabranch_units::{Duration, Instant};

use super::limited_lines::LimitedLines;
use super::links::{Link, Links};
use super::srt::{Origins, SrtError};

/// Longest wait for datagrams before the links are shown again.
const PATIENCE: Duration = Duration::from_millis(200);
/// Time between updates of the links in the statistics.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time between checks for silent links.
const TICK: Duration = Duration::from_secs(1);
/// Maximum datagrams read from one socket before the others have their turn.
const AT_ONCE: usize = 64;
/// Longest datagram on an Ethernet.
const MAX_DATAGRAM_BYTES: usize = 1_500;

/// The relay's thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Relay {
    _worker: Worker,
    seen: Links,
}

impl Relay {
    /// Listens for links at `listen`, and forwards their packets to the SRT listener at `srt`. That
    /// looks up the links' addresses in its `origins`.
    ///
    /// # Errors
    /// The address is taken, or the system has no randomness.
    pub(super) fn start(
        name: &str,
        listen: SocketAddr,
        (srt, origins): (SocketAddr, Origins),
        surroundings: &Surroundings,
    ) -> Result<Self, SrtError> {
        let links = PlainSocket::listen(surroundings, listen).map_err(|source| {
            let name = name.to_owned();
            SrtError::Listen { name, source }
        })?;
        let seed = surroundings.random_bytes().map_err(SrtError::Randomness)?;
        let seen = Links::default();
        let now = surroundings.clock().now();
        let hands = Hands {
            name: name.to_owned(),
            receiver: Receiver::new(&seed),
            links,
            local_addresses: BTreeMap::new(),
            seen: seen.clone(),
            answers: BTreeMap::new(),
            srt,
            origins,
            surroundings: surroundings.clone(),
            tick_at: now,
            look_at: now,
            lines: LimitedLines::default(),
        };
        let worker = Worker::start("srtla", surroundings, hands);
        Ok(Relay {
            _worker: worker.map_err(SrtError::Thread)?,
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
    links: PlainSocket,
    /// This machine's address that each link has sent to, if the machine has several.
    local_addresses: BTreeMap<SocketAddr, IpAddr>,
    seen: Links,
    /// Socket of each group towards the SRT listener.
    answers: BTreeMap<GroupId, Inside>,
    srt: SocketAddr,
    origins: Origins,
    surroundings: Surroundings,
    tick_at: Instant,
    look_at: Instant,
    lines: LimitedLines,
}

/// Socket towards the SRT listener.
struct Inside {
    socket: PlainSocket,
    local_address: SocketAddr,
    origins: Origins,
}

impl Inside {
    /// Opens the socket of a group that was registered from `origin`.
    fn open(hands: &Hands, origin: Option<IpAddr>) -> io::Result<Inside> {
        let (surroundings, srt) = (&hands.surroundings, hands.srt);
        let socket = PlainSocket::listen(surroundings, SocketAddr::new(srt.ip(), 0))?;
        socket.connect(srt)?;
        let local_address = socket.local_addr()?;
        if let Some(origin) = origin {
            hands.origins.add(local_address, origin);
        }
        Ok(Inside {
            socket,
            local_address,
            origins: hands.origins.clone(),
        })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.origins.remove(self.local_address);
    }
}

impl Work for Hands {
    fn turn(&mut self, now: Instant, is_ending: bool) -> Option<Instant> {
        if is_ending {
            return None;
        }
        let mut buffer = [0; MAX_DATAGRAM_BYTES];
        self.read_links(now, &mut buffer);
        self.read_answers(now, &mut buffer);
        if now >= self.tick_at {
            self.tick_at = now + TICK;
            self.receiver.handle_time(now);
        }
        self.take_events(now);
        if now >= self.look_at {
            self.look_at = now + POLL_INTERVAL;
            self.show_links(now);
        }
        Some(now + PATIENCE)
    }

    fn sockets(&self) -> Vec<PlainSocket> {
        let inside = self.answers.values().map(|inside| &inside.socket);
        core::iter::once(&self.links)
            .chain(inside)
            .cloned()
            .collect()
    }
}

impl Hands {
    fn read_links(&mut self, now: Instant, buffer: &mut [u8]) {
        for _ in 0..AT_ONCE {
            // Other errors concern earlier datagrams and can be ignored.
            let (length, from, to) = match self.links.recv(buffer) {
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
            match taken {
                Taken::Nothing => {}
                Taken::Answer(bytes) => drop(self.links.send_to(&bytes, from, to)),
                Taken::Forward { group, ack } => {
                    if let Some(ack) = ack {
                        let _ = self.links.send_to(&ack, from, to);
                    }
                    self.forward(now, group, datagram);
                }
            }
        }
    }

    fn forward(&mut self, now: Instant, group: GroupId, datagram: &[u8]) {
        if !self.answers.contains_key(&group) {
            match Inside::open(self, self.receiver.address(group)) {
                Ok(inside) => _ = self.answers.insert(group, inside),
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
                    Ok((length, _, _)) => length,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => continue,
                };
                let datagram = &buffer[..length];
                for to in self.receiver.handle_srt(now, group, datagram) {
                    let from = self.local_addresses.get(&to).copied();
                    let _ = self.links.send_to(datagram, to, from);
                }
            }
        }
    }

    fn show_links(&self, now: Instant) {
        let links = self
            .receiver
            .accepted_links(now)
            .map(|(summary, heard_at)| Link {
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
                    self.note(now, format_args!("link {link} of {count} is present"));
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
