//! MPEG-TS from UDP: many datagrams per system call, and few wake-ups at high rates.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{Ipv4Addr, UdpSocket};

use anabranch_net::Clock;
use anabranch_net::system::{AsFd, BorrowedFd, UdpState};
use anabranch_units::{Duration, Instant};
use anabranch_video::mpeg_ts::SYNC_BYTE;
use quinn_udp::{BATCH_SIZE, RecvMeta};

use super::rtp::{self, RtpPort};
use super::rtp_order::RtpOrder;
use super::same_user::{SameUser, bind_to_keep};
use super::senders::{Origin, Senders};
use super::udp_error::{SocketError, UdpError};
use super::udp_socket;
use super::udp_url::UdpUrl;

/// Requested socket buffer, large enough for a key frame's burst.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Maximum bytes of one buffer, which holds datagrams that the kernel has coalesced.
const BUFFER_BYTES: usize = 1 << 16;
/// Bytes of a datagram by which its kind is known: the longest header of RTP.
const LEFT_OUT_BYTES: usize = 72;
/// Maximum system calls of one read, so that the data is passed on.
const MAX_READ_ROUNDS: usize = 8;
/// Datagrams per second above which they are left to accumulate. A wake-up costs several times as
/// much as a datagram.
const FAST_COUNT: u64 = 2_000;
/// Time over which the rate is counted.
const WINDOW: Duration = Duration::from_millis(100);
/// Target number of accumulated datagrams; the smallest buffer holds several times this number.
const GATHERED_COUNT: u64 = 32;
/// Longest time for which datagrams accumulate.
const LONGEST_REST: Duration = Duration::from_millis(2);

/// A listening socket.
pub(super) struct UdpInput {
    socket: UdpSocket,
    state: UdpState,
    buffers: Vec<u8>,
    pace: ArrivalPace,
    order: RtpOrder,
    senders: Senders,
    sources: Sources,
    rtp_port: RtpPort,
    /// Start of the last datagram that was left out.
    left_out: Option<Vec<u8>>,
    /// Whether a helper has announced its end.
    has_ended: bool,
    /// Earliest possible arrival of the next datagram: arrival of the last one, or the last time at
    /// which the socket was empty.
    heard_until: Instant,
}

/// Programs whose datagrams are taken.
#[derive(Debug)]
enum Sources {
    Any,
    /// The helper at the other end of a connected socket.
    Helper,
    /// A helper that opens its socket itself.
    SameUser(SameUser),
}

/// Consumer of bytes and their arrival time.
pub(super) type Take<'a> = dyn FnMut(Instant, &[u8]) + 'a;

/// Rate of datagrams.
#[derive(Clone, Copy, Debug, Default)]
struct ArrivalPace {
    window_at: Instant,
    count: u64,
    /// Time for which datagrams accumulate, if the rate is high.
    rest: Option<Duration>,
    read_at: Instant,
}

impl core::fmt::Debug for UdpInput {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("UdpInput")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl UdpInput {
    /// Listens at the address, and joins if it is a multicast group.
    ///
    /// # Errors
    /// The address is taken or invalid, or the system refuses a parameter.
    pub(super) fn open(url: &UdpUrl) -> Result<UdpInput, UdpError> {
        let socket = udp_socket::open_input(url)?;
        let buffer_bytes = match url.parameters.buffer_bytes {
            None => Some(SOCKET_BUFFER_BYTES),
            // The size is already set.
            Some(_) => None,
        };
        let mut input = UdpInput::of(socket, buffer_bytes).map_err(|error| UdpError::Listen {
            url: url.to_string(),
            source: SocketError::System(error),
        })?;
        input.rtp_port.is_named = url.is_rtp();
        Ok(input)
    }

    /// Listens at a free loopback port, for a program of this user.
    ///
    /// # Errors
    /// The system has no free port.
    pub(super) fn open_loopback() -> Result<UdpInput, UdpError> {
        let socket = bind_to_keep((Ipv4Addr::LOCALHOST, 0).into()).map_err(UdpError::Loopback)?;
        UdpInput::of_sources(socket, Sources::SameUser(SameUser::default()))
    }

