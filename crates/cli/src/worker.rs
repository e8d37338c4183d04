//! A thread whose end the main thread waits for in turns, as a program that is alive.

use core::convert::Infallible;
use core::ops::ControlFlow;
use core::time::Duration as StdDuration;
use std::io;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

use anabranch_net::Clock;
use anabranch_observe::service;
use anabranch_terminal::turns::{Turns, Wake};

/// A thread with a channel that closes when the thread ends.
#[derive(Debug)]
pub(crate) struct Worker {
    thread: JoinHandle<()>,
    running: mpsc::Receiver<Infallible>,
}

impl Worker {
    /// Starts a thread of this name.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (is_running, running) = mpsc::channel();
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            // A panic drops it too.
            let _is_running = is_running;
            work();
        })?;
        Ok(Worker { thread, running })
    }

    /// Waits for the end of the thread. Meanwhile the service manager gets its signs of life. A
    /// panic of the thread continues in the caller.
    pub(crate) fn join(self, clock: &Clock) {
        let Worker { thread, running } = self;
        Ending { running, clock }.run_turns();
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// The wait for the end of a thread.
struct Ending<'a> {
    running: mpsc::Receiver<Infallible>,
    clock: &'a Clock,
}

impl Turns for Ending<'_> {
    type Event = Infallible;
    type Outcome = ();

    fn wait(&mut self, patience: StdDuration) -> Wake<Infallible> {
        self.running.recv_timeout(patience).into()
    }

    fn turn(&mut self, wake: Wake<Infallible>) -> ControlFlow<()> {
        service::turn(self.clock.now(), true);
        match wake {
            Wake::Closed => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_join_lasts_until_the_work_is_done() {
        let (done, results) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let worker = Worker::spawn("work", move || {
            let _ = may_go.recv();
            done.send(7).unwrap();
        });
        drop(go);
        worker.unwrap().join(&Clock::start());
        assert_eq!(results.try_recv(), Ok(7));
    }

    #[test]
    fn a_panic_goes_on_in_the_thread_that_joins() {
        let worker = Worker::spawn("panics", || std::panic::resume_unwind(Box::new(7)));
        let joined = catch_unwind(AssertUnwindSafe(|| worker.unwrap().join(&Clock::start())));
        assert_eq!(joined.unwrap_err().downcast_ref(), Some(&7));
    }
}
