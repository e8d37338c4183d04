//! The far command of `link`: the time until it is ready for the near one.

use core::str::FromStr;
use std::collections::BTreeSet;
use std::time::Duration as StdDuration;

use anabranch_emu::namespace::Namespace;
use anabranch_emu::{Program, ProgramError};
use anabranch_net::Clock;
use anabranch_terminal::print;
use anabranch_units::{Duration, Instant};
use anyhow::bail;

use super::command::StopSignals;

/// Time that a far command has to listen at some port. Chosen: servers in scripting languages start
/// in less, and a command that never listens delays the near one by no more.
const SOME_PORT: Duration = Duration::from_secs(2);
/// Time that it has to listen at a port of `--far-wait`.
const NAMED_PORT: Duration = Duration::from_secs(30);
/// Interval at which the ports are looked at.
const PAUSE: StdDuration = StdDuration::from_millis(20);

/// The moment at which the near command starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FarWait {
    /// A program listens at this port, of TCP or UDP.
    Port(u16),
    /// This time has passed.
    Time(Duration),
}

impl FromStr for FarWait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse() {
            return Ok(FarWait::Port(port));
        }
        let time = text.parse().map(FarWait::Time);
        time.map_err(|_| "expected a port, as in 8000, or a time, as in `500 ms`".to_owned())
    }
}

/// Waits until the far command is ready: as `wait` says, otherwise until it listens at a port that
/// had no listener `before`, or two seconds have passed.
///
/// # Errors
/// The far command has ended, or does not listen at the port of `wait`.
pub(super) fn wait(
    far: &Program,
    namespace: &Namespace,
    before: &BTreeSet<u16>,
    wait: Option<FarWait>,
    stop: &StopSignals,
) -> anyhow::Result<()> {
    let clock = Clock::start();
    let patience = match wait {
        Some(FarWait::Time(time)) => time,
        Some(FarWait::Port(_)) => NAMED_PORT,
        None => SOME_PORT,
    };
    while clock.now() < Instant::ZERO + patience && !stop.is_set() {
        let is_ready = match wait {
            Some(FarWait::Time(_)) => false,
            Some(FarWait::Port(port)) => namespace.listeners().contains(&port),
            None => namespace.listeners().difference(before).next().is_some(),
        };
        if is_ready {
            return Ok(());
        }
        if has_ended(far)? {
            return Ok(());
        }
    }
    if let (Some(FarWait::Port(port)), false) = (wait, stop.is_set()) {
        bail!("the command of --far does not listen at port {port} within {NAMED_PORT}");
    }
    Ok(())
}

/// Waits a moment, and returns whether the far command has ended well.
fn has_ended(far: &Program) -> anyhow::Result<bool> {
    let status = match far.wait_for(PAUSE) {
        Ok(None) => return Ok(false),
        Ok(Some(status)) => status,
        Err(ProgramError::Lost) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    if !status.success() {
        bail!("the command of --far has ended at once: {status}");
    }
    print::note("the command of --far has ended");
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_port_or_a_time() {
        assert_eq!("8000".parse(), Ok(FarWait::Port(8_000)));
        let time = FarWait::Time(Duration::from_millis(500));
        assert_eq!("500 ms".parse(), Ok(time));
        assert!("70000".parse::<FarWait>().unwrap_err().contains("8000"));
        assert!("soon".parse::<FarWait>().is_err());
    }
}
