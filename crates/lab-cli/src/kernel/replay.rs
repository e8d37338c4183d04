//! Recordings through our own controllers, and as events for the arithmetic in C.
//!
//! The replay has the part of a kernel, the same for both: which losses are one event, which
//! packets count, the rounds of the most packets in flight, pauses. Packets have the size of a
//! segment. CCP gets no arrival times, since TCP does not report them.

use anabranch_controllers::by_name;
use anabranch_core::control::{CongestionController, ControllerConfig, Timeout};
use anabranch_core::recovery::{
    AckedPacket, DeliverySnapshot, Feedback, PacketContent, RateSample, RttEstimator, SentPacket,
};
use anabranch_core::{PathId, PathRtt, PathState, PathView, Risk, SessionView};
use anabranch_units::{DataRate, Duration, Instant};

use super::event::{Event, Kind};
use super::networks::Case;
use super::record::{Heard, Report, What};

/// Our names of the controllers, in the order of `enum ab_controller`.
pub(super) const CONTROLLERS: [&str; 6] = ["new-reno", "lia", "olia", "balia", "compound", "ccp"];
/// Bytes of a packet.
const SEGMENT: u32 = 1_460;
/// Least retransmission timeout (RFC 6298 §2.4).
const MIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A recording's events, with our window after each one.
///
/// # Errors
/// The controller is unknown.
pub(super) fn replay(case: Case, recording: &[Heard]) -> anyhow::Result<Vec<Event>> {
    let controller = CONTROLLERS.iter().position(|name| *name == case.controller);
    let mut replay = Replay {
        controller: controller.unwrap_or_default() as u32,
        paths: Vec::new(),
        events: Vec::new(),
    };
    for index in 0..case.network.path_count() {
        replay.start(index, case.controller)?;
    }
    for heard in recording {
        match &heard.what {
            What::Sent { number, in_flight } => {
                replay.send(heard.at, heard.path, *number, *in_flight);
            }
            What::Report(report) => replay.report(heard.at, heard.path, report),
            What::Timeout { prior_in_flight } => {
                replay.time_out(heard.at, heard.path, *prior_in_flight);
            }
        }
    }
    Ok(replay.events)
}

/// State of the replay.
struct Replay {
    controller: u32,
    paths: Vec<Path>,
    events: Vec<Event>,
}

/// Path, and the state that a kernel would keep of it.
struct Path {
    controller: Box<dyn CongestionController>,
    rtt: RttEstimator,
    sent_at: Vec<Instant>,
    /// First packet that left after the last loss that reduced the window.
    recovery_ends_with: u64,
    /// Packets acknowledged since the last loss, and between the last two.
    acked: u64,
    interval: u64,
    peak: Peak,
    last_sent_at: Instant,
    delivered: u64,
    lost: u64,
    /// First packet that left after slow start (CCP).
    counted_from: Option<u64>,
}

/// Most packets in flight in this round trip and the last one.
#[derive(Default)]
struct Peak {
    ends_with: u64,
    present: u32,
    previous: u32,
}

impl Path {
    fn window(&self) -> u64 {
        self.controller.control().congestion_window.unwrap_or(0)
    }

    fn view(&self, index: usize) -> PathView {
        PathView {
            id: PathId(index as u8),
            state: PathState::Active,
            rtt: PathRtt {
                smoothed: self.rtt.has_sample().then(|| self.rtt.smoothed()),
                ..PathRtt::default()
            },
            congestion_window: Some(self.window()),
            risk: Risk {
                loss_interval_bytes: self.acked.max(self.interval) * u64::from(SEGMENT),
                ..Risk::default()
            },
            ..PathView::default()
        }
    }

    fn packet(&self, number: u64) -> SentPacket {
        SentPacket {
            packet_number: number,
            sent_at: self
                .sent_at
                .get(number as usize)
                .copied()
                .unwrap_or(Instant::ZERO),
            bytes: SEGMENT,
            bytes_in_flight: 0,
            delivery: DeliverySnapshot::default(),
            content: PacketContent::Padding,
        }
    }

