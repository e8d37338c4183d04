//! Streams between two ends whose messages overtake one another.

use core::task::Poll;
use std::collections::BTreeMap;

use anabranch_mux::{
    Budget, Event, Limits, MAX_HEADER_BYTES, Mux, OpenError, Role, StreamError, StreamId, Violation,
};
use anabranch_units::{Rng, Seed};
use bytes::Bytes;

const MESSAGE_BYTES: usize = 300;

fn limits() -> Limits {
    Limits {
        max_streams: 20,
        send_bytes: 4_000,
        all_send_bytes: 24_000,
        min_send_bytes: 1_500,
        window_bytes: 2_000,
        max_window_bytes: 16_000,
        all_windows_bytes: 60_000,
        session_window_bytes: 30_000,
        max_session_window_bytes: 80_000,
    }
}

/// Two ends, and the messages in flight to each.
struct Pair {
    ends: [Mux; 2],
    in_flight: [Vec<Bytes>; 2],
    rng: Rng,
}

/// Returns the next message in one piece.
fn next_message(mux: &mut Mux) -> Option<Bytes> {
    let mut head = Vec::new();
    let rest = mux.next_message(MESSAGE_BYTES, &mut head)?;
    assert!(head.len() <= MAX_HEADER_BYTES);
    head.extend_from_slice(&rest);
    Some(head.into())
}

impl Pair {
    fn new(seed: u64) -> Pair {
        Pair {
            ends: [Role::Client, Role::Server]
                .map(|role| Mux::new(role, limits(), Budget::new(200_000))),
            in_flight: [Vec::new(), Vec::new()],
            rng: Seed(seed).rng(),
        }
    }

    fn client(&mut self) -> &mut Mux {
        &mut self.ends[0]
    }

    fn server(&mut self) -> &mut Mux {
        &mut self.ends[1]
    }

    /// Makes some messages leave, and some arrive in any order.
    fn carry(&mut self, count: u64) {
        for _ in 0..count {
            let from = self.rng.below(2) as usize;
            if let Some(message) = next_message(&mut self.ends[from]) {
                assert!(message.len() <= MESSAGE_BYTES);
                self.in_flight[1 - from].push(message);
            }
            let to = self.rng.below(2) as usize;
            let waiting = self.in_flight[to].len() as u64;
            if waiting > 0 {
                let index = self.rng.below(waiting) as usize;
                let message = self.in_flight[to].swap_remove(index);
                self.ends[to]
                    .handle_message(message)
                    .expect("an honest peer");
            }
        }
    }

    /// Delivers all messages.
    fn settle(&mut self) {
        while self.ends.iter().any(Mux::has_message)
            || self.in_flight.iter().any(|waiting| !waiting.is_empty())
        {
            self.carry(10);
        }
    }
}

/// Returns byte `offset` of the data that an end writes to a stream.
fn byte(end: usize, id: u64, offset: u64) -> u8 {
    (offset.wrapping_mul(31) ^ (offset >> 8) ^ id.wrapping_mul(7) ^ end as u64) as u8
}

#[derive(Clone, Copy, Default)]
struct Progress {
    written: u64,
    read: u64,
    is_finished: bool,
    is_at_end: bool,
    is_released: bool,
}

fn write_some(
    mux: &mut Mux,
    rng: &mut Rng,
    end: usize,
    at: (u64, StreamId),
    progress: &mut Progress,
) {
    let (number, id) = at;
    let length = 1 + rng.below(1_500);
    let offsets = progress.written..progress.written + length;
    let bytes: Vec<u8> = offsets.map(|offset| byte(end, number, offset)).collect();
    match mux.write(id, &bytes) {
        Poll::Ready(taken) => progress.written += taken.expect("it is open") as u64,
        Poll::Pending => {}
    }
}

fn read_some(mux: &mut Mux, end: usize, at: (u64, StreamId), progress: &mut Progress) {
    let (number, id) = at;
    match mux.read(id) {
        Poll::Ready(Ok(Some(bytes))) => {
            for read in bytes {
                assert_eq!(read, byte(1 - end, number, progress.read));
                progress.read += 1;
            }
        }
        Poll::Ready(Ok(None)) => progress.is_at_end = true,
        Poll::Ready(Err(error)) => panic!("{error}"),
        Poll::Pending => {}
    }
}

