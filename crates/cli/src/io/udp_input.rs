//! MPEG-TS out of UDP: many datagrams by one system call, and few wake-ups where they come fast.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use anabranch_units::{Duration, Instant};
use anabranch_video::mpeg_ts::SYNC_BYTE;
use anyhow::Context;
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSockRef, UdpSocketState};

use super::rtp;
use super::rtp_order::RtpOrder;

/// What is asked of the operating system, so that a key frame's burst fits.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// The most that one read brings into one buffer: datagrams that the kernel has coalesced.
const BUFFER_BYTES: usize = 1 << 16;
/// System calls of one read, so that what has come moves on.
const MAX_READ_ROUNDS: usize = 8;
/// Where more datagrams than these come each second, they are left to gather, …
const FAST_COUNT: u64 = 2_000;
/// … counted over this time, …
const WINDOW: Duration = Duration::from_millis(100);
/// … since to wake up costs several times what a datagram does: until so many are there, which the
/// smallest buffer holds several times over, …
const GATHERED_COUNT: u64 = 32;
/// … but no longer than this.
const LONGEST_REST: Duration = Duration::from_millis(2);

/// A socket that is listened at.
pub(super) struct UdpInput {
    socket: UdpSocket,
    state: UdpSocketState,
    buffers: Vec<u8>,
    pace: ArrivalPace,
    order: RtpOrder,
}

/// How fast datagrams come.
#[derive(Clone, Copy, Debug, Default)]
struct ArrivalPace {
    window_at: Instant,
    count: u64,
    /// How long datagrams are left to gather, if they come fast.
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
    /// Listens at `address`, as a member if it is a multicast group.
    pub(super) fn open(address: SocketAddr) -> anyhow::Result<UdpInput> {
        let open = || -> io::Result<UdpInput> {
            let socket = UdpSocket::bind(address)?;
            match address.ip() {
                IpAddr::V4(group) if group.is_multicast() => {
                    socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED)?;
                }
                IpAddr::V6(group) if group.is_multicast() => {
                    socket.join_multicast_v6(&group, 0)?;
                }
                _ => {}
            }
            // This also lets the kernel coalesce datagrams, whose bounds mean nothing here.
            let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
            // The system grants what it allows; less is no error.
            let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER_BYTES);
            Ok(UdpInput {
                socket,
                state,
                buffers: vec![0; BATCH_SIZE * BUFFER_BYTES],
                pace: ArrivalPace::default(),
                order: RtpOrder::default(),
            })
        };
        open().with_context(|| format!("cannot listen at input udp://{address}"))
    }

    /// The port that it listens at.
    pub(super) fn port(&self) -> io::Result<u16> {
        self.socket.local_addr().map(|address| address.port())
    }

    /// Before this it is not worth while to look for more.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.pace.rest.map(|rest| self.pace.read_at + rest)
    }

    /// When there is something to read even if nothing comes: RTP packets behind a missing one.
    pub(super) fn releases_at(&self) -> Option<Instant> {
        self.order.releases_at()
    }

    /// Hands what is there to `take`, in order if it is in RTP. Whether there was anything; errors
    /// of UDP are other programs' affairs.
    pub(super) fn read(&mut self, now: Instant, take: &mut dyn FnMut(&[u8])) -> bool {
        let mut datagram_count = 0;
        let mut has_taken = self.order.release(now, take);
        for _ in 0..MAX_READ_ROUNDS {
            let mut metas = [RecvMeta::default(); BATCH_SIZE];
            let count = self.read_batch(&mut metas).unwrap_or(0);
            let buffers = self.buffers.chunks(BUFFER_BYTES);
            for (meta, buffer) in metas[..count].iter().zip(buffers) {
                let (bytes, stride) = (&buffer[..meta.len], meta.stride.max(1));
                datagram_count += bytes.len().div_ceil(stride) as u64;
                if bytes.first() == Some(&SYNC_BYTE) {
                    take(bytes);
                    continue;
                }
                for datagram in bytes.chunks(stride) {
                    match rtp::unpack(datagram) {
                        Some((number, packets)) => self.order.push(now, number, packets, take),
                        None => take(datagram),
                    }
                }
            }
            if count < BATCH_SIZE {
                break;
            }
        }
        if datagram_count > 0 {
            self.pace.on_read(now, datagram_count);
            has_taken = true;
        }
        has_taken
    }

    fn read_batch(&mut self, metas: &mut [RecvMeta; BATCH_SIZE]) -> io::Result<usize> {
        let mut remaining = self.buffers.chunks_exact_mut(BUFFER_BYTES);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] = core::array::from_fn(|_| {
            IoSliceMut::new(remaining.next().expect("as many buffers as slices"))
        });
        let socket = UdpSockRef::from(&self.socket);
        self.state.recv(socket, &mut slices, metas)
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

impl AsFd for UdpInput {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_read_together_in_order() {
        let mut input = UdpInput::open((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = input.socket.local_addr().unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let now = Instant::from_secs(1);
        assert!(!input.read(now, &mut |_| panic!("nothing was sent")));
        let mut sent = Vec::new();
        // More than one call of the system's brings.
        for number in 0..2 * BATCH_SIZE as u8 {
            // As many as fit an Ethernet frame, and fewer.
            let datagram = vec![number; if number % 3 == 0 { 1_504 } else { 188 }];
            sender.send_to(&datagram, address).unwrap();
            sent.extend(datagram);
        }
        let mut read = Vec::new();
        assert!(input.read(now, &mut |bytes| read.extend_from_slice(bytes)));
        assert_eq!(read, sent);
    }

    #[test]
    fn rfc3550_rtp_that_comes_out_of_order_is_read_in_order() {
        let mut input = UdpInput::open((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = input.socket.local_addr().unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let packet = |number: u8| [vec![SYNC_BYTE, number], vec![0; 186]].concat();
        for number in [1, 3, 2, 5] {
            let header = [0x80, 33, 0, number, 0, 0, 0, 0, 0, 0, 0, 9];
            let datagram = [&header[..], &packet(number)].concat();
            sender.send_to(&datagram, address).unwrap();
        }
        let mut read = Vec::new();
        let mut take = |bytes: &[u8]| read.extend_from_slice(bytes);
        let now = Instant::from_secs(1);
        assert!(input.read(now, &mut take));
        let until = input.releases_at().expect("one is missing");
        assert!(input.read(until, &mut take));
        assert_eq!(read, [1, 2, 3, 5].map(packet).concat());
    }

    /// How long a socket rests at which so many datagrams come each millisecond.
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
