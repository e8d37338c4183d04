//! The end that opens a session and sends frames.

use core::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;

use anabranch_core::media::SendFrameError;
use anabranch_core::{Config, ConfigError, Endpoint, Frame, FrameId, PathId, PathOptions};
use anabranch_secure::{
    Initiator, Kind, PROTECTION_OVERHEAD_BYTES, PublicKey, SecretKey, classify,
};
use anabranch_units::{DataRate, Duration, Ecn, Instant, Lateness, Seed};

use crate::clock::{self, Clock};
use crate::driver::{Beginning, Driver};
use crate::event::{self, Ended, Event, EventSender};
use crate::random;
use crate::route::{Route, header_bytes};
use crate::runtime::{Next, Role, Runtime};
use crate::snapshot::{EdgeCounters, Snapshot};
use crate::socket::{Arrival, Batch, Socket};
use crate::via::{Via, ViaError};

/// An unanswered initiation is sent again after this time, then after twice as long, …
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// … and at last at this interval.
const LAST_RETRY: Duration = Duration::from_secs(2);

/// What a sender is started with.
#[derive(Debug)]
pub struct SenderConfig {
    /// The transport's set-up; `overhead_bytes` is set here, from the paths' addresses.
    pub transport: Config,
    /// What all instants count by.
    pub clock: Clock,
    /// This end's key.
    pub local_key: SecretKey,
    /// The receiver's public key.
    pub peer_key: PublicKey,
    /// The paths, at least one; the index is the path's number.
    pub paths: Vec<SenderPath>,
    /// For how long an answer to the handshake is waited for.
    pub connect_timeout: Duration,
    /// For how long a peer that is sent something may stay silent on all paths.
    pub silence_timeout: Duration,
    /// For how long a closing sender waits for its last frames to arrive.
    pub drain_timeout: Duration,
    /// Where the transport's chance comes from; `None`: from the operating system.
    pub seed: Option<Seed>,
}

impl SenderConfig {
    /// The set-up with which `local_key`'s owner sends to `peer_key`'s, with the usual timeouts.
    pub fn new(local_key: SecretKey, peer_key: PublicKey, paths: Vec<SenderPath>) -> Self {
        SenderConfig {
            transport: Config::default(),
            clock: Clock::start(),
            local_key,
            peer_key,
            paths,
            connect_timeout: Duration::from_secs(10),
            silence_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(3),
            seed: None,
        }
    }
}

/// One path of a sender.
#[derive(Clone, Debug, PartialEq)]
pub struct SenderPath {
    /// What it leaves this machine by.
    pub via: Via,
    /// Where the receiver is to be found by this path.
    pub remote: SocketAddr,
    /// What the scheduler should know of it.
    pub options: PathOptions,
}

