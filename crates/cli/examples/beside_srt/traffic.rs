//! Feeds the film into a transport and receives it from there.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use anabranch_net::Clock;
use anabranch_units::{Duration, Instant};
use anabranch_video::mpeg_ts::PACKET_LEN;
use rustix::event::{Timespec, poll};
use socket2::SockRef;

use crate::film::{DATAGRAM_BYTES, Film, Shape, Stamp, Writer, stamp_time};

const SOCKET_BUFFER_BYTES: usize = 8 << 20;

pub fn wait(span: Duration) {
    let span = span.to_std();
    let timeout = Timespec {
        tv_sec: span.as_secs() as i64,
        tv_nsec: span.subsec_nanos().into(),
    };
    // A signal ends the wait early; the callers check the clock.
    let _ = poll(&mut [], Some(&timeout));
}

/// Sets the shortest timer slack. By default Linux may wake a thread 50 µs late, to wake several
/// threads together.
fn request_exact_timers() {
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
}

/// Sends the film to `to` for `length`. Returns the number of stamped packets.
pub fn feed(film: Film, to: SocketAddr, clock: &Clock, length: Duration) -> io::Result<u64> {
    request_exact_timers();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let _ = SockRef::from(&socket).set_send_buffer_size(SOCKET_BUFFER_BYTES);
    socket.connect(to)?;
    let mut writer = Writer::new(film);
    let origin = clock.now();
    let gap = film.rate.time_for(DATAGRAM_BYTES as u64);
    let (mut waiting, mut sent) = (Vec::new(), 0);
    while writer.next_clock() < length {
        let picture_at = origin + writer.next_clock();
        waiting.extend(writer.write());
        let whole = match film.shape {
            Shape::Burst => waiting.len(),
            Shape::Constant => waiting.len() / DATAGRAM_BYTES * DATAGRAM_BYTES,
        };
        for datagram in waiting[..whole].chunks_mut(DATAGRAM_BYTES) {
            let due_at = match film.shape {
                Shape::Burst => picture_at,
                Shape::Constant => origin + gap * sent,
            };
            sent += 1;
            while clock.now() < due_at {
                wait(due_at.saturating_since(clock.now()));
            }
            stamp_time(datagram, clock);
            // Sends fail until the transport listens.
            let _ = socket.send(datagram);
        }
        waiting.drain(..whole);
    }
    Ok(writer.packet_count() - (waiting.len() / PACKET_LEN) as u64)
}

/// Packets that arrived, and their latencies.
#[derive(Debug, Default)]
pub struct Arrived {
    /// Whether each packet has arrived, by its number.
    has_come: Vec<bool>,
    pub packets: u64,
    /// Milliseconds from the sender's socket to the player's.
    pub packet_latencies: Vec<f64>,
    /// Latencies of the packets that end a picture, in milliseconds.
    pub picture_latencies: Vec<f64>,
    pub is_in_order: bool,
}

/// A socket that receives the output of a transport.
#[derive(Debug)]
pub struct Sink {
    pub address: SocketAddr,
    bytes: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Arrived>,
}

impl Sink {
    /// Starts a sink. Packets sent before `from` count as arrived, but not for latency.
    pub fn start(clock: Clock, from: Instant) -> io::Result<Sink> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        // The variable stands for a player that does not ask for a larger buffer.
        if std::env::var_os("BESIDE_SRT_SMALL_SINK").is_none() {
            let _ = SockRef::from(&socket).set_recv_buffer_size(SOCKET_BUFFER_BYTES);
        }
        socket.set_read_timeout(Some(StdDuration::from_millis(50)))?;
        let address = socket.local_addr()?;
        let (bytes, is_over) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let thread = std::thread::spawn({
            let (bytes, is_over) = (bytes.clone(), is_over.clone());
            move || {
                let mut arrived = Arrived {
                    is_in_order: true,
                    ..Arrived::default()
                };
                let mut buffer = vec![0; 1 << 16];
                let mut last_number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(length) = socket.recv(&mut buffer) else {
                        continue;
                    };
                    let now = clock.now();
                    bytes.fetch_add(length as u64, Ordering::Relaxed);
                    for packet in buffer[..length].chunks_exact(PACKET_LEN) {
                        if let Some(stamp) = Stamp::read(packet) {
                            arrived.take(now, stamp, from, &mut last_number);
                        }
                    }
                }
                arrived
            }
        });
        Ok(Sink {
            address,
            bytes,
            is_over,
            thread,
        })
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn finish(self) -> Arrived {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only counts")
    }
}

impl Arrived {
    fn take(&mut self, now: Instant, stamp: Stamp, from: Instant, last_number: &mut u64) {
        let index = stamp.number as usize;
        if self.has_come.len() <= index {
            self.has_come.resize(index + 1, false);
        }
        if core::mem::replace(&mut self.has_come[index], true) {
            return;
        }
        self.packets += 1;
        self.is_in_order &= stamp.number >= *last_number;
        *last_number = stamp.number;
        if stamp.sent_at >= from {
            let latency = now.saturating_since(stamp.sent_at).as_millis_f64();
            self.packet_latencies.push(latency);
            if stamp.is_last_of_picture {
                self.picture_latencies.push(latency);
            }
        }
    }
}

/// Returns the percentile of unsorted values, or NaN if there are none.
pub fn percentile(values: &mut [f64], percent: u8) -> f64 {
    values.sort_by(f64::total_cmp);
    anabranch_units::percentile(values, percent).unwrap_or(f64::NAN)
}
