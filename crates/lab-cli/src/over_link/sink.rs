//! The sink: a thread that receives the stream at a port of the far end, and judges it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use anabranch_emu::{End, Network};
use anabranch_net::Clock;
use anabranch_units::{Duration, Importance, Instant, percentile};
use anabranch_video::player::Decodability;
use anyhow::Context;

use super::source::Sent;
use super::stream::{PACKET_BYTES, Stamp};

/// Interval at which the thread looks whether it shall end.
const PAUSE: StdDuration = StdDuration::from_millis(50);
/// Memory that the kernel may hold for the sink, which is half of this if the system allows less.
const BUFFER_BYTES: usize = 8 << 20;
const MAX_DATAGRAM_BYTES: usize = 1 << 16;

/// The packets that came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    /// Bytes that do not make a packet yet: some programs send parts of packets.
    rest: Vec<u8>,
    /// Number of the first picture that counts.
    first_picture: u64,
    /// Numbers of packets that came, as bits.
    seen: Vec<u64>,
    pictures: BTreeMap<u64, Picture>,
    delays: Vec<Duration>,
    /// Packets that came more than once.
    pub(crate) duplicate_count: u64,
    /// Bytes that belong to no whole packet.
    pub(crate) wrong_bytes: u64,
    last_at: Option<Instant>,
    longest_silence: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Picture {
    packet_count: u64,
    expected_count: u64,
    is_key: bool,
    last_sent_at: Duration,
    last_came_at: Duration,
}

/// Figures of a stream, as shares of the sent one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Share of packets that came, at any time.
    pub(crate) delivered: f64,
    /// Share of pictures that were whole within the budget.
    pub(crate) whole: f64,
    /// Share of pictures that could be decoded within the budget.
    pub(crate) decodable: f64,
    /// Delays of packets in milliseconds, at the median, the 95th and the 99th percentile.
    pub(crate) delays_ms: [f64; 3],
    /// The longest time without a packet at the output, in milliseconds.
    pub(crate) silence_ms: f64,
}

impl Received {
    /// Returns an empty record of a stream whose pictures count from `first_picture` on.
    fn from(first_picture: u64) -> Received {
        Received {
            first_picture,
            ..Received::default()
        }
    }

    /// Takes a datagram that came at `now`. Silence counts from `expected_at`, when the first one
    /// is expected.
    pub(crate) fn take(&mut self, now: Instant, expected_at: Instant, datagram: &[u8]) {
        let since = self.last_at.unwrap_or(Instant::ZERO).max(expected_at);
        self.longest_silence = self.longest_silence.max(now.saturating_since(since));
        self.last_at = Some(now);
        self.rest.extend_from_slice(datagram);
        let mut place = 0;
        while let Some(packet) = self.rest.get(place..place + PACKET_BYTES) {
            let packet: &[u8; PACKET_BYTES] = packet.try_into().expect("it has that length");
            if let Some(stamp) = Stamp::read(packet) {
                self.record(now, stamp);
                place += PACKET_BYTES;
            } else {
                self.wrong_bytes += 1;
                place += 1;
            }
        }
        self.rest.drain(..place);
    }

    fn record(&mut self, now: Instant, stamp: Stamp) {
        if stamp.picture < self.first_picture {
            return;
        }
        let (word, bit) = ((stamp.sequence / 64) as usize, 1 << (stamp.sequence % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.duplicate_count += 1;
            return;
        }
        self.seen[word] |= bit;
        let came_at = now - Instant::ZERO;
        self.delays.push(came_at.saturating_sub(stamp.sent_at));
        let picture = self.pictures.entry(stamp.picture).or_insert(Picture {
            packet_count: 0,
            expected_count: stamp.picture_packets,
            is_key: stamp.is_key,
            last_sent_at: Duration::ZERO,
            last_came_at: Duration::ZERO,
        });
        picture.packet_count += 1;
        picture.last_sent_at = picture.last_sent_at.max(stamp.sent_at);
        picture.last_came_at = picture.last_came_at.max(came_at);
    }

    /// Returns the number of different packets that came.
    pub(crate) fn packet_count(&self) -> u64 {
        self.delays.len() as u64
    }

    /// Judges the stream that came. A picture is in time if its last packet came at most `budget`
    /// after it was sent. The output is expected to be silent for no longer after the end.
    pub(crate) fn figures(&self, sent: &Sent, budget: Duration) -> Figures {
        fn share(count: u64, of: u64) -> f64 {
            count as f64 / of.max(1) as f64
        }

        let mut decodability = Decodability::default();
        let (mut whole_count, mut decodable_count) = (0_u64, 0_u64);
        for number in sent.pictures.clone() {
            let Some(picture) = self.pictures.get(&number) else {
                decodability.on_unknown_loss();
                continue;
            };
            let is_whole = picture.packet_count == picture.expected_count
                && picture.last_came_at.saturating_sub(picture.last_sent_at) <= budget;
            let importance = if picture.is_key {
                Importance::Key
            } else {
                Importance::Reference
            };
            whole_count += u64::from(is_whole);
            decodable_count += u64::from(decodability.on_frame(importance, is_whole));
        }
        let mut delays = self.delays.clone();
        delays.sort_unstable();
        let picture_count = sent.pictures.clone().count() as u64;
        Figures {
            delivered: share(self.packet_count(), sent.packet_count),
            whole: share(whole_count, picture_count),
            decodable: share(decodable_count, picture_count),
            delays_ms: [50, 95, 99].map(|percent| {
                percentile(&delays, percent).map_or(f64::NAN, Duration::as_millis_f64)
            }),
            silence_ms: self.silence(sent).as_millis_f64(),
        }
    }

    /// Returns the longest silence, also at the end of the stream.
    fn silence(&self, sent: &Sent) -> Duration {
        let ended_at = Instant::ZERO + sent.ended_at;
        let at_the_end = self
            .last_at
            .map_or(sent.ended_at, |at| ended_at.saturating_since(at));
        self.longest_silence.max(at_the_end)
    }
}

/// A sink that receives.
#[derive(Debug)]
pub(crate) struct Sink {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    received: Arc<Mutex<Received>>,
}

/// A sink's socket, opened before the clock starts.
#[derive(Debug)]
pub(crate) struct SinkSocket(UdpSocket);

impl SinkSocket {
    /// Opens a port of the far end's loopback interface.
    ///
    /// # Errors
    /// The system refuses it.
    pub(crate) fn open(network: &Network, port: u16) -> anyhow::Result<SinkSocket> {
        let socket = network.namespace(End::Far).run(|| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
            socket.set_read_timeout(Some(PAUSE))?;
            socket2::SockRef::from(&socket).set_recv_buffer_size(BUFFER_BYTES)?;
            Ok(socket)
        });
        socket
            .context("cannot open the sink's socket")
            .map(SinkSocket)
    }
}

