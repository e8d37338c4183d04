//! The thread of all viewers, and the queues to it.

use core::time::Duration as StdDuration;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use anabranch_net::Clock;
use anabranch_units::{Duration, Instant, SharedMemory};
use tokio::sync::{mpsc, oneshot};

pub use crate::film::FilmPieces as Film;
use crate::refusal::Refusal;
use crate::samples::Format;
use crate::sockets::{Datagram, Sockets};
use crate::stage::{Source, Stage};

/// Commands that wait for the thread. Pictures of one stream are 60 a second.
const MAX_WAITING: usize = 1_024;
/// Bytes that wait for the thread, of all streams (chosen: 40 s of 12 Mbit/s).
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Most bytes of one picture. A longer one is passed on in parts, which are not shown.
const MAX_PICTURE_BYTES: usize = 4 << 20;
/// Time after a request, or a viewer's presence, in which pictures are taken.
const WANTED_FOR: Duration = Duration::from_secs(30);
/// Interval at which streams that have ended are forgotten.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Viewers of a program's streams, until this and all feeds are dropped.
#[derive(Debug)]
pub struct Hub {
    commands: Option<mpsc::Sender<Command>>,
    memory: SharedMemory,
    source_count: AtomicU64,
    wanted: Wanted,
    thread: Option<JoinHandle<()>>,
}

/// Whether pictures are taken: without viewers they cost nothing.
#[derive(Clone, Debug)]
struct Wanted {
    clock: Clock,
    /// Time at which they are no longer taken, in nanoseconds.
    until: Arc<AtomicU64>,
}

impl Wanted {
    fn extend(&self) {
        let until = self.clock.now() + WANTED_FOR;
        self.until.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    fn is_now(&self) -> bool {
        self.until.load(Ordering::Relaxed) > self.clock.now().as_nanos()
    }
}

/// The way of a stream's pictures to its viewers. It never waits: if the viewers' thread does not
/// follow, pictures up to the next key picture are left out.
#[derive(Debug)]
pub struct Feed {
    source: Arc<Source>,
    commands: mpsc::WeakSender<Command>,
    wanted: Wanted,
    packets: Vec<u8>,
    has_lost: bool,
}

/// Answer to a viewer by WebRTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    /// Name of the viewer, by which it ends.
    pub id: String,
    /// The answer (SDP).
    pub answer: String,
}

/// Appearance of a stream to viewers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// Its format.
    pub format: Format,
}

type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

#[derive(Debug)]
enum Command {
    Take {
        source: Arc<Source>,
        packets: Vec<u8>,
        has_lost: bool,
    },
    Offer {
        stream: String,
        sdp: String,
        way: Way,
        reply: Reply<Offered>,
    },
    End {
        id: String,
        reply: Reply<()>,
    },
    Film {
        stream: String,
        wants_sound: bool,
        reply: Reply<Film>,
    },
    StreamInfo {
        stream: String,
        reply: Reply<StreamInfo>,
    },
}

/// Addresses by which a viewer has reached this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// This end's address of the viewer's connection.
    pub local: SocketAddr,
    /// The host that the viewer has asked for, if it is an address: behind a forwarded port, it is
    /// another one than this machine's.
    pub host: Option<IpAddr>,
}

