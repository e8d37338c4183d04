//! Relay of bytes between a connection and a stream.

use core::time::Duration;
use std::collections::VecDeque;
use std::io::{self, IoSlice};

use anabranch_net::{ByteStream, StreamReader, StreamWriter};
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connection::{Connection, ReadHalf, WriteHalf};
use super::http;
use super::request::Answer;

/// Size of a read buffer.
const BUFFER_BYTES: usize = 64 << 10;
/// Minimum room in the last buffer for the next read. Streams keep references to a buffer until all
/// of its bytes have left.
const MIN_ROOM_BYTES: usize = BUFFER_BYTES / 4;
/// Maximum number of full buffers that are kept for reuse: about as much as a stream sends ahead.
const MAX_FULL_COUNT: usize = 32;
/// Maximum bytes of a write: as many messages as a system call takes.
const WRITE_BYTES: usize = 80 << 10;
/// Maximum bytes that a refused application may send before the connection is closed.
const MAX_UNHEARD_BYTES: u64 = 1 << 20;
/// Longest wait until a refused application closes.
const CLOSING_PATIENCE: Duration = Duration::from_secs(2);
/// Number of an application's first bytes that identify its protocol.
const FIRST_BYTES: usize = 16;
/// Longest wait for them, if the application sends first.
const FIRST_PATIENCE: Duration = Duration::from_millis(500);

/// State of the server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The answer has been read.
    Yes,
    /// The answer comes before the first byte. The application may send meanwhile.
    NotYet,
}

/// Carries bytes in both directions until both have ended. Each direction ends by itself; an abort
/// on one side aborts the other.
pub async fn run(
    mut connection: Connection,
    mut stream: ByteStream,
    answered: Answered,
) -> io::Result<()> {
    let (mut from_application, mut to_application) = connection.split();
    let (mut from_stream, mut to_stream) = stream.split();
    let (mut first, mut refused) = (Vec::new(), None);
    let there = carry_there(&mut from_application, &mut to_stream, &mut first);
    let back = async {
        if answered == Answered::NotYet {
            let answer = Answer::read(&mut from_stream).await?;
            if answer != Answer::Connected {
                refused = Some(answer);
                return Err(io::Error::other(answer.to_string()));
            }
        }
        carry_back(&mut from_stream, &mut to_application).await
    };
    let carried = tokio::try_join!(there, back);
    if carried.is_err() {
        match refused {
            Some(answer) if speaks_http(&mut connection, &first).await => {
                http::respond_unconnected(&mut connection, answer).await?;
                close_after_answer(connection).await?;
            }
            _ => connection.reset(),
        }
    }
    carried.map(|_| ())
}

/// Returns whether an application has sent an HTTP request. `first` are its bytes that have left.
async fn speaks_http(connection: &mut Connection, first: &[u8]) -> bool {
    if !first.is_empty() {
        return http::begins_request(first);
    }
    let mut bytes = [0; FIRST_BYTES];
    let peeked = tokio::time::timeout(FIRST_PATIENCE, connection.peek(&mut bytes)).await;
    let length = peeked.ok().and_then(Result::ok).unwrap_or_default();
    http::begins_request(&bytes[..length])
}

async fn carry_there(
    from: &mut ReadHalf<'_>,
    to: &mut StreamWriter<'_>,
    first: &mut Vec<u8>,
) -> io::Result<()> {
    let mut buffers = Buffers::default();
    loop {
        let buffer = buffers.with_room();
        let count = from.read_buf(buffer).await?;
        if count == 0 {
            to.finish();
            return Ok(());
        }
        if first.is_empty() {
            *first = buffer[..count.min(FIRST_BYTES)].to_vec();
        }
        to.write_bytes(buffer.split().freeze()).await?;
        if count < MIN_ROOM_BYTES {
            buffers.full.clear();
        }
    }
}

/// Read buffers. Those whose bytes have all left are reused: new memory for each read costs more
/// than the read.
#[derive(Debug, Default)]
struct Buffers {
    current: Option<BytesMut>,
    /// Full buffers, the oldest first.
    full: VecDeque<BytesMut>,
}

