//! The end that receives.

use std::sync::Arc;
use std::time::Duration;

use crate::error::AnabranchError;
use crate::event::{ReceiverListener, follow};
use crate::statistics::Statistics;

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq, uniffi::Record)]
pub struct VideoFrame {
    /// Its number in the session; a gap is a frame that was lost.
    pub number: u64,
    /// Whether decoders can begin with it.
    pub is_key: bool,
    /// Time of its capture by the sender's clock, in microseconds.
    pub captured_micros: i64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A receiver of one sender or many.
#[derive(Debug, uniffi::Object)]
pub struct Receiver {
    inner: Arc<anabranch_embed::Receiver>,
}

#[uniffi::export]
impl Receiver {
    /// Reads a set-up: TOML with the keys of `anabranch recv --config`, or an address of SRTLA or
    /// SRT alone, as `srtla://0.0.0.0:5000?streamid=live`. Opens nothing.
    ///
    /// # Errors
    /// `Config` names the mistake.
    #[uniffi::constructor]
    pub fn new(config: &str) -> Result<Arc<Self>, AnabranchError> {
        let inner = Arc::new(anabranch_embed::Receiver::new(config)?);
        Ok(Arc::new(Receiver { inner }))
    }

    /// Opens the socket and starts the receiver's thread.
    ///
    /// # Errors
    /// `State` or `System`.
    pub fn start(&self, listener: Option<Arc<dyn ReceiverListener>>) -> Result<(), AnabranchError> {
        self.inner.start()?;
        match listener {
            Some(listener) => follow(
                &self.inner,
                anabranch_embed::Receiver::next_event,
                move |event| {
                    listener.on_event(event.into());
                },
            ),
            None => Ok(()),
        }
    }

    /// Returns this end's public key; empty for SRT.
    pub fn public_key(&self) -> String {
        self.inner.public_key()
    }

    /// Returns the address at which it listens.
    ///
    /// # Errors
    /// `State`: it is not started.
    pub fn local_address(&self) -> Result<String, AnabranchError> {
        Ok(self.inner.local_address()?)
    }

    /// Returns a link for one new sender, good for `lasts_ms` milliseconds. `host` is this
    /// machine's name for senders, with or without a port.
    ///
    /// # Errors
    /// `State`.
    pub fn pairing_link(&self, host: &str, lasts_ms: u64) -> Result<String, AnabranchError> {
        let lasts = Duration::from_millis(lasts_ms);
        Ok(self.inner.pairing_link(host, lasts)?)
    }

    /// Waits for the next sender's session, `limit_ms` milliseconds at most. Returns none if no
    /// sender came.
    ///
    /// # Errors
    /// `State` or `Ended`.
    pub fn accept(&self, limit_ms: u64) -> Result<Option<Arc<Session>>, AnabranchError> {
        let session = self.inner.accept(Duration::from_millis(limit_ms))?;
        Ok(session.map(|inner| Arc::new(Session { inner })))
    }

    /// Ends all sessions, and notifies their senders.
    ///
    /// # Errors
    /// `State`: it is not started.
    pub fn finish(&self) -> Result<(), AnabranchError> {
        Ok(self.inner.close()?)
    }
}

/// One sender's session.
#[derive(Debug, uniffi::Object)]
pub struct Session {
    inner: anabranch_embed::Session,
}

#[uniffi::export]
impl Session {
    /// Returns the number of the session in the order in which sessions began, from 0.
    pub fn number(&self) -> u64 {
        self.inner.number()
    }

    /// Returns the sender's public key; of SRT its stream ID, or its host if it gave none.
    pub fn peer(&self) -> String {
        self.inner.peer()
    }

    /// Waits for the next frame in order, `limit_ms` milliseconds at most. Returns none if no frame
    /// came.
    ///
    /// # Errors
    /// `Ended` with the reason.
    pub fn next_frame(&self, limit_ms: u64) -> Result<Option<VideoFrame>, AnabranchError> {
        let frame = self.inner.next_frame(Duration::from_millis(limit_ms))?;
        Ok(frame.map(|frame| VideoFrame {
            number: frame.id.0,
            is_key: frame.importance.is_key(),
            captured_micros: (frame.captured_at.as_nanos() / 1_000) as i64,
            bytes: frame.bytes,
        }))
    }

    /// Returns the state of the session in numbers.
    pub fn statistics(&self) -> Statistics {
        self.inner.statistics().into()
    }

    /// Ends the session, and notifies its sender that this receiver leaves.
    pub fn finish(&self) {
        self.inner.close();
    }
}
