//! The handle of a running relay.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anabranch_link::{LinkChange, LinkConfigError};
use anabranch_units::{Lateness, Punctuality};

use crate::clock::Clock;
use crate::config::{LinkDirection, RelayConfig, RelayError};
use crate::port::{Port, RelayLinkStatistics};
use crate::worker;

/// Emulated links, running in a thread of their own until this is stopped or dropped.
///
/// Links are identified by their index in [`RelayConfig::links`].
#[derive(Debug)]
pub struct Relay {
    ports: Arc<[Port]>,
    clock: Clock,
    punctuality: Arc<Mutex<Punctuality>>,
    /// The end of a pair of sockets: the thread ends when it is closed, and looks at the links when
    /// a byte is written to it. `None` only while dropping.
    running: Option<(UnixStream, thread::JoinHandle<()>)>,
}

impl Relay {
    /// Opens the sockets and starts the thread. When it returns, all links take datagrams.
    ///
    /// # Errors
    /// An address that cannot be used, or a link that cannot be built; no thread remains.
    pub fn start(config: RelayConfig) -> Result<Relay, RelayError> {
        let (clock, ahead) = Clock::since(config.origin);
        let ports: Arc<[Port]> = config
            .links
            .iter()
            .map(|link| Port::open(link, clock, ahead))
            .collect::<Result<_, _>>()?;
        let (stop, stopped) = UnixStream::pair().map_err(RelayError::Thread)?;
        let pair = [&stop, &stopped].map(|end| end.set_nonblocking(true));
        pair.into_iter()
            .try_for_each(|set| set.map_err(RelayError::Thread))?;
        let punctuality = Arc::<Mutex<Punctuality>>::default();
        let thread = thread::Builder::new()
            .name("relay".to_owned())
            .spawn({
                let (ports, punctuality) = (Arc::clone(&ports), Arc::clone(&punctuality));
                move || worker::run(&ports, clock, &stopped, &punctuality)
            })
            .map_err(RelayError::Thread)?;
        Ok(Relay {
            ports,
            clock,
            punctuality,
            running: Some((stop, thread)),
        })
    }

    /// Returns the address at which the link listens, its port never 0.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn listen_addr(&self, link_index: usize) -> SocketAddr {
        self.ports[link_index].listen_addr
    }

    /// Returns the link's statistics up to the present.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn statistics(&self, link_index: usize) -> RelayLinkStatistics {
        self.ports[link_index].statistics()
    }

    /// Changes one direction of a link at once.
    ///
    /// # Errors
    /// The change is not valid for this link; nothing has changed.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn change(
        &self,
        link_index: usize,
        link_direction: LinkDirection,
        change: LinkChange,
    ) -> Result<(), LinkConfigError> {
        self.ports[link_index].change(link_direction, change)?;
        if let Some((bell, _)) = &self.running {
            // If it is full, the thread is going to look anyway.
            let _ = { bell }.write(&[0]);
        }
        Ok(())
    }

    /// Returns the delays of the links' work that the machine caused, in the worse of the last two
    /// seconds.
    pub fn lateness(&self) -> Lateness {
        let punctuality = self.punctuality.lock();
        let mut punctuality = punctuality.unwrap_or_else(PoisonError::into_inner);
        punctuality.lateness(self.clock.now())
    }

    /// Ends the thread and waits for it. Datagrams on the links are lost.
    ///
    /// # Panics
    /// If the thread did.
    pub fn stop(mut self) {
        if let Err(panic) = self.join() {
            std::panic::resume_unwind(panic);
        }
    }

    fn join(&mut self) -> thread::Result<()> {
        self.running.take().map_or(Ok(()), |(stop, thread)| {
            drop(stop);
            thread.join()
        })
    }
}

impl Drop for Relay {
    /// Stops the relay as [`Relay::stop`] does, but ignores a panic of the thread, which has
    /// printed its message.
    fn drop(&mut self) {
        let _ = self.join();
    }
}
