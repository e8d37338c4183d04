//! Compares `anabranch send` and `recv` with SRT over loopback, with MPEG-TS over UDP at both ends.
//! Measures packet latency, also of ours over an emulated link, and the CPU time of both ends at a
//! gigabit. Linux only: it reads CPU times from /proc. Without SRT's programs (Debian: srt-tools)
//! it measures Anabranch alone.
//!
//! `beside_srt [latency|cpu] [RATE,RATE,… in Mbit/s] [SECONDS]`. The program `anabranch` is
//! expected beside this one's folder, or at the path in ANABRANCH. BESIDE_SRT_LOG shows the output
//! of the programs. BESIDE_SRT_SMALL_SINK gives the player's socket Linux's default buffer size.

mod film;
mod traffic;
mod transports;

use std::path::PathBuf;

use anabranch_net::Clock;
use anabranch_units::{DataRate, Duration};

use film::{Film, Shape};
use traffic::{Arrived, Sink, feed, percentile, wait};
use transports::{Running, Transport, is_srt_installed};

/// Time before the measurement, for the programs' start and the search for the bandwidth.
const WARM_UP: Duration = Duration::from_secs(2);
/// Latency of SRT in milliseconds. Latency measurements use the smaller value, beside ours with
/// `--latency min`; other measurements use SRT's default.
const LEAST_SRT_LATENCY: u32 = 5;
const SRT_LATENCY: u32 = 120;

/// Propagation delay of the emulated link.
const PROPAGATION: Duration = Duration::from_millis(20);

/// Result of one run.
struct Outcome {
    arrived: Arrived,
    sent_packets: u64,
    /// CPU seconds of sender and receiver during the measurement, and Gbit of MPEG-TS output.
    cpu_seconds: [f64; 2],
    gigabits: f64,
    /// Bytes on the wire beside the media, as a share of the media.
    overhead: Option<f64>,
}

fn run(transport: &Transport, film: Film, length: Duration) -> std::io::Result<Outcome> {
    let clock = Clock::start();
    // The programs take a second to start.
    let from = clock.now() + Duration::from_secs(1) + WARM_UP;
    let sink = Sink::start(clock, from)?;
    let running = transport.start(sink.address)?;
    let input = running.input;
    let feeder = std::thread::spawn(move || feed(film, input, &clock, WARM_UP + length));
    wait(WARM_UP);
    let before = (running.cpu_seconds(), sink.bytes());
    wait(length - Duration::from_millis(200));
    let after = (running.cpu_seconds(), sink.bytes());
    let sent_packets = feeder.join().expect("it only sends")?;
    let overhead = running.overhead();
    wait(Duration::from_millis(500));
    drop::<Running>(running);
    Ok(Outcome {
        arrived: sink.finish(),
        sent_packets,
        cpu_seconds: [0, 1].map(|end| after.0[end] - before.0[end]),
        gigabits: (after.1 - before.1) as f64 * 8.0 / 1e9,
        overhead,
    })
}

impl Outcome {
    fn missing(&self) -> String {
        let missing = self.sent_packets.saturating_sub(self.arrived.packets);
        let order = if self.arrived.is_in_order {
            ""
        } else {
            ", out of order"
        };
        match missing {
            0 => format!("all arrived{order}"),
            _ => format!("{missing} of {} packets missing{order}", self.sent_packets),
        }
    }
}

