//! `anabranch-lab soak`: sender and receiver over four paths that break in all ways at once.

mod ends;
mod paths;
mod schedule;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anabranch_emu::namespace::obtain_rights;
use anabranch_emu::{Damage, End};
use anabranch_link::{LinkChange, LossModel};
use anabranch_terminal::exit::Failure;
use anabranch_terminal::print;
use anabranch_units::{ByteCount, DataRate, Duration, Instant, Seed};
use anyhow::{Context, bail, ensure};

use crate::over_link::anabranch;
use crate::over_link::links::{Links, LinksConfig, MTU, wait_until};
use crate::over_link::sink::{Sink, SinkSocket};
use crate::over_link::source::Source;
use crate::over_link::stream::{PACKET_BYTES, StreamConfig};
use ends::SupervisedProgram;
use paths::Paths;
use schedule::{Event, PATH_COUNT, Scheduled};

/// Time from the links' start to the first event.
const PREPARATION: Duration = Duration::from_secs(3);
/// Time from the last event to the part of the end in which the stream must be whole.
const RECOVERY: Duration = Duration::from_secs(10);
/// That part.
const WHOLE_END: Duration = Duration::from_secs(5);
/// Share of the stream that must come in it. Chosen: packets on the way are a hundredth.
const LEAST_SHARE: f64 = 0.95;
/// Interval of the checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of the reports of progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);
/// Memory by which a program may grow from the first half of the time to the second one. Chosen:
/// buffers of the latency at the links' rates are a hundredth.
const MAX_GROWTH: ByteCount = ByteCount(16_000_000);
const INPUT_PORT: u16 = 7_000;
const OUTPUT_PORT: u16 = 7_100;
const PORT: u16 = 5_000;
const STREAM: StreamConfig = StreamConfig {
    bitrate: DataRate::from_megabits_per_second(2),
    frames_per_second: 25,
    key_interval: 50,
    key_ratio: 3.0,
};
const DAMAGE: Damage = Damage {
    duplicate: 0.02,
    corrupt: 0.02,
};

/// Let the sender and the receiver run over four paths that break in all ways at once.
///
/// The paths flap, lose, duplicate, corrupt and reorder packets, and change their rate, delay, MTU
/// and address. The ends are killed and started again. No end may crash, grow, or hand out a wrong
/// byte, and the stream must be whole again at the end.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The events and their times follow from the seed; they are printed at the end. After a failure, the
same seed and duration repeat them. Wrong bytes pass the checksums of IP and UDP, so that the
programs must find them. It needs Linux, and root to keep time.

  anabranch-lab soak --seed 7 --duration '1 h'
  anabranch-lab soak --keep-ends --duration '10 min'      # shows growth over the whole time")]
pub(crate) struct Arguments {
    /// Seed of the events and of the links.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Time of the events; the stream goes on for 15 s.
    #[arg(long, value_name = "TIME", default_value = "1 min")]
    duration: Duration,
    /// Do not kill the ends.
    #[arg(long)]
    keep_ends: bool,
    /// The most memory that an end may hold.
    #[arg(long, value_name = "BYTES", default_value = "100 MB")]
    max_memory: ByteCount,
    /// The program `anabranch` [default: the one beside this program].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let program = anabranch::program(arguments.program.as_deref())?;
    // Before any thread.
    obtain_rights()?;
    let seed = Seed(arguments.seed);
    let mut events = schedule::schedule(seed, Instant::ZERO + arguments.duration);
    if arguments.keep_ends {
        events.retain(|(_, event)| !matches!(event, Event::KillSender | Event::KillReceiver));
    }
    let folder = tempfile::tempdir().context("cannot make a folder for keys and logs")?;
    let mut happened = 0;
    let outcome = soak(arguments, &program, folder.path(), &events, &mut happened);
    let lines = events[..happened].iter().map(schedule::line);
    print::line(format_args!("events of seed {}:", seed.0))?;
    print::text(lines.map(|line| line + "\n").collect::<String>())?;
    match outcome {
        Ok(summary) => print::line(summary),
        Err(error) => {
            let kept = folder.keep();
            let keeps = if arguments.keep_ends {
                " --keep-ends"
            } else {
                ""
            };
            Err(Failure::Unmet(format!(
                "{error:#}; repeat it with `anabranch-lab soak --seed {} --duration '{}'{keeps}`; \
                 logs are in {}",
                seed.0,
                arguments.duration,
                kept.display()
            ))
            .into())
        }
    }
}