impl Hub {
    /// Starts the thread.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(clock: Clock) -> io::Result<Hub> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (sender, commands) = mpsc::channel(MAX_WAITING);
        let wanted = Wanted {
            clock,
            until: Arc::default(),
        };
        let of_thread = wanted.clone();
        let thread = thread::Builder::new()
            .name("viewers".to_owned())
            .spawn(move || {
                let stage = Stage::new(clock.origin());
                runtime.block_on(run(&of_thread, stage, commands));
            })?;
        Ok(Hub {
            commands: Some(sender),
            memory: SharedMemory::new(MAX_WAITING_BYTES),
            source_count: AtomicU64::new(0),
            wanted,
            thread: Some(thread),
        })
    }

    /// Returns the way of a stream's pictures to its viewers. A later one of the same name takes
    /// the place of an earlier one.
    pub fn feed(&self, stream: &str) -> Feed {
        let commands = self.commands.as_ref();
        Feed {
            source: Arc::new(Source {
                stream: stream.into(),
                number: 1 + self.source_count.fetch_add(1, Ordering::Relaxed),
                waiting: self.memory.share(),
            }),
            commands: commands.map_or_else(closed, mpsc::Sender::downgrade),
            wanted: self.wanted.clone(),
            packets: Vec::new(),
            has_lost: false,
        }
    }

    /// Takes the offer of a viewer by WebRTC (SDP).
    ///
    /// # Errors
    /// The stream has no picture for WebRTC, or the offer cannot be answered.
    pub async fn offer(&self, stream: String, sdp: String, way: Way) -> Result<Offered, Refusal> {
        self.ask(|reply| Command::Offer {
            stream,
            sdp,
            way,
            reply,
        })
        .await
    }

    /// Ends a viewer by WebRTC.
    ///
    /// # Errors
    /// There is none of this name.
    pub async fn end(&self, id: String) -> Result<(), Refusal> {
        self.ask(|reply| Command::End { id, reply }).await
    }

    /// Returns a stream as fragmented MP4, from the last key picture on.
    ///
    /// # Errors
    /// The stream has no picture that MP4 viewers can show, or all places are taken.
    pub async fn film(&self, stream: String, wants_sound: bool) -> Result<Film, Refusal> {
        self.ask(|reply| Command::Film {
            stream,
            wants_sound,
            reply,
        })
        .await
    }

    /// Returns a stream's format.
    ///
    /// # Errors
    /// There is no such stream.
    pub async fn describe(&self, stream: String) -> Result<StreamInfo, Refusal> {
        self.ask(|reply| Command::StreamInfo { stream, reply })
            .await
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Refusal> {
        self.wanted.extend();
        let (reply, answer) = oneshot::channel();
        let commands = self.commands.as_ref().ok_or(Refusal::NoStream)?;
        let sent = commands.send(command(reply)).await;
        sent.map_err(|_| Refusal::NoStream)?;
        answer.await.unwrap_or(Err(Refusal::NoStream))
    }
}

fn closed() -> mpsc::WeakSender<Command> {
    mpsc::channel(1).0.downgrade()
}

