//! Accuracy of delivery-rate samples.

use std::collections::BTreeMap;

use anabranch_units::{DataRate, Seed};

use super::*;

/// C.
const CAPACITY: DataRate = DataRate::from_megabits_per_second(10);
/// Each way.
const DELAY: Duration = Duration::from_millis(25);

/// Data that a flow has to send.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// Enough to keep this many bytes in flight.
    Window(u64),
    /// Always something, spaced at a rate.
    Paced(DataRate),
    /// No more than this rate.
    Media(DataRate),
}

#[derive(Debug)]
enum Event {
    Wake,
    Arrived(u64),
    ReportDue,
    Reported(Vec<u8>),
}

/// A rate sample, and those that QUIC's BBR takes of the packets of the same report.
#[derive(Debug)]
struct Sampled {
    at: Instant,
    sample: RateSample,
    per_packet: Vec<DataRate>,
    /// Delivered bytes over the acknowledgement interval alone.
    ack_rate: DataRate,
}

/// A flow over a link of C with a queue that never overflows. `delayed` says when a report comes
/// that would come at a moment; no report overtakes another.
struct Flow<D> {
    pair: Pair,
    source: Source,
    delayed: D,
    events: BTreeMap<(Instant, u64), Event>,
    event_count: u64,
    link_free_at: Instant,
    samples: Vec<Sampled>,
}

impl<D: Fn(Instant) -> Instant> Flow<D> {
    fn run(source: Source, schedule: FeedbackSchedule, delayed: D, secs: u64) -> Vec<Sampled> {
        let mut flow = Flow {
            pair: Pair::new(LossDetection::PerPacket, schedule),
            source,
            delayed,
            events: BTreeMap::new(),
            event_count: 0,
            link_free_at: Instant::ZERO,
            samples: Vec::new(),
        };
        flow.on(at(0), Event::Wake);
        while let Some(((now, _), event)) = flow.events.pop_first() {
            if now > Instant::from_secs(secs) {
                break;
            }
            flow.handle(now, event);
        }
        flow.samples
    }

    fn on(&mut self, at: Instant, event: Event) {
        self.event_count += 1;
        self.events.insert((at, self.event_count), event);
    }

    fn handle(&mut self, now: Instant, event: Event) {
        match event {
            Event::Wake => self.wake(now),
            Event::Arrived(number) => {
                self.pair.arrive(now, number);
                match self.pair.arrivals.due_at() {
                    Some(at) if at > now => self.on(at, Event::ReportDue),
                    _ => self.report(now),
                }
            }
            Event::ReportDue => {
                if self.pair.arrivals.due_at().is_some_and(|at| at <= now) {
                    self.report(now);
                }
            }
            Event::Reported(report) => {
                self.pair.hear(now, &report);
                self.record_sample(now);
                if let Source::Window(_) = self.source {
                    self.wake(now);
                }
            }
        }
    }

    fn wake(&mut self, now: Instant) {
        let rate = match self.source {
            Source::Window(window) => {
                let packet_bytes = u64::from(PACKET_BYTES);
                while self.pair.recovery.bytes_in_flight() + packet_bytes <= window {
                    self.put(now);
                }
                return;
            }
            Source::Paced(rate) => rate,
            Source::Media(rate) => {
                // As a path does that has stood idle since its last packet.
                self.pair.recovery.mark_app_limited();
                rate
            }
        };
        self.put(now);
        self.on(now + rate.time_for(PACKET_BYTES.into()), Event::Wake);
    }

    fn put(&mut self, now: Instant) {
        let number = self.pair.send(now, PACKET_BYTES).packet_number;
        let transmission = CAPACITY.time_for(PACKET_BYTES.into());
        self.link_free_at = self.link_free_at.max(now) + transmission;
        self.on(self.link_free_at + DELAY, Event::Arrived(number));
    }

    fn report(&mut self, now: Instant) {
        if let Some(report) = self.pair.made_report(now) {
            let at = (self.delayed)(now + DELAY);
            self.on(at, Event::Reported(report));
        }
    }

