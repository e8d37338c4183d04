//! Arrival times of a unit's packets, which are sent behind its bytes.
//!
//! A unit of a live stream leaves as one frame, but its packets arrived over some time: the sound
//! before the picture, a constant bitrate evenly. The receiver releases each packet a constant time
//! after its arrival, so it must know these times. A picture that arrived as one burst needs five
//! bytes.
//!
//! ```text
//! unit's packets (n × 188 bytes) │ runs │ lead (varint) │ number of runs (u8) │ mark (0xA7)
//! run: packets (varint), time from its first packet to its last, time to the next run's first
//! ```
//!
//! Times are varints (LEB128) of 100 µs; the last run has no time to the next. `lead` is the time
//! from the first packet to the capture time of the frame. A unit that is sent while its bytes come
//! is captured when it begins, one that is sent whole at its end. The total takes 1 to 187 bytes. A
//! frame's length modulo 188 is therefore the length of the times, and a unit without them is
//! recognised.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

use crate::mpeg_ts::PACKET_LEN;
use crate::varint;

/// Last byte of the arrival times.
const MARK: u8 = 0xA7;
/// Unit of times on the wire.
const TICK: Duration = Duration::from_micros(100);
/// Largest error of a packet's time at first; it doubles until the times fit.
const TOLERANCE: Duration = Duration::from_micros(500);
/// Maximum length of the times, so that they are shorter than a packet.
const MAX_BYTES: usize = PACKET_LEN - 1;

/// Packets that arrived at even distances, or all at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    packet_count: u64,
    /// Time from the first packet to the last.
    span: Duration,
    /// Time from the last packet to the next run's first; zero for the last run.
    pause: Duration,
}

/// Time of each packet of a unit, counted from the first one's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrivalTimes {
    runs: Vec<Run>,
    /// Time from the first packet to the unit's capture time.
    lead: Duration,
}

impl ArrivalTimes {
    /// Returns the times of a unit that was captured at `captured_at`, from the arrivals of numbers
    /// of packets, in order. The first one is no later than the capture. `None` without packets.
    pub fn new(arrivals: &[(u64, Instant)], captured_at: Instant) -> Option<Self> {
        let (_, first_at) = arrivals.iter().find(|(count, _)| *count > 0)?;
        let lead = captured_at.saturating_since(*first_at);
        Some(Self::fitting(MAX_BYTES, arrivals, lead))
    }

    /// Returns the times with as small an error as `max_bytes` allow.
    fn fitting(max_bytes: usize, arrivals: &[(u64, Instant)], lead: Duration) -> Self {
        let mut tolerance = TOLERANCE;
        loop {
            let runs = Self::runs_within(tolerance, arrivals);
            let times = ArrivalTimes { runs, lead };
            // A single run is the least.
            if times.runs.len() == 1 || times.encoded().len() <= max_bytes {
                return times;
            }
            tolerance = tolerance * 2;
        }
    }

    /// Returns the bytes of the times, with a larger error if they exceed `max_bytes`; none if not
    /// even that helps.
    pub fn encoded_within(&self, max_bytes: usize) -> Vec<u8> {
        let mut bytes = self.encoded();
        if bytes.len() > max_bytes {
            let packets = self.groups(Duration::ZERO, 1);
            let arrivals: Vec<_> = packets
                .iter()
                .map(|(count, since_first)| (*count, Instant::ZERO + *since_first))
                .collect();
            bytes = Self::fitting(max_bytes, &arrivals, self.lead).encoded();
        }
        if bytes.len() <= max_bytes {
            bytes
        } else {
            Vec::new()
        }
    }

    /// Returns as few runs as an error of `tolerance` allows.
    fn runs_within(tolerance: Duration, arrivals: &[(u64, Instant)]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut door = SwingingDoor::default();
        let mut last_at = Instant::ZERO;
        for &(count, at) in arrivals.iter().filter(|(count, _)| *count > 0) {
            // Times on the wire never go back.
            let at = at.max(last_at);
            match runs.last_mut() {
                Some(run) if door.admits(count, at, tolerance) => {
                    run.packet_count += count;
                    run.span = at.saturating_since(door.from);
                }
                last => {
                    if let Some(run) = last {
                        run.pause = at.saturating_since(door.from + run.span);
                    }
                    runs.push(Run {
                        packet_count: count,
                        ..Run::default()
                    });
                    door = SwingingDoor::opened(at, count, tolerance);
                }
            }
            last_at = at;
        }
        runs
    }

