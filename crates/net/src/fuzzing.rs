//! Entry points of the fuzz targets.

pub use crate::handshake_limiter::{HandshakeLimiter, Verdict};
use crate::relay::message::{Message, write_datagram};

/// Reads a message between a receiver and its relay. Writing it must give the same bytes.
pub fn relay_message(bytes: &[u8]) {
    let Some(message) = Message::read(bytes) else {
        return;
    };
    let written = match &message {
        Message::Datagram {
            peer,
            is_proven,
            bytes: inner,
        } => {
            let mut written = Vec::new();
            write_datagram(&mut written, *peer, *is_proven, &bytes[inner.clone()]);
            written
        }
        other => other.to_bytes(),
    };
    assert_eq!(written, bytes);
}
