//! Waking a thread that waits for sockets.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Wakes the thread that holds the [`Wakeup`].
#[derive(Debug)]
pub(crate) struct Waker(UnixStream);

/// Becomes readable when the [`Waker`] is used.
#[derive(Debug)]
pub(crate) struct Wakeup(UnixStream);

pub(crate) fn pair() -> io::Result<(Waker, Wakeup)> {
    let (waker, wakeup) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    wakeup.set_nonblocking(true)?;
    Ok((Waker(waker), Wakeup(wakeup)))
}

impl Waker {
    pub(crate) fn wake(&self) {
        // A full pipe wakes the thread just as well; a closed one belongs to a thread that has
        // ended.
        let _ = (&self.0).write(&[0]);
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
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