    /// Takes bytes of the helper at the other end of the connected socket. An empty datagram
    /// announces that no more will come.
    ///
    /// # Errors
    /// The system refuses a parameter.
    pub(super) fn of_helper(socket: UdpSocket) -> Result<UdpInput, UdpError> {
        UdpInput::of_sources(socket, Sources::Helper)
    }

    fn of_sources(socket: UdpSocket, sources: Sources) -> Result<UdpInput, UdpError> {
        let input = UdpInput::of(socket, Some(SOCKET_BUFFER_BYTES)).map_err(UdpError::Loopback)?;
        Ok(UdpInput { sources, ..input })
    }

    fn of(socket: UdpSocket, buffer_bytes: Option<usize>) -> io::Result<UdpInput> {
        // This also lets the kernel coalesce datagrams, whose boundaries have no meaning here.
        let state = UdpState::new(&socket)?;
        if let Some(bytes) = buffer_bytes {
            // The system may grant less, which is no error.
            let _ = state.set_recv_buffer_size(&socket, bytes);
        }
        Ok(UdpInput {
            socket,
            state,
            buffers: vec![0; BATCH_SIZE * BUFFER_BYTES],
            pace: ArrivalPace::default(),
            order: RtpOrder::default(),
            senders: Senders::default(),
            sources: Sources::Any,
            rtp_port: RtpPort::default(),
            left_out: None,
            has_ended: false,
            heard_until: Instant::ZERO,
        })
    }

    /// Takes the pending warning about the encoders.
    pub(super) fn warning(&mut self) -> Option<String> {
        self.senders.warning()
    }

    /// Takes the start of the last datagram that cannot be of the stream.
    pub(super) fn left_out(&mut self) -> Option<Vec<u8>> {
        self.left_out.take()
    }

    /// Returns the port.
    pub(super) fn port(&self) -> io::Result<u16> {
        self.socket.local_addr().map(|address| address.port())
    }

    /// Lets another helper of this user in, if the last one has gone.
    pub(super) fn on_silence(&mut self, now: Instant) {
        if let Sources::SameUser(guard) = &mut self.sources {
            guard.on_silence(&self.socket, now);
        }
    }

    /// Returns whether no more datagrams will come.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns the end of the accumulation; an earlier read is not worth its cost.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.pace.rest.map(|rest| self.pace.read_at + rest)
    }

    /// Returns the time at which RTP packets behind a missing one can be read, even if none
    /// arrives.
    pub(super) fn releases_at(&self) -> Option<Instant> {
        self.order.releases_at()
    }

    /// Hands the datagrams in the socket to `take`, RTP packets in order. Each is dated by the
    /// kernel's arrival timestamp, because this program may have been suspended since.
    ///
    /// Returns whether there were any. UDP errors are caused by other programs and ignored.
    pub(super) fn read(&mut self, clock: &Clock, take: &mut Take<'_>) -> bool {
        let mut datagram_count = 0;
        let mut is_empty = false;
        for _ in 0..MAX_READ_ROUNDS {
            let began_at = clock.now();
            let mut metas = [RecvMeta::default(); BATCH_SIZE];
            let (count, error) = match self.read_batch(&mut metas) {
                Ok(count) => (count, None),
                Err(error) => (0, Some(error.kind())),
            };
            let reading = clock.reading();
            for (index, meta) in metas[..count].iter().enumerate() {
                self.heard_until = reading.arrival(meta.timestamp, self.heard_until);
                datagram_count += self.take_coalesced(index, meta, take);
            }
            if count < BATCH_SIZE {
                is_empty = error.is_none_or(|kind| kind == ErrorKind::WouldBlock);
                self.heard_until = if is_empty {
                    self.heard_until.max(began_at)
                } else {
                    self.heard_until
                };
                break;
            }
        }
        if datagram_count > 0 {
            self.pace.on_read(clock.now(), datagram_count);
        }
        // The missing packet may be in the socket.
        let until = if is_empty {
            clock.now()
        } else {
            self.heard_until
        };
        self.release(until, take) || datagram_count > 0
    }

