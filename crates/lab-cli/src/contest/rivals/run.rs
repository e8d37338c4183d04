//! One run: a transport, a row, a seed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anabranch_emu::{Damage, End, MAX_RELEASE_ERROR, Program, ProgramConfig};
use anabranch_units::{Duration, Instant, Seed};
use anyhow::{Context, bail};

use super::rows::{Event, Row};
use super::transport::{Equipment, INPUT_PORT, OUTPUT_PORT, Transport};
use crate::over_link::links::{Links, LinksConfig, wait_until};
use crate::over_link::sink::{Figures, Sink, SinkSocket};
use crate::over_link::source::{Sent, Source};

/// Time from the links' start to the stream's, in which the transports connect.
const PREPARATION: Duration = Duration::from_secs(3);
/// Time from the kill of a receiver to its start.
const PAUSE_OF_RESTART: Duration = Duration::from_secs(1);
/// Time for which packets may come after the budget.
const AFTERMATH: Duration = Duration::from_millis(500);
/// Lateness of the source at the 99th percentile above which a run measures the machine: half of a
/// picture's interval.
const MAX_LATENESS: Duration = Duration::from_millis(20);
/// Interval at which ports are looked at.
const PAUSE: Duration = Duration::from_millis(20);
/// Length of the log's end that an error shows.
const LOG_END_BYTES: usize = 300;

/// A run's results.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) figures: Figures,
    /// Bytes that entered the links there, above the stream's, as a share of the stream's.
    pub(super) overhead_there: f64,
    /// Bytes that entered the links on the way back, as a share of the stream's.
    pub(super) overhead_back: f64,
    /// Processor seconds of all programs for a gigabit of the stream; `None` if one has ended.
    pub(super) seconds_per_gigabit: Option<f64>,
    /// Bytes at the output that belong to no packet of the stream.
    pub(super) wrong_bytes: u64,
    /// The reason for which the run says nothing about the transport, if there is one.
    pub(super) not_judged: Option<String>,
}

/// Runs a transport on a row for `duration`. Logs of its programs are in the equipment's folder.
///
/// # Errors
/// The network cannot be made, or the transport takes no stream.
pub(super) fn run(
    row: &Row,
    transport: Transport,
    seed: Seed,
    duration: Duration,
    equipment: &Equipment,
) -> anyhow::Result<Outcome> {
    let config = LinksConfig {
        routes: &row.routes,
        seed,
        mtus: row.interface_mtus(),
        reports_mtu: row.event != Event::BlackHole,
        damage: Damage::default(),
        has_mptcp: transport == Transport::Mptcp,
    };
    // The first group of pictures does not count: some transports lose pictures as they begin.
    let warm_up = row.stream.key_frame_interval();
    let first_picture = u64::from(row.stream.key_interval);
    let (links, socket) = Links::open(&config, PREPARATION + warm_up, |network| {
        SinkSocket::open(network, OUTPUT_PORT)
    })?;
    let (begin, start) = (
        Instant::ZERO + PREPARATION,
        Instant::ZERO + PREPARATION + warm_up,
    );
    let expected_at = start + row.budget;
    let sink = Sink::start(socket, links.clock, first_picture, expected_at)?;
    let mut programs = Programs::start(row, transport, seed, &links, equipment)?;
    programs.await_input(begin)?;
    wait_until(
        &links.clock,
        begin.saturating_sub(Duration::from_millis(20)),
    );
    let source = Source::start(
        &links.network,
        INPUT_PORT,
        row.stream,
        links.clock,
        [begin, start + duration],
        first_picture,
    )?;
    wait_until(&links.clock, start);
    let wire_before = links.wire_bytes();
    programs.begin_measurement();
    if let Event::ReceiverRestart(after) = row.event
        && after + PAUSE_OF_RESTART < duration
    {
        wait_until(&links.clock, start + after);
        programs.kill_far()?;
        wait_until(&links.clock, start + after + PAUSE_OF_RESTART);
        programs.start_far()?;
    }
    let sent = source.join();
    wait_until(&links.clock, links.clock.now() + row.budget + AFTERMATH);
    let wire = links.wire_bytes();
    let processor_time = programs.processor_time();
    let received = sink.stop();
    programs.stop();
    let [there, back] =
        [0, 1].map(|index| (wire[index] - wire_before[index]) as f64 / sent.bytes() as f64);
    let gigabits = sent.bytes() as f64 * 8.0 / 1e9;
    Ok(Outcome {
        figures: received.figures(&sent, row.budget),
        overhead_there: there - 1.0,
        overhead_back: back,
        seconds_per_gigabit: processor_time.map(|time| time.as_secs_f64() / gigabits),
        wrong_bytes: received.wrong_bytes,
        not_judged: not_judged(&links, &sent),
    })
}