/// Writes to and reads from each stream of an end, and releases those that are over.
fn work(
    pair: &mut Pair,
    end: usize,
    streams: &mut BTreeMap<StreamId, Progress>,
    numbers: &Numbers,
) {
    let ids: Vec<StreamId> = streams.keys().copied().collect();
    for id in ids {
        let own = streams.get_mut(&id).expect("it is there");
        let (mux, rng) = (&mut pair.ends[end], &mut pair.rng);
        if !own.is_finished {
            write_some(mux, rng, end, (numbers[&id], id), own);
            if rng.below(40) == 0 {
                mux.finish(id);
                own.is_finished = true;
            }
        }
        if !own.is_at_end {
            read_some(mux, end, (numbers[&id], id), own);
        }
        if own.is_finished && own.is_at_end && !own.is_released {
            mux.release(id);
            own.is_released = true;
        }
    }
}

/// For each stream, its number in the order of opening.
type Numbers = BTreeMap<StreamId, u64>;

#[test]
fn every_byte_of_every_stream_arrives_once_and_in_order_and_nothing_is_left_behind() {
    for seed in 0..30 {
        let mut pair = Pair::new(seed);
        let mut numbers = Numbers::new();
        let mut streams: [BTreeMap<StreamId, Progress>; 2] = Default::default();
        while numbers.len() < 60 || pair.ends.iter().any(|mux| mux.stream_count() > 0) {
            // The server still has streams that the client has released.
            let count: usize = pair.ends.iter().map(Mux::stream_count).sum();
            if numbers.len() < 60 && count < limits().max_streams && pair.rng.below(3) == 0 {
                let id = pair.client().open().expect("there is room");
                numbers.insert(id, numbers.len() as u64);
                streams[0].insert(id, Progress::default());
            }
            while let Some(id) = pair.server().accept() {
                streams[1].insert(id, Progress::default());
            }
            for (end, streams) in streams.iter_mut().enumerate() {
                work(&mut pair, end, streams, &numbers);
            }
            pair.carry(30);
        }
        for id in numbers.keys() {
            let [client, server] = [0, 1].map(|end| streams[end][id]);
            assert!(client.written > 0 && server.written > 0);
            assert_eq!((client.written, server.written), (server.read, client.read));
        }
    }
}

#[test]
fn many_streams_share_the_send_buffer() {
    fn waiting(count: usize, pair: &mut Pair) -> Poll<Result<usize, StreamError>> {
        let ids: Vec<StreamId> = (0..count).map(|_| pair.client().open().unwrap()).collect();
        let waiting = pair.client().write(ids[0], &[1; 9_000]);
        ids.iter().for_each(|id| pair.client().release(*id));
        pair.settle();
        while let Some(id) = pair.server().accept() {
            pair.server().release(id);
        }
        pair.settle();
        waiting
    }

    let mut pair = Pair::new(8);
    assert_eq!(waiting(1, &mut pair), Poll::Ready(Ok(4_000)));
    assert_eq!(waiting(8, &mut pair), Poll::Ready(Ok(3_000)));
    assert_eq!(waiting(20, &mut pair), Poll::Ready(Ok(1_500)));
}

#[test]
fn sendable_bytes_respect_windows() {
    let mut pair = Pair::new(9);
    let [narrow, wide] = [(); 2].map(|()| pair.client().open().unwrap());
    assert_eq!(
        pair.client().write(narrow, &[1; 3_000]),
        Poll::Ready(Ok(3_000))
    );
    assert_eq!(pair.client().sendable_bytes(), limits().window_bytes);
    assert_eq!(pair.client().write(wide, &[1; 700]), Poll::Ready(Ok(700)));
    assert_eq!(pair.client().sendable_bytes(), limits().window_bytes + 700);
    pair.settle();
    assert_eq!(pair.client().sendable_bytes(), 0);
}

/// Returns a stream whose first bytes the server has read.
fn opened(pair: &mut Pair) -> (StreamId, StreamId) {
    let id = pair.client().open().expect("there is room");
    assert_eq!(pair.client().write(id, b"hello"), Poll::Ready(Ok(5)));
    pair.settle();
    let accepted = pair.server().accept().expect("it came");
    let read = pair.server().read(accepted);
    assert_eq!(read, Poll::Ready(Ok(Some(Bytes::from_static(b"hello")))));
    (id, accepted)
}

