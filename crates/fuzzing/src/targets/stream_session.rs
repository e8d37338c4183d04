//! A server's session of streams with its mux, as in `serve`, against an allowed peer. An honest
//! peer uses a network that loses, duplicates and reorders; a hostile one changes datagrams and
//! makes its own. Bytes of an honest peer arrive as they were written, invariants hold, and memory
//! is bounded for each arrived byte.

use core::task::Poll;
use std::collections::{BTreeMap, VecDeque};

use anabranch_core::{Config, DatagramMeta, PathId, PathOptions, StreamConfig, StreamSession};
use anabranch_mux::{Budget, Limits, Mux, Role, StreamId};
use anabranch_units::{Duration, Ecn, Instant, Seed};
use bytes::Bytes;

use crate::{Bound, Meter, Reader, TRANSPORT, Target, Writer};

/// Both ends, their paths and a few streams; then the honest end's copy, the network's, and the
/// server's, with some hundred bytes for each message beyond a gap.
const BOUND: Bound = Bound {
    fixed_bytes: 512 << 10,
    bytes_per_byte: 16,
};
const BUDGET_BYTES: u64 = 64 << 10;
/// The smallest windows, so that short inputs fill them.
const LIMITS: Limits = Limits {
    max_streams: 8,
    send_bytes: 32 << 10,
    all_send_bytes: 64 << 10,
    min_send_bytes: 4 << 10,
    window_bytes: 8 << 10,
    max_window_bytes: 32 << 10,
    all_windows_bytes: 128 << 10,
    session_window_bytes: 32 << 10,
    max_session_window_bytes: 128 << 10,
};
const MAX_IN_FLIGHT: usize = 1_024;

/// A datagram and its path.
type Datagram = (u8, Vec<u8>);

struct End {
    session: StreamSession,
    mux: Mux,
    streams: Vec<StreamId>,
    /// A message for which the session had no room, without its head, and the head.
    held: Option<Bytes>,
    head: Vec<u8>,
    /// Datagrams in flight.
    copies_in_flight: VecDeque<Datagram>,
}

impl End {
    fn new(role: Role) -> End {
        let controller = anabranch_controllers::by_name("bbr3").expect("a controller");
        let scheduler = anabranch_schedulers::by_name(anabranch_schedulers::STREAM_DEFAULT);
        let config = Config {
            stream: StreamConfig {
                carries_messages: true,
                silence_question_interval: Some(Duration::from_secs(1)),
                max_unsent_bytes: 16 << 10,
                send_buffer_bytes: 128 << 10,
                receive_window_bytes: 128 << 10,
                ..StreamConfig::default()
            },
            ..Config::new(controller, scheduler.expect("a scheduler"))
        };
        let seed = Seed(1 + u64::from(role == Role::Server));
        let mut session = StreamSession::new(config, seed, Instant::ZERO).expect("a session");
        session.add_path(Instant::ZERO, PathOptions::default());
        session.add_path(Instant::ZERO, PathOptions::default());
        End {
            session,
            mux: Mux::new(role, LIMITS, Budget::new(BUDGET_BYTES)),
            streams: Vec::new(),
            held: None,
            head: Vec::new(),
            copies_in_flight: VecDeque::new(),
        }
    }

    fn stream(&self, number: u8) -> Option<StreamId> {
        self.streams
            .get(usize::from(number) % self.streams.len().max(1))
            .copied()
    }

    fn take(&mut self, now: Instant, (path, datagram): &Datagram) {
        let meta = DatagramMeta {
            path: PathId(*path),
            received_at: now,
            ecn: Ecn::NotEct,
        };
        self.session.handle_datagram(now, meta, datagram);
        self.take_in(now);
    }

    fn take_in(&mut self, now: Instant) {
        while let Some(message) = self.session.read_bytes() {
            if self.mux.handle_message(message).is_err() {
                self.session.close(now);
                self.mux.end();
                return;
            }
        }
        while let Some(id) = self.mux.accept() {
            self.streams.push(id);
        }
        while self.mux.poll_event().is_some() {}
    }

