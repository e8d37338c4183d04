//! Bytes from a connection to a stream and back.

use core::time::Duration;
use std::io;

use anabranch_net::ByteStream;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::request::Answer;

/// What is read at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// An application that is gone without a word is noticed some minutes after this.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);

/// What an application that was refused may say before it hears of that …
const MAX_UNHEARD_BYTES: u64 = 1 << 20;
/// … and how long it may take to close.
const CLOSING_PATIENCE: Duration = Duration::from_secs(2);

/// Sets a connection up: nothing waits for more to come, and a dead end is noticed.
pub(crate) fn set_up(connection: &TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE_AFTER);
    SockRef::from(connection).set_tcp_keepalive(&keep_alive)
}

/// Whether the server's answer is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// It has been read.
    Yes,
    /// It comes before the first byte. The application may speak meanwhile.
    NotYet,
}

/// Carries bytes both ways until both ends have ended. Each way ends for itself; what breaks off at
/// one side breaks off at the other.
pub(crate) async fn run(
    mut connection: TcpStream,
    mut stream: ByteStream,
    answered: Answered,
) -> io::Result<()> {
    let (from_application, mut to_application) = connection.split();
    let (mut from_stream, mut to_stream) = tokio::io::split(&mut stream);
    let there = async {
        let mut from_application = BufReader::with_capacity(BUFFER_BYTES, from_application);
        tokio::io::copy_buf(&mut from_application, &mut to_stream).await?;
        to_stream.shutdown().await
    };
    let back = async {
        if answered == Answered::NotYet {
            let answer = Answer::read(&mut from_stream).await?;
            if answer != Answer::Connected {
                return Err(io::Error::other(answer.to_string()));
            }
        }
        let mut from_stream = BufReader::with_capacity(BUFFER_BYTES, from_stream);
        tokio::io::copy_buf(&mut from_stream, &mut to_application).await?;
        to_application.shutdown().await
    };
    let carried = tokio::try_join!(there, back);
    if carried.is_err() {
        reset(&connection);
    }
    carried.map(|_| ())
}

/// Closes a connection whose application has been told why. What it has said and nobody has read
/// would otherwise be answered with a reset, which may take the reason with it.
pub(crate) async fn close_after_answer(mut connection: TcpStream) -> io::Result<()> {
    connection.shutdown().await?;
    let mut rest = (&mut connection).take(MAX_UNHEARD_BYTES);
    let mut nowhere = tokio::io::sink();
    let heard_out = tokio::io::copy(&mut rest, &mut nowhere);
    // An application that speaks on is not waited for.
    let _ = tokio::time::timeout(CLOSING_PATIENCE, heard_out).await;
    Ok(())
}

/// The connection ends with a reset when it is dropped: what came is not all.
pub(crate) fn reset(connection: &TcpStream) {
    // One that is gone needs none.
    let _ = SockRef::from(connection).set_linger(Some(Duration::ZERO));
}