    fn record_sample(&mut self, now: Instant) {
        let digest = &self.pair.digest;
        let (Some(sample), Some(newest)) = (digest.delivery, digest.acked.last()) else {
            return;
        };
        let ack_interval = now.saturating_since(newest.sent.delivery.delivered_at);
        let rates = digest.acked.iter().map(|packet| packet.delivery_rate(now));
        self.samples.push(Sampled {
            at: now,
            sample,
            per_packet: rates.flatten().collect(),
            ack_rate: DataRate::from_bytes_per(sample.delivered_bytes, ack_interval),
        });
    }
}

/// Delays a report to the next of moments that are 20 to 120 ms apart, at random.
fn in_bursts(at: Instant, seed: u64) -> Instant {
    let mut rng = Seed(seed).rng();
    let mut burst_at = Instant::ZERO;
    while burst_at < at {
        burst_at += Duration::from_micros(20_000 + rng.below(100_000));
    }
    burst_at
}

/// Delays a report on a way back that takes 100 ms more in every second half period. When it gets
/// shorter, all reports in flight come at once.
fn over_a_wave(at: Instant, half_period: Duration) -> Instant {
    let half = at.as_nanos() / half_period.as_nanos();
    let next_half = Instant::from_nanos((half + 1) * half_period.as_nanos());
    match half % 2 {
        0 => at,
        _ => (at + Duration::from_millis(100)).min(next_half),
    }
}

/// Returns the largest rate of a sample, as a multiple of the capacity.
fn largest(samples: &[Sampled], rate: impl Fn(&Sampled) -> DataRate) -> f64 {
    let rates = samples.iter().map(rate);
    rates.max().expect("a sample").megabits_per_second() / CAPACITY.megabits_per_second()
}

/// A sender that is spaced by C. One that sends a window as acknowledgements allow sends in bursts
/// where they come in bursts, and then neither interval is as long as the link took: 1.3 C over the
/// first of these ways back.
#[test]
fn compressed_acknowledgements_never_give_more_than_the_capacity() {
    fn of_packets(sampled: &Sampled) -> Option<DataRate> {
        sampled.per_packet.iter().copied().max()
    }

    let half = Duration::from_millis(500);
    let bursts: [&dyn Fn(Instant) -> Instant; 3] =
        [&|at| in_bursts(at, 1), &|at| in_bursts(at, 2), &|at| {
            over_a_wave(at, half)
        }];
    for schedule in [FeedbackSchedule::EVERY_PACKET, FeedbackSchedule::default()] {
        for delayed in bursts {
            let samples = Flow::run(Source::Paced(CAPACITY), schedule, delayed, 3);
            assert!(largest(&samples, |sampled| sampled.sample.delivery_rate) <= 1.0);
            assert!(largest(&samples, |sampled| sampled.sample.min_of_send_and_ack_rate) <= 1.0);
            assert!(largest(&samples, |sampled| of_packets(sampled).unwrap()) <= 1.0);
        }
        // It is the interval of sending that says so.
        let samples = Flow::run(Source::Paced(CAPACITY), schedule, bursts[2], 3);
        let by_ack_interval = largest(&samples, |sampled| sampled.ack_rate);
        assert!(by_ack_interval > 2.0, "{by_ack_interval}");
    }
}

#[test]
fn app_limited_samples_are_flagged_and_no_more_than_was_sent() {
    let rate = DataRate::from_megabits_per_second(1);
    for schedule in [FeedbackSchedule::EVERY_PACKET, FeedbackSchedule::default()] {
        let samples = Flow::run(Source::Media(rate), schedule, |at| at, 20);
        assert!(samples.len() > 1_000);
        for sampled in &samples {
            assert!(sampled.sample.is_app_limited, "{sampled:?}");
            assert!(sampled.sample.delivery_rate <= rate, "{sampled:?}");
        }
    }
}

#[test]
fn a_greedy_flow_is_estimated_within_2_percent_of_the_capacity() {
    fn is_within(rate: &DataRate, least: f64) -> bool {
        let ratio = rate.megabits_per_second() / CAPACITY.megabits_per_second();
        (least..1.02).contains(&ratio)
    }

    for source in [Source::Window(90_000), Source::Paced(CAPACITY)] {
        for schedule in [FeedbackSchedule::EVERY_PACKET, FeedbackSchedule::default()] {
            let samples = Flow::run(source, schedule, |at| at, 5);
            // The first window leaves in a burst, which the second one's samples still span.
            let settled = samples.iter().filter(|sampled| sampled.at >= at(200));
            for sampled in settled {
                let sample = &sampled.sample;
                assert!(sample.is_full_round && !sample.is_app_limited, "{sample:?}");
                assert!(is_within(&sample.delivery_rate, 0.98), "{sample:?}");
                assert!(is_within(&sample.min_of_send_and_ack_rate, 0.98));
                // Of the packets of a report, only the newest has the report's interval. The
                // samples of the others are lower by the packets reported with them.
                let (newest, others) = sampled.per_packet.split_last().expect("a packet");
                assert!(is_within(newest, 0.98), "{sampled:?}");
                assert!(
                    others.iter().all(|rate| is_within(rate, 0.9)),
                    "{sampled:?}"
                );
            }
        }
    }
}

