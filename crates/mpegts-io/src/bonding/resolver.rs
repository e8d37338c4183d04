//! Addresses of names, looked up in threads of their own: a lookup without a network takes seconds.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};

use anabranch_net::Remote;

/// Lookups that are under way.
#[derive(Debug)]
pub(super) struct Resolver {
    answers: (Sender<Answer>, Receiver<Answer>),
    pending: usize,
}

/// Maximum number of lookups at a time.
const MAX_PENDING: usize = 32;

/// The number of a port, and its receiver's addresses or the reason why there are none.
pub(super) type Answer = (usize, Result<Vec<SocketAddr>, String>);

impl Default for Resolver {
    fn default() -> Self {
        Resolver {
            answers: channel(),
            pending: 0,
        }
    }
}

impl Resolver {
    /// Begins to look a name up for a port. Returns whether it could begin.
    pub(super) fn ask(&mut self, port: usize, remote: &Remote) -> bool {
        if self.pending >= MAX_PENDING {
            return false;
        }
        let (name, answers) = (remote.to_string(), self.answers.0.clone());
        let thread = std::thread::Builder::new().name("resolve".to_owned());
        let began = thread.spawn(move || {
            let found = name.to_socket_addrs();
            let found = found
                .map(Iterator::collect)
                .map_err(|error| error.to_string());
            // Nobody reads it once the sender is gone.
            let _ = answers.send((port, found));
        });
        self.pending += usize::from(began.is_ok());
        began.is_ok()
    }

    /// Returns the next answer.
    pub(super) fn next(&mut self) -> Option<Answer> {
        let answer = self.answers.1.try_recv().ok()?;
        self.pending -= 1;
        Some(answer)
    }
}
