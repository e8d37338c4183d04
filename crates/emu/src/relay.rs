//! The handle of a running relay.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use anabranch_link::{LinkChange, LinkConfigError};
use anabranch_units::{Lateness, Punctuality};

use crate::bell;
use crate::clock::Clock;
use crate::config::{LinkDirection, RelayConfig, RelayError};
use crate::direction::RelayLinkStatistics;
#[cfg(target_os = "linux")]
use crate::packet_port::{PacketLink, PacketPort};
use crate::port::DatagramPort;
use crate::real_time::request_exact_timers;
#[cfg(target_os = "linux")]
use crate::real_time::request_real_time;
#[cfg(target_os = "linux")]
use crate::recorder::Recorder;
use crate::release_error::{Histogram, ReleaseErrors};
use crate::worker::{self, Port};

/// Emulated links, running in a thread of their own until this is stopped or dropped.
///
/// Links are identified by their index in [`RelayConfig::links`].
#[derive(Debug)]
pub struct Relay {
    ports: Arc<[Box<dyn Port>]>,
    /// Empty if the links are between interfaces.
    listen_addrs: Vec<SocketAddr>,
    clock: Clock,
    is_real_time: bool,
    punctuality: Arc<Mutex<Punctuality>>,
    /// The end of a pair of sockets: the thread ends when it is closed, and looks at the links when
    /// a byte is written to it. `None` only while dropping.
    running: Option<(bell::Stream, thread::JoinHandle<()>)>,
}

impl Relay {
    /// Opens the sockets and starts the thread. When it returns, all links take datagrams.
    ///
    /// # Errors
    /// An address that cannot be used, or a link that cannot be built; no thread remains.
    pub fn start(config: RelayConfig) -> Result<Relay, RelayError> {
        let (clock, ahead) = Clock::since(config.origin);
        let mut ports: Vec<Box<dyn Port>> = Vec::new();
        let mut listen_addrs = Vec::new();
        for link in &config.links {
            let port = DatagramPort::open(link, clock, ahead)?;
            listen_addrs.push(port.listen_addr);
            ports.push(Box::new(port));
        }
        Relay::spawn(ports, listen_addrs, clock, request_exact_timers)
    }

    /// Carries packets of IP between interfaces. When it returns, all links take packets. Links'
    /// schedules begin now.
    ///
    /// # Errors
    /// A link that cannot be built; no thread remains.
    #[cfg(target_os = "linux")]
    pub fn between_interfaces(
        links: Vec<PacketLink>,
        recorder: Option<&Recorder>,
    ) -> Result<Relay, RelayError> {
        let (clock, _) = Clock::since(None);
        let mut ports: Vec<Box<dyn Port>> = Vec::new();
        for (index, link) in links.into_iter().enumerate() {
            let recorder = recorder.map(|recorder| recorder.of_link(index));
            ports.push(Box::new(PacketPort::new(link, clock, recorder)?));
        }
        Relay::spawn(ports, Vec::new(), clock, request_real_time)
    }

    fn spawn(
        ports: Vec<Box<dyn Port>>,
        listen_addrs: Vec<SocketAddr>,
        clock: Clock,
        prepare: fn() -> bool,
    ) -> Result<Relay, RelayError> {
        let ports: Arc<[Box<dyn Port>]> = ports.into();
        let (stop, stopped) = bell::pair().map_err(RelayError::Thread)?;
        let punctuality = Arc::<Mutex<Punctuality>>::default();
        let (prepared, is_prepared) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("relay".to_owned())
            .spawn({
                let (ports, punctuality) = (Arc::clone(&ports), Arc::clone(&punctuality));
                move || {
                    let _ = prepared.send(prepare());
                    worker::run(&ports, clock, &stopped, &punctuality);
                }
            })
            .map_err(RelayError::Thread)?;
        Ok(Relay {
            ports,
            listen_addrs,
            clock,
            is_real_time: is_prepared.recv().unwrap_or(false),
            punctuality,
            running: Some((stop, thread)),
        })
    }

    /// Returns whether the thread runs before all others (`SCHED_FIFO`).
    pub fn is_real_time(&self) -> bool {
        self.is_real_time
    }

    /// Returns the release errors of all packets between interfaces.
    pub fn release_errors(&self) -> ReleaseErrors {
        let mut sum = Histogram::default();
        for port in self.ports.iter() {
            port.add_release_errors(&mut sum);
        }
        sum.summary()
    }

    /// Returns the address at which the link listens, its port never 0.
    ///
    /// # Panics
    /// If there is no such link, or it is one between interfaces.
    pub fn listen_addr(&self, link_index: usize) -> SocketAddr {
        self.listen_addrs[link_index]
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
        let locked = self.punctuality.lock();
        let mut punctuality = locked.unwrap_or_else(PoisonError::into_inner);
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
