//! MPEG-TS into UDP: many datagrams per system call, spread so that they fit a player's socket
//! buffer.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use anabranch_net::Clock;
use anabranch_terminal::stop::Stop;
use anabranch_units::{DataRate, Duration, Instant};
use anabranch_video::mpeg_ts::PACKET_LEN;
use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};

use super::address_error::AddressError;
use super::udp_error::{SocketError, UdpError};
use super::udp_socket;
use super::udp_url::UdpUrl;

/// Size of datagrams: seven transport packets fit an Ethernet frame, and every player accepts them.
const DATAGRAM_BYTES: usize = 7 * 188;
/// Bytes of a burst: a third of Linux's default socket buffer.
const BURST_BYTES: usize = 32 * DATAGRAM_BYTES;
/// Minimum rate at which a player with a small socket buffer reads.
const LEAST_RATE: DataRate = DataRate::from_megabits_per_second(80);
/// Factor over the stream's rate, for faster streams: a picture takes an eighth of its interval.
const TIMES_STREAM: u64 = 8;
/// Minimum wait for room.
const STEP: Duration = Duration::from_millis(1);
/// Maximum bytes of one system call: an IP packet's limit minus its headers.
const MAX_CALL_BYTES: usize = 65_000;
/// Shortest and longest averaging time of the stream's rate.
const SHORTEST_COUNT: Duration = Duration::from_millis(100);
const LONGEST_COUNT: Duration = Duration::from_secs(1);

/// Sockets towards a player's address.
#[derive(Debug)]
pub struct UdpOutput {
    socket: UdpSocket,
    state: UdpSocketState,
    /// Socket that sends single datagrams, blocks for room, and allows fragmentation. It sends the
    /// datagrams that the other socket cannot.
    plain: UdpSocket,
    to: SocketAddr,
    /// Length of the longest datagram: whole transport packets.
    datagram_bytes: usize,
    spread: Spread,
}

/// Pacing of the output.
#[derive(Clone, Copy, Debug)]
struct Spread {
    /// Time until which the player reads earlier datagrams.
    busy_until: Instant,
    stream: DataRate,
    counted_since: Instant,
    counted_bytes: u64,
}

impl UdpOutput {
    /// Opens an output to the address with its parameters.
    ///
    /// # Errors
    /// The address cannot be sent to, or the system refuses a parameter.
    pub(super) fn open(url: &UdpUrl) -> Result<UdpOutput, UdpError> {
        let to = url.resolve()?;
        if to.ip().is_unspecified() {
            let url = url.to_string();
            return Err(AddressError::NoDestination { url }.into());
        }
        let [socket, plain] = udp_socket::open_outputs(url, to)?;
        let mut output = UdpOutput::of(socket, plain, to).map_err(|error| UdpError::Output {
            url: url.to_string(),
            source: SocketError::System(error),
        })?;
        if let Some(bytes) = url.parameters.datagram_bytes {
            output.datagram_bytes = bytes / PACKET_LEN * PACKET_LEN;
        }
        Ok(output)
    }

    /// Opens an output to a program at loopback.
    ///
    /// # Errors
    /// The system has no socket left.
    pub(super) fn to(to: SocketAddr) -> io::Result<UdpOutput> {
        // One source address, which the program may insist on.
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let plain = socket.try_clone()?;
        UdpOutput::of(socket, plain, to)
    }

    /// Returns the address from which it sends.
    pub(super) fn source(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn of(socket: UdpSocket, plain: UdpSocket, to: SocketAddr) -> io::Result<UdpOutput> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        Ok(UdpOutput {
            socket,
            state,
            plain,
            to,
            datagram_bytes: DATAGRAM_BYTES,
            spread: Spread::new(Instant::ZERO),
        })
    }

    /// Sends a unit. A player that does not listen is no error.
    pub(super) fn write(&mut self, unit: &[u8], clock: &Clock, stop: &Stop) {
        self.spread.on_unit(clock.now(), unit.len());
        let mut rest = unit;
        let datagram_bytes = self.datagram_bytes;
        let max_call_bytes = MAX_CALL_BYTES / datagram_bytes * datagram_bytes;
        while !rest.is_empty() {
            stop.wait_until(clock, self.spread.room_at(rest.len()));
            let now = clock.now();
            let room = self.spread.room(now) / datagram_bytes * datagram_bytes;
            let step_bytes = room.clamp(datagram_bytes, max_call_bytes);
            let step;
            (step, rest) = rest.split_at(step_bytes.min(rest.len()));
            self.spread.on_sent(now, step.len());
            self.send(step);
        }
    }