impl Drop for Hub {
    fn drop(&mut self) {
        drop(self.commands.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Feed {
    /// Takes bytes of the stream, in whole transport packets. `ends_picture`: the picture that they
    /// belong to is complete.
    pub fn push(&mut self, packets: &[u8], ends_picture: bool) {
        if !self.wanted.is_now() {
            self.packets = Vec::new();
            self.has_lost = true;
            return;
        }
        self.packets.extend_from_slice(packets);
        if ends_picture || self.packets.len() > MAX_PICTURE_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let packets = core::mem::take(&mut self.packets);
        let len = packets.len();
        if len == 0 {
            return;
        }
        let Some(commands) = self.commands.upgrade() else {
            return;
        };
        if self.source.waiting.is_exceeded_with(len) {
            self.has_lost = true;
            return;
        }
        self.source.waiting.add(len);
        let command = Command::Take {
            source: Arc::clone(&self.source),
            packets,
            has_lost: self.has_lost,
        };
        self.has_lost = commands.try_send(command).is_err();
        if self.has_lost {
            self.source.waiting.remove(len);
        }
    }
}

/// The thread's work, until all senders of commands are gone.
async fn run(wanted: &Wanted, mut stage: Stage, mut commands: mpsc::Receiver<Command>) {
    let clock = wanted.clock;
    let mut sockets = Sockets::new();
    let mut sweep_at = clock.now() + SWEEP_INTERVAL;
    loop {
        let pause = until(
            &clock,
            next_at(&stage).map_or(sweep_at, |at| at.min(sweep_at)),
        );
        tokio::select! {
            command = commands.recv() => match command {
                Some(command) => obey(command, clock.now(), &mut stage, &mut sockets),
                None => return,
            },
            datagram = sockets.receive() => {
                if let Some(datagram) = datagram {
                    receive(&mut stage, clock.now(), &datagram);
                }
            }
            () = tokio::time::sleep(pause) => {}
        }
        let now = clock.now();
        if now >= sweep_at {
            sweep_at = now + SWEEP_INTERVAL;
            if stage.sweep() {
                wanted.extend();
            }
        }
        turn(&mut stage, now, &sockets);
    }
}

fn until(clock: &Clock, at: Instant) -> StdDuration {
    at.saturating_since(clock.now()).to_std()
}

fn obey(command: Command, now: Instant, stage: &mut Stage, sockets: &mut Sockets) {
    match command {
        Command::Take {
            source,
            packets,
            has_lost,
        } => {
            source.waiting.remove(packets.len());
            stage.take(now, &source, &packets, has_lost);
        }
        Command::Offer {
            stream,
            sdp,
            way,
            reply,
        } => {
            let addresses = addresses(sockets, way);
            let made = stage.offer(now, &stream, &sdp, &addresses);
            let _ = reply.send(made.map(|(id, answer)| Offered {
                id: name_of(&id),
                answer,
            }));
        }
        Command::End { id, reply } => {
            let outcome = if end(stage, &id) {
                Ok(())
            } else {
                Err(Refusal::NoStream)
            };
            let _ = reply.send(outcome);
        }
        Command::Film {
            stream,
            wants_sound,
            reply,
        } => {
            let _ = reply.send(stage.film(&stream, wants_sound));
        }
        Command::StreamInfo { stream, reply } => {
            let format = stage.format(&stream).cloned();
            let info = format.map(|format| StreamInfo { format });
            let _ = reply.send(info.ok_or(Refusal::NoStream));
        }
    }
}

/// Returns the addresses by which a viewer reaches this machine; the first is a socket's. Empty if
/// there is none.
fn addresses(sockets: &mut Sockets, way: Way) -> Vec<SocketAddr> {
    let own = way.local.ip().to_canonical();
    let Ok(local) = sockets.at(own, way.local.port()) else {
        return Vec::new();
    };
    let forwarded = way
        .host
        .map(|host| host.to_canonical())
        .filter(|host| *host != own && !host.is_unspecified() && !host.is_loopback())
        .map(|host| SocketAddr::new(host, local.port()));
    [Some(local), forwarded].into_iter().flatten().collect()
}

#[cfg(feature = "webrtc")]
mod carried {
    use super::*;
    use crate::batch::Batch;
    use crate::webrtc::{Outgoing, ViewerId};

    pub(super) fn name_of(id: &ViewerId) -> String {
        id.as_str().to_owned()
    }

    pub(super) fn end(stage: &mut Stage, id: &str) -> bool {
        stage.peers.end(id)
    }

    pub(super) fn next_at(stage: &Stage) -> Option<Instant> {
        stage.peers.next_at()
    }

    pub(super) fn receive(stage: &mut Stage, now: Instant, datagram: &Datagram) {
        let Datagram {
            local,
            source,
            bytes,
        } = datagram;
        stage.peers.receive(now, *local, *source, bytes);
    }

    fn send(sockets: &Sockets, batch: Option<Batch>) {
        if let Some(batch) = batch {
            let Batch {
                source,
                destination,
                bytes,
                datagram_len,
                ..
            } = batch;
            sockets.send(source, destination, &bytes, datagram_len);
        }
    }

    pub(super) fn turn(stage: &mut Stage, now: Instant, sockets: &Sockets) {
        stage.peers.on_time(now);
        let mut last: Option<Batch> = None;
        while let Some(outgoing) = stage.peers.next_outgoing() {
            let Outgoing {
                source,
                destination,
                bytes,
            } = outgoing;
            let most = sockets.batch_len(source);
            if let Some(batch) = &mut last
                && batch.add(source, destination, &bytes, most)
            {
                continue;
            }
            let next = Batch::new(source, destination, &bytes);
            send(sockets, last.replace(next));
        }
        send(sockets, last);
    }
}

/// Builds without WebRTC have viewers of films alone.
#[cfg(not(feature = "webrtc"))]
mod carried {
    use core::convert::Infallible;

    use super::*;

    pub(super) fn name_of(id: &Infallible) -> String {
        match *id {}
    }

    pub(super) fn end(_: &mut Stage, _: &str) -> bool {
        false
    }

    pub(super) fn next_at(_: &Stage) -> Option<Instant> {
        None
    }

    pub(super) fn receive(_: &mut Stage, _: Instant, _: &Datagram) {}

    pub(super) fn turn(_: &mut Stage, _: Instant, _: &Sockets) {}
}

use carried::{end, name_of, next_at, receive, turn};