impl Sink {
    /// Receives until it is stopped. Pictures count from `first_picture` on, and silence from
    /// `expected_at`.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(
        socket: SinkSocket,
        clock: Clock,
        first_picture: u64,
        expected_at: Instant,
    ) -> anyhow::Result<Sink> {
        let stop = Arc::new(AtomicBool::new(false));
        let received = Arc::new(Mutex::new(Received::from(first_picture)));
        let thread = std::thread::Builder::new().name("sink".to_owned()).spawn({
            let (stop, received) = (Arc::clone(&stop), Arc::clone(&received));
            move || {
                let SinkSocket(socket) = socket;
                let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(length) = socket.recv(&mut buffer) {
                        let now = clock.now();
                        let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
                        received.take(now, expected_at, &buffer[..length]);
                    }
                }
            }
        })?;
        Ok(Sink {
            thread,
            stop,
            received,
        })
    }

    /// Calls `read` with the packets that came so far.
    pub(crate) fn with_received<T>(&self, read: impl FnOnce(&Received) -> T) -> T {
        read(&self.received.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the thread, and returns the packets that came.
    pub(crate) fn stop(self) -> Received {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.thread.join();
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.clone()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::DataRate;

    use super::super::stream::{Stream, StreamConfig};
    use super::*;

    const CONFIG: StreamConfig = StreamConfig {
        bitrate: DataRate::from_megabits_per_second(1),
        frames_per_second: 25,
        key_interval: 5,
        key_ratio: 1.0,
    };

    /// Sends ten pictures 40 ms apart; `delay` returns the delay of each picture's last packet, or
    /// `None` if that packet is lost.
    fn received(delay: impl Fn(u64) -> Option<u64>) -> (Received, Sent) {
        let mut stream = Stream::new(CONFIG);
        let (mut received, mut sent) = (Received::default(), Sent::default());
        for picture in 0..10 {
            let at = Duration::from_millis(40 * (picture + 1));
            let mut packets = stream.next_picture();
            let last = packets.len() - 1;
            sent.packet_count += packets.len() as u64;
            sent.pictures.end += 1;
            sent.ended_at = at;
            for (index, packet) in packets.iter_mut().enumerate() {
                Stamp::complete(packet, at);
                let late = if index == last {
                    delay(picture)
                } else {
                    Some(10)
                };
                if let Some(late) = late {
                    let now = Instant::ZERO + at + Duration::from_millis(late);
                    received.take(now, Instant::ZERO, packet);
                }
            }
        }
        (received, sent)
    }

    #[test]
    fn pictures_count_that_are_whole_in_time_and_those_that_need_none_other() {
        let budget = Duration::from_millis(100);
        let (all, sent) = received(|_| Some(100));
        let figures = all.figures(&sent, budget);
        let shares = (figures.delivered, figures.whole, figures.decodable);
        assert_eq!(shares, (1.0, 1.0, 1.0));
        assert_eq!(figures.delays_ms[0], 10.0);
        // The third one is late: those that follow in its group cannot be decoded.
        let (late, sent) = received(|picture| Some(if picture == 2 { 101 } else { 10 }));
        let figures = late.figures(&sent, budget);
        let shares = (figures.delivered, figures.whole, figures.decodable);
        assert_eq!(shares, (1.0, 0.9, 0.7));
        let (lost, sent) = received(|picture| (picture != 2).then_some(10));
        let figures = lost.figures(&sent, budget);
        assert!(figures.delivered < 1.0);
        assert_eq!((figures.whole, figures.decodable), (0.9, 0.7));
    }

    #[test]
    fn parts_of_packets_are_joined_and_wrong_bytes_are_counted() {
        let mut packet = Stream::new(CONFIG).next_picture()[0];
        Stamp::complete(&mut packet, Duration::ZERO);
        let mut received = Received::default();
        let now = Instant::from_millis(70);
        for part in [
            &packet[..100],
            &packet[100..],
            &[0; 3],
            &packet,
            &packet[..9],
        ] {
            received.take(now, Instant::ZERO, part);
        }
        let counts = (
            received.packet_count(),
            received.duplicate_count,
            received.wrong_bytes,
        );
        assert_eq!(counts, (1, 1, 3));
        assert_eq!(received.longest_silence, Duration::from_millis(70));
    }

    #[test]
    fn silence_at_the_end_counts() {
        let (received, mut sent) = received(|_| Some(10));
        sent.ended_at = Duration::from_secs(2);
        let figures = received.figures(&sent, Duration::ZERO);
        assert_eq!(figures.silence_ms, 2_000.0 - 410.0);
    }
}