    fn next(&self) -> u64 {
        self.sent_at.len() as u64
    }
}

impl Replay {
    fn start(&mut self, index: usize, name: &str) -> anyhow::Result<()> {
        let config = ControllerConfig {
            max_packet_bytes: SEGMENT,
            ..ControllerConfig::default()
        };
        self.paths.push(Path {
            controller: by_name(name)?.build(&config),
            rtt: RttEstimator::default(),
            sent_at: Vec::new(),
            recovery_ends_with: 0,
            acked: 0,
            interval: 0,
            peak: Peak::default(),
            last_sent_at: Instant::ZERO,
            delivered: 0,
            lost: 0,
            counted_from: None,
        });
        self.push(
            index,
            Event {
                kind: Kind::Start,
                ..Event::default()
            },
        );
        Ok(())
    }

    /// Adds an event with the path's window.
    fn push(&mut self, index: usize, event: Event) {
        self.events.push(Event {
            controller: self.controller,
            path: index as u32,
            window: self.paths[index].window() as f64 / f64::from(SEGMENT),
            ..event
        });
    }

    fn send(&mut self, now: Instant, index: usize, number: u64, in_flight: u32) {
        let path = &mut self.paths[index];
        let is_first = path.sent_at.is_empty();
        path.sent_at.resize(number as usize, now);
        path.sent_at.push(now);
        path.peak.present = path.peak.present.max(in_flight);
        let idle = now.saturating_since(path.last_sent_at);
        let timeout = path.rtt.probe_timeout().max(MIN_TIMEOUT);
        let is_restart = in_flight <= 1 && !is_first && idle > timeout;
        path.last_sent_at = now;
        let packet = SentPacket {
            bytes_in_flight: u64::from(in_flight) * u64::from(SEGMENT),
            ..path.packet(number)
        };
        path.controller.on_sent(now, &packet);
        if is_restart {
            let event = Event {
                kind: Kind::Idle,
                next: number as u32,
                pause: (idle.as_micros() * 1_024 / 1_000_000) as u32,
                now: micros(now),
                ..Event::default()
            };
            self.push(index, event);
        }
    }

    fn time_out(&mut self, now: Instant, index: usize, prior_in_flight: u32) {
        let path = &mut self.paths[index];
        let next = path.next();
        path.recovery_ends_with = next;
        path.counted_from.get_or_insert(next);
        let cause = Timeout::Retransmission {
            count: 1,
            prior_bytes_in_flight: u64::from(prior_in_flight) * u64::from(SEGMENT),
        };
        path.controller.on_timeout(now, cause);
        let event = Event {
            kind: Kind::Timeout,
            prior_in_flight,
            next: next as u32,
            now: micros(now),
            ..Event::default()
        };
        self.push(index, event);
    }

    fn report(&mut self, now: Instant, index: usize, report: &Report) {
        let is_probing = CONTROLLERS[self.controller as usize] == "ccp";
        let path = &mut self.paths[index];
        let next = path.next();
        let is_congestion = report
            .lost
            .last()
            .is_some_and(|newest| is_probing || *newest >= path.recovery_ends_with);
        if let Some(rtt) = report.rtt {
            path.rtt.on_sample(now, rtt);
        }
        path.acked += report.acked.len() as u64;
        if is_congestion {
            path.interval = std::mem::take(&mut path.acked);
        }
        path.peak.on_report(report, next);
        let counted_from = path.counted_from;
        if is_congestion && is_probing {
            path.counted_from.get_or_insert(next);
        } else if is_congestion {
            path.recovery_ends_with = next;
        }
        let event = Event {
            acked: count(&report.acked, Some(path.recovery_ends_with)),
            acked_all: report.acked.len() as u32,
            is_congestion,
            prior_in_flight: report.prior_in_flight,
            in_flight: report.in_flight,
            peak_in_flight: path.peak.present.max(path.peak.previous),
            is_limited: report.is_limited,
            srtt: eighths(&path.rtt),
            rtt: report.rtt.map_or(0, |rtt| rtt.as_micros() as u32),
            newest: report.acked.last().map_or(0, |number| *number as u32),
            next: next as u32,
            delivered: report.delivery.map_or(0, |(packets, _)| packets),
            interval: report
                .delivery
                .map_or(0, |(_, time)| time.as_micros() as u32),
            acked_counted: count(&report.acked, counted_from),
            lost_counted: count(&report.lost, counted_from),
            now: micros(now),
            ..Event::default()
        };
        self.hear(now, index, report);
        self.push(index, event);
    }

