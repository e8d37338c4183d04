//! A watch of the machine, for tests that judge times. On a machine that is too slow to keep time,
//! a late result says nothing about the program.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration as StdDuration;

use anabranch_units::{Duration, Instant, Lateness, Punctuality};

/// Interval at which the watch is due.
const TURN: StdDuration = StdDuration::from_millis(10);
/// Total lateness in a second from which a machine is too slow. The programs report theirs from the
/// same bound.
const SLOW: Duration = Duration::from_millis(100);
/// Text of the programs' reports.
const REPORT: &str = "too slow to keep time";

/// A thread that sleeps in short turns and records how late it wakes up, until this is dropped.
pub struct Watch {
    is_over: Arc<AtomicBool>,
    worst: Arc<Mutex<Lateness>>,
}

impl Watch {
    #[allow(clippy::disallowed_methods, reason = "it measures the machine")]
    pub fn start() -> Watch {
        fn since(began: std::time::Instant) -> Instant {
            Instant::ZERO + Duration::from_std(began.elapsed())
        }

        let is_over = Arc::new(AtomicBool::new(false));
        let worst = Arc::<Mutex<Lateness>>::default();
        thread::spawn({
            let (is_over, worst) = (Arc::clone(&is_over), Arc::clone(&worst));
            move || {
                let began = std::time::Instant::now();
                let mut punctuality = Punctuality::default();
                while !is_over.load(Ordering::Relaxed) {
                    let due_at = since(began) + Duration::from_std(TURN);
                    thread::sleep(TURN);
                    punctuality.on_turn(since(began), due_at);
                    let mut worst = worst.lock().unwrap_or_else(PoisonError::into_inner);
                    *worst = punctuality.lateness(since(began)).max(*worst);
                }
            }
        });
        Watch { is_over, worst }
    }

    /// Returns whether `is_so`, or it cannot be judged on this machine, which is printed.
    pub fn allows(&self, is_so: bool, what: &str, said: &[&str]) -> bool {
        is_so || !self.can_judge(what, said)
    }

    /// Returns whether times can be judged: neither this thread was late, nor a program whose
    /// output is in `said`. Otherwise prints the name of the omitted check; the test passes.
    fn can_judge(&self, what: &str, said: &[&str]) -> bool {
        let worst = *self.worst.lock().unwrap_or_else(PoisonError::into_inner);
        let is_reported = said.iter().any(|said| said.contains(REPORT));
        if worst.total < SLOW && !is_reported {
            return true;
        }
        // `eprintln` would be shown only if the test failed.
        let _ = writeln!(
            std::io::stderr(),
            "NOT JUDGED: {what}: this machine is {REPORT}; in one second this test waited {} for \
             the processor, {} at worst",
            worst.total,
            worst.worst
        );
        false
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
