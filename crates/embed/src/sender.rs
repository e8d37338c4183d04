//! The end that opens a session and sends frames.

use core::fmt;
use std::net::UdpSocket;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anabranch_core::{Frame, PathId};
use anabranch_net::{ClientPath, Clock, Network, StartError, Surroundings};
use anabranch_units::{Importance, Instant};

use crate::carrier::Carrier;
use crate::config::{Protocol, SenderSetup};
use crate::error::{Error, ErrorCode};
use crate::event::Event;
use crate::path_book::{self, PathBook, Place};
use crate::srtla::{Happening, SrtlaSender};
use crate::statistics::Statistics;
use crate::timing::Timing;
use crate::transport_stream::{MAX_PIECE_BYTES, TransportStream};
use crate::wait::block_on;

/// A sender. Dropping it ends its session, and waits for its thread; [`close`](Self::close) first
/// lets the last frames arrive.
///
/// Methods take `&self` and may be called by several threads at a time.
pub struct Sender {
    setup: Mutex<Option<SenderSetup>>,
    remote: anabranch_net::Remote,
    paths: Mutex<PathBook>,
    running: OnceLock<Running>,
    timing: Mutex<Timing>,
    stream: Mutex<TransportStream>,
}

/// The parts of a started sender.
struct Running {
    carrier: Carrier,
    clock: Clock,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("remote", &self.remote)
            .field("is_started", &self.running.get().is_some())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sender {
    /// Reads a set-up: TOML with the keys of `anabranch send --config`, or a link of
    /// `anabranch recv --pair` alone. Opens nothing and starts no thread.
    ///
    /// # Errors
    /// [`ErrorCode::Config`] names the mistake; [`ErrorCode::System`]: the key's file cannot be
    /// read or made.
    pub fn new(config: &str) -> Result<Sender, Error> {
        Sender::new_in(config, &Network::default())
    }

    /// Does the same for another network than the operating system's: that of a test's world.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn new_in(config: &str, network: &Network) -> Result<Sender, Error> {
        let setup = SenderSetup::read(config, network)?;
        let mut paths = PathBook::default();
        for path in &setup.paths {
            add_to(&mut paths, path)?;
        }
        Ok(Sender {
            remote: setup.remote.clone(),
            setup: Mutex::new(Some(setup)),
            paths: Mutex::new(paths),
            running: OnceLock::new(),
            timing: Mutex::default(),
            stream: Mutex::default(),
        })
    }

    /// Adds a path, before the start or while the sender runs. `via` is as a value of `--via`:
    /// `wlan0`, `192.0.2.7` or `wwan0,metered,max=3Mbit/s`. With a socket, which the application
    /// has made and bound to its network, `via` begins with any name for it. The socket belongs to
    /// the library then. Returns the path's number.
    ///
    /// # Errors
    /// [`ErrorCode::Path`]: the text is wrong, there are 32 paths, the same one exists, or it
    /// cannot leave this machine.
    pub fn add_path(&self, via: &str, socket: Option<UdpSocket>) -> Result<u32, Error> {
        let path = path_book::path(via, socket, &self.remote)?;
        let mut paths = lock(&self.paths);
        let Some(running) = self.running.get() else {
            return add_to(&mut paths, &path);
        };
        if paths.has(&path) {
            return Err(twice(&path.via.to_string()));
        }
        let mut place = paths.place();
        if let Place::Of(id) = place
            && !running.carrier.replace_path(id, path.clone())?
        {
            place = Place::Next;
        }
        if place == Place::Next {
            running.carrier.add_path(path.clone())?;
        }
        Ok(u32::from(paths.settle(place, path).0))
    }

    /// Removes a path. Its packets in flight are sent again by others, and the application's socket
    /// is closed once the sender's thread has noticed, which takes less than a millisecond. The
    /// next path that is added gets the number.
    ///
    /// # Errors
    /// [`ErrorCode::Path`]: there is no path of this number.
    pub fn remove_path(&self, path: u32) -> Result<(), Error> {
        let id = lock(&self.paths).remove(path)?;
        if let Some(running) = self.running.get() {
            running.carrier.remove_path(id);
        }
        Ok(())
    }