impl Buffers {
    /// Returns a buffer with room to read into.
    fn with_room(&mut self) -> &mut BytesMut {
        let current = self.current.as_ref();
        if current.is_none_or(|buffer| buffer.capacity() < MIN_ROOM_BYTES) {
            self.full.extend(self.current.take());
            if self.full.len() > MAX_FULL_COUNT {
                self.full.pop_front();
            }
        }
        let full = &mut self.full;
        self.current.get_or_insert_with(|| {
            let oldest = full.front_mut();
            let is_free = oldest.is_some_and(|oldest| oldest.try_reclaim(BUFFER_BYTES));
            let reused = if is_free { full.pop_front() } else { None };
            reused.unwrap_or_else(|| BytesMut::with_capacity(BUFFER_BYTES))
        })
    }
}

async fn carry_back(from: &mut StreamReader<'_>, to: &mut WriteHalf<'_>) -> io::Result<()> {
    let mut pieces = Pieces::default();
    while from.read_bytes(&mut pieces.0, WRITE_BYTES).await? > 0 {
        to.write_all_buf(&mut pieces).await?;
    }
    to.shutdown().await
}

/// Non-empty pieces of bytes for one system call.
#[derive(Debug, Default)]
struct Pieces(VecDeque<Bytes>);

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.0.front().map_or(&[], |first| first)
    }

    fn chunks_vectored<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        let slices = out.iter_mut().zip(&self.0);
        slices
            .map(|(slice, piece)| *slice = IoSlice::new(piece))
            .count()
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let first = self.0.front_mut().expect("no more than there is");
            let taken = count.min(first.len());
            first.advance(taken);
            count -= taken;
            if first.is_empty() {
                self.0.pop_front();
            }
        }
    }
}

/// Closes a connection whose application got a reason. Unread bytes would otherwise cause a reset,
/// which may discard the reason.
pub async fn close_after_answer(mut connection: Connection) -> io::Result<()> {
    connection.shutdown().await?;
    let mut rest = (&mut connection).take(MAX_UNHEARD_BYTES);
    let mut nowhere = tokio::io::sink();
    let heard_out = tokio::io::copy(&mut rest, &mut nowhere);
    // An application that continues to send is not waited for.
    let _ = tokio::time::timeout(CLOSING_PATIENCE, heard_out).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_written_in_order_whatever_a_call_takes() {
        let text = b"several pieces, of which a call takes as much as it likes";
        for taken in 1..=text.len() {
            let mut pieces = Pieces(text.chunks(7).map(Bytes::copy_from_slice).collect());
            let mut written = Vec::new();
            while pieces.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 3];
                let count = pieces.chunks_vectored(&mut slices);
                let offered: Vec<u8> = slices[..count]
                    .iter()
                    .flat_map(|slice| slice.to_vec())
                    .collect();
                assert!(offered.len() <= pieces.remaining());
                let taken = taken.min(offered.len());
                written.extend_from_slice(&offered[..taken]);
                pieces.advance(taken);
            }
            assert_eq!(written, text, "{taken} a call");
        }
    }

    /// Fills a buffer, and returns its bytes.
    fn filled(buffers: &mut Buffers) -> Bytes {
        let buffer = buffers.with_room();
        buffer.resize(BUFFER_BYTES, 7);
        buffer.split().freeze()
    }

    #[test]
    fn a_buffer_is_used_again_once_all_that_was_read_into_it_has_left() {
        let mut buffers = Buffers::default();
        let [first, second] = [filled(&mut buffers), filled(&mut buffers)];
        let place = first.as_ptr();
        assert_ne!(second.as_ptr(), place);
        let rest = first.slice(BUFFER_BYTES - 1..);
        drop(first);
        assert_ne!(filled(&mut buffers).as_ptr(), place);
        drop(rest);
        assert_eq!(filled(&mut buffers).as_ptr(), place);
        let kept: Vec<Bytes> = (0..2 * MAX_FULL_COUNT)
            .map(|_| filled(&mut buffers))
            .collect();
        assert!(buffers.full.len() <= MAX_FULL_COUNT);
        assert!(kept.iter().all(|bytes| bytes.len() == BUFFER_BYTES));
    }
}
