//! Worlds in memory, for tests: machines, networks and time, from a seed.
//!
//! Programs run in a [`World`] as they run on machines: the same senders and receivers, with a
//! [`Network`] of a [`Machine`] instead of the operating system's. No thread runs, and no time
//! passes but the world's: an hour takes as long as its events. The same seed brings the same
//! losses, delays and order of events.
//!
//! Programs are tasks. [`World::block_on`] runs one, or several by `join!`, and moves time to the
//! next event when all of them wait. Calls that block a thread, such as
//! [`Events::recv`](crate::Events::recv), would wait for ever; [`Sender::finish`] runs the world.
//!
//! ```
//! use std::time::Duration;
//!
//! use anabranch_net::testing::{Line, World};
//! use anabranch_net::{Receiver, Sender};
//! use anabranch_units::{DataRate, Importance};
//!
//! let world = World::new(7);
//! let (camera, studio) = (world.machine("camera"), world.machine("studio"));
//! let line = Line::new(DataRate::from_megabits_per_second(6), Duration::from_millis(30));
//! camera.attach("wlan0", &line.clone().with_loss(0.02));
//! camera.attach("wwan0", &line);
//! let address = studio.attach("eth0", &line).at(7_000);
//!
//! let (camera_key, studio_key) = (world.key("camera"), world.key("studio"));
//! let (camera_name, studio_name) = (camera_key.public_key(), studio_key.public_key());
//! let receiver = Receiver::builder().key(studio_key).allow(camera_name);
//! let receiver = receiver.network(studio.network()).listen(address);
//! let (_receiver, sessions) = receiver.start()?;
//! let sender = Sender::builder().key(camera_key).peer(studio_name);
//! let sender = sender.network(camera.network()).to(address).via("wlan0").via("wwan0");
//!
//! let sending = async {
//!     let (sender, _events) = sender.connect_async().await.expect("the studio answers");
//!     for number in 0..100 {
//!         sender.send(vec![number; 10_000], Importance::key_if(number == 0)).expect("sent");
//!         world.sleep(Duration::from_millis(40)).await;
//!     }
//!     sender.finish_async().await;
//! };
//! let receiving = async {
//!     let session = sessions.recv_async().await.expect("the camera comes");
//!     let mut count = 0;
//!     while session.recv_frame_async().await.is_ok() {
//!         count += 1;
//!     }
//!     count
//! };
//! let (_, count) = world.block_on(async { tokio::join!(sending, receiving) });
//! assert_eq!(count, 100);
//! # Ok::<(), anabranch_net::StartError>(())
//! ```
//!
//! A test that panics prints the world's seed. The environment variable `WORLD_LOG=1` prints every
//! datagram.
//!
//! | you want | use |
//! |---|---|
//! | rates, delays, losses, queues | [`Line`], [`Interface::change`] |
//! | interfaces that come and go | [`Interface::unplug`], [`Interface::plug`] |
//! | address translation | [`Nat`], [`Interface::rebind`], [`Interface::stick`] |
//! | firewalls | [`Interface::block_udp`], [`Interface::block_tcp`], [`Interface::refuse`] |
//! | names | [`World::set_name`], [`World::set_resolver_delay`] |
//! | IPv6 | [`Line::over_ipv6`] |
//! | slow machines | [`Machine::set_lateness`], [`Machine::set_interruptions`] |
//! | wrong clocks | [`Machine::move_clock`], [`Machine::set_clock_rate`] |
//! | processes that stop or die | [`Machine::stop`], [`Machine::kill`] |
//! | attackers | [`World::set_bystander`], [`World::stranger`], [`Machine::connect_tcp`] |
//! | bounds of memory | [`Receiver::tables`], [`Machine::socket_count`] |
//!
//! [`Network`]: crate::Network
//! [`Receiver::tables`]: crate::Receiver::tables
//! [`Sender::finish`]: crate::Sender::finish

mod bystander;
mod datagrams;
mod fabric;
mod foreign_connection;
pub(crate) mod host;
mod line;
mod machine;
mod nat;
mod packet;
pub(crate) mod pipe;
pub(crate) mod process;
mod tables;

use core::future::Future;
use core::marker::PhantomData;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use anabranch_secure::SecretKey;
use anabranch_units::{Duration, Instant, Seed};

pub use anabranch_link::{LinkChange, LinkConfig, LinkStatistics, LossModel, QueueLimit};
pub use bystander::{Bystander, Hands, Stranger};
use fabric::{Due, Fabric};
pub(crate) use fabric::{Process, Turn};
pub use foreign_connection::ForeignConnection;
pub use line::Line;
pub use machine::{Interface, Machine};
pub use nat::Nat;
pub use packet::Packet;
pub use tables::Tables;

use crate::names::ResolveError;
use crate::random;