/// Why an end did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No path.
    #[error("a sender needs a path")]
    NoPath,
    /// More paths than a session may have.
    #[error("{count} paths: a session has at most {}", PathId::LIMIT)]
    TooManyPaths {
        /// How many were asked for.
        count: usize,
    },
    /// The transport's set-up cannot work.
    #[error(transparent)]
    Transport(#[from] ConfigError),
    /// A path cannot leave this machine as asked.
    #[error(transparent)]
    Via(#[from] ViaError),
    /// Nothing can be received at the address.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// A socket or the thread could not be set up.
    #[error("cannot set up the runtime")]
    Runtime(#[source] io::Error),
}

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no session yet: wait for [`Event::Connected`].
    #[error("there is no session yet")]
    NotConnected,
    /// The transport refused it.
    #[error(transparent)]
    Transport(#[from] SendFrameError),
}

/// A running sender. Dropping it tells the peer that the session is over and waits for the thread;
/// what was not yet sent is lost. See [`close`](Self::close).
#[derive(Debug)]
pub struct Sender {
    runtime: Runtime<SenderRole>,
}

impl Sender {
    /// Opens the sockets, starts the thread and the handshake. The first event is
    /// [`Event::Connected`], or [`Event::Ended`] if nobody answers.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start(config: SenderConfig) -> Result<(Sender, mpsc::Receiver<Event>), StartError> {
        if config.paths.len() > PathId::LIMIT {
            return Err(StartError::TooManyPaths {
                count: config.paths.len(),
            });
        }
        let sockets = config
            .paths
            .iter()
            .map(|path| Socket::new(path.via.open(path.remote)?).map_err(StartError::Runtime))
            .collect::<Result<Vec<_>, _>>()?;
        let clock = config.clock;
        let (events, receiver) = event::queue();
        let role = SenderRole::new(config, events)?;
        let runtime =
            Runtime::start("sender", clock, sockets, role).map_err(StartError::Runtime)?;
        Ok((Sender { runtime }, receiver))
    }

    /// Takes a frame in for sending. Frames are numbered from zero; a refused one takes no number.
    ///
    /// # Errors
    /// [`SendError`]; the frame is not sent.
    pub fn send_frame(&self, frame: &Frame) -> Result<FrameId, SendError> {
        self.runtime.change(|role, now| match &mut role.driver {
            Some(_) if role.closing_at.is_some() => Err(SendFrameError::Closed.into()),
            Some(driver) => Ok(driver.send_frame(now, frame)?),
            None => Err(SendError::NotConnected),
        })
    }

    /// What the encoder is asked to produce; zero before the session.
    pub fn target_bitrate(&self) -> DataRate {
        self.snapshot().target_bitrate
    }

    /// The session as it is, or was when it ended.
    pub fn snapshot(&self) -> Snapshot {
        self.runtime.look(SenderRole::snapshot)
    }

    /// How late the machine let the thread get to its work, in the worse of the last two seconds.
    pub fn lateness(&self) -> Lateness {
        self.runtime.lateness()
    }

    /// Ends the session once every frame is there or given up, at the latest after
    /// [`SenderConfig::drain_timeout`]. [`Event::Ended`] tells when it is over.
    pub fn close(&self) {
        self.runtime.change(|role, now| {
            role.closing_at.get_or_insert(now);
        });
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.runtime.change(|role, _| role.is_abandoned = true);
        let _ = self.runtime.join();
    }
}

struct SenderRole {
    config: Option<SenderConfig>,
    events: EventSender,
    edge: EdgeCounters,
    handshake: Option<Handshake>,
    driver: Option<Driver>,
    silence_timeout: Duration,
    drain_timeout: Duration,
    closing_at: Option<Instant>,
    /// Whether the owner has gone: nothing is waited for.
    is_abandoned: bool,
    is_over: bool,
}

/// The time before there is a session.
struct Handshake {
    initiator: Initiator,
    started_at: Instant,
    retry_at: Instant,
    retry_after: Duration,
}

impl fmt::Debug for SenderRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SenderRole")
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

impl SenderRole {
    fn new(mut config: SenderConfig, events: EventSender) -> Result<Self, StartError> {
        let headers = config
            .paths
            .iter()
            .map(|path| header_bytes(path.remote))
            .max();
        let headers = headers.ok_or(StartError::NoPath)?;
        config.transport.overhead_bytes = headers + PROTECTION_OVERHEAD_BYTES as u32;
        let now = config.clock.now();
        // The caller's mistakes are told at once, not when the peer answers.
        Endpoint::new(config.transport.clone(), Seed(0), now)?;
        let initiator = Initiator::new(
            &config.local_key,
            &config.peer_key,
            random::session_index(),
            clock::wall_clock_nanos(),
        );
        Ok(SenderRole {
            handshake: Some(Handshake {
                initiator,
                started_at: now,
                retry_at: now,
                retry_after: FIRST_RETRY,
            }),
            silence_timeout: config.silence_timeout,
            drain_timeout: config.drain_timeout,
            config: Some(config),
            events,
            edge: EdgeCounters::default(),
            driver: None,
            closing_at: None,
            is_abandoned: false,
            is_over: false,
        })
    }

    fn handle_response(&mut self, now: Instant, datagram: &[u8]) {
        let session = self
            .handshake
            .as_mut()
            .map(|handshake| handshake.initiator.handle_response(datagram));
        let Some(Ok(session)) = session else {
            // Every path that works brings an answer, and the first was taken.
            self.edge.refused_handshakes += u64::from(session.is_some());
            return;
        };
        self.handshake = None;
        let config = self
            .config
            .take()
            .expect("the set-up is kept until the handshake is done");
        let peer = config.peer_key;
        let mut driver = Driver::new(Beginning {
            config: config.transport,
            seed: config.seed.unwrap_or_else(random::seed),
            session,
            peer,
            at: now,
        })
        .expect("the transport's set-up was checked at the start");
        for (socket, path) in config.paths.iter().enumerate() {
            driver.add_path(now, Some(Route::to(socket, path.remote)), path.options);
        }
        self.driver = Some(driver);
        self.events.tell(Event::Connected { peer });
    }

    /// Sends the initiation on all paths when it is due, and gives up in the end.
    fn advance_handshake(&mut self, now: Instant, sockets: &[Socket]) -> Next {
        let (Some(handshake), Some(config)) = (&mut self.handshake, &self.config) else {
            return Next::Over;
        };
        if self.is_abandoned || self.closing_at.is_some() {
            return self.end(Ended::Closed);
        }
        let give_up_at = handshake.started_at + config.connect_timeout;
        if now >= give_up_at {
            let mut remotes: Vec<_> = config.paths.iter().map(|path| path.remote).collect();
            remotes.dedup();
            let ended = Ended::NoAnswer {
                remotes,
                waited: config.connect_timeout,
                local_key: config.local_key.public_key(),
            };
            return self.end(ended);
        }
        if now >= handshake.retry_at {
            let message = handshake.initiator.message();
            for (socket, path) in sockets.iter().zip(&config.paths) {
                // One path that is down does not keep the others from trying.
                let _ = socket.send(&Batch {
                    to: path.remote,
                    from: None,
                    ecn: Ecn::NotEct,
                    bytes: message,
                    datagram_bytes: message.len(),
                });
            }
            handshake.retry_at = now + handshake.retry_after;
            handshake.retry_after = (handshake.retry_after * 2).min(LAST_RETRY);
        }
        Next::Wait(Some(handshake.retry_at.min(give_up_at)))
    }

    fn advance_session(&mut self, now: Instant, sockets: &[Socket]) -> Next {
        let Some(driver) = &mut self.driver else {
            return Next::Over;
        };
        let drained_by = self
            .closing_at
            .map(|closing_at| closing_at + self.drain_timeout);
        let is_late = drained_by.is_some_and(|by| now >= by);
        if self.is_abandoned || is_late || (drained_by.is_some() && driver.is_drained()) {
            driver.close(now);
        }
        let waited = driver.unanswered_for(now);
        if let Some(ended) = driver.advance(now, sockets, &mut self.events) {
            return self.end(match ended {
                // Nobody is there to be told, nor was for the last frames.
                Ended::Closed if waited >= self.drain_timeout => Ended::PeerSilent { waited },
                ended => ended,
            });
        }
        if waited >= self.silence_timeout {
            return self.end(Ended::PeerSilent { waited });
        }
        // Silence is no emergency: it is looked at when something else happens, or in a second.
        let watch_at = now + Duration::from_secs(1);
        let next_at = driver.next_at().unwrap_or(watch_at).min(watch_at);
        Next::Wait(Some(
            drained_by
                .filter(|by| *by > now)
                .unwrap_or(next_at)
                .min(next_at),
        ))
    }

    fn end(&mut self, ended: Ended) -> Next {
        self.is_over = true;
        self.events.tell(Event::Ended(ended));
        Next::Over
    }

    fn snapshot(&mut self, now: Instant) -> Snapshot {
        let seen = self.driver.as_mut().map(|driver| driver.snapshot(now));
        Snapshot::with_edge(seen, now, &self.edge, self.events.dropped_count)
    }
}

impl Role for SenderRole {
    fn handle_datagram(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &mut [u8],
        _sockets: &[Socket],
    ) {
        match (classify(datagram), &mut self.driver) {
            (Some(Kind::Response), _) => self.handle_response(now, datagram),
            (Some(Kind::Data), Some(driver)) => driver.receive(now, arrival, datagram),
            _ => self.edge.unknown_datagrams += 1,
        }
    }

    fn advance(&mut self, now: Instant, sockets: &[Socket]) -> Next {
        if self.is_over {
            Next::Over
        } else if self.driver.is_some() {
            self.advance_session(now, sockets)
        } else {
            self.advance_handshake(now, sockets)
        }
    }
}
