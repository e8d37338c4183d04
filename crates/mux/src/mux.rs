//! All streams of a session: their turns, and the effects of messages.

use core::task::Poll;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::limits::{Limits, MAX_AHEAD_COUNT};
use crate::message::{Message, StreamId};
use crate::peer_ids::{PeerIds, PeerStream};
use crate::receive::ReceiveHalf;
use crate::send::SendHalf;
use crate::session_window::{Budget, SessionWindow};
use crate::violation::Violation;

/// Role of this end in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that requested the session.
    Client,
    /// The end that accepted it.
    Server,
}

/// Events of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer has opened a stream: [`Mux::accept`].
    Opened,
    /// [`Mux::read`] has a result.
    Readable(StreamId),
    /// [`Mux::write`] has room again, or never will.
    Writable(StreamId),
}

/// Reason for which a stream ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The peer has given it up, or wants no more of it.
    #[error("the peer has given the stream up")]
    GivenUp,
    /// This end has finished it, or given it up.
    #[error("the stream has ended")]
    Ended,
    /// The session is over.
    #[error("the session of the stream is over")]
    SessionOver,
}

/// Reason for which no stream could be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The maximum number of streams is open.
    #[error("{max} streams are open")]
    TooMany {
        /// The maximum number.
        max: usize,
    },
    /// The session is over.
    #[error("the session is over")]
    SessionOver,
}

/// Number of streams whose sendable bytes are counted: more streams are busy enough in any case.
const MAX_COUNTED: usize = 16;

#[derive(Debug)]
struct Stream {
    send: SendHalf,
    receive: ReceiveHalf,
    /// Whether it waits for its turn.
    is_queued: bool,
    /// Whether the application has released it.
    is_released: bool,
}

/// Many streams in one session. See [the crate](crate).
#[derive(Debug)]
pub struct Mux {
    limits: Limits,
    role: Role,
    streams: BTreeMap<StreamId, Stream>,
    /// Id of the next stream that this end opens.
    next_id: u64,
    peer_ids: PeerIds,
    /// Streams opened by the peer, and not accepted.
    opened: VecDeque<StreamId>,
    /// Streams that have something to send, in the order of their turns.
    ready: VecDeque<StreamId>,
    /// Streams whose turn came after the session's credit had ended.
    parked: VecDeque<StreamId>,
    /// Number of bytes of all streams that have left …
    sent_bytes: u64,
    /// … and may leave.
    max_sent_bytes: u64,
    /// Credit of the peer for all streams.
    window: SessionWindow,
    /// Messages beyond gaps, of all streams.
    ahead_count: usize,
    /// Messages that are not data: they leave first.
    notices: VecDeque<Message>,
    events: VecDeque<Event>,
    windows_bytes: u64,
    /// Number of streams that the peer has opened.
    peer_count: usize,
    is_over: bool,
}

impl Mux {
    /// Creates a multiplexer without streams. Arrived, unread bytes take their memory from the
    /// budget.
    pub fn new(role: Role, limits: Limits, budget: Budget) -> Self {
        let (own, peers) = match role {
            Role::Client => (0, 1),
            Role::Server => (1, 0),
        };
        Mux {
            limits,
            role,
            streams: BTreeMap::new(),
            next_id: own,
            peer_ids: PeerIds::starting_at(peers),
            opened: VecDeque::new(),
            ready: VecDeque::new(),
            parked: VecDeque::new(),
            sent_bytes: 0,
            max_sent_bytes: limits.session_window_bytes,
            window: SessionWindow::new(limits.session_window_bytes, budget),
            ahead_count: 0,
            notices: VecDeque::new(),
            events: VecDeque::new(),
            windows_bytes: 0,
            peer_count: 0,
            is_over: false,
        }
    }

    /// Returns the number of bytes of all streams that have arrived and are unread.
    pub fn held_bytes(&self) -> u64 {
        self.window.held_bytes()
    }

