//! The source: a thread that sends the stream to a port of the near end.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anabranch_emu::{End, Network};
use anabranch_net::Clock;
use anabranch_units::{Duration, Instant, percentile};
use anyhow::Context;

use super::links::wait_until;
use super::stream::{PACKET_BYTES, PACKETS_PER_DATAGRAM, Stamp, Stream, StreamConfig};

/// The part of the stream that was sent, without the pictures that do not count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) packet_count: u64,
    /// Numbers of the first picture that counts, and behind the last whole one.
    pub(crate) pictures: Range<u64>,
    /// The time of the last packet.
    pub(crate) ended_at: Duration,
    /// Lateness at the 99th percentile: the time by which this thread, which is one as those of the
    /// programs, woke too late.
    pub(crate) late_p99: Duration,
}

impl Sent {
    pub(crate) fn bytes(&self) -> u64 {
        self.packet_count * PACKET_BYTES as u64
    }
}

/// A source that sends.
#[derive(Debug)]
pub(crate) struct Source {
    thread: JoinHandle<Sent>,
    stop: Arc<AtomicBool>,
}

impl Source {
    /// Sends the stream to `port` of the near end's loopback interface, from `start` until `end` or
    /// until it is stopped. Pictures count from `first_picture` on.
    ///
    /// # Errors
    /// The system refuses a socket or a thread.
    pub(crate) fn start(
        network: &Network,
        port: u16,
        config: StreamConfig,
        clock: Clock,
        [start, end]: [Instant; 2],
        first_picture: u64,
    ) -> anyhow::Result<Source> {
        let socket = network
            .namespace(End::Near)
            .run(|| {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
                socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
                Ok(socket)
            })
            .context("cannot open the source's socket")?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new()
            .name("source".to_owned())
            .spawn({
                let stop = Arc::clone(&stop);
                move || send(&socket, config, &clock, [start, end], first_picture, &stop)
            })?;
        Ok(Source { thread, stop })
    }

    /// Waits until the end of the stream.
    pub(crate) fn join(self) -> Sent {
        let joined = self.thread.join();
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Ends the stream at once.
    pub(crate) fn stop(self) -> Sent {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }
}

fn send(
    socket: &UdpSocket,
    config: StreamConfig,
    clock: &Clock,
    [start, end]: [Instant; 2],
    first_picture: u64,
    stop: &AtomicBool,
) -> Sent {
    let mut stream = Stream::new(config);
    let mut sent = Sent {
        pictures: first_picture..0,
        ..Sent::default()
    };
    let mut lateness = Vec::new();
    let mut datagram = Vec::new();
    let mut sent_bytes = 0;
    'stream: for picture in 0.. {
        for packet in stream.next_picture() {
            datagram.push(packet);
            if datagram.len() < PACKETS_PER_DATAGRAM {
                continue;
            }
            let due_at = start + config.bitrate.time_for(sent_bytes);
            if due_at >= end || stop.load(Ordering::Relaxed) {
                break 'stream;
            }
            wait_until(clock, due_at);
            let now = clock.now();
            lateness.push(now.saturating_since(due_at));
            sent.ended_at = now - Instant::ZERO;
            for packet in &mut datagram {
                Stamp::complete(packet, sent.ended_at);
            }
            // Nobody may listen for a moment, and a full buffer loses packets as a network does.
            let _ = socket.send(datagram.as_flattened());
            sent_bytes += datagram.as_flattened().len() as u64;
            let counted = datagram
                .iter()
                .filter_map(Stamp::read)
                .filter(|stamp| stamp.picture >= first_picture);
            sent.packet_count += counted.count() as u64;
            datagram.clear();
        }
        // Its last packets may leave with the next one's first.
        sent.pictures.end = picture;
    }
    lateness.sort_unstable();
    sent.late_p99 = percentile(&lateness, 99).unwrap_or(Duration::ZERO);
    sent
}