    /// Hands over the datagrams that the kernel has coalesced into one buffer. Returns their
    /// number.
    fn take_coalesced(&mut self, index: usize, meta: &RecvMeta, take: &mut Take<'_>) -> u64 {
        let arrived_at = self.heard_until;
        match &mut self.sources {
            Sources::Any => {}
            Sources::Helper => {
                let from = index * BUFFER_BYTES;
                match &self.buffers[from..from + meta.len] {
                    [] => self.has_ended = true,
                    bytes => take(arrived_at, bytes),
                }
                return 1;
            }
            Sources::SameUser(guard) => {
                if !guard.admits(&self.socket, arrived_at, meta.addr) {
                    return 0;
                }
            }
        }
        self.release(arrived_at, take);
        let stride = meta.stride.max(1);
        let from = index * BUFFER_BYTES;
        let bytes = &self.buffers[from..from + meta.len];
        let mut origin = Origin {
            address: meta.addr,
            rtp_source: None,
        };
        if bytes.first() == Some(&SYNC_BYTE) {
            self.senders.on_datagram(arrived_at, origin);
            take(arrived_at, bytes);
        } else {
            for datagram in bytes.chunks(stride) {
                match rtp::unpack(datagram) {
                    Some((number, packets)) => {
                        self.rtp_port.on_packets(arrived_at);
                        origin.rtp_source = Some(number.source);
                        self.senders.on_datagram(arrived_at, origin);
                        self.order
                            .push(arrived_at, number, packets, &mut |bytes: &[u8]| {
                                take(arrived_at, bytes);
                            });
                    }
                    None if self.rtp_port.may_be_transport(arrived_at, datagram) => {
                        take(arrived_at, datagram);
                    }
                    None => {
                        let start = &datagram[..datagram.len().min(LEFT_OUT_BYTES)];
                        self.left_out = Some(start.to_vec());
                    }
                }
            }
        }
        bytes.len().div_ceil(stride) as u64
    }

    /// Hands over RTP packets whose wait for a missing one ended by `until`, dated by its end.
    /// Returns whether there were any.
    fn release(&mut self, until: Instant, take: &mut Take<'_>) -> bool {
        let mut has_released = false;
        while let Some(at) = self.order.releases_at().filter(|at| *at <= until) {
            has_released |= self.order.release(at, &mut |bytes| take(at, bytes));
        }
        has_released
    }

    fn read_batch(&mut self, metas: &mut [RecvMeta; BATCH_SIZE]) -> io::Result<usize> {
        let mut remaining = self.buffers.chunks_exact_mut(BUFFER_BYTES);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] = core::array::from_fn(|_| {
            IoSliceMut::new(remaining.next().expect("as many buffers as slices"))
        });
        self.state.recv(&self.socket, &mut slices, metas)
    }
}

impl ArrivalPace {
    fn on_read(&mut self, now: Instant, count: u64) {
        self.read_at = now;
        self.count += count;
        let elapsed = now.saturating_since(self.window_at);
        if elapsed >= WINDOW {
            let spacing = elapsed / self.count.max(1);
            let is_fast = spacing * FAST_COUNT < Duration::from_secs(1);
            self.rest = is_fast.then(|| (spacing * GATHERED_COUNT).min(LONGEST_REST));
            (self.window_at, self.count) = (now, 0);
        }
    }
}

impl UdpInput {
    /// Returns the socket to wait for.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_net::testing::World;

    pub(super) fn input_and_sender() -> (UdpInput, UdpSocket) {
        let input = UdpInput::open_loopback().unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        sender.connect(input.socket.local_addr().unwrap()).unwrap();
        (input, sender)
    }

    /// Returns an RTP packet with this number, and one transport packet that contains it.
    pub(super) fn rtp_packet(number: u8) -> Vec<u8> {
        let header = [0x80, 33, 0, number, 0, 0, 0, 0, 0, 0, 0, 9];
        [&header[..], &transport_packet(number)].concat()
    }

    pub(super) fn transport_packet(number: u8) -> Vec<u8> {
        [vec![SYNC_BYTE, number], vec![0; 186]].concat()
    }