fn not_judged(links: &Links, sent: &Sent) -> Option<String> {
    let release = links.relay.release_errors().p99;
    if release > MAX_RELEASE_ERROR {
        return Some(format!("links were {:.1} ms late", release.as_millis_f64()));
    }
    let late = sent.late_p99.as_millis_f64();
    (sent.late_p99 > MAX_LATENESS).then(|| format!("the source was {late:.1} ms late"))
}

/// The programs of a transport at both ends.
struct Programs<'a> {
    links: &'a Links,
    commands: super::transport::Commands,
    log: PathBuf,
    far: Vec<Program>,
    near: Vec<Program>,
    /// Processor time before the measurement, and of far programs that were killed in it.
    time_before: Duration,
    time_of_killed: Duration,
}

impl<'a> Programs<'a> {
    fn start(
        row: &Row,
        transport: Transport,
        seed: Seed,
        links: &'a Links,
        equipment: &Equipment,
    ) -> anyhow::Result<Programs<'a>> {
        let name = format!("{}-{}-{}.log", row.name, transport.name(), seed.0);
        let mut programs = Programs {
            links,
            commands: transport.commands(row, equipment),
            log: equipment.folder.join(name.replace(' ', "-")),
            far: Vec::new(),
            near: Vec::new(),
            time_before: Duration::ZERO,
            time_of_killed: Duration::ZERO,
        };
        programs.start_far()?;
        programs.await_far()?;
        for words in programs.commands.near.clone() {
            let program = programs.launch(End::Near, &words)?;
            programs.near.push(program);
        }
        Ok(programs)
    }

    fn launch(&self, end: End, words: &[std::ffi::OsString]) -> anyhow::Result<Program> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("cannot write {}", self.log.display()))?;
        let config = ProgramConfig {
            words,
            log: Some(log),
            ..ProgramConfig::default()
        };
        Ok(Program::start(&self.links.network, end, config)?)
    }

    fn start_far(&mut self) -> anyhow::Result<()> {
        for words in self.commands.far.clone() {
            let program = self.launch(End::Far, &words)?;
            self.far.push(program);
        }
        Ok(())
    }

    /// Kills the far programs, and keeps their processor time.
    fn kill_far(&mut self) -> anyhow::Result<()> {
        for program in std::mem::take(&mut self.far) {
            self.time_of_killed += program.processor_time().unwrap_or(Duration::ZERO);
            program.kill()?;
        }
        Ok(())
    }

    /// Waits until a far program listens at a port other than the sink's.
    fn await_far(&self) -> anyhow::Result<()> {
        let namespace = self.links.network.namespace(End::Far);
        let until = Instant::ZERO + PREPARATION / 2;
        while self.links.clock.now() < until {
            if namespace
                .listeners()
                .iter()
                .any(|port| *port != OUTPUT_PORT)
            {
                return Ok(());
            }
            wait_until(&self.links.clock, self.links.clock.now() + PAUSE);
        }
        bail!("its receiver does not listen: {}", end_of(&self.log));
    }

    /// Waits until a near program takes the stream.
    fn await_input(&self, until: Instant) -> anyhow::Result<()> {
        let namespace = self.links.network.namespace(End::Near);
        while self.links.clock.now() < until {
            if namespace.listeners().contains(&INPUT_PORT) {
                return Ok(());
            }
            wait_until(&self.links.clock, self.links.clock.now() + PAUSE);
        }
        bail!("its sender takes no stream: {}", end_of(&self.log));
    }

    fn running(&self) -> impl Iterator<Item = &Program> {
        self.far.iter().chain(&self.near)
    }

    fn begin_measurement(&mut self) {
        let times = self.running().filter_map(Program::processor_time);
        self.time_before = times.fold(Duration::ZERO, |sum, time| sum + time);
    }

    /// Returns the processor time since the measurement's beginning; `None` if a program has ended.
    fn processor_time(&self) -> Option<Duration> {
        let times = self.running().map(Program::processor_time);
        let sum = times.sum::<Option<Duration>>()?;
        Some((sum + self.time_of_killed).saturating_sub(self.time_before))
    }

    fn stop(self) {
        for program in self.near.iter().chain(&self.far) {
            program.signal(rustix::process::Signal::TERM);
        }
        for program in self.near.iter().chain(&self.far) {
            // One that has ended before is no concern any more.
            let _ = program.stop();
        }
    }
}

/// Returns the last lines of a log, in one line.
fn end_of(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let end = &text[text.len().saturating_sub(LOG_END_BYTES)..];
    let end = String::from_utf8_lossy(end);
    format!("{} ({})", end.trim().replace('\n', " | "), log.display())
}
