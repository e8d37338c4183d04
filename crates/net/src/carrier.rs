//! The protocols that carry the datagrams of a path.

use core::fmt;

/// The protocol that carries a path's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// UDP.
    #[default]
    Udp,
    /// A TCP connection.
    Tcp,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Carrier::Udp => "UDP",
            Carrier::Tcp => "TCP",
        })
    }
}
