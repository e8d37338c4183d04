//! SRT and SRTLA in worlds in memory: an encoder behind translators, a studio, and numbered packets
//! between them in virtual time.

mod peer;
mod srt;
mod srt_attacks;
mod srt_endings;
mod srtla;
mod structures;

use core::time::Duration;
use std::net::SocketAddr;

use anabranch_net::Surroundings;
use anabranch_net::testing::{Interface, Line, Machine, Nat, World};
use anabranch_units::DataRate;

use crate::foreign_name::ForeignName;
use crate::handover::{Payload, Taker};
use crate::srt::{PAYLOAD_BYTES, SrtAddress, SrtInput, SrtOutput};

/// Time between two packets: 1 Mbit/s.
const INTERVAL: Duration = Duration::from_millis(10);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns a line of this rate in megabits a second and this one-way delay in milliseconds.
fn line(megabits: u64, delay: u64) -> Line {
    Line::new(DataRate::from_megabits_per_second(megabits), millis(delay))
}

/// Returns the network and the clock of a machine's programs.
fn on(machine: &Machine) -> Surroundings {
    Surroundings::of(&machine.network(), machine.clock())
}

fn address(text: &str) -> SrtAddress {
    let name = ForeignName::input(text).expect("an address of SRT");
    SrtAddress::of(&name).expect("parameters of SRT")
}

/// Two machines, and their interfaces.
struct Bed {
    world: World,
    encoder: Machine,
    studio: Machine,
    lines: Vec<Interface>,
    studio_line: Interface,
}

impl Bed {
    /// Creates a world with an encoder that has these lines, named `line0` and so on, and a studio.
    fn new(seed: u64, lines: &[Line]) -> Bed {
        let world = World::new(seed);
        let (encoder, studio) = (world.machine("encoder"), world.machine("studio"));
        let lines = lines
            .iter()
            .enumerate()
            .map(|(index, line)| encoder.attach(&format!("line{index}"), line))
            .collect();
        let studio_line = studio.attach("eth0", &line(100, 1));
        Bed {
            world,
            encoder,
            studio,
            lines,
            studio_line,
        }
    }

    /// Creates a world whose encoder has lines behind translators, of 6 Mbit/s and 20 ms.
    fn behind_translators(seed: u64, line_count: usize) -> Bed {
        Bed::new(seed, &vec![line(6, 20).behind(Nat::default()); line_count])
    }

    fn at(&self, port: u16) -> SocketAddr {
        self.studio_line.at(port)
    }

    /// Opens an output of the encoder.
    fn output(&self, text: &str) -> Source {
        let output = SrtOutput::open(&address(text), &on(&self.encoder));
        Source::of(output.expect("an output"))
    }

    /// Opens an input of the studio.
    fn input(&self, text: &str) -> Sink {
        let opened = SrtInput::open(&address(text), &on(&self.studio));
        let (input, taker) = opened.expect("a free address");
        Sink {
            input,
            taker,
            numbers: Vec::new(),
        }
    }

    /// Writes and reads numbered packets for a while.
    fn run(&self, sources: &mut [&mut Source], sinks: &mut [&mut Sink], span: Duration) {
        let until = self.world.now() + span.into();
        while self.world.now() < until {
            for source in &mut *sources {
                source.write();
            }
            self.world.run_for(INTERVAL);
            for sink in &mut *sinks {
                sink.read();
            }
        }
    }

    /// Streams until the sink gets the source's present packets.
    ///
    /// # Panics
    /// If that takes longer than `limit`.
    fn run_until_fresh(&self, source: &mut Source, sink: &mut Sink, limit: Duration) {
        let (began_at, first) = (self.world.now(), source.count);
        while sink.numbers.last().is_none_or(|last| *last < first) {
            let waited = self.world.now().saturating_since(began_at);
            assert!(waited < limit.into(), "nothing comes for {waited:?}");
            self.run(&mut [source], &mut [sink], INTERVAL);
        }
    }
}

/// An output, and the number of the next packet.
struct Source {
    output: SrtOutput,
    count: u32,
}

impl Source {
    fn of(output: SrtOutput) -> Source {
        Source { output, count: 0 }
    }

    fn write(&mut self) {
        self.output.write(&packet(self.count));
        self.count += 1;
    }
}

fn packet(number: u32) -> Vec<u8> {
    let mut packet = vec![0x47; PAYLOAD_BYTES];
    packet[..4].copy_from_slice(&number.to_be_bytes());
    packet
}

/// An input, and the numbers of the packets that it got.
struct Sink {
    input: SrtInput,
    taker: Taker<Payload>,
    numbers: Vec<u32>,
}

impl Sink {
    fn read(&mut self) {
        for (_, packet) in self.taker.take() {
            let (number, rest) = packet.split_first_chunk().expect("a number");
            assert!(rest.iter().all(|byte| *byte == 0x47), "it is unchanged");
            self.numbers.push(u32::from_be_bytes(*number));
        }
    }

    /// Asserts that all packets from `first` to `last` came, once and in order.
    #[track_caller]
    fn assert_whole(&self, first: u32, last: u32) {
        let came: Vec<u32> = self
            .numbers
            .iter()
            .filter(|number| (first..=last).contains(*number))
            .copied()
            .collect();
        assert_eq!(came, (first..=last).collect::<Vec<u32>>());
    }
}
