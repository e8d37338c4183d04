//! Inputs of helper programs that take datagrams from one source alone. Any local user may send to
//! a loopback port, and a helper does not look at sources. So the helper's own socket is connected
//! to this program's: then the kernel drops others' datagrams. Linux alone hands over sockets of
//! children.

#[cfg(target_os = "linux")]
mod linux;

use std::net::SocketAddr;
use std::process::Child;

/// An input of a helper program.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "other systems hand over no sockets")
)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Address at which the helper listens.
    pub(super) at: SocketAddr,
    /// The only address that it hears.
    pub(super) source: SocketAddr,
}

#[cfg(not(target_os = "linux"))]
impl Claim {
    /// Does nothing: other systems do not hand over sockets of children.
    pub(super) fn start(self, _: &Child) {}
}
