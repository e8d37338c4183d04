//! A thread that waits for a future, up to a time limit.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::Duration;

use anabranch_net::Clock;

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks the thread until the future is ready; `None` if the limit comes first.
pub(crate) fn block_on<T>(future: impl Future<Output = T>, limit: Duration) -> Option<T> {
    let clock = Clock::start();
    let until = clock.now() + limit.into();
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let rest = until.saturating_since(clock.now());
        if rest.is_zero() {
            return None;
        }
        thread::park_timeout(rest.to_std());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_ends_a_wait_and_a_value_does() {
        assert_eq!(block_on(core::future::ready(7), Duration::ZERO), Some(7));
        let never = core::future::pending::<()>();
        assert_eq!(block_on(never, Duration::from_millis(1)), None);
    }
}
