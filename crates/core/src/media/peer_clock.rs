//! The sender's clock, read at the receiver.
//!
//! The two clocks differ by an unknown offset. The offset that is used here is the least difference
//! between a datagram's arrival and its departure: the fastest packet counts as if it had taken no
//! time. The latency of a session counts from there, as SRT's does.

use anabranch_units::{Duration, Instant};

/// Half of the time for which the least one-way delay is remembered, if the peer states when it
/// sends. A path may become longer for good; a queue that stands for twice this time counts as a
/// longer path.
const SEND_TIME_MEMORY: Duration = Duration::from_secs(3);
/// The same, if only capture times are known: a frame may have waited at its sender for long.
const CAPTURE_MEMORY: Duration = Duration::from_secs(5);
/// Time after the first packet within which the offset follows each fast packet at once: nothing
/// has been played yet.
const SETTLING: Duration = Duration::from_secs(2);
/// Divisor of the elapsed time by which the offset moves at most, if it is off by less than
/// [`SMALL_NANOS`]: 500 ppm, which no decoder notices, and five times the drift of bad clocks.
const FINE: i64 = 2_000;
/// The same for larger differences: 10 %, so that a path that is 300 ms longer or shorter is
/// followed within three seconds and the output neither stops nor skips.
const COARSE: i64 = 10;
/// Bound between fine and coarse differences, in nanoseconds.
const SMALL_NANOS: i64 = 10_000_000;

/// Difference between an instant of the receiver's clock and one of the sender's, the least one-way
/// delay included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffset(i64);

impl ClockOffset {
    /// Returns the offset by which the fastest packet that left at `sent_at` arrives at `local`.
    pub fn between(local: Instant, sent_at: Instant) -> Self {
        ClockOffset(difference(local, sent_at))
    }

    /// Returns the moment at which the fastest packet that left at `sent_at`, by the sender's
    /// clock, arrives by the receiver's clock.
    pub fn to_local(self, sent_at: Instant) -> Instant {
        let local = (sent_at.as_nanos() as i64).saturating_add(self.0);
        Instant::from_nanos(local.max(0) as u64)
    }
}

/// Least value of a sliding window, kept in two halves.
#[derive(Clone, Copy, Debug)]
struct Least {
    half: Duration,
    values: [Option<i64>; 2],
    turned_at: Instant,
}

impl Least {
    const fn over_halves_of(half: Duration) -> Self {
        Least {
            half,
            values: [None; 2],
            turned_at: Instant::ZERO,
        }
    }

    fn add(&mut self, now: Instant, value: i64) {
        if now.saturating_since(self.turned_at) >= self.half {
            self.values = [None, self.values[0]];
            self.turned_at = now;
        }
        self.values[0] = Some(self.values[0].map_or(value, |least| least.min(value)));
    }

    fn get(&self) -> Option<i64> {
        self.values.iter().flatten().min().copied()
    }
}

/// Estimates the offset of the sender's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerClock {
    /// Arrivals less departures.
    by_send_times: Least,
    /// Arrivals of fragments less the capture of their frames, for peers that state no send times.
    by_captures: Least,
    /// The offset in use and the instant of its last update.
    used: Option<(i64, Instant)>,
    first_at: Option<Instant>,
}

impl PeerClock {
    pub(super) fn new() -> Self {
        PeerClock {
            by_send_times: Least::over_halves_of(SEND_TIME_MEMORY),
            by_captures: Least::over_halves_of(CAPTURE_MEMORY),
            used: None,
            first_at: None,
        }
    }

    /// Takes the departure of a datagram that arrives `now`.
    pub(super) fn on_send_time(&mut self, now: Instant, sent_at: Instant) {
        self.by_send_times.add(now, difference(now, sent_at));
        self.follow(now);
    }

    /// Takes the capture time of a fragment that arrives `now`.
    pub(super) fn on_fragment(&mut self, now: Instant, captured_at: Instant) {
        self.by_captures.add(now, difference(now, captured_at));
        self.follow(now);
    }

    /// Returns the present offset.
    pub(super) fn offset(&self) -> ClockOffset {
        ClockOffset(self.used.map_or(0, |(used, _)| used))
    }

    /// Moves the offset towards the least difference.
    fn follow(&mut self, now: Instant) {
        let by_send_times = self.by_send_times.get();
        let Some(least) = by_send_times.or_else(|| self.by_captures.get()) else {
            return;
        };
        let first_at = *self.first_at.get_or_insert(now);
        let is_settling = now.saturating_since(first_at) <= SETTLING;
        let used = match self.used {
            // Capture times jump with each frame's wait at the sender: they are not smoothed.
            Some((used, at)) if by_send_times.is_some() && !is_settling => {
                let elapsed = now.saturating_since(at).as_nanos() as i64;
                let divisor = if (least - used).abs() < SMALL_NANOS {
                    FINE
                } else {
                    COARSE
                };
                used + (least - used).clamp(-elapsed / divisor, elapsed / divisor)
            }
            _ => least,
        };
        self.used = Some((used, now));
    }
}