    /// Opens the sockets, starts the sender's thread and requests a session. Returns at once: the
    /// event `connected` reports the session.
    ///
    /// # Errors
    /// [`ErrorCode::State`]: it was started before; [`ErrorCode::Path`]: there is no path, or one
    /// cannot leave this machine; [`ErrorCode::System`]: the system has no room. A sender that
    /// could not start cannot be started again, unless it lacked a path.
    pub fn start(&self) -> Result<(), Error> {
        let mut setup = lock(&self.setup);
        let paths = lock(&self.paths);
        let present = paths.paths();
        if present.is_empty() {
            return Err(Error::new(
                ErrorCode::Path,
                "the sender has no path: add one first",
            ));
        }
        let Some(SenderSetup { protocol, .. }) = setup.take() else {
            return Err(Error::new(
                ErrorCode::State,
                "the sender was started before",
            ));
        };
        let running = Running::start(protocol, present)?;
        // A path that was removed before keeps its number.
        for index in 0..paths.paths().len() {
            if paths.name(index).is_some_and(|(_, is_removed)| is_removed) {
                running.carrier.remove_path(PathId(index as u8));
            }
        }
        // `setup` was taken now, so it is empty.
        let _ = self.running.set(running);
        Ok(())
    }

    fn running(&self) -> Result<&Running, Error> {
        let running = self.running.get();
        running.ok_or_else(|| Error::new(ErrorCode::State, "the sender is not started"))
    }

    /// Takes a frame in: an encoder's output for one picture, or any bytes that are useless in
    /// part. `pts_micros` is its time by any clock of the application that runs evenly; `None`: it
    /// is captured now. Never waits. Returns the frame's number in its session.
    ///
    /// # Errors
    /// [`ErrorCode::NotConnected`], [`ErrorCode::Backlogged`], [`ErrorCode::Ended`];
    /// [`ErrorCode::Argument`]: the frame is empty or has more than 8 MiB.
    pub fn send_frame(
        &self,
        bytes: &[u8],
        pts_micros: Option<i64>,
        importance: Importance,
    ) -> Result<u64, Error> {
        let running = self.running()?;
        let now = running.now();
        let captured_at = match pts_micros {
            Some(pts) => lock(&self.timing).captured_at(now, pts),
            None => now,
        };
        let frame = Frame::new(bytes.to_vec(), importance, captured_at);
        running.carrier.send(&frame)
    }

    /// Takes the next bytes of a live MPEG-TS in, in pieces of any size, and sends each picture
    /// once it is whole. Returns the number of frames that were sent.
    ///
    /// # Errors
    /// As of [`send_frame`](Self::send_frame), for the first picture that is refused. The others of
    /// these bytes are sent if they can be.
    pub fn send_ts(&self, bytes: &[u8]) -> Result<u64, Error> {
        if bytes.len() > MAX_PIECE_BYTES {
            let text = format!("a piece has {MAX_PIECE_BYTES} bytes at most");
            return Err(Error::new(ErrorCode::Argument, text));
        }
        let running = self.running()?;
        let mut stream = lock(&self.stream);
        stream.push(bytes);
        let (mut sent, mut refused) = (0, None);
        while let Some(unit) = stream.next() {
            match running.send_unit(unit.bytes, unit.importance) {
                Ok(()) => sent += 1,
                Err(error) => _ = refused.get_or_insert(error),
            }
        }
        refused.map_or(Ok(sent), Err)
    }

    /// Returns the bitrate requested of the encoder, in bit/s; zero before the session. Cheap
    /// enough for every frame. The set-up's `encoder-range` must be given: without it the source
    /// counts as one of constant bitrate.
    pub fn target_bps(&self) -> u64 {
        let running = self.running.get();
        running.map_or(0, |running| running.carrier.target().bits_per_second())
    }

    /// Returns the state of the session in numbers.
    pub fn statistics(&self) -> Statistics {
        let Some(running) = self.running.get() else {
            return Statistics::default();
        };
        let snapshot = running.carrier.snapshot();
        let paths = lock(&self.paths);
        Statistics::of(&snapshot, |index| paths.name(index))
    }

