//! Work for other protocols than ours: a thread that serves sockets, or a process of a world.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use anabranch_units::Instant;
use rustix::event::{PollFd, PollFlags, poll};

use crate::clock::Clock;
#[cfg(feature = "testing")]
use crate::io::Kind;
use crate::plain_socket::PlainSocket;
use crate::surroundings::Surroundings;
use crate::system::timespec;
#[cfg(feature = "testing")]
use crate::testing::process::ProcessHandle;
#[cfg(feature = "testing")]
use crate::testing::{Process, Turn};
use crate::waker::{self, Waker, Wakeup};

/// Work around sans-IO cores. It reads neither sockets nor time while it waits.
pub trait Work: Send + 'static {
    /// Receives, and performs due steps. `is_ending` says that the owner waits for the end. Returns
    /// the time of the next step, or `None` when all is done.
    fn turn(&mut self, now: Instant, is_ending: bool) -> Option<Instant>;

    /// Returns the sockets whose datagrams are the next reason for a turn.
    fn sockets(&self) -> Vec<PlainSocket>;
}

/// Work in a thread of its own. Its end is requested and awaited when this is dropped.
#[derive(Debug)]
pub struct Worker {
    is_ending: Arc<AtomicBool>,
    waker: WorkerWaker,
    thread: Option<JoinHandle<()>>,
    #[cfg(feature = "testing")]
    process: Option<ProcessHandle>,
}

/// Brings the next turn of a worker forward.
#[derive(Clone, Debug)]
pub struct WorkerWaker(Arc<Waker>);

impl WorkerWaker {
    /// Wakes the worker.
    pub fn wake(&self) {
        self.0.wake();
    }
}

impl Worker {
    /// Starts the work.
    ///
    /// # Errors
    /// The system has no room for another thread.
    pub fn start(name: &str, surroundings: &Surroundings, work: impl Work) -> io::Result<Worker> {
        let is_ending = Arc::<AtomicBool>::default();
        let clock = surroundings.clock;
        #[cfg(feature = "testing")]
        if let Kind::World(host) = &surroundings.network.0 {
            let process = host.process();
            process.start(Box::new(WorkOfWorld {
                work,
                clock,
                is_ending: Arc::clone(&is_ending),
            }));
            return Ok(Worker {
                is_ending,
                waker: WorkerWaker(Arc::new(Waker::World(process.clone()))),
                thread: None,
                process: Some(process),
            });
        }
        let (waker, wakeup) = waker::pair()?;
        let of_thread = Arc::clone(&is_ending);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(work, clock, &of_thread, &wakeup))?;
        Ok(Worker {
            is_ending,
            waker: WorkerWaker(Arc::new(waker)),
            thread: Some(thread),
            #[cfg(feature = "testing")]
            process: None,
        })
    }

    /// Returns another handle that wakes the worker.
    pub fn waker(&self) -> WorkerWaker {
        self.waker.clone()
    }

    /// Waits until the work drops the other end of a channel.
    pub fn wait_for_drop(&self, other_end: &mpsc::Receiver<()>) {
        #[cfg(feature = "testing")]
        if let Some(process) = &self.process {
            return process.run_while(|| other_end.try_recv() == Err(mpsc::TryRecvError::Empty));
        }
        // Nothing is ever sent.
        let _ = other_end.recv();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::SeqCst);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        #[cfg(feature = "testing")]
        if let Some(process) = &self.process {
            process.join();
        }
    }
}

fn run(mut work: impl Work, clock: Clock, is_ending: &AtomicBool, wakeup: &Wakeup) {
    while let Some(next_at) = work.turn(clock.now(), is_ending.load(Ordering::SeqCst)) {
        let sockets = work.sockets();
        let mut awaited = vec![PollFd::from_borrowed_fd(wakeup.as_fd(), PollFlags::IN)];
        for socket in sockets.iter().filter_map(PlainSocket::system) {
            awaited.push(PollFd::new(socket, PollFlags::IN));
        }
        let span = timespec(next_at.saturating_since(clock.now()));
        // After an error, reads still return the waiting datagrams and do not block.
        let _ = poll(&mut awaited, Some(&span));
        if !awaited[0].revents().is_empty() {
            wakeup.clear();
        }
    }
}

/// Work as a process of a world.
#[cfg(feature = "testing")]
struct WorkOfWorld<W> {
    work: W,
    clock: Clock,
    is_ending: Arc<AtomicBool>,
}

#[cfg(feature = "testing")]
impl<W: Work> Process for WorkOfWorld<W> {
    fn turn(&mut self, number: usize) -> Turn {
        let now = self.clock.now();
        let next_at = self.work.turn(now, self.is_ending.load(Ordering::SeqCst));
        let Some(next_at) = next_at else {
            return Turn::Over;
        };
        let sockets = self.work.sockets();
        let waiting = sockets.iter().filter(|socket| socket.own(number));
        // The loop above polls sockets that have more than one turn reads.
        if waiting.count() > 0 {
            Turn::Wait(Some(now))
        } else {
            Turn::Wait(Some(next_at))
        }
    }
}