/// Returns `local` less `remote`, in nanoseconds.
fn difference(local: Instant, remote: Instant) -> i64 {
    local.as_nanos().wrapping_sub(remote.as_nanos()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// Sends a datagram every 20 ms in `from..to` (ms), each of which takes `delay` ms, by a clock
    /// that is an hour ahead. Returns the delay that the offset assumes at the end, in ms.
    fn run(clock: &mut PeerClock, from: u64, to: u64, delay: impl Fn(u64) -> u64) -> f64 {
        for sent in (from..to).step_by(20) {
            clock.on_send_time(ms(sent + delay(sent)), ms(sent) + HOUR);
        }
        (clock.offset().to_local(ms(to) + HOUR) - ms(to)).as_millis_f64()
    }

    #[test]
    fn the_fastest_packet_counts_as_if_it_took_no_time() {
        let mut clock = PeerClock::new();
        let assumed = run(&mut clock, 10_000, 11_000, |sent| 30 + sent % 200);
        assert!((assumed - 30.0).abs() < 0.1, "{assumed}");
    }

    #[test]
    fn a_longer_path_is_followed_within_ten_seconds_without_a_step() {
        for (before, after) in [(20, 520), (20, 300), (300, 20)] {
            let mut clock = PeerClock::new();
            run(&mut clock, 0, 20_000, |_| before);
            let mut last = before as f64;
            for second in 20..32 {
                let assumed = run(&mut clock, second * 1_000, second * 1_000 + 1_000, |_| {
                    after
                });
                assert!((assumed - last).abs() < 101.0, "{last} to {assumed}");
                last = assumed;
            }
            assert!(
                (last - after as f64).abs() < 10.0,
                "{before} to {after}: {last}"
            );
        }
    }

    #[test]
    fn a_queue_of_three_seconds_moves_nothing() {
        let mut clock = PeerClock::new();
        run(&mut clock, 0, 20_000, |_| 20);
        let assumed = run(&mut clock, 20_000, 22_900, |_| 400);
        assert!((assumed - 20.0).abs() < 0.1, "{assumed}");
    }

    #[test]
    fn the_faster_of_two_paths_counts_as_soon_as_it_is_heard() {
        let mut clock = PeerClock::new();
        run(&mut clock, 1_000, 1_200, |_| 300);
        let assumed = run(&mut clock, 1_200, 1_240, |_| 20);
        assert!((assumed - 20.0).abs() < 0.1, "{assumed}");
    }

    #[test]
    fn a_frame_that_waited_at_its_sender_moves_nothing_while_send_times_are_stated() {
        let mut clock = PeerClock::new();
        for sent in (0..20_000).step_by(20) {
            clock.on_send_time(ms(sent + 30), ms(sent));
            clock.on_fragment(ms(sent + 430), ms(sent));
        }
        let assumed = clock.offset().to_local(ms(20_000)) - ms(20_000);
        assert_eq!(assumed.as_millis(), 30);
    }

    #[test]
    fn capture_times_serve_where_no_send_times_come() {
        let mut clock = PeerClock::new();
        clock.on_fragment(ms(6_000), ms(5_970));
        clock.on_fragment(ms(12_000), ms(11_800));
        assert_eq!(clock.offset().to_local(ms(12_000)), ms(12_030));
        clock.on_fragment(ms(18_000), ms(17_800));
        assert_eq!(clock.offset().to_local(ms(18_000)), ms(18_200));
    }

    /// Clocks that drift apart by 100 ppm: frames keep their spacing and their delay.
    #[test]
    fn drifting_clocks_are_followed_without_a_step() {
        for drift_ppm in [-100_i64, 100] {
            let mut clock = PeerClock::new();
            let mut last: Option<Instant> = None;
            for number in 0..10_000_u64 {
                let true_nanos = 1_000_000_000_000 + number * 40_000_000;
                let drift = true_nanos as i64 * drift_ppm / 1_000_000;
                let sent_at = Instant::from_nanos((true_nanos as i64 + drift) as u64);
                let now = Instant::from_nanos(true_nanos + 30_000_000);
                clock.on_send_time(now, sent_at);
                let read = clock.offset().to_local(sent_at);
                if let Some(last) = last.replace(read) {
                    let step = (read - last).abs_diff(Duration::from_millis(40));
                    assert!(step < Duration::from_micros(60), "{number}: {step}");
                }
                let error = read.saturating_since(now).max(now.saturating_since(read));
                assert!(error < Duration::from_millis(2), "{number}: {error}");
            }
        }
    }
}