    /// Appends the times to their unit.
    pub fn append_to(&self, unit: &mut Vec<u8>) {
        unit.extend(self.encoded());
    }

    /// Takes the times off the end of a frame. `None`: it has none, and is unchanged.
    pub fn split_off(frame: &mut Vec<u8>) -> Option<Self> {
        let len = frame.len() % PACKET_LEN;
        let unit_len = frame.len() - len;
        let times = Self::decode(&frame[unit_len..])?;
        if times.packet_count() * PACKET_LEN as u64 != unit_len as u64 {
            return None;
        }
        frame.truncate(unit_len);
        Some(times)
    }

    /// Returns the number of packets.
    pub fn packet_count(&self) -> u64 {
        self.runs.iter().map(|run| run.packet_count).sum()
    }

    /// Returns the time from the first packet to the unit's capture time.
    pub fn lead(&self) -> Duration {
        self.lead
    }

    /// Returns the packets that leave together and their time after the unit's first packet: a
    /// group spans at most `span`, unless it has fewer than `min_packets` and its packets are less
    /// than two spans apart.
    pub fn groups(&self, span: Duration, min_packets: u64) -> VecDeque<(u64, Duration)> {
        let mut groups: VecDeque<(u64, Duration)> = VecDeque::new();
        let mut begins_at = Duration::ZERO;
        for run in &self.runs {
            let steps = run.packet_count.saturating_sub(1).max(1);
            for packet in 0..run.packet_count {
                let at = begins_at + run.span.mul_f64(packet as f64 / steps as f64);
                match groups.back_mut() {
                    Some((count, first_at))
                        if at.saturating_sub(*first_at) <= span
                            || *count < min_packets && at.saturating_sub(*first_at) <= span * 2 =>
                    {
                        *count += 1;
                    }
                    _ => groups.push_back((1, at)),
                }
            }
            begins_at += run.span + run.pause;
        }
        groups
    }

    fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // The next time corrects the rounding of this one.
        let mut exact = Duration::ZERO;
        let mut ticks = 0;
        let mut put = |bytes: &mut Vec<u8>, time: Duration| {
            exact += time;
            let until = (exact + TICK / 2).as_nanos() / TICK.as_nanos();
            varint::put(until - ticks, bytes);
            ticks = until;
        };
        for (index, run) in self.runs.iter().enumerate() {
            varint::put(run.packet_count, &mut bytes);
            put(&mut bytes, run.span);
            if index + 1 < self.runs.len() {
                put(&mut bytes, run.pause);
            }
        }
        varint::put(
            (self.lead + TICK / 2).as_nanos() / TICK.as_nanos(),
            &mut bytes,
        );
        bytes.extend([u8::try_from(self.runs.len()).unwrap_or(u8::MAX), MARK]);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[run_count, MARK], mut rest) = bytes.split_last_chunk::<2>().map(|(a, b)| (b, a))?
        else {
            return None;
        };
        let mut runs = Vec::with_capacity(usize::from(run_count));
        for _ in 0..run_count {
            runs.push(Run {
                packet_count: varint::take(&mut rest, MAX_VARINT_LEN)
                    .filter(|count| *count <= MAX_PACKETS)?,
                span: take_time(&mut rest)?,
                pause: take_time(&mut rest)?,
            });
        }
        // The last run has none.
        let lead = core::mem::take(&mut runs.last_mut()?.pause);
        rest.is_empty().then_some(ArrivalTimes { runs, lead })
    }
}

/// Maximum number of packets in a run: more than in the largest frame of a session.
const MAX_PACKETS: u64 = 1 << 16;
/// Longest time: units are handed over much earlier.
const MAX_TICKS: u64 = 600_000;
/// Bytes of a varint below 2^35.
const MAX_VARINT_LEN: usize = 5;

