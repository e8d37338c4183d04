//! Requests to the operating system for exact times of the calling thread.

/// Priority of the thread under `SCHED_FIFO`, of 1 to 99. Chosen: above all normal threads, below
/// the kernel's threads of interrupts (50).
#[cfg(target_os = "linux")]
const PRIORITY: u8 = 20;

/// Requests exact timers, as Linux by default may wake a thread 50 µs late to wake several at a
/// time. Returns false: the thread competes with all others for the processor.
pub(crate) fn request_exact_timers() -> bool {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
    false
}

/// Requests exact timers and the policy `SCHED_FIFO`, by the program `chrt` of util-linux. Returns
/// whether the policy is granted; that takes the capability `CAP_SYS_NICE`.
#[cfg(target_os = "linux")]
pub(crate) fn request_real_time() -> bool {
    use std::process::{Command, Stdio};
    request_exact_timers();
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut chrt = Command::new("chrt");
    chrt.args(["--fifo", "--pid", &PRIORITY.to_string(), &thread]);
    chrt.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    chrt.status().is_ok_and(|status| status.success())
}
