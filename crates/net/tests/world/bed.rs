//! A camera with several lines and a studio, in a world.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_core::ReceivedFrame;
use anabranch_net::testing::{Interface, Line, Machine, World};
use anabranch_net::{
    ClientBuilder, Ended, Event, Events, Receiver, Reception, Receptions, Sender, ServerBuilder,
};
use anabranch_units::{DataRate, Importance};

/// Interval between frames.
pub const FRAME_INTERVAL: Duration = Duration::from_millis(20);

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a line of this rate in megabits a second and this one-way delay in milliseconds.
pub fn line(megabits: u64, delay: u64) -> Line {
    Line::new(DataRate::from_megabits_per_second(megabits), millis(delay))
}

/// Two machines, and their interfaces.
pub struct Bed {
    pub world: World,
    pub camera: Machine,
    pub studio: Machine,
    pub lines: Vec<Interface>,
    pub studio_line: Interface,
}

impl Bed {
    /// Creates a world with a camera that has these lines, named `line0` and so on, and a studio.
    pub fn new(seed: u64, lines: &[Line]) -> Bed {
        let world = World::new(seed);
        let (camera, studio) = (world.machine("camera"), world.machine("studio"));
        let lines = lines
            .iter()
            .enumerate()
            .map(|(index, line)| camera.attach(&format!("line{index}"), line))
            .collect();
        let studio_line = studio.attach("eth0", &line(100, 1));
        Bed {
            world,
            camera,
            studio,
            lines,
            studio_line,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.studio_line.at(7_000)
    }

    /// Returns the set-up of a receiver that allows the camera.
    pub fn server(&self) -> ServerBuilder<Receiver> {
        Receiver::builder()
            .key(self.world.key("studio"))
            .allow(self.world.key("camera").public_key())
            .network(self.studio.network())
            .listen(self.address())
    }

    pub fn receiver(&self) -> (Receiver, Receptions) {
        self.server().start().expect("the address is free")
    }

    /// Returns the set-up of a sender with a path by each line.
    pub fn client(&self) -> ClientBuilder<Sender> {
        let names: Vec<String> = (0..self.lines.len())
            .map(|index| format!("line{index}"))
            .collect();
        self.client_by(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Returns the set-up of a sender with a path by each of these interfaces.
    pub fn client_by(&self, names: &[&str]) -> ClientBuilder<Sender> {
        let mut builder = Sender::builder()
            .key(self.world.key("camera"))
            .peer(self.world.key("studio").public_key())
            .network(self.camera.network())
            .to(self.address());
        for name in names {
            builder = builder.via(*name);
        }
        builder
    }

    /// Starts a sender, and waits until its session is up.
    pub async fn connect(&self) -> (Sender, Events) {
        let connected = self.client().connect_async().await;
        connected.expect("the studio answers")
    }

    /// Streams `count` frames in a session of its own. Returns the numbers of the received ones.
    pub fn carry(&self, count: u64) -> Vec<u64> {
        let (_receiver, sessions) = self.receiver();
        let sending = async {
            let (sender, _events) = self.connect().await;
            self.stream(&sender, 0, count).await;
            sender.finish_async().await
        };
        let receiving = async {
            let session = sessions.recv_async().await.expect("the camera comes");
            receive(&session).await
        };
        let both = async { tokio::join!(sending, receiving) };
        let (ended, (numbers, _)) = self.world.block_on(both);
        assert_eq!(ended, Ended::Closed);
        numbers
    }

    /// Streams for this time.
    pub fn send_for(&self, sender: &Sender, span: Duration) {
        let count = span.as_nanos() / FRAME_INTERVAL.as_nanos();
        self.world.block_on(self.stream(sender, 0, count as u64));
    }

    /// Sends `count` frames, of which the first has the number `first`.
    pub async fn stream(&self, sender: &Sender, first: u64, count: u64) {
        for number in first..first + count {
            let importance = Importance::key_if(number.is_multiple_of(25));
            // A refused frame is counted by the receiver's gaps.
            let _ = sender.send(frame_bytes(number), importance);
            self.world.sleep(FRAME_INTERVAL).await;
        }
    }
}

/// Returns the bytes of a frame, which depend on its number: 5 kB at a mean, 2 Mbit/s.
pub fn frame_bytes(number: u64) -> Vec<u8> {
    let length = 2_000 + number % 7 * 1_000;
    let mut bytes: Vec<u8> = (0..length).map(|at| (at * 31 + number * 7) as u8).collect();
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Checks a frame's bytes. Returns its number.
pub fn number_of(frame: &ReceivedFrame) -> u64 {
    let number = u64::from_be_bytes(*frame.bytes.first_chunk().expect("8 bytes"));
    assert!(
        frame.bytes == frame_bytes(number),
        "frame {number} is altered"
    );
    number
}

/// Takes the frames of a session to its end. Returns their numbers, and the end.
pub async fn receive(session: &Reception) -> (Vec<u64>, Ended) {
    let mut numbers = Vec::new();
    loop {
        match session.recv_frame_async().await {
            Ok(frame) => numbers.push(number_of(&frame)),
            Err(over) => return (numbers, over.ended.expect("it has ended")),
        }
    }
}

/// Returns the events that have come.
pub fn drain(events: &Events) -> Vec<Event> {
    core::iter::from_fn(|| events.try_recv().ok()).collect()
}
