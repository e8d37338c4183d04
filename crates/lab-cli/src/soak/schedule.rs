//! The events of a soak: changes of paths and programs, and their times. A seed has one schedule.

use core::fmt;

use anabranch_units::{DataRate, Duration, Instant, Rng, Seed};

/// Number of paths.
pub(super) const PATH_COUNT: usize = 4;
/// Average time from one event to the next.
const MEAN_INTERVAL: Duration = Duration::from_millis(700);
/// Addresses that a path's interface may have: the last byte of each.
const HOSTS: [u8; 4] = [2, 3, 4, 5];
/// MTUs of interfaces. 1,280 is the least of IPv6.
const MTUS: [u32; 4] = [1_280, 1_350, 1_420, 1_500];

/// A change of a path, or the end of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    /// The path loses all packets.
    Down { path: usize },
    /// It carries packets again.
    Up { path: usize },
    /// Another rate of both directions.
    Rate { path: usize, rate: DataRate },
    /// Another delay, one way.
    Delay { path: usize, delay: Duration },
    /// Another probability of a loss.
    Loss { path: usize, probability: f64 },
    /// Another MTU of the interfaces.
    Mtu { path: usize, mtu: u32 },
    /// Another address of the near interface, in place of the present one.
    Address { path: usize, host: u8 },
    /// The near interface goes down and comes up again: sockets at it must be bound again.
    Rebind { path: usize },
    /// The sender is killed.
    KillSender,
    /// The sender starts again.
    StartSender,
    /// The receiver is killed.
    KillReceiver,
    /// The receiver starts again.
    StartReceiver,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Down { path } => write!(f, "path{path} down"),
            Event::Up { path } => write!(f, "path{path} up"),
            Event::Rate { path, rate } => write!(f, "path{path} rate {rate}"),
            Event::Delay { path, delay } => write!(f, "path{path} delay {delay}"),
            Event::Loss { path, probability } => {
                write!(f, "path{path} loss {:.1} %", probability * 100.0)
            }
            Event::Mtu { path, mtu } => write!(f, "path{path} MTU {mtu}"),
            Event::Address { path, host } => write!(f, "path{path} address 10.27.{path}.{host}"),
            Event::Rebind { path } => write!(f, "path{path} interface down and up"),
            Event::KillSender => write!(f, "sender killed"),
            Event::StartSender => write!(f, "sender started"),
            Event::KillReceiver => write!(f, "receiver killed"),
            Event::StartReceiver => write!(f, "receiver started"),
        }
    }
}

/// An event and its time since the stream's start.
pub(super) type Scheduled = (Instant, Event);

/// Returns the events of a seed before `end`, and those that heal all paths and programs at `end`.
pub(super) fn schedule(seed: Seed, end: Instant) -> Vec<Scheduled> {
    let mut rng = seed.derive("soak").rng();
    let mut events: Vec<Scheduled> = Vec::new();
    let mut now = Instant::ZERO;
    // The times until which ends and paths are broken: nothing breaks twice.
    let mut broken_until = [Instant::ZERO; PATH_COUNT];
    let mut ends_until = [Instant::ZERO; 2];
    loop {
        now += MEAN_INTERVAL.mul_f64(-libm::log(1.0 - rng.next_f64()));
        if now >= end {
            break;
        }
        let path = rng.below(PATH_COUNT as u64) as usize;
        match rng.below(60) {
            0..=14 if broken_until[path] <= now => {
                let for_time = between(&mut rng, 200, 5_000);
                broken_until[path] = now + for_time;
                events.push((now, Event::Down { path }));
                events.push((now + for_time, Event::Up { path }));
            }
            15 => kill(&mut rng, now, &mut ends_until[0], true, &mut events),
            16 => kill(&mut rng, now, &mut ends_until[1], false, &mut events),
            _ => events.push((now, change(&mut rng, path))),
        }
    }
    events.retain(|(at, _)| *at < end);
    // Of the same time, in the order in which they were drawn.
    events.sort_by_key(|(at, _)| *at);
    events.extend(healing(end));
    events
}