fn print_latencies(transports: &[Transport], length: Duration) -> std::io::Result<()> {
    println!(
        "Milliseconds from the sender's UDP socket to the receiver's beyond propagation, 8 Mbit/s, \
         25 pictures a second of unknown length"
    );
    println!(
        "{:34} {:21} {:>5} {:>8} {:>8} {:>8}",
        "input", "transport", "packets:", "p50", "p99", "last of a picture: p50, p99"
    );
    let shapes = [
        ("bursts, last packet stuffed", Shape::Burst, true),
        ("bursts, no packet stuffed", Shape::Burst, false),
        ("constant rate, last packet stuffed", Shape::Constant, true),
        ("constant rate, no packet stuffed", Shape::Constant, false),
    ];
    for (name, shape, is_stuffed) in shapes {
        let film = Film {
            rate: DataRate::from_megabits_per_second(8),
            shape,
            is_stuffed,
        };
        for transport in transports {
            let mut outcome = run(transport, film, length)?;
            let missing = outcome.missing();
            let overhead = outcome.overhead.map_or_else(String::new, |overhead| {
                format!("; {:.2} % overhead", overhead * 100.0)
            });
            let propagation_ms = transport.propagation().as_millis_f64();
            let Arrived {
                packet_latencies: packets,
                picture_latencies: pictures,
                ..
            } = &mut outcome.arrived;
            println!(
                "{name:34} {:21} {:12.2} {:8.2} {:8.2} {:8.2}   {missing}{overhead}",
                transport.name(),
                percentile(packets, 50) - propagation_ms,
                percentile(packets, 99) - propagation_ms,
                percentile(pictures, 50) - propagation_ms,
                percentile(pictures, 99) - propagation_ms,
            );
        }
    }
    Ok(())
}

fn print_costs(transports: &[Transport], rates: &[u64], length: Duration) -> std::io::Result<()> {
    println!("CPU seconds per Gbit of MPEG-TS at a constant rate, user and system");
    println!(
        "{:>9} {:20} {:>8} {:>8} {:>8}",
        "Mbit/s", "transport", "sender", "receiver", "both"
    );
    for &rate in rates {
        let film = Film {
            rate: DataRate::from_megabits_per_second(rate),
            shape: Shape::Constant,
            is_stuffed: true,
        };
        let mut ours = None;
        for transport in transports {
            let outcome = run(transport, film, length)?;
            let [sender, receiver] = outcome.cpu_seconds.map(|cpu| cpu / outcome.gigabits);
            let both = sender + receiver;
            let ratio = ours.map_or(String::new(), |ours: f64| {
                format!("; ours costs {:.2} of it", ours / both)
            });
            ours.get_or_insert(both);
            println!(
                "{rate:9} {:20} {sender:8.3} {receiver:8.3} {both:8.3}   {:.2} Gbit, {}{ratio}",
                transport.name(),
                outcome.gigabits,
                outcome.missing(),
            );
        }
    }
    Ok(())
}

fn encrypted_srt(latency: u32) -> Transport {
    Transport::Srt {
        latency,
        is_encrypted: true,
    }
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let what = arguments.first().map_or("all", String::as_str);
    let rates: Vec<u64> = arguments
        .get(1)
        .map_or("50,100,200,400", String::as_str)
        .split(',')
        .flat_map(str::parse)
        .collect();
    let seconds = arguments.get(2).and_then(|text| text.parse().ok());
    let length = Duration::from_secs(seconds.unwrap_or(10));
    let folder = std::env::temp_dir().join(format!("beside-srt-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let program = std::env::var_os("ANABRANCH")
        .map(PathBuf::from)
        .or_else(|| {
            Some(
                std::env::current_exe()
                    .ok()?
                    .parent()?
                    .parent()?
                    .join("anabranch"),
            )
        })
        .unwrap_or_default();
    let has_srt = is_srt_installed();
    if !has_srt {
        println!("srt-live-transmit is not installed (Debian: srt-tools): ours alone");
    }
    if what != "cpu" {
        let mut transports = vec![Transport::Anabranch {
            program: program.clone(),
            folder: folder.clone(),
            has_least_latency: true,
            propagation: None,
        }];
        if has_srt {
            transports.push(encrypted_srt(LEAST_SRT_LATENCY));
        }
        transports.push(Transport::Anabranch {
            program: program.clone(),
            folder: folder.clone(),
            has_least_latency: true,
            propagation: Some(PROPAGATION),
        });
        print_latencies(&transports, length)?;
    }
    if what != "latency" {
        let mut transports = vec![Transport::Anabranch {
            program,
            folder: folder.clone(),
            has_least_latency: false,
            propagation: None,
        }];
        if has_srt {
            transports.push(encrypted_srt(SRT_LATENCY));
        }
        print_costs(&transports, &rates, length)?;
    }
    std::fs::remove_dir_all(folder)
}
