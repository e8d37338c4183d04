//! The end that waits for sessions and receives frames.

use core::fmt;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anabranch_net::words::Link;
use anabranch_net::{Clock, Network, Receptions, SessionWatch, WatchedEvents};
use anabranch_secure::{PairingCode, PublicKey};

use crate::config::ReceiverSetup;
use crate::error::{Error, ErrorCode};
use crate::ingest::SrtReceiver;
use crate::receiver_event::ReceiverEvent;
use crate::session::Session;

/// A receiver. Dropping it ends its sessions, and waits for its thread.
pub struct Receiver {
    setup: Mutex<Option<ReceiverSetup>>,
    /// `None`: it receives SRT.
    key: Option<PublicKey>,
    running: OnceLock<Running>,
}

/// A started receiver.
enum Running {
    /// A receiver of our protocol.
    Own {
        receiver: anabranch_net::Receiver,
        receptions: Receptions,
        events: WatchedEvents,
        clock: Clock,
    },
    /// A receiver of SRT, over SRTLA or alone.
    Srt(SrtReceiver),
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("key", &self.key)
            .field("is_started", &self.running.get().is_some())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Receiver {
    /// Reads a set-up: TOML with the keys `listen`, `listen-tcp`, `key`, `allow`, `latency`,
    /// `timeout` and `reassembly-wait` of `anabranch recv --config`, and `max-sessions`, the number
    /// of senders at a time; or an address `srtla://ADDR:PORT?streamid=…&passphrase=…` or `srt://…`
    /// alone, or in `listen` beside `max-sessions`. Opens nothing and starts no thread.
    ///
    /// # Errors
    /// [`ErrorCode::Config`] names the mistake; [`ErrorCode::System`]: the key's file cannot be
    /// read or made.
    pub fn new(config: &str) -> Result<Receiver, Error> {
        Receiver::new_in(config, &Network::default())
    }

    /// Does the same for another network than the operating system's: that of a test's world.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn new_in(config: &str, network: &Network) -> Result<Receiver, Error> {
        let setup = ReceiverSetup::read(config, network)?;
        Ok(Receiver {
            key: setup.public_key(),
            setup: Mutex::new(Some(setup)),
            running: OnceLock::new(),
        })
    }

    /// Opens the socket and starts the receiver's thread.
    ///
    /// # Errors
    /// [`ErrorCode::State`]: it was started before; [`ErrorCode::System`]: the address is taken or
    /// the system has no room. A receiver that could not start cannot be started again.
    pub fn start(&self) -> Result<(), Error> {
        let mut setup = lock(&self.setup);
        let Some(setup) = setup.take() else {
            return Err(Error::new(
                ErrorCode::State,
                "the receiver was started before",
            ));
        };
        let running = Running::start(setup)?;
        // `setup` was taken now, so it is empty.
        let _ = self.running.set(running);
        Ok(())
    }

    fn running(&self) -> Result<&Running, Error> {
        let running = self.running.get();
        running.ok_or_else(|| Error::new(ErrorCode::State, "the receiver is not started"))
    }

    /// Returns the public key, for senders; empty for SRT and SRTLA.
    pub fn public_key(&self) -> String {
        self.key.map_or_else(String::new, |key| key.to_string())
    }

    /// Returns the address at which it listens; the port is never 0.
    ///
    /// # Errors
    /// [`ErrorCode::State`]: it is not started.
    pub fn local_address(&self) -> Result<String, Error> {
        let address = match self.running()? {
            Running::Own { receiver, .. } => receiver.local_addr(),
            Running::Srt(receiver) => receiver.local_address(),
        };
        Ok(address.to_string())
    }

    /// Returns a link for one new sender, good once and for `lasts`. `host` is this machine's host
    /// and port for the sender. The receiver admits the sender's key as long as it lives.
    ///
    /// # Errors
    /// [`ErrorCode::State`]: it is not started, or receives SRT, which has no pairing.
    pub fn pairing_link(&self, host: &str, lasts: Duration) -> Result<String, Error> {
        let (Running::Own { receiver, .. }, Some(key)) = (self.running()?, self.key) else {
            return Err(Error::new(
                ErrorCode::State,
                "SRT has no pairing: give its sender the address, stream ID and passphrase",
            ));
        };
        let code = PairingCode::generate();
        receiver.start_pairing(code.clone(), lasts);
        let link = Link {
            to: host.to_owned(),
            key,
            code: Some(code),
        };
        Ok(link.to_text())
    }

