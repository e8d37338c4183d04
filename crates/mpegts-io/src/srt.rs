//! SRT in this process: one thread for each port of ours, and one for each call.

mod address;
mod calling;
mod port;
// Needs a clock: a caller and a listener have real sockets.
#[cfg(test)]
mod real_time_output_tests;
mod receivers;
mod route;
mod seen;

use anabranch_net::Clock;
use anabranch_srt::{Entropy, SECRET_BYTES};
use anabranch_units::Instant;
use anyhow::{Context, anyhow};
use ring::rand::{SecureRandom, SystemRandom};

use super::handover::{Giver, Taker, handover};
use super::links::Links;
pub(super) use address::{Mode, SrtAddress};
use calling::Calling;
use port::Listening;
pub use receivers::{SrtReceiver, SrtReceivers};
use route::Direction;
use seen::Seen;

/// Length of an output's packets: seven transport packets.
const PAYLOAD_BYTES: usize = 7 * 188;

/// A payload and the time at which it was due.
pub(super) type Payload = (Instant, Vec<u8>);

/// The thread of an input or output, which ends when this is dropped.
#[derive(Debug)]
enum End {
    Listening(Listening),
    Calling(#[expect(dead_code, reason = "it is kept until its user ends")] Calling),
}

/// An open input.
#[derive(Debug)]
pub(super) struct SrtInput {
    end: End,
    links: Links,
}

/// An open output. Dropping it waits until the receivers have delivered the last packets, for their
/// latency and a second at most.
#[derive(Debug)]
pub struct SrtOutput {
    packets: Giver<Vec<u8>>,
    receivers: SrtReceivers,
    _end: End,
}

impl End {
    fn open(address: &SrtAddress, direction: Direction, clock: &Clock) -> anyhow::Result<Self> {
        Ok(match address.mode {
            Mode::Listener => End::Listening(Listening::open(address, direction, clock)?),
            Mode::Caller => End::Calling(Calling::start(address, direction, clock)?),
        })
    }
}

impl SrtInput {
    /// Opens an input, and returns it with its payloads.
    ///
    /// # Errors
    /// The address is taken, or the system lacks something.
    pub(super) fn open(
        address: &SrtAddress,
        clock: &Clock,
    ) -> anyhow::Result<(Self, Taker<Payload>)> {
        let (giver, taker) = handover().context("no pipe is left")?;
        let links = Links::default();
        let direction = Direction::Input(giver, Seen::new(links.clone()));
        let end = End::open(address, direction, clock)?;
        Ok((SrtInput { end, links }, taker))
    }

    /// Returns the callers for the statistics.
    pub(super) fn links(&self) -> Links {
        self.links.clone()
    }

    /// Returns the address at which it listens.
    pub(super) fn local_address(&self) -> Option<std::net::SocketAddr> {
        match &self.end {
            End::Listening(listening) => Some(listening.local_address()),
            End::Calling(_) => None,
        }
    }
}

impl SrtOutput {
    /// Opens an output.
    ///
    /// # Errors
    /// As for [`SrtInput::open`].
    pub(super) fn open(address: &SrtAddress, clock: &Clock) -> anyhow::Result<Self> {
        let (packets, taker) = handover().context("no pipe is left")?;
        let receivers = SrtReceivers::new(address.mode);
        let direction = Direction::Output(taker, receivers.clone());
        let end = End::open(address, direction, clock)?;
        Ok(SrtOutput {
            packets,
            receivers,
            _end: end,
        })
    }

    /// Returns the connections for the statistics.
    pub fn receivers(&self) -> SrtReceivers {
        self.receivers.clone()
    }