    /// Passes a report to our controller.
    fn hear(&mut self, now: Instant, index: usize, report: &Report) {
        fn bytes(packets: u32) -> u64 {
            u64::from(packets) * u64::from(SEGMENT)
        }

        let views: Vec<PathView> = (0..self.paths.len())
            .map(|index| self.paths[index].view(index))
            .collect();
        let path = &mut self.paths[index];
        let mut acked = Vec::new();
        for number in &report.acked {
            path.delivered += u64::from(SEGMENT);
            acked.push(AckedPacket {
                sent: path.packet(*number),
                received_at: None,
                rtt: report.rtt.map(whole_micros),
                delivered_bytes: path.delivered,
            });
        }
        let lost: Vec<SentPacket> = report
            .lost
            .iter()
            .map(|number| path.packet(*number))
            .collect();
        path.lost += lost.len() as u64 * u64::from(SEGMENT);
        let feedback = Feedback {
            path: PathId(index as u8),
            acked: &acked,
            lost: &lost,
            spurious: &[],
            rtt: &path.rtt,
            delivery: report.delivery.and_then(sample),
            prior_bytes_in_flight: bytes(report.prior_in_flight),
            bytes_in_flight: bytes(report.in_flight),
            delivered_bytes: path.delivered,
            lost_bytes: path.lost,
            is_app_limited: false,
            is_window_limited: report.is_limited,
            reported_at: now,
            ce_count: 0,
        };
        path.controller
            .on_feedback(now, &feedback, &SessionView::default(), &views);
    }
}

impl Peak {
    fn on_report(&mut self, report: &Report, next: u64) {
        let newest = report.acked.last();
        if newest.is_some_and(|newest| *newest >= self.ends_with) {
            self.ends_with = next;
            self.previous = self.present;
            self.present = report.in_flight;
        }
    }
}

/// Returns the number of packets from this one on; `None`: none counts.
fn count(numbers: &[u64], from: Option<u64>) -> u32 {
    let from = from.unwrap_or(u64::MAX);
    numbers.iter().filter(|number| **number >= from).count() as u32
}

fn sample((packets, interval): (u32, Duration)) -> Option<RateSample> {
    let interval = whole_micros(interval);
    if packets == 0 || interval.is_zero() {
        return None;
    }
    let delivered_bytes = u64::from(packets) * u64::from(SEGMENT);
    let rate = DataRate::from_bytes_per(delivered_bytes, interval);
    Some(RateSample {
        delivery_rate: rate,
        min_of_send_and_ack_rate: rate,
        delivered_bytes,
        prior_delivered_bytes: 0,
        interval,
        is_full_round: true,
        is_app_limited: false,
        is_first_flight: false,
    })
}

/// Returns the smoothed round-trip time as the kernel has it: in eighths of a microsecond.
fn eighths(rtt: &RttEstimator) -> u32 {
    if rtt.has_sample() {
        (rtt.smoothed().as_nanos() * 8 / 1_000) as u32
    } else {
        0
    }
}

/// Returns a time as a kernel measures it.
fn whole_micros(time: Duration) -> Duration {
    Duration::from_micros(time.as_micros())
}

fn micros(at: Instant) -> u64 {
    (at - Instant::ZERO).as_micros()
}
