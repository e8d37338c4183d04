//! The end that sends.

use std::sync::Arc;
use std::time::Duration;

use crate::error::AnabranchError;
use crate::event::{EventListener, follow};
use crate::socket;
use crate::statistics::Statistics;

/// Effect of a frame's loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, uniffi::Enum)]
pub enum Importance {
    /// A frame that decoders can begin with.
    Key,
    /// A frame from which others are predicted.
    Reference,
    /// A frame that no other needs.
    Disposable,
}

impl From<Importance> for anabranch_embed::Importance {
    fn from(importance: Importance) -> Self {
        match importance {
            Importance::Key => anabranch_embed::Importance::Key,
            Importance::Reference => anabranch_embed::Importance::Reference,
            Importance::Disposable => anabranch_embed::Importance::Disposable,
        }
    }
}

/// A sender of video.
#[derive(Debug, uniffi::Object)]
pub struct Sender {
    inner: Arc<anabranch_embed::Sender>,
}

#[uniffi::export]
impl Sender {
    /// Reads a set-up: TOML with the keys of `anabranch send --config`, or a link of
    /// `anabranch recv --pair` alone. Opens nothing.
    ///
    /// # Errors
    /// `Config` names the mistake.
    #[uniffi::constructor]
    pub fn new(config: &str) -> Result<Arc<Self>, AnabranchError> {
        let inner = Arc::new(anabranch_embed::Sender::new(config)?);
        Ok(Arc::new(Sender { inner }))
    }

    /// Adds a path by the name of an interface or a local address, before the start or while the
    /// sender runs: `wlan0`, or `192.0.2.7,metered`. Returns its number.
    ///
    /// # Errors
    /// `Path`.
    pub fn add_path(&self, via: &str) -> Result<u32, AnabranchError> {
        Ok(self.inner.add_path(via, None)?)
    }

    /// Adds a path over a UDP socket that the app has made and bound to its network, and returns
    /// the path's number. The library owns the file descriptor then, also after an error, unless it
    /// is not open.
    ///
    /// # Errors
    /// `Argument`: this is no UDP socket; `Path`.
    pub fn add_socket(&self, name: &str, fd: i32) -> Result<u32, AnabranchError> {
        let socket = socket::of_descriptor(fd)?;
        Ok(self.inner.add_path(name, Some(socket))?)
    }

    /// Removes a path and closes its socket. Others send its packets in flight again.
    ///
    /// # Errors
    /// `Path`: there is no path of this number.
    pub fn remove_path(&self, path: u32) -> Result<(), AnabranchError> {
        Ok(self.inner.remove_path(path)?)
    }

    /// Starts the sender's thread and requests a session. Returns at once.
    ///
    /// # Errors
    /// `State`, `Path` or `System`.
    pub fn start(&self, listener: Option<Arc<dyn EventListener>>) -> Result<(), AnabranchError> {
        self.inner.start()?;
        match listener {
            Some(listener) => follow(
                &self.inner,
                anabranch_embed::Sender::next_event,
                move |event| {
                    listener.on_event(event.into());
                },
            ),
            None => Ok(()),
        }
    }

    /// Waits until the session is up, `limit_ms` milliseconds at most. For senders without a
    /// listener, which gets `Connected` instead.
    ///
    /// # Errors
    /// `Ended` with the reason; `TimedOut`.
    pub fn wait_connected(&self, limit_ms: u64) -> Result<(), AnabranchError> {
        Ok(self.inner.wait_connected(Duration::from_millis(limit_ms))?)
    }

    /// Takes a frame in: an encoder's output for one picture. `pts_micros` is its time by any clock
    /// of the app that runs evenly; without it, the frame is captured now. Never waits. Returns the
    /// frame's number.
    ///
    /// # Errors
    /// `NotConnected`, `Backlogged`, `Ended` or `Argument`.
    pub fn send_frame(
        &self,
        bytes: &[u8],
        pts_micros: Option<i64>,
        importance: Importance,
    ) -> Result<u64, AnabranchError> {
        let sent = self.inner.send_frame(bytes, pts_micros, importance.into());
        Ok(sent?)
    }

    /// Takes the next bytes of a live MPEG-TS in, in pieces of any size. Returns the number of
    /// frames that were sent.
    ///
    /// # Errors
    /// As of `send_frame`, for the first picture that is refused.
    pub fn send_transport_stream(&self, bytes: &[u8]) -> Result<u64, AnabranchError> {
        Ok(self.inner.send_ts(bytes)?)
    }

    /// Returns the bitrate requested of the encoder, in bit/s; zero before the session.
    pub fn target_bps(&self) -> u64 {
        self.inner.target_bps()
    }

    /// Returns the state of the session in numbers.
    pub fn statistics(&self) -> Statistics {
        self.inner.statistics().into()
    }

    /// Ends the session once every frame has arrived or been given up, and waits for that,
    /// `limit_ms` milliseconds at most.
    ///
    /// # Errors
    /// `Ended`: it ended in another way; `TimedOut`; `State`.
    pub fn finish(&self, limit_ms: u64) -> Result<(), AnabranchError> {
        Ok(self.inner.close(Duration::from_millis(limit_ms))?)
    }
}
