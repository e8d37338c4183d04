//! The thread that runs all links of a relay.

use std::io::{ErrorKind, Read};
use std::sync::{Mutex, PoisonError};

use anabranch_link::{LinkChange, LinkConfigError};
use anabranch_units::{Duration, Instant, Punctuality};
use rustix::event::{Nsecs, PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use crate::bell::Stream;
use crate::clock::Clock;
use crate::config::LinkDirection;
use crate::direction::RelayLinkStatistics;
use crate::release_error::Histogram;
use crate::socket::MAX_DATAGRAM_BYTES;

/// Longest wait, after which nothing may be due: systems without `ppoll` count milliseconds in 31
/// bits.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3_600);

/// One link of a relay, and the sockets or interfaces at its ends.
pub(crate) trait Port: core::fmt::Debug + Send + Sync {
    /// Returns the sources of packets.
    fn sources(&self) -> [BorrowedFd<'_>; 2];

    /// Reads arrived packets, sends due ones, and returns the next due time. Never blocks.
    fn serve(&self, scratch: &mut [u8; MAX_DATAGRAM_BYTES]) -> Option<Instant>;

    /// Changes one direction at once.
    fn change(
        &self,
        link_direction: LinkDirection,
        change: LinkChange,
    ) -> Result<(), LinkConfigError>;

    fn statistics(&self) -> RelayLinkStatistics;

    /// Adds the release errors, if this port measures them.
    fn add_release_errors(&self, _sum: &mut Histogram) {}
}

/// Serves the ports until the other end of `stopped` is closed. A byte in it says that a link has
/// changed.
pub(crate) fn run(
    ports: &[Box<dyn Port>],
    clock: Clock,
    stopped: &Stream,
    punctuality: &Mutex<Punctuality>,
) {
    let mut scratch = Box::new([0; MAX_DATAGRAM_BYTES]);
    let mut awaited = vec![PollFd::new(stopped, PollFlags::IN)];
    for port in ports {
        let sources = port
            .sources()
            .map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN));
        awaited.extend(sources);
    }
    loop {
        let served_at = clock.now();
        let next_at = ports
            .iter()
            .filter_map(|port| port.serve(&mut scratch))
            .min();
        let timeout = next_at.map(|at| timeout_until(at, clock.now()));
        match poll(&mut awaited, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("poll of open sockets failed: {error}"),
        }
        if !awaited[0].revents().is_empty() && is_closed(stopped) {
            return;
        }
        if let Some(next_at) = next_at {
            let punctuality = &mut *punctuality.lock().unwrap_or_else(PoisonError::into_inner);
            punctuality.on_turn(clock.now(), next_at.max(served_at));
        }
    }
}

/// Whether the other end is closed. Takes the bytes in it.
fn is_closed(mut stopped: &Stream) -> bool {
    match stopped.read(&mut [0; 64]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

fn timeout_until(at: Instant, now: Instant) -> Timespec {
    let wait = at.saturating_since(now).min(LONGEST_WAIT).to_std();
    Timespec {
        tv_sec: wait.as_secs() as i64,
        tv_nsec: wait.subsec_nanos() as Nsecs,
    }
}