/// Kills an end that runs, and starts it again.
fn kill(
    rng: &mut Rng,
    now: Instant,
    until: &mut Instant,
    is_sender: bool,
    events: &mut Vec<Scheduled>,
) {
    if *until > now {
        return;
    }
    let (kill, start) = if is_sender {
        (Event::KillSender, Event::StartSender)
    } else {
        (Event::KillReceiver, Event::StartReceiver)
    };
    let pause = between(rng, 100, 3_000);
    // It has some seconds before the next kill.
    *until = now + pause + Duration::from_secs(5);
    events.push((now, kill));
    events.push((now + pause, start));
}

fn change(rng: &mut Rng, path: usize) -> Event {
    match rng.below(6) {
        0 => Event::Rate {
            path,
            rate: DataRate::from_kilobits_per_second(300 + rng.below(5_700)),
        },
        1 => Event::Delay {
            path,
            delay: between(rng, 25, 200),
        },
        2 => Event::Loss {
            path,
            probability: rng.next_f64() * 0.1,
        },
        3 => Event::Mtu {
            path,
            mtu: MTUS[rng.below(MTUS.len() as u64) as usize],
        },
        4 => Event::Address {
            path,
            host: HOSTS[rng.below(HOSTS.len() as u64) as usize],
        },
        _ => Event::Rebind { path },
    }
}

fn between(rng: &mut Rng, least_ms: u64, most_ms: u64) -> Duration {
    Duration::from_millis(least_ms + rng.below(most_ms - least_ms))
}

/// Returns the events after which every path carries the stream.
fn healing(at: Instant) -> Vec<Scheduled> {
    let mut events = vec![(at, Event::StartReceiver), (at, Event::StartSender)];
    for path in 0..PATH_COUNT {
        let rate = DataRate::from_megabits_per_second(6);
        let delay = Duration::from_millis(30);
        events.extend([
            (at, Event::Up { path }),
            (at, Event::Rate { path, rate }),
            (at, Event::Delay { path, delay }),
            (
                at,
                Event::Loss {
                    path,
                    probability: 0.0,
                },
            ),
        ]);
    }
    events
}

/// Returns the line of an event in the log.
pub(super) fn line((at, event): &Scheduled) -> String {
    format!("{:>9.3} s  {event}", (*at - Instant::ZERO).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_schedule() {
        let end = Instant::from_secs(600);
        let first = schedule(Seed(1), end);
        assert_eq!(first, schedule(Seed(1), end));
        assert_ne!(first, schedule(Seed(2), end));
        assert!(first.is_sorted_by_key(|(at, _)| *at));
        let texts: Vec<String> = first.iter().map(line).collect();
        for word in [
            "down",
            " up",
            "rate",
            "delay",
            "loss",
            "MTU",
            "address",
            "interface",
        ] {
            for path in 0..PATH_COUNT {
                let of_path =
                    |text: &&String| text.contains(&format!("path{path} ")) && text.contains(word);
                assert!(texts.iter().any(|text| of_path(&text)), "{word} of {path}");
            }
        }
    }

    #[test]
    fn the_minute_of_test_real_kills_both_ends() {
        // The first one: scripts/real-tests/soak.sh has it.
        assert_eq!(
            (1..100).find(|seed| {
                let events = schedule(Seed(*seed), Instant::from_secs(60));
                [Event::KillSender, Event::KillReceiver]
                    .iter()
                    .all(|wanted| events.iter().any(|(_, event)| event == wanted))
            }),
            Some(4)
        );
    }

    #[test]
    fn everything_that_breaks_is_whole_again_at_the_end() {
        for seed in 1..20 {
            let end = Instant::from_secs(60);
            let (mut is_down, mut runs) = ([false; PATH_COUNT], [true; 2]);
            for (_, event) in schedule(Seed(seed), end) {
                match event {
                    Event::Down { path } => {
                        assert!(!is_down[path]);
                        is_down[path] = true;
                    }
                    Event::Up { path } => is_down[path] = false,
                    Event::KillSender => assert!(std::mem::replace(&mut runs[0], false)),
                    Event::StartSender => runs[0] = true,
                    Event::KillReceiver => assert!(std::mem::replace(&mut runs[1], false)),
                    Event::StartReceiver => runs[1] = true,
                    _ => {}
                }
            }
            assert_eq!((is_down, runs), ([false; PATH_COUNT], [true; 2]));
        }
    }
}
