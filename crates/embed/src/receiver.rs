//! The end that waits for sessions and receives frames.

use core::fmt;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anabranch_core::ReceivedFrame;
use anabranch_net::words::Link;
use anabranch_net::{Clock, Event as NetEvent, Network, Reception, Receptions};
use anabranch_secure::{PairingCode, PublicKey};

use crate::config::ReceiverSetup;
use crate::error::{Error, ErrorCode};
use crate::event::Event;
use crate::statistics::Statistics;

/// A receiver. Dropping it ends its sessions, and waits for its thread.
pub struct Receiver {
    setup: Mutex<Option<ReceiverSetup>>,
    key: PublicKey,
    running: OnceLock<Running>,
}

struct Running {
    receiver: anabranch_net::Receiver,
    receptions: Receptions,
    clock: Clock,
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
    /// of senders at a time. Opens nothing and starts no thread.
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
            key: setup.config.local_key.public_key(),
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
        let Some(ReceiverSetup { config }) = setup.take() else {
            return Err(Error::new(
                ErrorCode::State,
                "the receiver was started before",
            ));
        };
        let clock = config.clock;
        let (receiver, receptions) = anabranch_net::Receiver::start(config)?;
        let running = Running {
            receiver,
            receptions,
            clock,
        };
        // `setup` was taken now, so it is empty.
        let _ = self.running.set(running);
        Ok(())
    }

    fn running(&self) -> Result<&Running, Error> {
        let running = self.running.get();
        running.ok_or_else(|| Error::new(ErrorCode::State, "the receiver is not started"))
    }

    /// Returns the public key, for senders.
    pub fn public_key(&self) -> String {
        self.key.to_string()
    }

    /// Returns the address at which it listens; the port is never 0.
    ///
    /// # Errors
    /// [`ErrorCode::State`]: it is not started.
    pub fn local_address(&self) -> Result<String, Error> {
        Ok(self.running()?.receiver.local_addr().to_string())
    }

    /// Returns a link for one new sender, good once and for `lasts`. `host` is this machine's host
    /// and port for the sender. The receiver admits the sender's key as long as it lives.
    ///
    /// # Errors
    /// [`ErrorCode::State`]: it is not started.
    pub fn pairing_link(&self, host: &str, lasts: Duration) -> Result<String, Error> {
        let code = PairingCode::generate();
        self.running()?.receiver.start_pairing(code.clone(), lasts);
        let link = Link {
            to: host.to_owned(),
            key: self.key,
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
        let running = self.running()?;
        match running.receptions.recv_timeout(limit) {
            Ok(reception) => Ok(Some(running.session(reception))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(over()),
        }
    }

    /// Waits for the next session in a task, under any asynchronous runtime. Dropping the future
    /// loses none.
    ///
    /// # Errors
    /// As of [`accept`](Self::accept).
    pub async fn accept_async(&self) -> Result<Session, Error> {
        let running = self.running()?;
        let received = running.receptions.recv_async().await;
        let reception = received.map_err(|_| over())?;
        Ok(running.session(reception))
    }

    /// Notifies the senders that this receiver leaves, and stops listening.
    ///
    /// # Errors
    /// [`ErrorCode::State`]: it is not started.
    pub fn close(&self) -> Result<(), Error> {
        self.running()?.receiver.close();
        Ok(())
    }
}

fn over() -> Error {
    Error::new(ErrorCode::Ended, "the receiver is closed")
}

impl Running {
    fn session(&self, reception: Reception) -> Session {
        Session {
            reception,
            clock: self.clock,
        }
    }
}

/// One sender's session at a receiver. Dropping it does not end the session.
#[derive(Debug)]
pub struct Session {
    reception: Reception,
    clock: Clock,
}

impl Session {
    /// Returns the sender's public key.
    pub fn peer(&self) -> String {
        self.reception.peer().to_string()
    }

    /// Waits for the next frame in order for `limit` at most, and blocks the thread. Returns `None`
    /// if none came. Events before it are handed to `on_event`.
    ///
    /// # Errors
    /// [`ErrorCode::Ended`] with the reason.
    pub fn next_frame_with(
        &self,
        limit: Duration,
        mut on_event: impl FnMut(Event),
    ) -> Result<Option<ReceivedFrame>, Error> {
        let until = self.clock.now() + limit.into();
        loop {
            let rest = until.saturating_since(self.clock.now());
            match self.reception.events().recv_timeout(rest.to_std()) {
                Ok(NetEvent::FrameReceived(frame)) => return Ok(Some(frame)),
                Ok(event) => {
                    if let Some(event) = self.shown(&event) {
                        on_event(event);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::ended(self.reception.events().ended().as_ref()));
                }
            }
        }
    }

    /// Waits for the next frame in order, and leaves events out.
    ///
    /// # Errors
    /// As of [`next_frame_with`](Self::next_frame_with).
    pub fn next_frame(&self, limit: Duration) -> Result<Option<ReceivedFrame>, Error> {
        self.next_frame_with(limit, drop)
    }

    /// Waits for the next frame in order in a task, under any asynchronous runtime. Dropping the
    /// future loses none.
    ///
    /// # Errors
    /// [`ErrorCode::Ended`] with the reason.
    pub async fn next_frame_async(&self) -> Result<ReceivedFrame, Error> {
        let frame = self.reception.recv_frame_async().await;
        frame.map_err(|over| Error::ended(over.ended.as_ref()))
    }

    /// Returns the state of the session in numbers.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(&self.reception.snapshot(), |_| None)
    }

    /// Ends the session, and notifies its sender that this receiver leaves.
    pub fn close(&self) {
        self.reception.close();
    }

    fn shown(&self, event: &NetEvent) -> Option<Event> {
        let seen = self.reception.snapshot();
        Event::of(event, |index| {
            let link = seen.paths.get(index).and_then(|path| path.link.as_ref());
            link.map(|link| link.name.clone()).unwrap_or_default()
        })
    }
}
