//! Cost of a controller: nanoseconds per feedback report of one packet, with all calls that a path
//! makes for it (packet sent, report, parameters).
//!
//! Run it by `make bench`. Machines are noisy: compare ratios of one run.

use std::hint::black_box;

use anabranch_controllers::{CONTROLLERS, by_name};
use anabranch_core::control::{ControllerConfig, Timeout};
use anabranch_core::recovery::{
    AckedPacket, DeliverySnapshot, Feedback, PacketContent, RateSample, RttEstimator, SentPacket,
};
use anabranch_core::{PathId, SessionView};
use anabranch_units::{DataRate, Duration, Instant};
use rustix::time::{ClockId, clock_gettime};

const PACKET_BYTES: u32 = 1_250;
const RATE: DataRate = DataRate::from_megabits_per_second(10);
/// Transmission time of a packet at that rate.
const GAP: Duration = Duration::from_millis(1);
const REPORTS: u64 = 200_000;
const ROUNDS: usize = 3;
/// Packets per lost packet.
const LOST_EVERY: u64 = 1_000;
/// The round-trip time swings by this much over a second, so that delay-based controllers react.
const MAX_QUEUING: Duration = Duration::from_millis(20);
const BASE_RTT: Duration = Duration::from_millis(50);

/// A path at its rate, whose queue fills and empties every second.
struct Path {
    now: Instant,
    rtt: RttEstimator,
    next_packet_number: u64,
    delivered_bytes: u64,
    lost_bytes: u64,
}

impl Path {
    fn queuing(&self) -> Duration {
        let phase = self.next_packet_number % 1_000;
        MAX_QUEUING * phase.min(1_000 - phase) / 500
    }

    fn send(&mut self, rtt: Duration) -> SentPacket {
        let in_flight = RATE.bytes_in(rtt);
        let sent_at = self.now.saturating_sub(rtt);
        self.next_packet_number += 1;
        SentPacket {
            packet_number: self.next_packet_number - 1,
            sent_at,
            bytes: PACKET_BYTES,
            bytes_in_flight: in_flight,
            delivery: DeliverySnapshot {
                delivered_bytes: self.delivered_bytes.saturating_sub(in_flight),
                delivered_at: sent_at,
                first_sent_at: sent_at.saturating_sub(rtt),
                sent_bytes: self.delivered_bytes,
                sent_bytes_at_last_acked: self.delivered_bytes.saturating_sub(in_flight),
                lost_bytes: self.lost_bytes,
                is_app_limited: false,
                train: 0,
            },
            content: PacketContent::Padding,
        }
    }

    fn feedback<'a>(
        &'a self,
        acked: &'a [AckedPacket],
        lost: &'a [SentPacket],
        rtt: Duration,
    ) -> Feedback<'a> {
        let in_flight = RATE.bytes_in(rtt);
        Feedback {
            path: PathId(0),
            acked,
            lost,
            spurious: &[],
            rtt: &self.rtt,
            delivery: acked.last().map(|newest| RateSample {
                delivery_rate: RATE,
                min_of_send_and_ack_rate: RATE,
                delivered_bytes: in_flight,
                prior_delivered_bytes: newest.sent.delivery.delivered_bytes,
                interval: rtt,
                is_full_round: true,
                is_first_flight: false,
                is_app_limited: false,
            }),
            prior_bytes_in_flight: in_flight,
            bytes_in_flight: in_flight - u64::from(PACKET_BYTES),
            delivered_bytes: self.delivered_bytes,
            lost_bytes: self.lost_bytes,
            is_app_limited: false,
            is_window_limited: true,
            reported_at: self.now,
            ce_count: 0,
        }
    }
}

fn cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns the nanoseconds of CPU time per report.
fn round(name: &str) -> f64 {
    let config = ControllerConfig {
        max_packet_bytes: PACKET_BYTES,
        ..ControllerConfig::default()
    };
    let mut controller = by_name(name)
        .expect("a registered controller")
        .build(&config);
    let mut path = Path {
        now: Instant::from_secs(1),
        rtt: RttEstimator::default(),
        next_packet_number: 0,
        delivered_bytes: 0,
        lost_bytes: 0,
    };
    let session = SessionView::default();
    let start = cpu_nanos();
    for _ in 0..REPORTS {
        path.now += GAP;
        let rtt = BASE_RTT + path.queuing();
        let packet = path.send(rtt);
        controller.on_sent(packet.sent_at, &packet);
        let is_lost = packet.packet_number % LOST_EVERY == LOST_EVERY - 1;
        if is_lost {
            path.lost_bytes += u64::from(PACKET_BYTES);
        } else {
            path.rtt.on_sample(path.now, rtt);
            path.delivered_bytes += u64::from(PACKET_BYTES);
        }
        let acked = [AckedPacket {
            sent: packet,
            received_at: Some(packet.sent_at + rtt / 2),
            rtt: Some(rtt),
            delivered_bytes: path.delivered_bytes,
        }];
        let lost = [packet];
        let (acked, lost) = if is_lost {
            (&[][..], &lost[..])
        } else {
            (&acked[..], &[][..])
        };
        controller.on_feedback(path.now, &path.feedback(acked, lost, rtt), &session, &[]);
        if controller.next_timeout().is_some_and(|at| at <= path.now) {
            controller.on_timeout(path.now, Timeout::Own);
        }
        black_box(controller.control());
    }
    (cpu_nanos() - start) / REPORTS as f64
}

fn main() {
    for entry in CONTROLLERS {
        let best = (0..ROUNDS)
            .map(|_| round(entry.name))
            .fold(f64::MAX, f64::min);
        println!("{:<20} {best:>8.1} ns per report", entry.name);
    }
}