/// Slopes of the lines from a run's first packet that pass all others within the tolerance: the
/// "swinging door" of Bristol (1990).
#[derive(Clone, Copy, Debug, Default)]
struct SwingingDoor {
    from: Instant,
    /// Packets behind the first.
    packets: u64,
    /// Least and largest nanoseconds from one packet to the next.
    least: f64,
    most: f64,
}

impl SwingingDoor {
    /// Returns the door of a run whose first `count` packets arrived at `from`.
    fn opened(from: Instant, count: u64, tolerance: Duration) -> Self {
        let mut door = SwingingDoor {
            from,
            packets: 0,
            least: 0.0,
            most: f64::INFINITY,
        };
        if count > 1 {
            door.narrow(count - 1, 0.0, tolerance);
        }
        door
    }

    /// Returns whether a line through the first packet and the last of `count` more, which arrived
    /// at `at`, passes all packets. If so, they belong to the run.
    fn admits(&mut self, count: u64, at: Instant, tolerance: Duration) -> bool {
        let elapsed = at.saturating_since(self.from).as_nanos() as f64;
        let mut door = *self;
        // Simultaneous packets lie on both ends of a step.
        door.narrow(1, elapsed, tolerance);
        if count > 1 {
            door.narrow(count - 1, elapsed, tolerance);
        }
        let slope = elapsed / door.packets as f64;
        let fits = (door.least..=door.most).contains(&slope);
        if fits {
            *self = door;
        }
        fits
    }

    fn narrow(&mut self, packets: u64, elapsed: f64, tolerance: Duration) {
        self.packets += packets;
        let tolerance = tolerance.as_nanos() as f64;
        self.least = self.least.max((elapsed - tolerance) / self.packets as f64);
        self.most = self.most.min((elapsed + tolerance) / self.packets as f64);
    }
}