    #[test]
    fn datagrams_are_read_together_in_order() {
        let (mut input, sender) = input_and_sender();
        let clock = Clock::start();
        assert!(!input.read(&clock, &mut |_, _| panic!("nothing was sent")));
        let mut sent = Vec::new();
        // More than one system call reads.
        for number in 0..2 * BATCH_SIZE as u8 {
            // Datagrams that fill an Ethernet frame, and shorter ones.
            let datagram = vec![number; if number % 3 == 0 { 1_504 } else { 188 }];
            sender.send(&datagram).unwrap();
            sent.extend(datagram);
        }
        let mut read = Vec::new();
        assert!(input.read(&clock, &mut |_, bytes| read.extend_from_slice(bytes)));
        assert_eq!(read, sent);
    }

    #[test]
    fn no_datagram_is_older_than_the_last_look_at_an_empty_socket() {
        let (mut input, sender) = input_and_sender();
        let clock = Clock::start();
        assert!(!input.read(&clock, &mut |_, _| {}));
        let empty_at = input.heard_until;
        assert!(empty_at > Instant::ZERO);
        // A wall clock that was set forward meanwhile produces such stamps.
        let stamp = Some(core::time::Duration::ZERO);
        assert_eq!(clock.reading().arrival(stamp, input.heard_until), empty_at);
        sender.send(&transport_packet(1)).unwrap();
        let mut arrived_at = None;
        input.read(&clock, &mut |at, _| arrived_at = Some(at));
        assert!(arrived_at.is_some_and(|at| at >= empty_at));
    }

    #[test]
    fn two_encoders_at_one_port_are_reported() {
        let (mut input, sender) = input_and_sender();
        input.sources = Sources::Any;
        let clock = Clock::start();
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        other.connect(input.socket.local_addr().unwrap()).unwrap();
        let mut warnings = Vec::new();
        for number in 0..10 {
            sender.send(&transport_packet(number)).unwrap();
            other.send(&transport_packet(number)).unwrap();
            input.read(&clock, &mut |_, _| {});
            warnings.extend(input.warning());
        }
        assert_eq!(warnings.len(), 1);
        for socket in [sender, other] {
            let name = socket.local_addr().unwrap().to_string();
            assert!(warnings[0].contains(&name), "{warnings:?}");
        }
    }

    #[test]
    fn rfc3550_rtp_that_comes_out_of_order_is_read_in_order() {
        let (mut input, sender) = input_and_sender();
        let world = World::new(1);
        let clock = world.machine("receiver").clock();
        let repair = [&rtp_packet(9)[..12], &[0; 16], &transport_packet(7)[..]].concat();
        for number in [1, 3, 2, 5] {
            sender.send(&rtp_packet(number)).unwrap();
            sender.send(&repair).unwrap();
        }
        let mut read = Vec::new();
        assert!(input.read(&clock, &mut |_, bytes| read.extend_from_slice(bytes)));
        let until = input.releases_at().expect("one is missing");
        world.run_for(until.saturating_since(clock.now()));
        assert!(input.read(&clock, &mut |_, bytes| read.extend_from_slice(bytes)));
        assert_eq!(read, [1, 2, 3, 5].map(transport_packet).concat());
        assert_eq!(input.left_out().unwrap(), repair[..LEFT_OUT_BYTES]);
    }

    /// Returns the accumulation time at `count` datagrams per millisecond.
    fn rest(count: u64) -> Option<Duration> {
        let mut pace = ArrivalPace::default();
        for millis in 1_000..2_000 {
            pace.on_read(Instant::from_millis(millis), count);
        }
        pace.rest
    }

    #[test]
    fn datagrams_gather_only_where_they_come_fast() {
        assert_eq!(rest(1), None, "10 Mbit/s");
        assert_eq!(rest(5), Some(LONGEST_REST), "50 Mbit/s");
        let at_a_gigabit = rest(100).unwrap();
        assert!(at_a_gigabit.abs_diff(Duration::from_micros(320)) < Duration::from_micros(10));
    }
}

// Needs a clock: stamps are of the time that passes before a read.
#[cfg(test)]
mod real_time_tests;
