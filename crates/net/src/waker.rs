//! Waking a thread that waits for sockets, or a process of a world.

use std::io::{self, ErrorKind, Read, Write};

use crate::system::{AsFd, BorrowedFd, LocalStream, stream_pair};
#[cfg(feature = "testing")]
use crate::testing::process::ProcessHandle;

/// Wakes the thread that holds the [`Wakeup`].
#[derive(Debug)]
pub(crate) enum Waker {
    Thread(LocalStream),
    /// A process of a world.
    #[cfg(feature = "testing")]
    World(ProcessHandle),
}

/// Becomes readable when the [`Waker`] is used.
#[derive(Debug)]
pub(crate) struct Wakeup(LocalStream);

pub(crate) fn pair() -> io::Result<(Waker, Wakeup)> {
    let (waker, wakeup) = stream_pair()?;
    waker.set_nonblocking(true)?;
    wakeup.set_nonblocking(true)?;
    Ok((Waker::Thread(waker), Wakeup(wakeup)))
}

impl Waker {
    pub(crate) fn wake(&self) {
        match self {
            // A full pipe wakes the thread just as well; a closed one belongs to a thread that has
            // ended.
            Waker::Thread(pipe) => {
                let _ = (&*pipe).write(&[0]);
            }
            #[cfg(feature = "testing")]
            Waker::World(process) => process.wake(),
        }
    }
}

impl Wakeup {
    /// Makes the next wait last until the next wake-up.
    pub(crate) fn clear(&self) {
        let mut scratch = [0; 64];
        loop {
            match (&self.0).read(&mut scratch) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Returns the socket to wait for.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