fn take_time(bytes: &mut &[u8]) -> Option<Duration> {
    let ticks = varint::take(bytes, MAX_VARINT_LEN).filter(|ticks| *ticks <= MAX_TICKS)?;
    Some(TICK * ticks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn us(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    /// Sends times with their unit and returns the time of each packet (µs) at the other end.
    fn carried(arrivals: &[(u64, Instant)], captured_at: Instant) -> (usize, Vec<u64>) {
        let count: u64 = arrivals.iter().map(|(count, _)| count).sum();
        let mut frame = vec![0x47; count as usize * PACKET_LEN];
        let times = ArrivalTimes::new(arrivals, captured_at).unwrap();
        times.append_to(&mut frame);
        let len = frame.len() % PACKET_LEN;
        let read = ArrivalTimes::split_off(&mut frame).unwrap();
        assert_eq!(frame.len(), count as usize * PACKET_LEN);
        let mut packets = Vec::new();
        let first_at = captured_at.saturating_sub(read.lead());
        for (count, since_first) in read.groups(Duration::ZERO, 1) {
            let at = first_at + since_first;
            packets.extend((0..count).map(|_| at.as_micros()));
        }
        (len, packets)
    }

    #[test]
    fn packets_may_come_after_the_capture() {
        let arrivals: Vec<_> = (0..30)
            .map(|number| (7, us(9_000 + number * 1_300)))
            .collect();
        let (_, packets) = carried(&arrivals, us(10_000));
        for (number, at) in (0..).zip(packets.chunks(7)) {
            assert!(
                at[0].abs_diff(9_000 + number * 1_300) <= 700,
                "{number}: {at:?}"
            );
        }
    }

    #[test]
    fn times_with_less_room_are_less_exact() {
        let arrivals: Vec<_> = (0..60_u64)
            .map(|number| (1, us(1_000 * number + number % 3 * 900)))
            .collect();
        let times = ArrivalTimes::new(&arrivals, us(0)).unwrap();
        assert!(times.encoded().len() > 60);
        for max_bytes in [7, 20, 60, 187] {
            let bytes = times.encoded_within(max_bytes);
            assert!(bytes.len() <= max_bytes, "{max_bytes}");
            let read = ArrivalTimes::decode(&bytes).unwrap();
            assert_eq!(read.packet_count(), 60);
        }
        assert_eq!(times.encoded_within(4), []);
        assert_eq!(times.encoded_within(187), times.encoded());
    }

    #[test]
    fn a_burst_takes_five_bytes() {
        let (len, packets) = carried(&[(7, us(1_000)), (5, us(1_050))], us(3_000));
        assert_eq!(len, 5);
        assert!(
            packets.iter().all(|at| at.abs_diff(1_000) <= 550),
            "{packets:?}"
        );
    }

    #[test]
    fn sound_that_came_before_its_picture_keeps_its_time() {
        let arrivals = [(2, us(0)), (2, us(21_300)), (40, us(40_000))];
        let (len, packets) = carried(&arrivals, us(42_000));
        assert!(len < 16, "{len}");
        assert_eq!(packets[..4], [0, 0, 21_300, 21_300]);
        assert_eq!(packets[4..], [40_000; 40]);
    }

    #[test]
    fn a_constant_bitrate_is_a_line_if_packets_come_alone() {
        let arrivals: Vec<_> = (0..200).map(|number| (1, us(number * 190))).collect();
        // The unit is captured when it begins.
        let (len, packets) = carried(&arrivals, us(0));
        assert!(len < 8, "{len}");
        for (number, at) in (0..).zip(&packets) {
            assert!(at.abs_diff(number * 190) <= 600, "{number}: {at}");
        }
    }

    #[test]
    fn groups_are_a_datagram_or_a_span() {
        let arrivals: Vec<_> = (0..40).map(|number| (1, us(number * 1_000))).collect();
        let times = ArrivalTimes::new(&arrivals, us(40_000)).unwrap();
        let groups = times.groups(Duration::from_millis(1), 7);
        let counts: Vec<_> = groups.iter().map(|(count, _)| *count).collect();
        assert_eq!(counts, [vec![3; 13], vec![1]].concat());
        let burst = ArrivalTimes::new(&[(40, us(0))], us(2_000)).unwrap();
        assert_eq!(burst.groups(Duration::from_millis(1), 7).len(), 1);
    }

    #[test]
    fn a_frame_without_times_is_left_alone() {
        for bytes in [vec![0x47; 188 * 3], vec![0; 200], vec![MARK; 189], vec![]] {
            let mut frame = bytes.clone();
            assert_eq!(ArrivalTimes::split_off(&mut frame), None);
            assert_eq!(frame, bytes);
        }
        assert_eq!(ArrivalTimes::new(&[(0, us(5))], us(6)), None);
    }

    proptest! {
        #[test]
        fn packets_keep_their_times_and_their_order(
            steps in prop::collection::vec((1_u64..12, 0_u64..30_000), 1..200),
            tail in 0_u64..50_000,
        ) {
            let mut now = 1_000_000;
            let arrivals: Vec<_> = steps
                .iter()
                .map(|(count, step)| {
                    now += step;
                    (*count, us(now))
                })
                .collect();
            let (len, packets) = carried(&arrivals, us(now + tail));
            prop_assert!((1..=MAX_BYTES).contains(&len));
            prop_assert!(packets.is_sorted());
            let exact = arrivals
                .iter()
                .flat_map(|(count, at)| (0..*count).map(|_| at.as_micros()));
            let worst = packets.iter().zip(exact).map(|(at, exact)| at.abs_diff(exact)).max();
            if steps.len() < 20 {
                prop_assert!(worst.unwrap() <= 700, "{:?}", worst);
            }
        }

        #[test]
        fn random_ends_never_panic(mut frame in prop::collection::vec(any::<u8>(), 0..600)) {
            let before = frame.clone();
            match ArrivalTimes::split_off(&mut frame) {
                None => prop_assert_eq!(frame, before),
                Some(times) => {
                    prop_assert_eq!(frame.len() % PACKET_LEN, 0);
                    prop_assert_eq!(times.packet_count() as usize * PACKET_LEN, frame.len());
                    times.groups(Duration::from_millis(1), 7);
                }
            }
        }
    }
}
