//! Requests of the end that opens a session.

/// Cargo of a session, as its initiation names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Cargo {
    /// Frames of live media, towards the responder.
    Frames = 0,
    /// Reliable streams of bytes, both ways.
    Streams = 1,
    /// Datagrams that are worthless when late, both ways.
    Datagrams = 2,
}

impl Cargo {
    /// Every kind; the index is its byte in the initiation.
    pub const ALL: [Cargo; 3] = [Cargo::Frames, Cargo::Streams, Cargo::Datagrams];
}

/// An initiator's requests for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Requested cargo.
    pub cargo: Cargo,
    /// Wished delay of media in milliseconds; 0: no wish. The larger of both ends' counts.
    pub latency_millis: u16,
}

impl Wishes {
    /// Returns wishes for a session that carries `cargo`, and no others.
    pub fn of(cargo: Cargo) -> Self {
        Wishes {
            cargo,
            latency_millis: 0,
        }
    }
}
