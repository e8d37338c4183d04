//! The thread that runs all links of a relay.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_units::{Instant, Punctuality};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock::Clock;
use crate::port::Port;
use crate::socket::MAX_DATAGRAM_BYTES;

/// Serves the ports until the other end of `stopped` is closed. A byte in it says that a link has
/// changed.
pub(crate) fn run(
    ports: &Arc<[Port]>,
    clock: Clock,
    stopped: &UnixStream,
    punctuality: &Mutex<Punctuality>,
) {
    request_exact_timers();
    let mut scratch = Box::new([0; MAX_DATAGRAM_BYTES]);
    let mut awaited = vec![PollFd::new(stopped, PollFlags::IN)];
    for port in ports.iter() {
        awaited.push(PollFd::new(&port.listen, PollFlags::IN));
        awaited.push(PollFd::new(&port.upstream, PollFlags::IN));
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
fn is_closed(mut stopped: &UnixStream) -> bool {
    match stopped.read(&mut [0; 64]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

fn timeout_until(at: Instant, now: Instant) -> Timespec {
    let wait = at.saturating_since(now).to_std();
    // Every number of seconds within 64 bits of nanoseconds fits.
    Timespec {
        tv_sec: wait.as_secs() as i64,
        tv_nsec: wait.subsec_nanos().into(),
    }
}

/// Requests exact timers, as Linux by default may wake a thread 50 µs late to wake several at a
/// time.
fn request_exact_timers() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
}
