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
//! | `rule.rs` | value of `--udp`: a port, its target, and how its datagrams travel |
//! | `message.rs` | messages in a session's datagram |
//! | `meter.rs` | counts and maximum rate of a rule's datagrams |
//! | `flows.rs` | the proxy's flows: numbers, names and bounds |
//! | `flow_socket.rs` | the server's socket of a flow |
//! | `port.rs` | a port of the proxy, and the address that answers leave from |
//! | `client.rs`, `server.rs` | the tasks of proxy and server |

pub mod client;
#[cfg(test)]
mod end_to_end;
mod flow_socket;
mod flows;
pub mod message;
mod meter;
mod port;
mod rule;
pub mod server;

use core::cell::RefCell;
use core::time::Duration as StdDuration;
use std::io;

use socket2::SockRef;
use tokio::net::UdpSocket;

pub use meter::{Count, FlowCounts, FlowMeter};
pub use rule::{FlowOptions, MAX_DEADLINE, OptionError, ParseRuleError, Rule};

/// Idle time after which a flow ends. NATs commonly wait 30 s or more for UDP; RFC 4787 §4.3
/// demands two minutes, but few NATs comply.
const IDLE_AFTER: StdDuration = StdDuration::from_secs(60);
/// Maximum number of flows. Beyond it, the flow that was unused for longest is removed.
const MAX_FLOWS: usize = 1_024;
/// Requested socket buffer, for datagrams that arrive while the task waits for the processor.
const SOCKET_BUFFER_BYTES: usize = 2 << 20;
/// Maximum number of datagrams that are read from a socket before others have their turn.
const MAX_BATCH: usize = 64;

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
