//! Peers that may use a tunnel.

use anabranch_secure::PublicKey;

use super::destination::Destination;

/// A peer that may use the tunnel.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its public key.
    pub key: PublicKey,
    /// Its name in messages.
    pub name: String,
    /// Rules of this peer alone; `None`: those of all peers without their own.
    pub connect: Option<Vec<Destination>>,
}