    /// Waits for the next event for `limit` at most, and blocks the thread. Returns `None` if none
    /// came. Events that nobody takes are left out beyond 1,024 of them.
    ///
    /// # Errors
    /// [`ErrorCode::State`]: it is not started; [`ErrorCode::Ended`]: the last event was taken.
    pub fn next_event(&self, limit: Duration) -> Result<Option<Event>, Error> {
        let running = self.running()?;
        let until = running.now() + limit.into();
        loop {
            let rest = until.saturating_since(running.now());
            match running.carrier.recv_timeout(rest.to_std()) {
                Ok(event) => {
                    if let Some(event) = self.shown(event) {
                        return Ok(Some(event));
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(running.carrier.over());
                }
            }
        }
    }

    /// Waits for the next event in a task, under any asynchronous runtime. Dropping the future
    /// loses none.
    ///
    /// # Errors
    /// As of [`next_event`](Self::next_event).
    pub async fn next_event_async(&self) -> Result<Event, Error> {
        let running = self.running()?;
        loop {
            let received = running.carrier.recv_async().await;
            let event = received.ok_or_else(|| running.carrier.over())?;
            if let Some(event) = self.shown(event) {
                return Ok(event);
            }
        }
    }

    /// Waits until the session is up for `limit` at most, and blocks the thread. The events until
    /// then are dropped.
    ///
    /// # Errors
    /// [`ErrorCode::Ended`] with the reason; [`ErrorCode::TimedOut`].
    pub fn wait_connected(&self, limit: Duration) -> Result<(), Error> {
        let connected = block_on(self.wait_connected_async(), limit);
        connected.unwrap_or_else(|| Err(Error::new(ErrorCode::TimedOut, "no session yet")))
    }

    /// Waits until the session is up in a task, under any asynchronous runtime.
    ///
    /// # Errors
    /// [`ErrorCode::Ended`] with the reason.
    pub async fn wait_connected_async(&self) -> Result<(), Error> {
        if self.statistics().connected {
            return Ok(());
        }
        loop {
            match self.next_event_async().await? {
                Event::Connected { .. } => return Ok(()),
                Event::Ended { reason } => return Err(Error::new(ErrorCode::Ended, reason)),
                _ => {}
            }
        }
    }

    /// Sends the rest of the MPEG-TS, ends the session once every frame has arrived or been
    /// given up, and blocks the thread until then, for `limit` at most. The session itself waits
    /// for three seconds at most.
    ///
    /// # Errors
    /// [`ErrorCode::State`]; [`ErrorCode::Ended`]: it ended in another way, so that the last frames
    /// may be lost; [`ErrorCode::TimedOut`]: it goes on to end.
    pub fn close(&self, limit: Duration) -> Result<(), Error> {
        let closed = block_on(self.close_async(), limit);
        let text = "the last frames have not arrived yet";
        closed.unwrap_or_else(|| Err(Error::new(ErrorCode::TimedOut, text)))
    }

    /// Does the same as [`close`](Self::close) in a task, under any asynchronous runtime.
    ///
    /// # Errors
    /// As of [`close`](Self::close), except for the limit.
    pub async fn close_async(&self) -> Result<(), Error> {
        let running = self.running()?;
        if let Some(unit) = lock(&self.stream).rest() {
            // The session may be over already.
            let _ = running.send_unit(unit.bytes, unit.importance);
        }
        running.carrier.close();
        running.carrier.wait_ended().await
    }

    fn shown(&self, happening: Happening) -> Option<Event> {
        let event = match happening {
            Happening::Net(event) => event,
            Happening::Shown(event) => return Some(event),
        };
        let paths = lock(&self.paths);
        Event::of(&event, |index| {
            paths.name(index).map(|(name, _)| name).unwrap_or_default()
        })
    }
}

impl Running {
    fn start(protocol: Protocol, paths: Vec<ClientPath>) -> Result<Running, Error> {
        match protocol {
            Protocol::Own(mut config) => {
                config.paths = paths;
                let clock = config.clock;
                let (sender, events) = anabranch_net::Sender::start(*config)?;
                let carrier = Carrier::Own(sender, events);
                Ok(Running { carrier, clock })
            }
            Protocol::Srtla(setup) => {
                let surroundings = Surroundings::of(&setup.network, Clock::start());
                let clock = *surroundings.clock();
                let carrier = Carrier::Srtla(SrtlaSender::start(setup, paths, &surroundings)?);
                Ok(Running { carrier, clock })
            }
        }
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn send_unit(&self, bytes: Vec<u8>, importance: Importance) -> Result<(), Error> {
        let frame = Frame::new(bytes, importance, self.now());
        self.carrier.send(&frame)?;
        Ok(())
    }
}

fn twice(name: &str) -> Error {
    let text = format!("path {name:?}: there is the same path already");
    Error::new(ErrorCode::Path, text)
}

/// Adds a path that the session will begin with.
fn add_to(paths: &mut PathBook, path: &ClientPath) -> Result<u32, Error> {
    if paths.has(path) {
        return Err(twice(&path.via.to_string()));
    }
    let count = paths.paths().len();
    let place = paths.place();
    if place == Place::Next && count >= PathId::LIMIT {
        return Err(StartError::TooManyPaths { count: count + 1 }.into());
    }
    Ok(u32::from(paths.settle(place, path.clone()).0))
}
