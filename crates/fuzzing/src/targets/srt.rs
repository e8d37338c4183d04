//! A listener and a caller of SRT neither panic nor grow, before and after they are connected, with
//! any datagrams of the peer and of strangers.

use std::net::{Ipv4Addr, SocketAddr};

use anabranch_srt::{
    Caller, Entropy, Event, Listener, MAX_CONNECTIONS, Passphrase, Rejection, Request, Settings,
};
use anabranch_units::{Duration, Instant};

use crate::{Bound, Meter, Reader, Target, Writer};

/// Two ends with a connection, and for each packet of 20 bytes its places in trees.
const BOUND: Bound = Bound {
    fixed_bytes: 512 << 10,
    bytes_per_byte: 64,
};

/// Actions of a step, by its first byte.
mod steps {
    /// The network carries what both ends have to send.
    pub const EXCHANGE: u8 = 0;
    /// The caller sends a payload.
    pub const SEND: u8 = 1;
    /// A datagram of the caller, at the listener's connection.
    pub const FROM_PEER: u8 = 2;
    /// A datagram of the listener, at the caller.
    pub const FROM_LISTENER: u8 = 3;
    /// A handshake of the caller with a valid cookie.
    pub const CONCLUDE: u8 = 4;
    /// Number of actions; the last one is a stranger's datagram.
    pub const COUNT: u8 = 6;
}

/// Place of the destination in a packet, and of the cookie in a handshake.
const DESTINATION: core::ops::Range<usize> = 12..16;
const COOKIE: core::ops::Range<usize> = 44..48;

fn caller_address() -> SocketAddr {
    (Ipv4Addr::new(192, 0, 2, 1), 5_000).into()
}

struct Ends {
    now: Instant,
    caller: Caller,
    listener: Listener,
    settings: Settings,
    /// Socket of the listener's connection.
    connected: u32,
    cookie: [u8; 4],
}

impl Ends {
    fn new(is_encrypted: bool) -> Self {
        let now = Instant::from_secs(1_000);
        let passphrase = if is_encrypted {
            Passphrase::new("correct horse")
        } else {
            None
        };
        let settings = Settings {
            passphrase,
            ..Settings::default()
        };
        let to = (Ipv4Addr::new(198, 51, 100, 1), 9_000).into();
        let caller = Caller::new(
            now,
            to,
            Some("cam"),
            settings.clone(),
            Entropy::new(&[1; 32]),
        );
        Ends {
            now,
            caller,
            listener: Listener::new(now, Entropy::new(&[2; 32])),
            settings,
            connected: 0,
            cookie: [0; 4],
        }
    }

    fn hand_to_listener(&mut self, from: SocketAddr, datagram: &[u8]) {
        let settings = self.settings.clone();
        self.listener
            .handle_datagram(
                self.now,
                from,
                datagram,
                &mut |request: &Request| match request.stream_id.as_deref() {
                    Some("other") => Err(Rejection::NotFound),
                    _ => Ok(settings.clone()),
                },
            );
        assert!(self.listener.connection_count() <= MAX_CONNECTIONS);
        while let Some(event) = self.listener.poll_event() {
            if let Event::Connected(id, _) = event
                && let Some(connection) = self.listener.connection(id)
            {
                self.connected = connection.local_id();
            }
        }
    }

    fn exchange(&mut self) {
        let now = self.now;
        self.caller.handle_timeout(now);
        self.listener.handle_timeout(now);
        while let Some(datagram) = self.caller.poll_transmit(now) {
            self.hand_to_listener(caller_address(), &datagram);
        }
        while let Some((to, datagram)) = self.listener.poll_transmit(now) {
            if to == caller_address() {
                if let Some(cookie) = datagram.get(COOKIE) {
                    self.cookie.copy_from_slice(cookie);
                }
                self.caller.handle_datagram(now, &datagram);
            }
        }
        self.take_payloads();
    }