    /// Returns the number of streams.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Opens a stream. Its first bytes announce it to the peer.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&mut self) -> Result<StreamId, OpenError> {
        if self.is_over {
            return Err(OpenError::SessionOver);
        }
        let max = self.limits.max_streams;
        if self.streams.len() - self.peer_count >= max {
            return Err(OpenError::TooMany { max });
        }
        let id = StreamId(self.next_id);
        self.next_id += 2;
        self.add(id);
        Ok(id)
    }

    fn is_own(&self, id: StreamId) -> bool {
        id.0.is_multiple_of(2) == (self.role == Role::Client)
    }

    fn add(&mut self, id: StreamId) {
        let window_bytes = self.limits.window_bytes;
        self.windows_bytes += window_bytes;
        self.peer_count += usize::from(!self.is_own(id));
        let stream = Stream {
            send: SendHalf::new(window_bytes),
            receive: ReceiveHalf::new(window_bytes),
            is_queued: false,
            is_released: false,
        };
        self.streams.insert(id, stream);
    }

    /// Returns the next stream that the peer has opened.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.opened.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes a copy of some of the bytes for sending; at least one, if there are any. If pending,
    /// [`Event::Writable`] signals the time for another try.
    ///
    /// # Errors
    /// [`StreamError`]; no byte was taken.
    pub fn write(&mut self, id: StreamId, bytes: &[u8]) -> Poll<Result<usize, StreamError>> {
        self.write_with(id, |send, capacity| send.write(bytes, capacity))
    }

    /// Writes like [`write`](Self::write), without a copy: accepted bytes are shared, and gone from
    /// `bytes`.
    ///
    /// # Errors
    /// [`StreamError`]; no byte was taken.
    pub fn write_shared(
        &mut self,
        id: StreamId,
        bytes: &mut Bytes,
    ) -> Poll<Result<usize, StreamError>> {
        self.write_with(id, |send, capacity| send.write_shared(bytes, capacity))
    }

    /// Calls `write`, which takes as many bytes as fit, and returns its result; pending
    /// without room.
    fn write_with(
        &mut self,
        id: StreamId,
        write: impl FnOnce(&mut SendHalf, usize) -> Option<usize>,
    ) -> Poll<Result<usize, StreamError>> {
        let capacity = self.send_capacity();
        if self.is_over {
            return Poll::Ready(Err(StreamError::SessionOver));
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            return Poll::Ready(Err(StreamError::SessionOver));
        };
        if stream.send.is_stopped() {
            return Poll::Ready(Err(StreamError::GivenUp));
        }
        if !stream.send.is_open() {
            return Poll::Ready(Err(StreamError::Ended));
        }
        let Some(taken) = write(&mut stream.send, capacity) else {
            return Poll::Pending;
        };
        self.queue(id);
        Poll::Ready(Ok(taken))
    }

    /// Returns the number of bytes that may wait in a stream.
    fn send_capacity(&self) -> usize {
        let limits = &self.limits;
        let all = limits.all_send_bytes.min(self.window.send_bytes() as usize);
        let share = all / self.streams.len().max(1);
        share.min(limits.send_bytes).max(limits.min_send_bytes)
    }

    /// Returns the number of bytes that could leave now, of the streams with the next turns.
    pub fn sendable_bytes(&self) -> u64 {
        let next = self.ready.iter().take(MAX_COUNTED);
        let streams = next.filter_map(|id| self.streams.get(id));
        let bytes: u64 = streams.map(|stream| stream.send.sendable_bytes()).sum();
        bytes.min(self.session_credit())
    }

    /// Returns the number of bytes of all streams that may leave.
    fn session_credit(&self) -> u64 {
        self.max_sent_bytes - self.sent_bytes
    }

    /// Ends the sending half behind the written bytes.
    pub fn finish(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.send.finish();
            self.queue(id);
        }
    }

    /// Returns the next bytes of a stream; `None` at its end. If pending, [`Event::Readable`]
    /// signals the time for another try.
    ///
    /// # Errors
    /// [`StreamError`]: the end will not come.
    pub fn read(&mut self, id: StreamId) -> Poll<Result<Option<Bytes>, StreamError>> {
        fn read(receive: &mut ReceiveHalf) -> Option<(Bytes, Option<u64>)> {
            let bytes = receive.read()?;
            Some((bytes, receive.credit()))
        }

        let Some(stream) = self.streams.get(&id) else {
            return Poll::Ready(Err(StreamError::SessionOver));
        };
        if stream.receive.is_reset() {
            return Poll::Ready(Err(StreamError::GivenUp));
        }
        let is_at_end = stream.receive.is_at_end();
        if let Some((bytes, credit)) = self.receive(id, 0, read).flatten() {
            if let Some(max_offset) = credit {
                self.notices.push_back(Message::Credit { id, max_offset });
            }
            return Poll::Ready(Ok(Some(bytes)));
        }
        match is_at_end {
            true => Poll::Ready(Ok(None)),
            false if self.is_over => Poll::Ready(Err(StreamError::SessionOver)),
            false => Poll::Pending,
        }
    }

    /// Calls `act` on a stream's receiving half, maybe with bytes that have arrived, and counts the
    /// bytes that it no longer holds. `None`: the stream is over.
    fn receive<T>(
        &mut self,
        id: StreamId,
        arrived_bytes: u64,
        act: impl FnOnce(&mut ReceiveHalf) -> T,
    ) -> Option<T> {
        let Some(stream) = self.streams.get_mut(&id) else {
            self.on_consumed(arrived_bytes);
            return None;
        };
        let before = stream.receive.held();
        let done = act(&mut stream.receive);
        let after = stream.receive.held();
        self.ahead_count = self.ahead_count + after.ahead_count - before.ahead_count;
        self.on_consumed(before.bytes + arrived_bytes - after.bytes);
        Some(done)
    }

    fn on_consumed(&mut self, bytes: u64) {
        self.window.on_consumed(bytes);
        let limits = &self.limits;
        let wanted = self.windows_bytes.min(limits.max_session_window_bytes);
        if let Some(max_bytes) = self.window.credit(wanted)
            && !self.is_over
        {
            self.notices.push_back(Message::SessionCredit { max_bytes });
        }
    }

    /// Gives up unsent bytes, and notifies the peer.
    fn reset(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.send.reset()
        {
            self.notices.push_back(Message::Reset { id });
        }
    }

    /// Releases a stream: finished data is still sent, the rest is given up, and the peer learns
    /// that no more is read.
    pub fn release(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.is_released = true;
        let is_open = stream.send.is_open();
        if self.receive(id, 0, ReceiveHalf::stop) == Some(true) {
            self.notices.push_back(Message::Stop { id });
        }
        if is_open {
            self.reset(id);
        }
        self.forget_if_over(id);
    }

    fn forget_if_over(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get(&id)
            && stream.is_released
            && stream.send.is_over()
        {
            self.windows_bytes -= stream.receive.window_bytes();
            self.peer_count -= usize::from(!self.is_own(id));
            self.streams.remove(&id);
        }
    }

    /// Queues a stream for its turn if it has something that may leave.
    fn queue(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.send.is_ready() && !stream.is_queued {
            stream.is_queued = true;
            self.ready.push_back(id);
        }
        if let Some(offset) = stream.send.take_blocked() {
            self.notices.push_back(Message::Blocked { id, offset });
        }
    }

    /// Ends the session and its streams, except for bytes that have arrived. Further calls have no
    /// effect.
    pub fn end(&mut self) {
        if core::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.ready.clear();
        self.parked.clear();
        self.notices.clear();
        for id in self.streams.keys() {
            self.events.push_back(Event::Readable(*id));
            self.events.push_back(Event::Writable(*id));
        }
    }

    /// Returns whether [`next_message`](Self::next_message) has one.
    pub fn has_message(&self) -> bool {
        !self.notices.is_empty() || !self.ready.is_empty()
    }

    /// Returns the next message for the peer, of `max_bytes` at most: notices first, then of each
    /// stream in turn. `head` becomes its beginning, of at most
    /// [`MAX_HEADER_BYTES`](crate::MAX_HEADER_BYTES). The returned rest shares the written bytes if
    /// they lie together.
    pub fn next_message(&mut self, max_bytes: usize, head: &mut Vec<u8>) -> Option<Bytes> {
        head.clear();
        if let Some(notice) = self.notices.pop_front() {
            notice.write(head);
            return Some(Bytes::new());
        }
        let capacity = self.send_capacity();
        while let Some(id) = self.ready.pop_front() {
            let credit = self.session_credit();
            let Some(stream) = self.streams.get_mut(&id) else {
                continue;
            };
            if credit == 0 && stream.send.sendable_bytes() > 0 {
                self.parked.push_back(id);
                continue;
            }
            stream.is_queued = false;
            let message = stream.send.next(id, max_bytes, credit, head);
            self.sent_bytes += message.as_ref().map_or(0, Bytes::len) as u64;
            if stream.send.take_writable(capacity) {
                self.events.push_back(Event::Writable(id));
            }
            self.queue(id);
            self.forget_if_over(id);
            if message.is_some() {
                return message;
            }
        }
        None
    }

    /// Takes a message of the peer.
    ///
    /// # Errors
    /// [`Violation`]: close the session.
    pub fn handle_message(&mut self, message: Bytes) -> Result<(), Violation> {
        match Message::read(message).ok_or(Violation::Meaningless)? {
            Message::Data {
                id,
                offset,
                is_last,
                bytes,
            } => {
                self.find(id)?;
                let arrived = bytes.len() as u64;
                self.window.on_received(arrived)?;
                if self
                    .receive(id, arrived, |receive| {
                        receive.insert(offset, bytes, is_last)
                    })
                    .transpose()?
                    == Some(true)
                {
                    self.events.push_back(Event::Readable(id));
                }
                if self.ahead_count > MAX_AHEAD_COUNT {
                    return Err(Violation::TooManyGaps);
                }
            }
            Message::SessionCredit { max_bytes } => {
                self.max_sent_bytes = self.max_sent_bytes.max(max_bytes);
                self.ready.append(&mut self.parked);
            }
            Message::Credit { id, max_offset } => {
                if let Some(stream) = self.find(id)? {
                    stream.send.on_credit(max_offset);
                    self.queue(id);
                }
            }
            Message::Reset { id } => {
                self.find(id)?;
                if self.receive(id, 0, ReceiveHalf::on_reset) == Some(true) {
                    self.events.push_back(Event::Readable(id));
                }
            }
            Message::Blocked { id, offset } => self.on_blocked(id, offset)?,
            Message::Stop { id } => {
                if let Some(stream) = self.find(id)?
                    && stream.send.on_stop()
                {
                    self.events.push_back(Event::Writable(id));
                    self.forget_if_over(id);
                }
            }
        }
        Ok(())
    }

    fn on_blocked(&mut self, id: StreamId, offset: u64) -> Result<(), Violation> {
        let (limits, windows_bytes) = (self.limits, self.windows_bytes);
        let Some(stream) = self.find(id)? else {
            return Ok(());
        };
        let before = stream.receive.window_bytes();
        let credit = stream.receive.on_blocked(offset, |by| {
            2 * by <= limits.max_window_bytes && windows_bytes + by <= limits.all_windows_bytes
        });
        let grown = stream.receive.window_bytes() - before;
        self.windows_bytes += grown;
        self.on_consumed(0);
        if let Some(max_offset) = credit {
            self.notices.push_back(Message::Credit { id, max_offset });
        }
        Ok(())
    }

    /// Returns the stream, which may be a new one of the peer's; `None` if it is over.
    fn find(&mut self, id: StreamId) -> Result<Option<&mut Stream>, Violation> {
        if self.is_own(id) {
            if id.0 >= self.next_id {
                return Err(Violation::Meaningless);
            }
        } else {
            match self.peer_ids.see(id.0) {
                PeerStream::TooFar => return Err(Violation::TooManyStreams),
                PeerStream::Before => {}
                PeerStream::New => self.admit(id)?,
            }
        }
        Ok(self.streams.get_mut(&id))
    }

    /// Admits a stream that the peer opens.
    fn admit(&mut self, id: StreamId) -> Result<(), Violation> {
        let max = self.limits.max_streams;
        // Notices about streams that are over take memory until they leave.
        if self.notices.len() > 4 * max {
            return Err(Violation::TooManyStreams);
        }
        if self.peer_count < max {
            self.add(id);
            self.opened.push_back(id);
            self.events.push_back(Event::Opened);
            return Ok(());
        }
        self.notices.push_back(Message::Reset { id });
        self.notices.push_back(Message::Stop { id });
        Ok(())
    }
}
