//! Cost of a scheduler: nanoseconds per decision, which is one packet, and the same over the number
//! of paths. Frames of 1, 10 and 50 packets go over 2, 4 and 8 paths, each of which is served and
//! has room. The paths' rates change every second, by up to a third.
//!
//! Run it by `make bench`. Machines are noisy: compare ratios of one run.

use std::hint::black_box;

use anabranch_core::scheduler::{PacketView, SchedulerEvent, SendQueue};
use anabranch_core::{
    Forecast, FrameId, PathId, PathRtt, PathSet, PathView, SendReason, SessionView,
};
use anabranch_schedulers::{SCHEDULERS, by_name};
use anabranch_units::{DataRate, Duration, Importance, Instant};
use rustix::time::{ClockId, clock_gettime};

const PACKET_BYTES: u32 = 1_350;
const FRAME_INTERVAL: Duration = Duration::from_millis(40);
const PATH_COUNTS: [u8; 3] = [2, 4, 8];
/// Factors of the first path's rate from second to second; every other path's are shifted.
const RATE_FACTORS: [f64; 5] = [1.0, 0.8, 1.05, 0.7, 0.9];
const FRAMES_A_SECOND: u64 = 25;
const FRAME_PACKETS: [u16; 3] = [1, 10, 50];
/// Packets of one measurement.
const PACKETS: u64 = 100_000;
const ROUNDS: usize = 3;

fn paths(count: u8) -> Vec<PathView> {
    fn path(id: u8) -> PathView {
        let rtt = Duration::from_millis(20 + 15 * u64::from(id));
        let rate = DataRate::from_megabits_per_second(20 - u64::from(id));
        PathView {
            id: PathId(id),
            rtt: PathRtt {
                variation: Duration::from_millis(2),
                ..PathRtt::constant(rtt)
            },
            forecast: Forecast::constant(rtt, rate),
            pacing_rate: Some(rate),
            congestion_window: Some(200_000),
            bandwidth: rate,
            sendable_bytes: 200_000,
            weight: 1.0,
            ..PathView::default()
        }
    }
    (0..count).map(path).collect()
}

/// Changes the rates to those of the next second.
fn change_rates(paths: &mut [PathView], second: u64) {
    for path in paths {
        let base = DataRate::from_megabits_per_second(20 - u64::from(path.id.0));
        let factor = RATE_FACTORS[(second as usize + path.id.index()) % RATE_FACTORS.len()];
        path.bandwidth = base.mul_f64(factor);
        path.pacing_rate = Some(path.bandwidth);
    }
}

fn frame(packet_count: u16) -> Vec<PacketView> {
    (0..packet_count)
        .map(|fragment| PacketView {
            frame: FrameId(0),
            fragment,
            fragment_count: packet_count,
            reason: SendReason::New,
            importance: Importance::Reference,
            bytes: PACKET_BYTES,
            deadline: None,
            in_flight_on: PathSet::EMPTY,
            avoid: PathSet::EMPTY,
        })
        .collect()
}

fn cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns the nanoseconds of CPU time per packet, its sending and its acknowledgement included.
fn round(name: &str, path_count: u8, packet_count: u16) -> f64 {
    let mut scheduler = by_name(name).expect("a registered scheduler").build();
    let mut paths = paths(path_count);
    let mut packets = frame(packet_count);
    let session = SessionView {
        deadline: Duration::from_millis(500),
        ..SessionView::default()
    };
    let mut out = Vec::new();
    let mut now = Instant::from_secs(1);
    let frames = PACKETS / u64::from(packet_count);
    let start = cpu_nanos();
    for index in 0..frames {
        now += FRAME_INTERVAL;
        if index % FRAMES_A_SECOND == 0 {
            change_rates(&mut paths, index / FRAMES_A_SECOND);
        }
        let deadline = Some(now + session.deadline);
        for packet in &mut packets {
            (packet.frame, packet.deadline) = (FrameId(index), deadline);
        }
        out.clear();
        let queue = SendQueue::new(&packets);
        scheduler.schedule(now, &queue, &session, &paths, &mut out);
        let bytes = PACKET_BYTES;
        for assignment in black_box(&out) {
            for path in assignment.paths.iter() {
                let queued_bytes = 0;
                let sent = SchedulerEvent::Sent {
                    path,
                    bytes,
                    queued_bytes,
                };
                scheduler.on_event(now, &sent);
                scheduler.on_event(now, &SchedulerEvent::Acked { path, bytes });
            }
        }
    }
    (cpu_nanos() - start) / (frames * u64::from(packet_count)) as f64
}

fn main() {
    println!("ns per packet (ns per path and packet)");
    print!("{:<20}", "paths x packets");
    for (path_count, packet_count) in shapes() {
        print!("{:>16}", format!("{path_count} x {packet_count}"));
    }
    println!();
    for entry in SCHEDULERS {
        print!("{:<20}", entry.name);
        for (path_count, packet_count) in shapes() {
            let best = (0..ROUNDS)
                .map(|_| round(entry.name, path_count, packet_count))
                .fold(f64::MAX, f64::min);
            let per_path = best / f64::from(path_count);
            print!("{:>16}", format!("{best:.0} ({per_path:.0})"));
        }
        println!();
    }
}

fn shapes() -> impl Iterator<Item = (u8, u16)> {
    PATH_COUNTS.into_iter().flat_map(|paths| {
        FRAME_PACKETS
            .into_iter()
            .map(move |packets| (paths, packets))
    })
}
