//! Outputs before receivers that discard packets which are not due when the shutdown arrives, as
//! libsrt's do, and that lose every tenth packet.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread::JoinHandle;

use anabranch_net::Clock;
use anabranch_srt::{Caller, CloseReason, Connection, Entropy, Event, Listener, Settings};
use anabranch_units::{Duration, Instant};

use super::{PAYLOAD_BYTES, SrtAddress, SrtOutput, SrtReceiver};
use crate::foreign::ForeignName;

const LATENCY: Duration = Duration::from_millis(400);
const COUNT: u8 = 100;
/// Longest wait for a datagram.
const STEP: std::time::Duration = std::time::Duration::from_millis(1);
/// Limit of a run, for busy machines.
const PATIENCE: Duration = Duration::from_secs(60);

/// A receiver's socket.
struct Wire {
    socket: UdpSocket,
    clock: Clock,
    data_count: u32,
}

impl Wire {
    fn open() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(STEP)).unwrap();
        Wire {
            socket,
            clock: Clock::start(),
            data_count: 0,
        }
    }

    /// Returns the next datagram that is not lost.
    fn received(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        let mut buffer = [0; 1_500];
        let (length, from) = self.socket.recv_from(&mut buffer).ok()?;
        let is_data = buffer[0] & 0x80 == 0;
        self.data_count += u32::from(is_data);
        let is_lost = is_data && self.data_count.is_multiple_of(10);
        (!is_lost).then(|| (from, buffer[..length].to_vec()))
    }
}

fn settings() -> Settings {
    Settings {
        receive_latency: LATENCY,
        ..Settings::default()
    }
}

/// Appends the payloads that are due, until the sender ends the connection. Returns whether it has.
fn take(connection: &mut Connection, now: Instant, received: &mut Vec<u8>) -> bool {
    while let Some(delivered) = connection.poll_payload(now) {
        received.extend(delivered.payload);
    }
    let closed = connection.closed();
    assert!(closed.is_none_or(|reason| reason == CloseReason::Peer));
    closed.is_some()
}

/// Receives as a caller.
fn call(to: SocketAddr) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let (mut wire, mut received) = (Wire::open(), Vec::new());
        let entropy = Entropy::new(&[1; 32]);
        let now = wire.clock.now();
        let mut caller = Caller::new(now, to, Some("front"), settings(), entropy);
        while wire.clock.now() < now + PATIENCE {
            if let Some((_, datagram)) = wire.received() {
                caller.handle_datagram(wire.clock.now(), &datagram);
            }
            let now = wire.clock.now();
            caller.handle_timeout(now);
            if let Some(connection) = caller.connection()
                && take(connection, now, &mut received)
            {
                break;
            }
            while let Some(datagram) = caller.poll_transmit(now) {
                wire.socket.send_to(&datagram, to).unwrap();
            }
        }
        received
    })
}

/// Receives as a listener. Returns its address, too.
fn listen() -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let mut wire = Wire::open();
    let address = wire.socket.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut received, began_at) = (Vec::new(), wire.clock.now());
        let mut listener = Listener::new(began_at, Entropy::new(&[2; 32]));
        let mut id = None;
        while wire.clock.now() < began_at + PATIENCE {
            if let Some((from, datagram)) = wire.received() {
                let now = wire.clock.now();
                listener.handle_datagram(now, from, &datagram, &mut |_| Ok(settings()));
            }
            let now = wire.clock.now();
            // Before the listener forgets the connection.
            if let Some(connection) = id.and_then(|id| listener.connection(id))
                && take(connection, now, &mut received)
            {
                break;
            }
            listener.handle_timeout(now);
            while let Some(event) = listener.poll_event() {
                if let Event::Connected(its, _) = event {
                    id = Some(its);
                }
            }
            while let Some((to, datagram)) = listener.poll_transmit(now) {
                wire.socket.send_to(&datagram, to).unwrap();
            }
        }
        received
    });
    (address, thread)
}

fn open(url: &str) -> SrtOutput {
    let address = SrtAddress::of(&ForeignName::input(url).unwrap()).unwrap();
    SrtOutput::open(&address, &Clock::start()).unwrap()
}

/// Waits until the only receiver is as wanted.
fn wait_for(output: &SrtOutput, is_wanted: impl Fn(&SrtReceiver) -> bool) -> SrtReceiver {
    let clock = Clock::start();
    loop {
        let all = output.receivers().get();
        if let [receiver] = &all[..]
            && is_wanted(receiver)
        {
            return receiver.clone();
        }
        assert!(clock.now() < Instant::ZERO + PATIENCE, "{all:?}");
        std::thread::park_timeout(std::time::Duration::from_millis(10));
    }
}

/// Streams to the only receiver, and ends at once. Returns all that was sent.
fn stream(output: SrtOutput, stream_id: Option<&str>) -> Vec<u8> {
    wait_for(&output, |_| true);
    let units = (0..COUNT).map(|number| vec![number; PAYLOAD_BYTES]);
    let units: Vec<_> = units.collect();
    let (first, last) = units.split_at(units.len() / 2);
    first.iter().for_each(|unit| output.write(unit));
    let receiver = wait_for(&output, |its| {
        let counted = its.statistics;
        counted.sent_packets == first.len() as u64 && counted.retransmitted_packets > 0
    });
    let counted = receiver.statistics;
    assert_eq!(counted.sent_bytes, (first.len() * PAYLOAD_BYTES) as u64);
    let again = counted.retransmitted_packets * PAYLOAD_BYTES as u64;
    assert_eq!(counted.retransmitted_bytes, again);
    assert!(counted.reported_lost_packets > 0 && counted.rtt.is_some());
    assert_eq!((receiver.latency, receiver.is_ending), (LATENCY, false));
    assert_eq!(receiver.stream_id.as_deref(), stream_id);
    last.iter().for_each(|unit| output.write(unit));
    let receivers = output.receivers();
    drop(output);
    assert!(receivers.get().is_empty());
    assert_eq!(receivers.count(), 1);
    units.concat()
}

#[test]
fn a_caller_gets_the_last_packets_of_an_output() {
    let address = Wire::open().socket.local_addr().unwrap();
    let output = open(&format!("srt://{address}?mode=listener"));
    assert!(!output.receivers().calls());
    let receiving = call(address);
    let sent = stream(output, Some("front"));
    assert!(receiving.join().unwrap() == sent);
    // The port is free again.
    drop(open(&format!("srt://{address}?mode=listener")));
}

#[test]
fn a_listener_gets_the_last_packets_of_an_output() {
    let (address, receiving) = listen();
    let output = open(&format!("srt://{address}?streamid=secret/key"));
    assert!(output.receivers().calls());
    // The ID may be a key of the service.
    let sent = stream(output, None);
    assert!(receiving.join().unwrap() == sent);
}

#[test]
fn an_output_without_receivers_ends_at_once() {
    let address = Wire::open().socket.local_addr().unwrap();
    let clock = Clock::start();
    for mode in ["caller", "listener"] {
        let output = open(&format!("srt://{address}?mode={mode}&latency=60000"));
        output.write(&[1; PAYLOAD_BYTES]);
        drop(output);
    }
    assert!(clock.now() < Instant::from_secs(30));
}