/// Sends twenty packets 0.8 ms apart from `from` on, which are reported one by one a round trip
/// later.
fn twenty_packets(pair: &mut Pair, from: Instant) {
    let gap = CAPACITY.time_for(PACKET_BYTES.into());
    let first = pair.recovery.next_packet_number();
    for index in 0..20 {
        pair.send(from + gap * index, PACKET_BYTES);
    }
    for index in 0..20 {
        let sent_at = from + gap * index;
        pair.arrive(sent_at + DELAY, first + index);
        let report = pair.made_report(sent_at + DELAY).expect("a report");
        pair.hear(sent_at + ROUND_TRIP, &report);
    }
}

#[test]
fn after_5_s_of_idleness_one_packet_gives_its_round_trip_and_is_flagged() {
    let mut pair = Pair::new(LossDetection::PerPacket, FeedbackSchedule::EVERY_PACKET);
    twenty_packets(&mut pair, at(0));
    pair.recovery.mark_app_limited();
    let packet = pair.send(at(6_000), PACKET_BYTES);
    pair.arrive(at(6_025), packet.packet_number);
    let report = pair.made_report(at(6_025)).expect("a report");
    pair.hear(at(6_050), &report);
    let sample = pair.digest.delivery.expect("a sample");
    // 8 kbit in 50 ms, and not 21 packets in six seconds nor one in five.
    assert_eq!(sample.interval, ROUND_TRIP);
    let expected = DataRate::from_kilobits_per_second(160);
    assert_eq!(sample.delivery_rate, expected);
    assert_eq!(
        sample.min_of_send_and_ack_rate,
        DataRate::from_kilobits_per_second(160)
    );
    // So that a maximum does not take it for the path's.
    assert!(sample.is_app_limited && pair.digest.is_app_limited);
    // Packets sent after its acknowledgement are not marked as application-limited.
    twenty_packets(&mut pair, at(6_050));
    let sample = pair.digest.delivery.expect("a sample");
    assert!(!sample.is_app_limited, "{sample:?}");
}

#[test]
fn a_packet_that_arrives_late_does_not_turn_the_clock_of_sending_back() {
    let mut pair = Pair::new(LossDetection::PerPacket, FeedbackSchedule::EVERY_PACKET);
    for number in 0..11 {
        pair.send(at(number), PACKET_BYTES);
    }
    for (arrival, number) in (0..).zip(overtaken_by(5)) {
        pair.arrive(at(25 + arrival), number);
        let report = pair.made_report(at(25 + arrival)).expect("a report");
        pair.hear(at(50 + arrival), &report);
    }
    let snapshot = pair.send(at(60), PACKET_BYTES).delivery;
    assert_eq!(snapshot.first_sent_at, at(9));
    assert_eq!(snapshot.sent_bytes_at_last_acked, 10_000);
}

#[test]
fn packets_of_one_train_have_left_without_idleness_between_them() {
    let mut pair = Pair::new(LossDetection::PerPacket, FeedbackSchedule::EVERY_PACKET);
    let mut trains = Vec::new();
    for picture in 0..9 {
        // However often it is said before a packet leaves.
        for _ in 0..4 {
            pair.recovery.mark_app_limited();
        }
        for packet in 0..3 {
            let sent = pair.send(at(40 * picture + packet), PACKET_BYTES);
            trains.push(sent.delivery.train);
        }
    }
    let of_pictures: Vec<u8> = trains.chunks(3).map(|train| train[0]).collect();
    assert!(trains.chunks(3).all(|train| train == [train[0]; 3]));
    assert_eq!(of_pictures, [0, 1, 2, 3, 0, 1, 2, 3, 0]);
}
