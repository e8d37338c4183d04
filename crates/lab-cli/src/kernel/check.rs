//! Our windows beside the kernel's, over recorded sequences.

use anabranch_terminal::exit::Failure;
use anabranch_terminal::print;

use super::arithmetic::{InKernel, compile, natively};
use super::event::Event;
use super::networks::{CASES, Case};
use super::{needs, programs, record, replay};

/// Most packets by which windows may differ at once: an acknowledgement at which one of them grows
/// before the other.
const MAX_DIFFERENCE: f64 = 1.01;
/// Difference of windows in packets that rounding explains at any time: bytes of a packet in ours,
/// 2^-20 of a packet in the kernel's.
const ROUNDING: f64 = 0.02;
/// Part of a sequence's events at which windows may differ by more than rounding.
const MAX_SHARE: f64 = 0.01;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Compile the same arithmetic for this machine, instead of for the kernel. This needs neither
    /// root nor BPF, but a compiler of C.
    #[arg(long)]
    native: bool,
}

/// Differences of both windows after each event, in packets.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Differences {
    event_count: usize,
    largest: f64,
    /// Number of events at which they differ by more than rounding.
    apart_count: usize,
}

impl Differences {
    fn of(events: &[Event], windows: &[f64]) -> Differences {
        let mut differences = Differences {
            event_count: events.len(),
            largest: 0.0,
            apart_count: events.len().abs_diff(windows.len()),
        };
        for (event, window) in events.iter().zip(windows) {
            let difference = (event.window - window).abs();
            differences.largest = differences.largest.max(difference);
            differences.apart_count += usize::from(difference > ROUNDING);
        }
        differences
    }

    fn are_equal(&self) -> bool {
        self.event_count > 0
            && self.largest <= MAX_DIFFERENCE
            && self.apart_count as f64 <= MAX_SHARE * self.event_count as f64
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if !arguments.native {
        needs::require()?;
    }
    let folder = programs::folder()?;
    let in_kernel = if arguments.native {
        compile(folder.path())?;
        None
    } else {
        Some(InKernel::load(folder.path())?)
    };
    print::text(format!(
        "{:<10} {:<26} {:>7} {:>9} {:>9}  verdict\n",
        "controller", "network", "events", "largest", "apart"
    ))?;
    let mut failed = 0;
    for case in CASES {
        let events = events_of(case)?;
        let windows = match &in_kernel {
            Some(kernel) => kernel.run(folder.path(), &events)?,
            None => natively(folder.path(), &events)?,
        };
        let differences = Differences::of(&events, &windows);
        failed += u32::from(!differences.are_equal());
        print::text(line(case, &differences))?;
    }
    if failed > 0 {
        let count = CASES.len();
        let failure = format!("the windows of {failed} of {count} sequences differ");
        return Err(Failure::Unmet(failure).into());
    }
    Ok(())
}

fn events_of(case: Case) -> anyhow::Result<Vec<Event>> {
    replay::replay(case, &record::record(case)?)
}

fn line(case: Case, differences: &Differences) -> String {
    let verdict = if differences.are_equal() {
        "equal"
    } else {
        "differ"
    };
    format!(
        "{:<10} {:<26} {:>7} {:>9.4} {:>9}  {verdict}\n",
        case.controller,
        case.network.name,
        differences.event_count,
        differences.largest,
        differences.apart_count,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arithmetic_in_c_has_our_windows_on_20_recorded_sequences() {
        let folder = programs::folder().unwrap();
        compile(folder.path()).unwrap();
        for case in CASES {
            let events = events_of(case).unwrap();
            let windows = natively(folder.path(), &events).unwrap();
            let differences = Differences::of(&events, &windows);
            assert!(events.len() > 2_000, "{case:?}: {}", events.len());
            assert!(differences.are_equal(), "{case:?}: {differences:?}");
        }
    }

    /// The windows of New Reno are not those of a law, nor is one law's another's.
    #[test]
    fn other_laws_differ_on_the_same_sequence() {
        let folder = programs::folder().unwrap();
        compile(folder.path()).unwrap();
        for (case, others) in [(CASES[3], [0, 2, 3]), (CASES[7], [0, 1, 3])] {
            let mut events = events_of(case).unwrap();
            for other in others {
                for event in &mut events {
                    event.controller = other;
                }
                let windows = natively(folder.path(), &events).unwrap();
                let differences = Differences::of(&events, &windows);
                assert!(!differences.are_equal(), "{case:?} by {other}");
            }
        }
    }

    #[test]
    fn windows_are_equal_within_an_acknowledgement() {
        fn of(difference: f64, count: usize) -> bool {
            let event = Event {
                window: 20.0,
                ..Event::default()
            };
            let mut windows = vec![20.0; 1_000];
            windows[..count].fill(20.0 + difference);
            Differences::of(&[event; 1_000], &windows).are_equal()
        }
        assert!(of(0.01, 1_000) && of(1.0, 10));
        assert!(!of(1.0, 11) && !of(1.1, 1));
        assert!(!Differences::of(&[], &[]).are_equal());
        assert!(!Differences::of(&[Event::default(); 10], &[]).are_equal());
    }
}
