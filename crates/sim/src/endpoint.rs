//! An end's session, of media or of a stream.

use std::sync::Arc;

use anabranch_core::{
    Config, ConfigError, DatagramMeta, Event, MediaSession, PathCounters, PathId, PathOptions,
    PathView, SessionCounters, StreamSession, Timer, Transmit,
};
use anabranch_units::{Instant, Seed};

/// A session of either kind. Calls that every driver makes are here; others match on the kind.
#[derive(Debug)]
pub(crate) enum Endpoint {
    Media(Box<MediaSession>),
    Stream(Box<StreamSession>),
}

/// Evaluates the same expression for a session of either kind.
macro_rules! with_session {
    ($endpoint:expr, $session:ident => $call:expr) => {
        match $endpoint {
            Endpoint::Media($session) => $call,
            Endpoint::Stream($session) => $call,
        }
    };
}

impl Endpoint {
    pub(crate) fn of_media(
        config: Arc<Config>,
        seed: Seed,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        let session = MediaSession::new(config, seed, now)?;
        Ok(Endpoint::Media(Box::new(session)))
    }

    pub(crate) fn of_stream(
        config: Arc<Config>,
        seed: Seed,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        let session = StreamSession::new(config, seed, now)?;
        Ok(Endpoint::Stream(Box::new(session)))
    }

    /// Returns the session of media, if it is one.
    pub(crate) fn media(&self) -> Option<&MediaSession> {
        match self {
            Endpoint::Media(session) => Some(session),
            Endpoint::Stream(_) => None,
        }
    }

    /// Returns the session of media, if it is one.
    pub(crate) fn media_mut(&mut self) -> Option<&mut MediaSession> {
        match self {
            Endpoint::Media(session) => Some(session),
            Endpoint::Stream(_) => None,
        }
    }

    /// Returns the stream's session, if it is one.
    pub(crate) fn stream(&self) -> Option<&StreamSession> {
        match self {
            Endpoint::Media(_) => None,
            Endpoint::Stream(session) => Some(session),
        }
    }

    /// Returns the stream's session, if it is one.
    pub(crate) fn stream_mut(&mut self) -> Option<&mut StreamSession> {
        match self {
            Endpoint::Media(_) => None,
            Endpoint::Stream(session) => Some(session),
        }
    }

    pub(crate) fn add_path(&mut self, now: Instant, options: PathOptions) -> Option<PathId> {
        with_session!(self, session => session.add_path(now, options))
    }

    #[inline]
    pub(crate) fn handle_datagram(&mut self, now: Instant, meta: DatagramMeta, payload: &[u8]) {
        with_session!(self, session => session.handle_datagram(now, meta, payload));
    }

    #[inline]
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        with_session!(self, session => session.handle_timeout(now));
    }

    #[inline]
    pub(crate) fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        with_session!(self, session => session.poll_transmit(now, buf))
    }

    #[inline]
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        with_session!(self, session => session.poll_event())
    }

    #[inline]
    pub(crate) fn poll_timeout(&self) -> Option<(Instant, Timer)> {
        with_session!(self, session => session.poll_timeout())
    }

    pub(crate) fn close(&mut self, now: Instant) {
        with_session!(self, session => session.close(now));
    }

    pub(crate) fn paths(&self, now: Instant) -> Vec<PathView> {
        with_session!(self, session => session.paths(now))
    }

    pub(crate) fn path_counters(&self, path: PathId) -> Option<&PathCounters> {
        with_session!(self, session => session.path_counters(path))
    }

    pub(crate) fn counters(&self) -> &SessionCounters {
        with_session!(self, session => session.counters())
    }

    pub(crate) fn controller_state(&self, path: PathId) -> Option<&'static str> {
        with_session!(self, session => session.controller_state(path))
    }
}
