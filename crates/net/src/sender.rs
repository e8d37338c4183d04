//! The end that opens a session and sends frames.

use core::ops::RangeInclusive;

use anabranch_core::media::SendFrameError;
use anabranch_core::{Config, Frame, FrameId, PathId, SourceLimits};
use anabranch_schedulers::fec_policy;
use anabranch_units::{DataRate, Duration, Importance, Instant, Lateness};
use bytes::Bytes;
use tokio::sync::watch;

use crate::client::{
    ClientBuilder, ClientConfig, ClientPath, ClientRole, NoSession, Opens, sealed,
};
use crate::clock::Clock;
use crate::driver::Driver;
use crate::event::Ended;
#[cfg(doc)]
use crate::event::Event;
use crate::event_queue::{self, Events};
use crate::link::LinkCap;
use crate::load::Frames;
use crate::runtime::Runtime;
use crate::snapshot::{PathSnapshot, Snapshot};
use crate::start_error::StartError;
use crate::surroundings::Surroundings;

/// Reason for which a frame was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// There is no session yet: wait for [`Event::Connected`].
    #[error("there is no session yet")]
    NotConnected,
    /// The session is over, for this reason.
    #[error("the session is over")]
    Ended(#[source] Ended),
    /// The transport refused it.
    #[error(transparent)]
    Transport(#[from] SendFrameError),
}

/// A running sender. Dropping it ends the session, notifies the peer and waits for the thread;
/// unsent data is lost. See [`close`](Self::close).
#[derive(Debug)]
pub struct Sender {
    runtime: Runtime<ClientRole<Frames>>,
    clock: Clock,
    ended: watch::Receiver<Option<Ended>>,
}

impl Sender {
    /// Returns a builder of a sender, whose example is a whole session.
    pub fn builder() -> ClientBuilder<Sender> {
        ClientBuilder::new()
    }

    /// Opens the sockets, starts the thread and the handshake. [`Event::Connected`] reports the
    /// session, [`Event::Ended`] the lack of an answer. Absent interfaces and addresses are waited
    /// for ([`Event::PathAbsent`]).
    ///
    /// # Errors
    /// [`StartError`]; no thread remains.
    pub fn start(config: ClientConfig) -> Result<(Sender, Events), StartError> {
        let ports = config.open_ports()?;
        let clock = config.clock;
        let surroundings = Surroundings::of(&config.network, clock);
        let (events, receiver) = event_queue::queue();
        let runtime = Runtime::start_with("sender", surroundings, ports, |waker| {
            ClientRole::new(config, events, Box::new(Frames::default), waker)
        })?;
        let ended = receiver.end_watch();
        let sender = Sender {
            runtime,
            clock,
            ended,
        };
        Ok((sender, receiver))
    }

    /// Takes a frame in that was captured now. Never waits, so that threads and tasks may call it:
    /// media that waits would be late.
    ///
    /// # Errors
    /// [`SendError`]; the frame is not sent. After a
    /// [`Backlogged`](SendFrameError::Backlogged), the encoder must produce a key frame.
    pub fn send(
        &self,
        bytes: impl Into<Bytes>,
        importance: Importance,
    ) -> Result<FrameId, SendError> {
        self.send_frame(&Frame::new(bytes, importance, self.clock.now()))
    }

    /// Takes a frame in for sending, with its capture time by [`clock`](Self::clock). Frames are
    /// numbered from zero in each session; a refused one takes no number. Never waits.
    ///
    /// # Errors
    /// [`SendError`]; the frame is not sent.
    pub fn send_frame(&self, frame: &Frame) -> Result<FrameId, SendError> {
        self.with_session(|driver, now| driver.send_frame(now, frame))
    }

    pub(crate) fn begin_frame(&self, frame: &Frame) -> Result<FrameId, SendError> {
        self.with_session(|driver, now| driver.begin_frame(now, frame))
    }

    pub(crate) fn append(&self, bytes: &[u8]) -> Result<(), SendError> {
        self.with_session(|driver, now| driver.append(now, bytes))
    }

    pub(crate) fn finish_frame(&self) -> Result<(), SendError> {
        self.with_session(|driver, now| {
            driver.finish_frame(now);
            Ok(())
        })
    }

    pub(crate) fn abandon_frame(&self) {
        // Without a session, there is no frame.
        let _ = self.with_session(|driver, now| {
            driver.abandon_frame(now);
            Ok(())
        });
    }

    fn with_session<T>(
        &self,
        act: impl FnOnce(&mut Driver<Frames>, Instant) -> Result<T, SendFrameError>,
    ) -> Result<T, SendError> {
        self.runtime.change(|role, now| match role.open_driver() {
            Ok(driver) => Ok(act(driver, now)?),
            Err(NoSession::Closing) => Err(SendFrameError::Closed.into()),
            Err(NoSession::NotYet) => Err(SendError::NotConnected),
            Err(NoSession::Ended(ended)) => Err(SendError::Ended(ended)),
        })
    }

    /// Returns the clock by which capture times and events count.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns the bitrate requested of the encoder; zero before the session. Cheap enough for
    /// every frame. [`Event::TargetBitrate`] reports changes.
    ///
    /// The encoder's limits come from
    /// [`MediaConfig::source`](anabranch_core::MediaConfig::source), which
    /// [`bitrate`](ClientBuilder::bitrate) sets. Without limits
    /// ([`SourceLimits::Fixed`](anabranch_core::SourceLimits::Fixed)) the source counts as one of
    /// constant bitrate: the paths are not probed for more than its rate, so the target is a lower
    /// bound of their bandwidth.
    pub fn target_bitrate(&self) -> DataRate {
        self.runtime.with_role(|role, _| role.target_bitrate())
    }

    /// Returns the reason of the session's end; `None` while it is not over.
    pub fn ended(&self) -> Option<Ended> {
        self.ended.borrow().clone()
    }

    /// Returns the session's present or last state; its counts include those of earlier sessions.
    pub fn snapshot(&self) -> Snapshot {
        self.runtime.with_role(ClientRole::snapshot)
    }

    /// Returns the delays of the thread that the machine caused, in the worse of the last two
    /// seconds.
    pub fn lateness(&self) -> Lateness {
        self.runtime.lateness()
    }

    /// Adds a path to this session and those after it; its number is the next one.
    ///
    /// # Errors
    /// [`StartError`]: there are [`PathId::LIMIT`] paths already, or it cannot leave this machine.
    pub fn add_path(&self, path: ClientPath) -> Result<(), StartError> {
        let port = path.open_port(self.runtime.network())?;
        self.runtime.change(|role, _| role.add_path(path, port))
    }

    /// Gives the number of a path that is gone to another one, in this session and those after it.
    /// The new one begins without estimates and counts. Returns the old one's last state.
    ///
    /// # Errors
    /// [`StartError`]: there is no such path, or the new one cannot leave this machine.
    pub fn replace_path(&self, path: PathId, by: ClientPath) -> Result<PathSnapshot, StartError> {
        let port = by.open_port(self.runtime.network())?;
        self.runtime
            .change(|role, now| role.replace_path(now, path.index(), by, port))
    }

    /// Sets whether the user pays for a path by volume. If so, it stands by while the others
    /// suffice.
    pub fn set_metered(&self, path: PathId, is_metered: bool) {
        self.runtime
            .change(|role, now| role.set_metered(now, path.index(), is_metered));
    }

    /// Sets a limit of a path's rate; `None`: no limit. It holds from the next report on.
    pub fn set_max_rate(&self, path: PathId, max_rate: Option<DataRate>) {
        self.runtime
            .change(|role, now| role.set_max_rate(now, path.index(), max_rate));
    }

    /// Sets whether the user pays for a path beyond a volume, so that it is not padded while
    /// another one carries the stream.
    pub fn set_capped(&self, path: PathId, is_capped: bool) {
        self.runtime
            .change(|role, now| role.set_capped(now, path.index(), is_capped));
    }

    /// Switches a path off or on. One that is off has no socket, as if its interface were absent
    /// ([`Event::PathAbsent`]).
    pub fn switch_path(&self, path: PathId, is_on: bool) {
        self.runtime
            .change(|role, _| role.switch_path(path.index(), is_on));
    }

    /// Changes the limits of the encoder, in this session and those after it. The maximum takes
    /// full effect up to that of the [start](Self::start): controllers look for no more.
    pub fn set_source(&self, source: SourceLimits) {
        self.runtime.change(|role, _| role.set_source(source));
    }

    /// Changes the latency of this session, and the one that later sessions request. The receiver
    /// does not notice: it is for one that has asked for the change.
    pub fn set_latency(&self, latency: Duration) {
        self.runtime.change(|role, _| role.set_latency(latency));
    }

    /// Sets a volume that a path may carry, and the volume carried, for the reports that the
    /// receiver gets. `None`: no limit.
    pub fn set_cap(&self, path: PathId, cap: Option<LinkCap>) {
        self.runtime
            .change(|role, _| role.set_cap(path.index(), cap));
    }

    /// Ends the session once every frame has arrived or been given up, at the latest after
    /// [`ClientConfig::drain_timeout`]. [`Event::Ended`] reports the end.
    pub fn close(&self) {
        self.runtime.change(|role, now| role.close(now));
    }

    /// Closes as [`close`](Self::close) does, and blocks the thread until the session is over.
    /// Returns the reason of the end: [`Ended::Closed`] if the receiver was notified.
    pub fn finish(mut self) -> Ended {
        self.close();
        let _ = self.runtime.join();
        self.ended().unwrap_or(Ended::Closed)
    }

    /// Does the same as [`finish`](Self::finish) in a task, under any asynchronous runtime.
    pub async fn finish_async(self) -> Ended {
        self.close();
        self.wait_ended().await
    }

    /// Waits for the session's end in a task, under any asynchronous runtime.
    pub async fn wait_ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        let over = ended.wait_for(Option::is_some).await;
        over.ok()
            .and_then(|over| over.clone())
            .unwrap_or(Ended::Closed)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.runtime.change(|role, _| role.abandon());
        let _ = self.runtime.join();
    }
}