/// Runs the events. Returns a summary.
///
/// # Errors
/// An invariant that was broken, or the machine lets no such network be made.
fn soak(
    arguments: &Arguments,
    program: &Path,
    folder: &Path,
    events: &[Scheduled],
    happened: &mut usize,
) -> anyhow::Result<String> {
    let routes = paths::routes();
    let config = LinksConfig {
        routes: &routes,
        seed: Seed(arguments.seed),
        mtus: vec![MTU; PATH_COUNT],
        reports_mtu: true,
        damage: DAMAGE,
        has_mptcp: false,
    };
    let (links, socket) = Links::open(&config, Duration::ZERO, |network| {
        SinkSocket::open(network, OUTPUT_PORT)
    })?;
    let begin = Instant::ZERO + PREPARATION;
    let healed_at = begin + arguments.duration;
    let end = healed_at + RECOVERY + WHOLE_END;
    let sink = Sink::start(socket, links.clock, 0, begin)?;
    let [sender, receiver] = commands(program, folder)?;
    let mut run = Run {
        links: &links,
        sink: &sink,
        paths: Paths::new(&links),
        sender: SupervisedProgram::new(&links, End::Near, sender, folder),
        receiver: SupervisedProgram::new(&links, End::Far, receiver, folder),
        max_memory: arguments.max_memory,
        half_at: begin + arguments.duration / 2,
        first_half_bytes: [0; 2],
        second_half_bytes: [0; 2],
        reported_at: begin,
    };
    run.receiver.start()?;
    run.sender.start()?;
    let source = Source::start(
        &links.network,
        INPUT_PORT,
        STREAM,
        links.clock,
        [begin, end],
        0,
    )?;
    for (at, event) in events {
        run.wait_until(begin + (*at - Instant::ZERO))?;
        *happened += 1;
        run.apply(*event)
            .with_context(|| format!("after `{event}`"))?;
    }
    run.wait_until(healed_at + RECOVERY)?;
    let before = sink.with_received(super::over_link::sink::Received::packet_count);
    run.wait_until(end)?;
    let after = sink.with_received(super::over_link::sink::Received::packet_count);
    let sent = source.stop();
    let expected = STREAM.bitrate.bytes_in(WHOLE_END) / PACKET_BYTES as u64;
    let share = (after - before) as f64 / expected as f64;
    ensure!(
        share >= LEAST_SHARE,
        "{:.1} % of the stream came {RECOVERY} after the last event: not the {:.0} % that must",
        share * 100.0,
        LEAST_SHARE * 100.0
    );
    run.check_growth()?;
    for end in [&run.sender, &run.receiver] {
        end.check_log()?;
    }
    Ok(run.summary(
        arguments.duration,
        events.len(),
        after,
        sent.packet_count,
        share,
    ))
}

fn starts(count: u64) -> String {
    if count == 1 {
        "1 start".to_owned()
    } else {
        format!("{count} starts")
    }
}

/// Returns the command lines of sender and receiver.
fn commands(program: &Path, folder: &Path) -> anyhow::Result<[Vec<std::ffi::OsString>; 2]> {
    fn words(line: &str, program: &Path) -> Vec<OsString> {
        let words = line.split_whitespace().map(std::ffi::OsString::from);
        std::iter::once(program.as_os_str().to_owned())
            .chain(words)
            .collect()
    }

    fn key(name: &str, folder: &Path) -> String {
        folder.join(name).display().to_string()
    }

    let sender_key = anabranch::make_key(program, folder, "sender")?;
    let receiver_key = anabranch::make_key(program, folder, "receiver")?;
    let mut sender = format!(
        "send --key {} --peer {receiver_key}",
        key("sender.key", folder)
    );
    for path in 0..PATH_COUNT {
        sender.push_str(&format!(" --to 10.27.{path}.1:{PORT} --via path{path}"));
    }
    sender.push_str(&format!(" --latency 500ms udp://127.0.0.1:{INPUT_PORT}"));
    let receiver = format!(
        "recv --listen 0.0.0.0:{PORT} --key {} --allow {sender_key} --keep-listening --latency \
         500ms udp://127.0.0.1:{OUTPUT_PORT}",
        key("receiver.key", folder)
    );
    Ok([words(&sender, program), words(&receiver, program)])
}