#[test]
fn one_half_ends_and_the_other_goes_on() {
    let mut pair = Pair::new(1);
    let (asked, answered) = opened(&mut pair);
    pair.client().finish(asked);
    pair.settle();
    assert_eq!(pair.server().read(answered), Poll::Ready(Ok(None)));
    assert_eq!(
        pair.client().write(asked, b"x"),
        Poll::Ready(Err(StreamError::Ended))
    );
    assert_eq!(pair.server().write(answered, b"late"), Poll::Ready(Ok(4)));
    pair.settle();
    let late = Poll::Ready(Ok(Some(Bytes::from_static(b"late"))));
    assert_eq!(pair.client().read(asked), late);
    assert_eq!(pair.client().read(asked), Poll::Pending);
    pair.server().release(answered);
    pair.settle();
    // The server released it without finishing: that is no end.
    let given_up = Poll::Ready(Err(StreamError::GivenUp));
    assert_eq!(pair.client().read(asked), given_up);
    pair.client().release(asked);
    pair.settle();
    assert_eq!(pair.ends.each_ref().map(Mux::stream_count), [0, 0]);
}

#[test]
fn a_reader_that_goes_away_stops_the_writer() {
    let mut pair = Pair::new(2);
    let (asked, answered) = opened(&mut pair);
    while pair.client().write(asked, &[7; 500]).is_ready() {
        pair.settle();
    }
    let before = pair.client().write(asked, &[7; 500]);
    assert_eq!(before, Poll::Pending, "window and buffer are full");
    pair.server().release(answered);
    pair.settle();
    let events: Vec<Event> = core::iter::from_fn(|| pair.client().poll_event()).collect();
    assert!(events.contains(&Event::Writable(asked)));
    let given_up = Poll::Ready(Err(StreamError::GivenUp));
    assert_eq!(pair.client().write(asked, b"x"), given_up);
    pair.client().release(asked);
    pair.settle();
    assert_eq!(pair.ends.each_ref().map(Mux::stream_count), [0, 0]);
}

#[test]
fn a_slow_reader_holds_its_own_stream_up_and_no_other() {
    let mut pair = Pair::new(3);
    let (slow, _) = opened(&mut pair);
    let (fast, reader) = opened(&mut pair);
    while pair.client().write(slow, &[1; 500]).is_ready() {
        pair.settle();
    }
    let mut read = 0;
    while read < 100_000 {
        let _ = pair.client().write(fast, &[2; 900]);
        pair.settle();
        while let Poll::Ready(Ok(Some(bytes))) = pair.server().read(reader) {
            read += bytes.len();
        }
    }
    assert_eq!(pair.client().write(slow, &[1; 500]), Poll::Pending);
}

#[test]
fn a_window_does_not_grow_for_a_reader_that_is_slow() {
    let mut pair = Pair::new(7);
    let (id, reader) = opened(&mut pair);
    let mut read = 0;
    for _ in 0..200 {
        let _ = pair.client().write(id, &[3; 2_000]);
        pair.settle();
        if let Poll::Ready(Ok(Some(bytes))) = pair.server().read(reader) {
            read += bytes.len();
        }
    }
    let mut unread = 0;
    while let Poll::Ready(Ok(Some(bytes))) = pair.server().read(reader) {
        unread += bytes.len();
    }
    assert!(read > 20_000, "{read}");
    assert!(unread <= limits().window_bytes as usize, "{unread}");
}

/// Returns the number of bytes that can be in flight to a reader that reads all of them at once.
/// New credit arrives when half of the window has been read.
fn widest_window(pair: &mut Pair, id: StreamId, reader: StreamId) -> usize {
    let mut widest = 0;
    for _ in 0..40 {
        let mut held = Vec::new();
        while pair.client().write(id, &[3; 2_000]).is_ready() || pair.client().has_message() {
            held.extend(next_message(pair.client()));
        }
        widest = widest.max(held.iter().map(Bytes::len).sum());
        for message in held {
            assert_eq!(pair.server().handle_message(message), Ok(()));
            while let Poll::Ready(Ok(Some(_))) = pair.server().read(reader) {}
        }
        while let Some(credit) = next_message(pair.server()) {
            assert_eq!(pair.client().handle_message(credit), Ok(()));
        }
    }
    // Remaining messages must not count for the next stream.
    pair.settle();
    widest
}

#[test]
fn a_window_grows_as_long_as_it_limits_and_within_what_all_may_have() {
    let mut pair = Pair::new(4);
    let (first, reader) = opened(&mut pair);
    let most = limits().max_window_bytes as usize;
    let widest = widest_window(&mut pair, first, reader);
    assert!((most / 2..most * 11 / 10).contains(&widest), "{widest}");
    let others: Vec<_> = (0..12).map(|_| opened(&mut pair)).collect();
    let of_each = others
        .iter()
        .map(|(id, reader)| widest_window(&mut pair, *id, *reader));
    let sum = widest + of_each.sum::<usize>();
    let all = limits().all_windows_bytes as usize;
    assert!((all / 2..all * 11 / 10).contains(&sum), "{sum}");
}