/// Limit of a wait in the world's time: a task that waits for longer has failed.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// A world in memory. It belongs to one thread; dropping it ends its programs.
pub struct World {
    fabric: Fabric,
    seed: u64,
    /// The thread's random numbers, which come from the seed while the world lives.
    _randomness: random::Seeded,
    _single_thread: PhantomData<Rc<()>>,
}

impl World {
    /// Creates an empty world, whose random events follow from `seed`.
    pub fn new(seed: u64) -> World {
        World {
            fabric: Fabric::new(seed),
            seed,
            _randomness: random::Seeded::begin(Seed(seed).derive("programs")),
            _single_thread: PhantomData,
        }
    }

    /// Adds a machine, which has no interface yet.
    pub fn machine(&self, name: &str) -> Machine {
        Machine::add(&self.fabric, name)
    }

    /// Returns the secret key that belongs to a name, the same for the same seed.
    pub fn key(&self, name: &str) -> SecretKey {
        const BASE64URL: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut rng = self.seed("keys").derive(name).rng();
        let digits = (0..42).map(|_| char::from(BASE64URL[rng.below(64) as usize]));
        let text = format!("absec_{}A", digits.collect::<String>());
        SecretKey::from_text(&text).expect("43 digits, of which the last has two zero bits")
    }

    /// Returns a seed of a test's own choices.
    pub fn seed(&self, name: &str) -> Seed {
        Seed(self.seed).derive(name)
    }

    /// Sets the resolver's answer for a host name from now on: addresses, or the reason of the
    /// failure.
    pub fn set_name(&self, name: &str, answer: Result<Vec<IpAddr>, String>) {
        let answer = answer.map_err(ResolveError::Resolver);
        self.fabric.lock().names.insert(name.to_owned(), answer);
    }

    /// Sets the time that the resolver takes for an answer. Default: none.
    pub fn set_resolver_delay(&self, span: impl Into<Duration>) {
        self.fabric.lock().resolver_delay = span.into();
    }

    /// Puts somebody between all lines.
    pub fn set_bystander(&self, bystander: impl Bystander + 'static) {
        self.fabric.lock().bystander = Some(Box::new(bystander));
    }

    /// Lets a datagram arrive now, past all lines and with any source.
    pub fn inject(&self, packet: Packet) {
        let mut state = self.fabric.lock();
        let now = state.now;
        state.schedule(now, Due::Inject(packet));
    }

    /// Adds a stranger, which sends datagrams from a port of an address of its own.
    pub fn stranger(&self, port: u16) -> Stranger {
        Stranger::new(&self.fabric, port)
    }

    /// Returns the world's time.
    pub fn now(&self) -> Instant {
        self.fabric.lock().now
    }

    /// Returns the number of the world's events so far: steps of packets, timers and programs.
    pub fn step_count(&self) -> u64 {
        self.fabric.lock().step_count
    }

    /// Returns the number of datagrams on all lines, those in queues included.
    pub fn packets_in_flight(&self) -> usize {
        let state = self.fabric.lock();
        state.lines.iter().map(|line| line.packets.len()).sum()
    }

    /// Lets time pass.
    pub fn run_for(&self, span: impl Into<Duration>) {
        let until = self.now() + span.into();
        while self.fabric.step(until) {}
        self.fabric.lock().run_to(until);
    }

    /// Runs a task to its end, and moves time while it waits.
    ///
    /// # Panics
    /// If the task still waits after an hour of the world's time, or nothing is left that could
    /// wake it.
    pub fn block_on<T>(&self, task: impl Future<Output = T>) -> T {
        let mut task = pin!(task);
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let until = self.now() + PATIENCE;
        loop {
            if woken.0.swap(false, Ordering::Relaxed) {
                if let Poll::Ready(value) = task.as_mut().poll(&mut context) {
                    return value;
                }
            } else if !self.fabric.step(until) {
                panic!(
                    "the task waits for ever; the world's time is {:?}",
                    self.now()
                );
            }
        }
    }

    /// Waits in a task.
    pub fn sleep(&self, span: impl Into<Duration>) -> Sleep {
        Sleep {
            until: self.now() + span.into(),
            fabric: self.fabric.clone(),
        }
    }

    /// Returns a number that depends on every datagram's time, addresses and length: the same for
    /// the same seed and programs.
    pub fn trace_hash(&self) -> u64 {
        self.fabric.lock().hash
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (seed, now) = (self.seed, self.now());
            eprintln!("the world of seed {seed} ended at {now:?}; WORLD_LOG=1 prints its events");
        }
        self.fabric.kill(None);
    }
}

impl core::fmt::Debug for World {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("World")
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A wait in the world's time; see [`World::sleep`].
#[derive(Debug)]
pub struct Sleep {
    until: Instant,
    fabric: Fabric,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.fabric.lock();
        if state.now >= self.until {
            return Poll::Ready(());
        }
        state.schedule(self.until, Due::Wake(context.waker().clone()));
        Poll::Pending
    }
}