/// A soak that runs.
struct Run<'a> {
    links: &'a Links,
    sink: &'a Sink,
    paths: Paths<'a>,
    sender: SupervisedProgram<'a>,
    receiver: SupervisedProgram<'a>,
    max_memory: ByteCount,
    half_at: Instant,
    /// The most memory of sender and receiver, in bytes.
    first_half_bytes: [u64; 2],
    second_half_bytes: [u64; 2],
    reported_at: Instant,
}

impl Run<'_> {
    /// Waits, and looks at the invariants meanwhile.
    fn wait_until(&mut self, at: Instant) -> anyhow::Result<()> {
        loop {
            let now = self.links.clock.now();
            let left = at.saturating_since(now);
            if left.is_zero() {
                return Ok(());
            }
            wait_until(&self.links.clock, now + left.min(CHECK_INTERVAL));
            self.check()?;
        }
    }

    fn check(&mut self) -> anyhow::Result<()> {
        self.sender.check(self.max_memory)?;
        self.receiver.check(self.max_memory)?;
        let wrong_bytes = self.sink.with_received(|received| received.wrong_bytes);
        if wrong_bytes > 0 {
            bail!("{wrong_bytes} wrong bytes at the output");
        }
        let now = self.links.clock.now();
        let peaks = if now < self.half_at {
            &mut self.first_half_bytes
        } else {
            &mut self.second_half_bytes
        };
        for (peak, end) in peaks.iter_mut().zip([&self.sender, &self.receiver]) {
            *peak = end.resident_bytes().max(*peak);
        }
        if now >= self.reported_at + REPORT_INTERVAL {
            self.reported_at = now;
            let count = self
                .sink
                .with_received(super::over_link::sink::Received::packet_count);
            print::note(format_args!(
                "{:.0} s: {count} packets came; the sender holds {}, the receiver {}",
                (now - Instant::ZERO).as_secs_f64(),
                ByteCount(self.sender.resident_bytes()),
                ByteCount(self.receiver.resident_bytes())
            ));
        }
        Ok(())
    }

    /// Returns the line at the end: `share` of the stream came after the last event.
    fn summary(
        &self,
        duration: Duration,
        event_count: usize,
        came_count: u64,
        sent_count: u64,
        share: f64,
    ) -> String {
        format!(
            "{duration} with {event_count} events, {} of the sender and {} of the receiver: \
             {:.1} % of the packets came, no wrong byte; at most {} in the sender and {} in the \
             receiver; {:.1} % of the stream at the end",
            starts(self.sender.start_count),
            starts(self.receiver.start_count),
            came_count as f64 * 100.0 / sent_count as f64,
            ByteCount(self.sender.peak_bytes),
            ByteCount(self.receiver.peak_bytes),
            share * 100.0,
        )
    }

    /// Compares the memory of both halves of the time.
    fn check_growth(&self) -> anyhow::Result<()> {
        let halves = self.first_half_bytes.iter().zip(&self.second_half_bytes);
        for ((first, second), name) in halves.zip(["sender", "receiver"]) {
            ensure!(
                *second <= first + MAX_GROWTH.0,
                "the {name} has grown from {} to {}",
                ByteCount(*first),
                ByteCount(*second)
            );
        }
        Ok(())
    }

    fn apply(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Down { path } => self.paths.change(path, &LinkChange::Down),
            Event::Up { path } => self.paths.change(path, &LinkChange::Up),
            Event::Rate { path, rate } => self.paths.change(path, &LinkChange::Rate(rate)),
            Event::Delay { path, delay } => self.paths.change(path, &LinkChange::Delay(delay)),
            Event::Loss { path, probability } => {
                let loss = LossModel::Bernoulli { probability };
                self.paths.change(path, &LinkChange::Loss(loss))
            }
            Event::Mtu { path, mtu } => self.paths.set_mtu(path, mtu),
            Event::Address { path, host } => self.paths.set_host(path, host),
            Event::Rebind { path } => self.paths.rebind(path),
            Event::KillSender => self.sender.kill(),
            Event::StartSender => self.sender.start(),
            Event::KillReceiver => self.receiver.kill(),
            Event::StartReceiver => self.receiver.start(),
        }
    }
}