    /// Moves messages to the session, and its datagrams to the network.
    fn hand_out(&mut self, now: Instant) {
        let max_bytes = self.session.max_message_bytes();
        loop {
            let held = self.held.take();
            let next = held.or_else(|| self.mux.next_message(max_bytes, &mut self.head));
            let Some(message) = next else {
                break;
            };
            match self.session.write_behind(now, &self.head, message.clone()) {
                Ok(0) => {
                    self.held = Some(message);
                    break;
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.session.expect_further(self.mux.sendable_bytes());
        self.session.handle_timeout(now);
        let mut datagram = Vec::new();
        while let Some(transmit) = self.session.poll_transmit(now, &mut datagram) {
            self.copies_in_flight
                .push_back((transmit.path.0, core::mem::take(&mut datagram)));
        }
        while self.copies_in_flight.len() > MAX_IN_FLIGHT {
            self.copies_in_flight.pop_front();
        }
        while self.session.poll_event().is_some() {}
    }

    fn check(&self, now: Instant) {
        let violations = self.session.check_invariants();
        assert!(violations.is_empty(), "at {now}: {violations:#?}");
        assert!(self.mux.stream_count() <= 2 * LIMITS.max_streams);
        assert!(self.mux.held_bytes() <= LIMITS.session_window_bytes + BUDGET_BYTES);
    }
}

struct Bed {
    now: Instant,
    client: End,
    server: End,
    /// The order in which the client has opened streams, and the number of bytes written.
    written: BTreeMap<StreamId, (u8, u64)>,
    /// Number of bytes that the server has read.
    read: BTreeMap<StreamId, u64>,
    is_honest: bool,
    /// The next packet number of a hostile peer.
    number: u32,
    /// Number of bytes that an end has received from the network, or for writing.
    given_bytes: usize,
}

fn pattern(order: u8, offset: u64) -> u8 {
    order.wrapping_mul(37).wrapping_add(offset as u8)
}

impl Bed {
    fn new() -> Self {
        Bed {
            now: Instant::ZERO,
            client: End::new(Role::Client),
            server: End::new(Role::Server),
            written: BTreeMap::new(),
            read: BTreeMap::new(),
            is_honest: true,
            number: 0,
            given_bytes: 0,
        }
    }

    /// Takes one step; `None` at the end.
    fn step(&mut self, input: &mut Reader<'_>) -> Option<()> {
        match input.u8()? % 16 {
            0 => self.open(input.u16()?),
            1 => self.write(input.u8()?, input.u16()?),
            2 => {
                let id = self.client.stream(input.u8()?);
                id.into_iter().for_each(|id| self.client.mux.finish(id));
            }
            3 => {
                let id = self.client.stream(input.u8()?);
                id.into_iter().for_each(|id| self.client.mux.release(id));
            }
            4 => self.read(input.u8()?),
            5 => {
                let (id, bytes) = (self.server.stream(input.u8()?), input.u16()?);
                let bytes = vec![5; usize::from(bytes)];
                self.given_bytes += bytes.len();
                let _ = id.map(|id| self.server.mux.write(id, &bytes));
            }
            6 => {
                if let Some(id) = self.server.stream(input.u8()?) {
                    self.server.streams.retain(|other| *other != id);
                    self.server.mux.release(id);
                }
            }
            7 => self.deliver_all(),
            8 => self.deliver_one(input.u8()?, input.u8()?, input.u8()?),
            9 => self.hostile((input.u8()? % 4, input.bytes()?.to_vec())),
            10 => self.segments(input)?,
            11 => {
                let [kind, path, window] = [input.u8()?, input.u8()?, input.u8()?];
                let offset = u32::from(input.u16()?).to_le_bytes();
                let ack = [&[0x40, 0x14 + kind % 3][..], &offset, &[window & 0x7f, 0]].concat();
                self.hostile((path % 4, ack));
            }
            12 => self.now += Duration::from_micros(64 * u64::from(input.u16()?)),
            13 => {
                while let Some(datagram) = self.server.copies_in_flight.pop_front() {
                    self.given_bytes += datagram.1.len() + TRANSPORT;
                    self.client.take(self.now, &datagram);
                }
            }
            14 => match input.u8()? {
                path @ 0..4 => self.server.session.remove_path(self.now, PathId(path)),
                _ => {
                    self.server
                        .session
                        .add_path(self.now, PathOptions::default());
                }
            },
            _ => match input.u8()? % 4 {
                0 => self.client.session.close(self.now),
                1 => self.server.session.close(self.now),
                _ => {}
            },
        }
        for end in [&mut self.client, &mut self.server] {
            end.take_in(self.now);
            end.hand_out(self.now);
            end.check(self.now);
        }
        self.given_bytes += TRANSPORT;
        Some(())
    }

    fn open(&mut self, bytes: u16) {
        if let Ok(id) = self.client.mux.open() {
            self.written.insert(id, (self.written.len() as u8, 0));
            self.client.streams.push(id);
            self.write((self.client.streams.len() - 1) as u8, bytes);
        }
    }

    fn write(&mut self, number: u8, bytes: u16) {
        let Some(id) = self.client.stream(number) else {
            return;
        };
        let Some((order, offset)) = self.written.get_mut(&id) else {
            return;
        };
        let end = *offset + u64::from(bytes);
        let bytes: Vec<u8> = (*offset..end).map(|at| pattern(*order, at)).collect();
        if let Poll::Ready(Ok(taken)) = self.client.mux.write(id, &bytes) {
            *offset += taken as u64;
            self.given_bytes += taken;
        }
    }

    /// Reads all available bytes of a stream at the server.
    fn read(&mut self, number: u8) {
        let Some(id) = self.server.stream(number) else {
            return;
        };
        let offset = self.read.entry(id).or_default();
        while let Poll::Ready(Ok(Some(bytes))) = self.server.mux.read(id) {
            let written = if self.is_honest {
                self.written.get(&id)
            } else {
                None
            };
            if let Some((order, written)) = written {
                assert!(*offset + bytes.len() as u64 <= *written);
                let mut bytes = bytes.iter().zip(*offset..);
                assert!(bytes.all(|(byte, at)| *byte == pattern(*order, at)));
            }
            *offset += bytes.len() as u64;
        }
    }

    fn deliver(&mut self, datagram: &Datagram) {
        self.given_bytes += datagram.1.len() + TRANSPORT;
        if let Some([_, number @ ..]) = datagram.1.first_chunk::<5>() {
            self.number = self.number.max(u32::from_le_bytes(*number).wrapping_add(1));
        }
        self.server.take(self.now, datagram);
    }

    fn hostile(&mut self, datagram: Datagram) {
        self.is_honest = false;
        self.deliver(&datagram);
    }

    fn deliver_all(&mut self) {
        while let Some(datagram) = self.client.copies_in_flight.pop_front() {
            self.deliver(&datagram);
        }
    }

    /// Loses one of the datagrams in flight, or delivers it twice, too early, or changed.
    fn deliver_one(&mut self, which: u8, action: u8, change: u8) {
        let copies_in_flight = &mut self.client.copies_in_flight;
        let at = usize::from(which) % copies_in_flight.len().max(1);
        let Some(mut datagram) = copies_in_flight.get(at).cloned() else {
            return;
        };
        match action % 4 {
            0 => self.deliver(&datagram),
            1 => {
                copies_in_flight.remove(at);
            }
            2 => {
                copies_in_flight.remove(at);
                self.deliver(&datagram);
            }
            _ => {
                let at = usize::from(action / 4) % datagram.1.len().max(1);
                datagram
                    .1
                    .get_mut(at)
                    .into_iter()
                    .for_each(|byte| *byte ^= change);
                self.hostile(datagram);
            }
        }
    }

    /// Makes segments with messages of the mux, at offsets with gaps between.
    fn segments(&mut self, input: &mut Reader<'_>) -> Option<()> {
        let [path, kind, message, stream] = [
            input.u8()? % 4,
            input.u8()?,
            input.u8()? % 7,
            input.u8()? & 0x3f,
        ];
        let (start, count) = (u32::from(input.u16()?), input.u8()?);
        let [stride, length, at] = [input.u8()?, input.u8()?, input.u8()?];
        for number in 0..u32::from(count) {
            let offset = start + number * u32::from(stride);
            let mut datagram = vec![0x41];
            datagram.extend(self.number.to_le_bytes());
            datagram.push([0x10, 0x11, 0x12, 0x18, 0x1c, 0x19][usize::from(kind) % 6]);
            datagram.extend(offset.to_le_bytes());
            datagram.extend([message, stream, at & 0x3f]);
            datagram.extend(core::iter::repeat_n(7, length.into()));
            self.hostile((path, datagram));
        }
        Some(())
    }
}

fn seeds() -> Vec<Vec<u8>> {
    fn flood(kind: u8, message: u8, stride: u8, length: u8) -> Vec<u8> {
        let seed = Writer::default().raw([10, 0, kind, message, 0]).u16(10);
        seed.raw([200, stride, length, 0])
            .raw([12])
            .u16(100)
            .raw([4, 0])
            .done()
    }

    fn there_and_back(seed: Writer) -> Writer {
        seed.raw([7, 13, 12]).u16(200)
    }
    let seed = Writer::default().raw([0]).u16(3_000);
    let seed = there_and_back(there_and_back(seed).raw([4, 0, 5, 0]).u16(2_000)).raw([2, 0]);
    let honest = there_and_back(there_and_back(seed)).raw([4, 0, 6, 0]);
    let seed = there_and_back(Writer::default().raw([0]).u16(9_000).raw([0]).u16(9_000));
    let seed = there_and_back(
        seed.raw([1, 1])
            .u16(20_000)
            .raw([8, 0, 1, 0, 8, 2, 2, 0, 8, 1, 0, 0]),
    );
    let lossy =
        there_and_back(there_and_back(seed.raw([12]).u16(9_000)).raw([4, 0, 4, 1, 7, 4, 0]));
    vec![
        honest.done(),
        lossy.done(),
        flood(0, 0, 20, 5),
        flood(3, 0, 40, 15),
        flood(0, 1, 8, 5),
        Writer::default()
            .raw([0])
            .u16(500)
            .raw([11, 0, 0, 60, 9, 0, 14, 1, 14, 9, 15, 0])
            .done(),
    ]
}

/// The target.
pub const TARGET: Target = Target {
    name: "stream_session",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(bytes: &[u8]) {
    let meter = Meter::begin(BOUND);
    let (mut bed, mut input) = (Bed::new(), Reader::new(bytes));
    while bed.step(&mut input).is_some() {}
    meter.check(bed.given_bytes);
}