#[test]
fn streams_beyond_the_limit_are_refused_and_a_flood_of_them_ends_the_session() {
    let mut pair = Pair::new(5);
    let many = Limits {
        max_streams: 1_000_000,
        ..limits()
    };
    pair.ends[0] = Mux::new(Role::Client, many, Budget::new(200_000));
    let ids: Vec<StreamId> = (0..21)
        .map(|_| pair.client().open().expect("room"))
        .collect();
    for id in &ids {
        assert!(pair.client().write(*id, b"x").is_ready());
    }
    while let Some(message) = next_message(pair.client()) {
        assert_eq!(pair.server().handle_message(message), Ok(()));
    }
    pair.settle();
    assert_eq!(pair.server().stream_count(), limits().max_streams);
    let given_up = Poll::Ready(Err(StreamError::GivenUp));
    assert_eq!(pair.client().read(ids[20]), given_up);
    let mut flooded = Ok(());
    for _ in 0..limits().max_streams * 4 {
        let id = pair.client().open().expect("room");
        assert!(pair.client().write(id, b"x").is_ready());
        let message = next_message(pair.client()).expect("data");
        flooded = flooded.and(pair.ends[1].handle_message(message));
    }
    assert_eq!(flooded, Err(Violation::TooManyStreams));
}

#[test]
fn what_breaks_the_protocol_is_found() {
    let cases: [(&[&[u8]], Violation); 7] = [
        (&[b"\x09\x00"], Violation::Meaningless),
        (&[b""], Violation::Meaningless),
        // The server has opened no stream.
        (&[b"\x00\x01\x00x"], Violation::Meaningless),
        // 2,001 bytes, by its header.
        (&[b"\x00\x00\x47\xd0x"], Violation::WindowExceeded),
        (
            &[b"\x00\x00\x05xx", b"\x00\x00\x06x"],
            Violation::Contradiction,
        ),
        (
            &[b"\x00\x00\x00xx", b"\x00\x00\x00x"],
            Violation::Contradiction,
        ),
        (
            &[b"\x01\x00\x01x", b"\x00\x00\x02x"],
            Violation::Contradiction,
        ),
    ];
    for (messages, expected) in cases {
        let mut server = Mux::new(Role::Server, limits(), Budget::new(200_000));
        let handled = messages
            .iter()
            .try_for_each(|message| server.handle_message(Bytes::from_static(message)));
        assert_eq!(handled, Err(expected), "{messages:?}");
    }
}

#[test]
fn session_end_ends_streams_after_received_data() {
    let mut pair = Pair::new(6);
    let (_, reader) = opened(&mut pair);
    let (id, _) = opened(&mut pair);
    assert!(pair.client().write(id, b"more").is_ready());
    pair.settle();
    pair.server().end();
    let over = Poll::Ready(Err(StreamError::SessionOver));
    assert_eq!(pair.server().write(reader, b"x"), over);
    assert_eq!(
        pair.server().read(reader),
        Poll::Ready(Err(StreamError::SessionOver))
    );
    while pair.client().poll_event().is_some() {}
    pair.client().end();
    let event_count = core::iter::from_fn(|| pair.client().poll_event()).count();
    assert_eq!(event_count, 4, "readers and writers of two streams");
    pair.client().end();
    assert_eq!(pair.client().poll_event(), None, "it ends once");
    assert_eq!(pair.client().open(), Err(OpenError::SessionOver));
    assert!(!pair.client().has_message());
}

#[test]
fn shared_writes_fill_the_room_without_copies() {
    let mut pair = Pair::new(6);
    let (id, reader) = opened(&mut pair);
    let written: Bytes = (0..5_000_u32).map(|byte| byte as u8).collect();
    let mut left = written.clone();
    let room = limits().send_bytes;
    assert_eq!(
        pair.client().write_shared(id, &mut left),
        Poll::Ready(Ok(room))
    );
    assert_eq!(left, written[room..]);
    assert_eq!(pair.client().write_shared(id, &mut left), Poll::Pending);
    let mut head = Vec::new();
    let first = pair
        .client()
        .next_message(MESSAGE_BYTES, &mut head)
        .expect("data");
    assert_eq!(first.as_ptr(), written.as_ptr());
    head.extend_from_slice(&first);
    assert_eq!(pair.server().handle_message(head.into()), Ok(()));
    let mut read = Vec::new();
    while read.len() < written.len() {
        pair.settle();
        while let Poll::Ready(Ok(Some(bytes))) = pair.server().read(reader) {
            read.extend_from_slice(&bytes);
        }
        let _ = pair.client().write_shared(id, &mut left);
    }
    assert_eq!(read, written);
}
