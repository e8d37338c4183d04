//! The request of a new stream, and its answer.
//!
//! ```text
//! request: u16 length, target as text; none: the server's own target
//! answer:  one byte
//! ```

use core::fmt;
use core::time::Duration;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum length of a target: a host's name of 255 bytes, and a port.
pub const MAX_TARGET_BYTES: usize = 262;

/// Time in which a request must be complete, at the proxy and at the server. Chosen: applications
/// write requests at once, and a lost segment takes three seconds at most.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a request by `read`, within [`TIMEOUT`].
///
/// # Errors
/// As `read`, or it takes too long, however many bytes arrive meanwhile.
pub async fn in_time<T>(read: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    within(TIMEOUT, read).await
}

async fn within<T>(limit: Duration, read: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let done = tokio::time::timeout(limit, read).await;
    done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Returns the bytes of a request for a target.
pub fn bytes(target: &str) -> io::Result<Vec<u8>> {
    if target.len() > MAX_TARGET_BYTES {
        return Err(invalid("the target's name is too long"));
    }
    let mut bytes = (target.len() as u16).to_be_bytes().to_vec();
    bytes.extend_from_slice(target.as_bytes());
    Ok(bytes)
}

/// Reads a stream's request; empty for the server's own target.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let length = usize::from(stream.read_u16().await?);
    if length > MAX_TARGET_BYTES {
        return Err(invalid("the target's name is too long"));
    }
    let mut target = vec![0; length];
    stream.read_exact(&mut target).await?;
    String::from_utf8(target).map_err(|_| invalid("the target's name is no text"))
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The connection is open.
    Connected,
    /// The server does not permit the target.
    NotAllowed,
    /// The target refuses the connection.
    Refused,
    /// The target cannot be reached.
    Unreachable,
    /// The target's name has no address.
    UnknownHost,
}

impl Answer {
    const ALL: [Answer; 5] = [
        Answer::Connected,
        Answer::NotAllowed,
        Answer::Refused,
        Answer::Unreachable,
        Answer::UnknownHost,
    ];

    /// Returns the answer for a connection that failed.
    pub fn of_error(error: &io::Error) -> Answer {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Answer::Refused,
            _ => Answer::Unreachable,
        }
    }

    /// Returns the answer in words.
    pub fn reason(self) -> &'static str {
        match self {
            Answer::Connected => "connected",
            Answer::NotAllowed => "the server does not lead there (its --forward and --connect)",
            Answer::Refused => "nothing listens there",
            Answer::Unreachable => "it cannot be reached from the server",
            Answer::UnknownHost => "the server knows no address of this host",
        }
    }

    /// Returns the answer's byte.
    pub fn to_byte(self) -> u8 {
        self as u8
    }

    /// Parses a byte; `None` if it has no meaning.
    pub fn of_byte(byte: u8) -> Option<Answer> {
        Answer::ALL.get(usize::from(byte)).copied()
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// The stream has ended, or the byte is no answer.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Answer> {
        let answer = Answer::of_byte(stream.read_u8().await?);
        answer.ok_or_else(|| invalid("an answer that means nothing"))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_are_read_as_they_were_written() {
        for target in ["", "example.org:443", "[2001:db8::1]:80"] {
            let written = bytes(target).unwrap();
            assert_eq!(read(&mut &written[..]).await.unwrap(), target);
            if !target.is_empty() {
                assert!(read(&mut &written[..written.len() - 1]).await.is_err());
            }
        }
        assert!(bytes(&"x".repeat(MAX_TARGET_BYTES + 1)).is_err());
        for wrong in [&b"\xff\xff"[..], b"\x00\x02\xff\xfe", b"\x00"] {
            assert!(read(&mut &wrong[..]).await.is_err(), "{wrong:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_not_complete_in_time_fails_although_it_grows() {
        use tokio::io::AsyncWriteExt;
        let limit = Duration::from_millis(300);
        for interval in [limit * 100, limit / 10] {
            let (mut client, mut server) = tokio::io::duplex(1_000);
            let dripping = tokio::spawn(async move {
                // The name's length is 257 bytes.
                while server.write_u8(1).await.is_ok() {
                    tokio::time::sleep(interval).await;
                }
            });
            let began_at = tokio::time::Instant::now();
            let late = within(limit, read(&mut client)).await;
            assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert!(began_at.elapsed() >= limit);
            dripping.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_read_as_they_were_written() {
        for answer in Answer::ALL {
            let byte = [answer.to_byte()];
            assert_eq!(Answer::read(&mut &byte[..]).await.unwrap(), answer);
        }
        assert!(Answer::read(&mut &[5][..]).await.is_err());
    }
}
