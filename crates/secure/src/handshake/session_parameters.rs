//! Requests of the end that opens a session.

/// Kind of a session, as its initiation names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SessionKind {
    /// Frames of live media, towards the responder.
    Frames = 0,
    /// Reliable streams of bytes, both ways.
    Streams = 1,
    /// Datagrams that are worthless when late, both ways.
    Datagrams = 2,
}

impl SessionKind {
    /// Every kind; the index is its byte in the initiation.
    pub const ALL: [SessionKind; 3] = [
        SessionKind::Frames,
        SessionKind::Streams,
        SessionKind::Datagrams,
    ];
}

/// An initiator's requests for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionParameters {
    /// Requested kind.
    pub session_kind: SessionKind,
    /// Requested delay of media in milliseconds; 0: none. The larger of both ends' counts.
    pub latency_millis: u16,
}

impl SessionParameters {
    /// Returns the parameters of a session of this `session_kind`, and no others.
    pub fn of(session_kind: SessionKind) -> Self {
        SessionParameters {
            session_kind,
            latency_millis: 0,
        }
    }
}