    fn send(&self, bytes: &[u8]) {
        let datagram_bytes = self.datagram_bytes;
        let most = self.state.max_gso_segments() * datagram_bytes;
        for call in bytes.chunks(most) {
            let transmit = Transmit {
                destination: self.to,
                ecn: None,
                contents: call,
                segment_size: (call.len() > datagram_bytes).then_some(datagram_bytes),
                src_ip: None,
            };
            let sent = self
                .state
                .try_send(UdpSockRef::from(&self.socket), &transmit);
            if sent.is_err() {
                for datagram in call.chunks(datagram_bytes) {
                    let _ = self.plain.send_to(datagram, self.to);
                }
            }
        }
    }
}

impl Spread {
    fn new(now: Instant) -> Self {
        Spread {
            busy_until: now,
            stream: DataRate::ZERO,
            counted_since: now,
            counted_bytes: 0,
        }
    }

    /// Counts a unit that is about to leave.
    fn on_unit(&mut self, now: Instant, bytes: usize) {
        let elapsed = now.saturating_since(self.counted_since);
        if elapsed >= SHORTEST_COUNT {
            let counted = DataRate::from_bytes_per(self.counted_bytes, elapsed);
            // A higher rate applies at once, a lower one after the longest averaging time.
            if counted > self.stream || elapsed >= LONGEST_COUNT {
                self.stream = counted;
                (self.counted_since, self.counted_bytes) = (now, 0);
            }
        }
        self.counted_bytes += bytes as u64;
    }

    /// Returns the number of bytes that may leave.
    fn room(&self, now: Instant) -> usize {
        let unread = self.rate().bytes_in(self.busy_until.saturating_since(now));
        self.burst_bytes().saturating_sub(unread as usize)
    }

    /// Returns the time at which `bytes` may leave, or one step's worth of them.
    fn room_at(&self, bytes: usize) -> Instant {
        let step_bytes = self.rate().bytes_in(STEP) as usize;
        let unread = self.burst_bytes() - bytes.min(step_bytes);
        self.busy_until
            .saturating_sub(self.rate().time_for(unread as u64))
    }

    /// Returns the size of a burst, at least one step.
    fn burst_bytes(&self) -> usize {
        BURST_BYTES.max(self.rate().bytes_in(STEP) as usize)
    }

    fn on_sent(&mut self, now: Instant, bytes: usize) {
        self.busy_until = self.busy_until.max(now) + self.rate().time_for(bytes as u64);
    }

    fn rate(&self) -> DataRate {
        DataRate::from_bits_per_second(self.stream.bits_per_second() * TIMES_STREAM).max(LEAST_RATE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends pictures of a stream of `rate`, 25 per second for two seconds. Returns the duration of
    /// the last one.
    fn spread(rate: u64) -> (Spread, Duration) {
        let mut spread = Spread::new(Instant::ZERO);
        let bytes = DataRate::from_megabits_per_second(rate).bytes_in(Duration::from_millis(40));
        let mut now = Instant::ZERO;
        for picture in 0..50 {
            now = now.max(Instant::from_millis(40 * picture));
            let mut rest = bytes as usize;
            spread.on_unit(now, rest);
            while rest > 0 {
                now = now.max(spread.room_at(rest));
                let step = spread.room(now).clamp(1, rest);
                spread.on_sent(now, step);
                rest -= step;
            }
        }
        (spread, now.saturating_since(Instant::from_millis(40 * 49)))
    }

    #[test]
    fn fast_streams_are_not_held_back() {
        for rate in [100, 400, 1_000] {
            let (_, took) = spread(rate);
            assert!(took <= Duration::from_millis(5), "{rate}: {took}");
        }
    }

    #[test]
    fn slow_streams_leave_as_slow_players_read() {
        let (spread, took) = spread(8);
        assert_eq!(spread.rate(), LEAST_RATE);
        assert_eq!(took, Duration::ZERO, "40,000 bytes fit any socket");
        let (_, took) = self::spread(10);
        assert_eq!(took, LEAST_RATE.time_for(50_000 - BURST_BYTES as u64));
    }

    #[test]
    fn a_stream_that_grows_slower_is_spread_again() {
        let (mut spread, _) = spread(400);
        assert!(spread.rate() > DataRate::from_megabits_per_second(2_400));
        for picture in 50..150 {
            spread.on_unit(Instant::from_millis(40 * picture), 40_000);
        }
        assert_eq!(spread.rate(), LEAST_RATE);
    }
}
