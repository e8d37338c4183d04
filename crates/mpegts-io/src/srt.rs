//! SRT in this process: one thread for each port of ours, and one for each call.

mod address;
mod caller_links;
mod calling;
mod error;
mod origins;
mod port;
mod receivers;
mod route;

use anabranch_net::Surroundings;
use anabranch_srt::Entropy;

use super::handover::{Giver, Payload, Taker, handover};
use super::links::Links;
pub use address::ForCallers;
pub(super) use address::{Mode, SrtAddress};
use caller_links::CallerLinks;
use calling::Calling;
pub use error::SrtError;
pub(super) use origins::Origins;
use port::Listening;
pub use receivers::{SrtReceiver, SrtReceivers};
use route::Direction;

/// Length of an output's packets: seven transport packets.
pub(super) const PAYLOAD_BYTES: usize = 7 * 188;

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
    fn open(
        address: &SrtAddress,
        direction: Direction,
        surroundings: &Surroundings,
    ) -> Result<Self, SrtError> {
        Ok(match address.mode {
            Mode::Listener => End::Listening(Listening::open(address, direction, surroundings)?),
            Mode::Caller => End::Calling(Calling::start(address, direction, surroundings)?),
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
        surroundings: &Surroundings,
    ) -> Result<(Self, Taker<Payload>), SrtError> {
        let (giver, taker) = handover().map_err(SrtError::Pipe)?;
        let links = Links::default();
        let direction = Direction::Input(giver, CallerLinks::new(links.clone()));
        let end = End::open(address, direction, surroundings)?;
        Ok((SrtInput { end, links }, taker))
    }

    /// Returns the callers for the statistics.
    pub(super) fn links(&self) -> Links {
        self.links.clone()
    }

    /// Returns the addresses behind relays that call it, if it listens.
    pub(super) fn origins(&self) -> Option<Origins> {
        match &self.end {
            End::Listening(listening) => Some(listening.origins()),
            End::Calling(_) => None,
        }
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
    pub(super) fn open(
        address: &SrtAddress,
        surroundings: &Surroundings,
    ) -> Result<Self, SrtError> {
        let (packets, taker) = handover().map_err(SrtError::Pipe)?;
        let receivers = SrtReceivers::new(address.mode);
        let direction = Direction::Output(taker, receivers.clone());
        let end = End::open(address, direction, surroundings)?;
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

fn entropy(surroundings: &Surroundings) -> Result<Entropy, SrtError> {
    let seed = surroundings.random_bytes().map_err(SrtError::Randomness)?;
    Ok(Entropy::new(&seed))
}
