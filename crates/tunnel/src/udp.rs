//! UDP flows in datagrams. Datagrams from an application to a port of the proxy leave the server
//! from a socket of their own flow, and answers return the same way.
//!
//! ```text
//! application ─▶ proxy's port ─▶ number of the flow ─▶ session ─▶ socket of the flow ─▶ target
//! ```
//!
//! A flow is the traffic from one local address to one port. Its datagrams name their target until
//! the server has answered that it knows the flow. A server that does not know a flow reports that.
//! Losses and restarts of the server therefore matter for a round trip at most.
//!
//! | file | idea |
//! |---|---|
//! | `message.rs` | messages in a session's datagram |
//! | `flows.rs` | the proxy's flows: numbers, names and bounds |
//! | `port.rs` | a port of the proxy, and the address that answers leave from |
//! | `near.rs`, `far.rs` | the tasks of proxy and server |

#[cfg(test)]
mod end_to_end;
pub mod far;
mod flows;
pub mod message;
pub mod near;
mod port;

use core::cell::RefCell;
use core::str::FromStr;
use core::time::Duration as StdDuration;
use std::io;
use std::net::SocketAddr;

use socket2::SockRef;
use tokio::net::UdpSocket;

use super::request::MAX_TARGET_BYTES;

/// Idle time after which a flow ends. NATs commonly wait 30 s or more for UDP; RFC 4787 §4.3
/// demands two minutes, but few NATs comply.
const IDLE_AFTER: StdDuration = StdDuration::from_secs(60);
/// Maximum number of flows. Beyond it, the flow that was unused for longest is removed.
const MAX_FLOWS: usize = 1_024;
/// Requested socket buffer, for datagrams that arrive while the task waits for the processor.
const SOCKET_BUFFER_BYTES: usize = 2 << 20;
/// Maximum number of datagrams that are read from a socket before others have their turn.
const MAX_BATCH: usize = 64;

/// A port of the proxy, and the target of its datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    listen: SocketAddr,
    target: String,
}

impl FromStr for Rule {
    type Err = String;

    /// Parses `5000=example.org:5000` or `0.0.0.0:5000=192.0.2.1:9`.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?}: expected [ADDR:]PORT=HOST:PORT");
        let (listen, target) = text.split_once('=').ok_or_else(expected)?;
        let listen = match listen.parse::<u16>() {
            Ok(port) => ([127, 0, 0, 1], port).into(),
            Err(_) => listen.parse().map_err(|_| expected())?,
        };
        let (host, port) = target.rsplit_once(':').ok_or_else(expected)?;
        if host.is_empty() || port.parse::<u16>().is_err() || target.len() > MAX_TARGET_BYTES {
            return Err(expected());
        }
        Ok(Rule {
            listen,
            target: target.to_owned(),
        })
    }
}

fn set_up(socket: &UdpSocket) {
    let socket = SockRef::from(socket);
    // Smaller buffers lose more if the machine is busy.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
}

/// Calls `take` with a buffer that holds any datagram.
fn with_buffer<T>(take: impl FnOnce(&mut [u8]) -> io::Result<T>) -> io::Result<T> {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 1 << 16]);
    }
    BUFFER.with_borrow_mut(|buffer| take(buffer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_a_port_and_a_target() {
        for (text, listen, target) in [
            ("5000=a.b:9", "127.0.0.1:5000", "a.b:9"),
            ("0.0.0.0:5000=192.0.2.1:9", "0.0.0.0:5000", "192.0.2.1:9"),
            (
                "[::1]:5000=[2001:db8::1]:9",
                "[::1]:5000",
                "[2001:db8::1]:9",
            ),
        ] {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(
                (rule.listen.to_string().as_str(), rule.target.as_str()),
                (listen, target)
            );
        }
        for wrong in [
            "",
            "5000",
            "5000=",
            "5000=a.b",
            "5000=:9",
            "x=a.b:9",
            "70000=a.b:9",
        ] {
            let told = wrong.parse::<Rule>().unwrap_err();
            assert!(told.contains("expected [ADDR:]PORT=HOST:PORT"), "{told}");
        }
    }
}