    fn take_payloads(&mut self) {
        let now = self.now;
        for id in self.listener.connection_ids() {
            if let Some(connection) = self.listener.connection(id) {
                while connection.poll_payload(now).is_some() {}
            }
        }
        if let Some(connection) = self.caller.connection() {
            while connection.poll_payload(now).is_some() {}
        }
    }

    fn step(&mut self, action: u8, bytes: &[u8]) {
        let mut datagram = bytes.to_vec();
        match action % steps::COUNT {
            steps::EXCHANGE => self.exchange(),
            steps::SEND => {
                if let Some(connection) = self.caller.connection() {
                    let _ = connection.send(self.now, bytes);
                }
            }
            steps::FROM_PEER => {
                set(&mut datagram, DESTINATION, self.connected.to_be_bytes());
                self.hand_to_listener(caller_address(), &datagram);
            }
            steps::FROM_LISTENER => {
                if let Some(connection) = self.caller.connection() {
                    set(
                        &mut datagram,
                        DESTINATION,
                        connection.local_id().to_be_bytes(),
                    );
                }
                self.caller.handle_datagram(self.now, &datagram);
            }
            steps::CONCLUDE => {
                set(&mut datagram, COOKIE, self.cookie);
                self.hand_to_listener(caller_address(), &datagram);
            }
            _ => self.hand_to_listener((Ipv4Addr::new(203, 0, 113, 1), 1).into(), &datagram),
        }
    }
}

/// Sets a field of a datagram, if it is that long.
fn set(datagram: &mut [u8], place: core::ops::Range<usize>, value: [u8; 4]) {
    if let Some(field) = datagram.get_mut(place) {
        field.copy_from_slice(&value);
    }
}

fn step(seed: Writer, action: u8, bytes: &[u8]) -> Writer {
    seed.raw([action]).u16(10).bytes(bytes)
}

fn header(first: u32, info: u32) -> Vec<u8> {
    words(&[first, info, 0, 0])
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn control(kind: u32, info: u32, body: &[u32]) -> Vec<u8> {
    [header(1 << 31 | kind << 16, info), words(body)].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let begun = (0..3).fold(Writer::default().raw([1]), |seed, _| {
        step(seed, steps::EXCHANGE, &[])
    });
    let sent = (0..8).fold(begun, |seed, number: u8| {
        let seed = step(seed, steps::SEND, &[number; 188]);
        step(seed, steps::EXCHANGE, &[])
    });
    let packets = [
        control(2, 1, &[3, 20_000, 5_000, 8_000, 100, 100, 100_000]),
        control(3, 0, &[1 << 31 | 1, 4, 6]),
        control(6, 1, &[0]),
        control(7, 1, &[2, 4]),
        control(0x7fff, 0, &[]),
        control(5, 0, &[0]),
        [header(5, 3 << 30 | 1 << 27 | 1), vec![0x47; 188]].concat(),
    ];
    let both = packets.iter().fold(sent, |seed, packet| {
        let seed = step(seed, steps::FROM_PEER, packet);
        step(seed, steps::FROM_LISTENER, packet)
    });
    let conclusion = control(
        0,
        0,
        &[
            5,
            1,
            9,
            1_500,
            8_192,
            0xffff_ffff,
            77,
            0,
            0,
            0,
            0,
            0,
            1 << 16 | 3,
            0x01_05_01,
            0x3f,
            120 << 16,
        ],
    );
    let concluded = step(
        step(Writer::default().raw([0]), steps::EXCHANGE, &[]),
        steps::CONCLUDE,
        &conclusion,
    );
    vec![both.done(), concluded.done()]
}

/// The target.
pub const TARGET: Target = Target {
    name: "srt",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(bytes: &[u8]) {
    let meter = Meter::begin(BOUND);
    let mut input = Reader::new(bytes);
    let mut ends = Ends::new(input.u8().is_some_and(|flag| flag & 1 == 1));
    while let (Some(action), Some(wait), Some(step)) = (input.u8(), input.u16(), input.bytes()) {
        ends.now += Duration::from_millis(wait.into());
        ends.step(action, step);
    }
    meter.check(bytes.len());
}