impl Opens for Sender {}

impl sealed::Opens for Sender {
    fn transport() -> Option<Config> {
        None
    }

    fn start(config: ClientConfig) -> Result<(Self, Events), StartError> {
        Sender::start(config)
    }
}

impl ClientBuilder<Sender> {
    /// Sets the wished latency: the delay of media beyond the fastest path's delay. Both ends agree
    /// on the larger of their values. The deadline of frames and the receiver's wait for missing
    /// fragments follow from it. Default: no wish; without one at either end, frames expire 500 ms
    /// after their capture.
    #[must_use]
    pub fn latency(self, latency: impl Into<Duration>) -> Self {
        let latency = latency.into();
        self.configure(move |config| config.latency = Some(latency))
    }

    /// Declares an encoder that follows [`Sender::target_bitrate`] within these limits. Default: a
    /// source of fixed bitrate, for which no target is searched.
    #[must_use]
    pub fn bitrate(self, limits: RangeInclusive<DataRate>) -> Self {
        let (min, max) = limits.into_inner();
        self.configure(move |config| {
            config.transport.media.source = SourceLimits::Adaptive { min, max };
        })
    }

    /// Sets the policy of forward error correction by its name in
    /// [`FEC_POLICIES`](anabranch_schedulers::FEC_POLICIES), such as `"adaptive"`, with any options
    /// behind it. Default: `"off"`.
    #[must_use]
    pub fn fec(mut self, name: &str) -> Self {
        match fec_policy(name) {
            Ok(policy) => self.configure(move |config| config.transport.media.fec = policy),
            Err(unknown) => {
                self.mistake.get_or_insert(StartError::Fec(unknown));
                self
            }
        }
    }

    /// Sets the limit for the wait for the last frames at the end of the session. Default: 3 s.
    #[must_use]
    pub fn drain_timeout(self, limit: impl Into<Duration>) -> Self {
        let limit = limit.into();
        self.configure(move |config| config.drain_timeout = limit)
    }
}