    /// Sends a unit. A receiver that is not there is no error.
    pub(super) fn write(&self, unit: &[u8]) {
        for packet in unit.chunks(PAYLOAD_BYTES) {
            self.packets.give(packet.to_vec());
        }
    }
}

fn entropy() -> anyhow::Result<Entropy> {
    let mut secret = [0; SECRET_BYTES];
    let filled = SystemRandom::new().fill(&mut secret);
    filled.map_err(|_| anyhow!("the system has no random numbers"))?;
    Ok(Entropy::new(&secret))
}

// Needs a clock: a caller and a listener have real sockets.
#[cfg(test)]
mod real_time_tests {
    use super::*;
    use crate::foreign::ForeignName;
    use crate::srtla;
    use anabranch_units::Duration;

    fn address(text: &str) -> SrtAddress {
        SrtAddress::of(&ForeignName::input(text).unwrap()).unwrap()
    }

    #[test]
    fn inputs_at_one_port_get_the_packets_of_their_callers() {
        let clock = Clock::start();
        let secret = "passphrase=correct horse";
        let any = format!("srt://127.0.0.1:0?mode=listener&streamid=a&{secret}");
        let (first, a) = SrtInput::open(&address(&any), &clock).unwrap();
        let port = first.local_address().unwrap().port();
        let at_b = address(&format!("srt://127.0.0.1:{port}?mode=listener&streamid=b"));
        let (second, b) = SrtInput::open(&at_b, &clock).unwrap();
        let twice = SrtInput::open(&at_b, &clock).unwrap_err().to_string();
        assert!(twice.contains("different stream IDs"), "{twice}");
        let call = |parameters: &str| {
            let address = address(&format!("srt://127.0.0.1:{port}?{parameters}"));
            SrtOutput::open(&address, &clock).unwrap()
        };
        let outputs = [
            (call(&format!("streamid=a&{secret}")), 1),
            (call("streamid=b"), 2),
            (call("streamid=a"), 3),
            (call("streamid=c"), 4),
        ];
        let mut received = [Vec::new(), Vec::new()];
        let until = clock.now() + Duration::from_secs(60);
        while received.iter().any(|its| its.len() < 20 * 188) {
            assert!(clock.now() < until, "{received:?}");
            for (output, mark) in &outputs {
                output.write(&[*mark; 188]);
            }
            std::thread::park_timeout(core::time::Duration::from_millis(20));
            for (its, taker) in received.iter_mut().zip([&a, &b]) {
                its.extend(taker.take().into_iter().flat_map(|(_, bytes)| bytes));
            }
        }
        for (its, mark) in received.iter().zip([1, 2]) {
            assert!(its.iter().all(|byte| *byte == mark));
        }
        for input in [&first, &second] {
            let link = input.links().get()[0];
            assert!(link.is_there && link.quality.is_some());
        }
        drop((first, second));
        srtla::socket(([127, 0, 0, 1], port).into()).expect("the port is free again");
    }

    /// A first picture that is lost costs a viewer all that refer to it.
    #[test]
    fn a_listener_that_answers_late_gets_the_head_of_the_stream() {
        let clock = Clock::start();
        // Takes calls, and does not answer.
        let silent = srtla::socket(([127, 0, 0, 1], 0).into()).unwrap();
        let port = silent.local_addr().unwrap().port();
        let output = SrtOutput::open(&address(&format!("srt://127.0.0.1:{port}")), &clock);
        let output = output.unwrap();
        for mark in 0..20 {
            output.write(&[mark; 188]);
        }
        std::thread::park_timeout(core::time::Duration::from_millis(100));
        drop(silent);
        let listener = format!("srt://127.0.0.1:{port}?mode=listener");
        let (_input, taker) = SrtInput::open(&address(&listener), &clock).unwrap();
        let mut received = Vec::new();
        let until = clock.now() + Duration::from_secs(60);
        while received.len() < 20 * 188 {
            assert!(clock.now() < until, "{} bytes came", received.len());
            std::thread::park_timeout(core::time::Duration::from_millis(20));
            received.extend(taker.take().into_iter().flat_map(|(_, bytes)| bytes));
        }
        let expected: Vec<u8> = (0..20).flat_map(|mark| [mark; 188]).collect();
        assert_eq!(received, expected);
    }
}
