//! Threads that end with their owners.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::Context;

/// A thread. Its end is requested and awaited when this is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread that ends soon after its flag is set. It is unparked then.
    ///
    /// # Errors
    /// The system has no room for another thread.
    pub(crate) fn start(
        name: &str,
        run: impl FnOnce(Arc<AtomicBool>) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let is_over = Arc::<AtomicBool>::default();
        let of_thread = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || run(of_thread));
        Ok(Worker {
            is_over,
            thread: Some(thread.context("cannot start a thread")?),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
