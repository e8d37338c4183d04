//! Bounds of memory and time for each byte of input, as `docs/protocol-security.md` states them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time that every target may take, in a build with sanitizers: about 100 times the
/// slowest parser's. A parser of quadratic cost exceeds it at about ten kilobytes.
const FIXED_TIME: Duration = Duration::from_millis(500);
const NANOS_PER_BYTE: u64 = 20_000;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Counts bytes that Rust code holds from now on. An allocator calls it, as in `fuzz/src/lib.rs`;
/// without one, nothing is held. Targets have one thread.
pub fn on_allocated(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(held, Ordering::Relaxed);
}

/// Counts bytes that Rust code holds no longer.
pub fn on_freed(bytes: usize) {
    HELD.fetch_sub(bytes, Ordering::Relaxed);
}

/// Memory that an input may take.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Bytes of the state before the first byte.
    pub fixed_bytes: usize,
    /// Bytes for each byte of input.
    pub bytes_per_byte: usize,
}

/// Headers of IP, UDP and protection around a datagram of the transport: an attacker sends them.
pub const TRANSPORT: usize = 20 + 8 + 26;

/// A measurement from its beginning on.
#[derive(Debug)]
pub struct Meter {
    bound: Bound,
    held_before: usize,
    began_at: Duration,
}

impl Meter {
    /// Begins to measure.
    pub fn begin(bound: Bound) -> Meter {
        let held_before = HELD.load(Ordering::Relaxed);
        PEAK.store(held_before, Ordering::Relaxed);
        Meter {
            bound,
            held_before,
            began_at: processor_time(),
        }
    }

    /// Returns the maximum number of bytes held.
    pub fn peak_bytes(&self) -> usize {
        PEAK.load(Ordering::Relaxed)
            .saturating_sub(self.held_before)
    }

    /// Checks both bounds after `input_bytes`.
    pub fn check(&self, input_bytes: usize) {
        let (peak, bound) = (self.peak_bytes(), self.bound);
        let took = processor_time().saturating_sub(self.began_at);
        report(peak, took, input_bytes);
        let max_bytes = bound.fixed_bytes + bound.bytes_per_byte * input_bytes;
        assert!(
            peak <= max_bytes,
            "{input_bytes} bytes of input hold {peak}: {bound:?}"
        );
        let max_time = FIXED_TIME + Duration::from_nanos(NANOS_PER_BYTE * input_bytes as u64);
        assert!(
            took <= max_time,
            "{input_bytes} bytes of input take {took:?}"
        );
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Prints the worst input of a run each time that it doubles.
fn report(peak: usize, took: Duration, input_bytes: usize) {
    static WORST: [AtomicUsize; 2] = [AtomicUsize::new(4_096), AtomicUsize::new(1_000_000)];
    let now = [peak, took.as_nanos() as usize];
    for (worst, now) in WORST.iter().zip(now) {
        if now >= 2 * worst.load(Ordering::Relaxed) {
            worst.store(now, Ordering::Relaxed);
            eprintln!("{input_bytes} bytes of input hold {peak} bytes and take {took:?}");
        }
    }
}