    /// Waits for the next session for `limit` at most, and blocks the thread. Returns `None` if
    /// none began.
    ///
    /// # Errors
    /// [`ErrorCode::State`]: it is not started; [`ErrorCode::Ended`]: it was closed.
    pub fn accept(&self, limit: Duration) -> Result<Option<Session>, Error> {
        let accepted = match self.running()? {
            Running::Own {
                receptions, clock, ..
            } => receptions
                .recv_timeout(limit)
                .map(|reception| Session::of_own(reception, *clock)),
            Running::Srt(receiver) => receiver.accept_timeout(limit).map(Session::of_srt),
        };
        within_limit(accepted)
    }

    /// Waits for the next session in a task, under any asynchronous runtime. Dropping the future
    /// loses none.
    ///
    /// # Errors
    /// As of [`accept`](Self::accept).
    pub async fn accept_async(&self) -> Result<Session, Error> {
        match self.running()? {
            Running::Own {
                receptions, clock, ..
            } => {
                let received = receptions.recv_async().await;
                let reception = received.map_err(|_| over())?;
                Ok(Session::of_own(reception, *clock))
            }
            Running::Srt(receiver) => {
                let accepted = receiver.accept_async().await;
                accepted.map(Session::of_srt).ok_or_else(over)
            }
        }
    }

    /// Waits for the next event of the receiver or of a session for `limit` at most, and blocks the
    /// thread. Returns `None` if none came. Events that nobody takes are left out beyond 1,024 of
    /// them.
    ///
    /// # Errors
    /// [`ErrorCode::State`]: it is not started; [`ErrorCode::Ended`]: it was closed, and the last
    /// event was taken.
    pub fn next_event(&self, limit: Duration) -> Result<Option<ReceiverEvent>, Error> {
        let (events, clock) = match self.running()? {
            Running::Own { events, clock, .. } => (events, clock),
            Running::Srt(receiver) => return within_limit(receiver.event_timeout(limit)),
        };
        let until = clock.now() + limit.into();
        loop {
            let rest = until.saturating_since(clock.now());
            match within_limit(events.recv_timeout(rest.to_std()))? {
                Some(event) => {
                    if let Some(event) = ReceiverEvent::of(event) {
                        return Ok(Some(event));
                    }
                }
                None => return Ok(None),
            }
        }
    }

    /// Waits for the next event in a task, under any asynchronous runtime. Dropping the future
    /// loses none.
    ///
    /// # Errors
    /// As of [`next_event`](Self::next_event).
    pub async fn next_event_async(&self) -> Result<ReceiverEvent, Error> {
        let events = match self.running()? {
            Running::Own { events, .. } => events,
            Running::Srt(receiver) => return receiver.event_async().await.ok_or_else(over),
        };
        loop {
            let event = events.recv_async().await.ok_or_else(over)?;
            if let Some(event) = ReceiverEvent::of(event) {
                return Ok(event);
            }
        }
    }

    /// Notifies the senders that this receiver leaves, and stops listening.
    ///
    /// # Errors
    /// [`ErrorCode::State`]: it is not started.
    pub fn close(&self) -> Result<(), Error> {
        match self.running()? {
            Running::Own { receiver, .. } => receiver.close(),
            Running::Srt(receiver) => receiver.close(),
        }
        Ok(())
    }
}

fn over() -> Error {
    Error::new(ErrorCode::Ended, "the receiver is closed")
}

/// Returns the value that has come, or `None` if the limit was over first.
fn within_limit<T>(received: Result<T, RecvTimeoutError>) -> Result<Option<T>, Error> {
    match received {
        Ok(received) => Ok(Some(received)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(over()),
    }
}

impl Running {
    fn start(setup: ReceiverSetup) -> Result<Running, Error> {
        let mut config = match setup {
            ReceiverSetup::Own(config) => config,
            ReceiverSetup::Srt(setup) => return Ok(Running::Srt(SrtReceiver::start(setup)?)),
        };
        let (watch, events) = SessionWatch::new();
        config.watch = Some(watch);
        let clock = config.clock;
        let (receiver, receptions) = anabranch_net::Receiver::start(*config)?;
        Ok(Running::Own {
            receiver,
            receptions,
            events,
            clock,
        })
    }
}
