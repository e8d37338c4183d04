//! A run of `link`.

use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::sync::Arc;

use anabranch_emu::namespace::obtain_rights;
use anabranch_emu::{
    Damage, End, Ends, LinkDirection, Network, NetworkConfig, PacketLink, Program, ProgramConfig,
    Recorder, Relay, RelayLinkStatistics,
};
use anabranch_lab::{EmulatedRoute, Scenario};
use anabranch_net::Clock;
use anabranch_observe::http::Server;
use anabranch_terminal::exit::Failure;
use anabranch_terminal::print;
use anabranch_units::Seed;
use anyhow::Context;

use super::Arguments;
use super::capture::Files;
use super::command::{self, StopSignals, exit_code};
use super::far;
use super::leftovers::{self, Record};
use super::report;
use crate::emulate::control;
use crate::slowness::Slowness;

/// Variable of the environment with the number of networks around a program.
const DEPTH_VARIABLE: &str = "ANABRANCH_LINK_DEPTH";
/// MTU of interfaces, unless a link carries longer packets. Shorter limits are those of routers.
const INTERFACE_MTU: u32 = 1_500;

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (title, paths) = paths(arguments)?;
    // Before any thread, and before the record: its folder is that of the user.
    let mut record = Record::new()?;
    let is_user = obtain_rights()?;
    let control = arguments
        .control
        .as_ref()
        .map(|address| Server::bind("--control", address, &[]))
        .transpose()?;
    let depth = depth();
    let mut network = Network::new(&NetworkConfig {
        mtus: paths.iter().map(interface_mtu).collect(),
        depth,
        has_mptcp: arguments.mptcp,
        mark: Some(record.address()),
    })?;
    record_namespaces(&mut record, &network, depth).context("cannot write the record")?;
    let interfaces = std::mem::take(&mut network.paths);
    let network = Arc::new(network);
    let capture = Capture::start(arguments, &paths)?;
    let links = packet_links(&paths, interfaces, arguments);
    let recorder = capture.as_ref().map(|capture| &capture.recorder);
    let relay = Arc::new(Relay::between_interfaces(links, recorder)?);
    let first = report::first_line(network.kind, is_user, relay.is_real_time());
    print::note(first);
    print::note(title);
    for (index, path) in paths.iter().enumerate() {
        print::note(report::path_line(&network, index, &path.name));
    }
    let names = paths.iter().map(|path| path.name.clone()).collect();
    let changes = Arc::new(control::Changes::new(names, Arc::clone(&relay)));
    let serving = match control {
        Some(server) => {
            print::note(format_args!("changes at http://{}/", server.address()?));
            Some(server.start("control", control::Control::new(Arc::clone(&changes)))?)
        }
        None => None,
    };
    let programs = Programs {
        network: &network,
        record: &record,
        environment: environment(&record, &network, depth),
    };
    let slowness = SlownessWatch::start(&relay)?;
    let status = programs.run(arguments);
    drop(serving);
    changes.end();
    let slow_second_count = slowness.stop();
    report_end(&network, &relay, &paths, slow_second_count);
    drop(relay);
    if let Some(capture) = capture {
        capture.finish()?;
    }
    let code = exit_code(status?);
    if code != 0 {
        return Err(Failure::Command(code).into());
    }
    Ok(())
}

/// Records the namespaces of the run. The far one of an inner network is the outer one's.
fn record_namespaces(record: &mut Record, network: &Network, depth: u8) -> std::io::Result<()> {
    record.add_namespace(network.near.number()?)?;
    if depth == 0 {
        record.add_namespace(network.far.number()?)?;
    }
    Ok(())
}

/// Returns the title of the links, and the links.
fn paths(arguments: &Arguments) -> anyhow::Result<(String, Vec<EmulatedRoute>)> {
    if !arguments.paths.is_empty() {
        let paths = arguments
            .paths
            .iter()
            .enumerate()
            .map(|(index, text)| text.path(index))
            .collect();
        return Ok(("paths of the command line".to_owned(), paths));
    }
    let file = arguments
        .scenario
        .as_ref()
        .context("name a scenario, or a --path")?;
    let scenario = Scenario::load(file, &arguments.settings)?;
    let paths = scenario.emulated_routes()?;
    Ok((scenario.title, paths))
}

/// Returns the number of networks around this program.
fn depth() -> u8 {
    let depth = std::env::var(DEPTH_VARIABLE).ok();
    depth.and_then(|depth| depth.parse().ok()).unwrap_or(0)
}

/// Returns the largest of the usual MTU and those of the path's links, at any time.
fn interface_mtu(path: &EmulatedRoute) -> u32 {
    let links = [&path.forward, &path.reverse];
    let limits = links.into_iter().flat_map(|link| {
        let scheduled = link.mtu_schedule.iter().map(|(_, mtu)| *mtu);
        link.mtu.into_iter().chain(scheduled)
    });
    limits
        .fold(INTERFACE_MTU, u32::max)
        .min(u32::from(u16::MAX))
}

fn packet_links(
    paths: &[EmulatedRoute],
    interfaces: Vec<Ends<Box<dyn anabranch_emu::Frames>>>,
    arguments: &Arguments,
) -> Vec<PacketLink> {
    let pairs = paths.iter().zip(interfaces);
    let links = pairs.map(|(path, Ends { near, far })| {
        let [sender, receiver] = if arguments.as_receiver {
            [far, near]
        } else {
            [near, far]
        };
        PacketLink {
            name: path.name.clone(),
            sender,
            receiver,
            forward: path.forward.clone(),
            reverse: path.reverse.clone(),
            seed: Seed(arguments.seed).derive(&path.name),
            reports_mtu: true,
            damage: Damage::default(),
        }
    });
    links.collect()
}

/// Returns the variables that programs at both ends get.
fn environment(record: &Record, network: &Network, depth: u8) -> Vec<(&'static str, String)> {
    vec![
        (leftovers::VARIABLE, record.name().to_owned()),
        (DEPTH_VARIABLE, (depth + 1).to_string()),
        ("ANABRANCH_FAR", network.addresses.v4(0).far.to_string()),
    ]
}

/// The programs at both ends.
struct Programs<'a> {
    network: &'a Arc<Network>,
    record: &'a Record,
    environment: Vec<(&'static str, String)>,
}

impl Programs<'_> {
    /// Runs the command, and the far one as long. Then ends all programs that they have left.
    fn run(&self, arguments: &Arguments) -> anyhow::Result<std::process::ExitStatus> {
        let stop = StopSignals::new(std::io::stdin().is_terminal())?;
        let far = match &arguments.far {
            Some(line) => Some(self.start_far(line, arguments, &stop)?),
            None => None,
        };
        let command = self.start(End::Near, &command_words(arguments));
        let status = command.and_then(|command| Ok(command::wait(&command, &stop)?));
        if let Some(far) = far {
            // Its code is of no interest: it was ended.
            let _ = far.stop();
        }
        self.record.end_programs();
        status
    }

    /// Starts the far command, and waits until it is ready.
    fn start_far(
        &self,
        line: &str,
        arguments: &Arguments,
        stop: &StopSignals,
    ) -> anyhow::Result<Program> {
        let namespace = self.network.namespace(End::Far);
        let before = namespace.listeners();
        let far = self.start(End::Far, &["sh", "-c", line].map(OsString::from))?;
        let waited = far::wait(&far, namespace, &before, arguments.far_wait, stop);
        if let Err(error) = waited {
            let _ = far.stop();
            self.record.end_programs();
            return Err(error);
        }
        Ok(far)
    }

    fn start(&self, end: End, words: &[OsString]) -> anyhow::Result<Program> {
        let config = ProgramConfig {
            words,
            environment: &self.environment,
            has_terminal: end == End::Near,
            log: None,
        };
        Ok(Program::start(self.network, end, config)?)
    }
}

fn command_words(arguments: &Arguments) -> Vec<OsString> {
    if !arguments.command.is_empty() {
        return arguments.command.clone();
    }
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    vec![shell.unwrap_or_else(|| "sh".into())]
}

/// The files of --trace and --pcap, and the thread that writes them.
struct Capture {
    recorder: Recorder,
    writer: std::thread::JoinHandle<std::io::Result<()>>,
}

impl Capture {
    fn start(arguments: &Arguments, paths: &[EmulatedRoute]) -> anyhow::Result<Option<Capture>> {
        let (trace, pcap) = (arguments.trace.as_deref(), arguments.pcap.as_deref());
        if trace.is_none() && pcap.is_none() {
            return Ok(None);
        }
        let names = paths.iter().map(|path| path.name.clone()).collect();
        let outgoing = if arguments.as_receiver {
            LinkDirection::Reverse
        } else {
            LinkDirection::Forward
        };
        let files = Files::open(trace, pcap, names, outgoing)?;
        let (recorder, events) = Recorder::new(pcap.is_some());
        let writer = files
            .write_events(events)
            .context("cannot start a thread")?;
        Ok(Some(Capture { recorder, writer }))
    }

    /// Waits until all events of a relay that has ended are written.
    fn finish(self) -> anyhow::Result<()> {
        let Capture { recorder, writer } = self;
        let lost_count = recorder.lost_count();
        drop(recorder);
        let written = writer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.context("cannot write --trace or --pcap")?;
        if lost_count > 0 {
            print::warn(format_args!(
                "--trace and --pcap lack {lost_count} events: the disk was too slow"
            ));
        }
        Ok(())
    }
}

/// Prints packets, losses and lateness.
fn report_end(network: &Network, relay: &Relay, paths: &[EmulatedRoute], slow_second_count: u64) {
    for (index, path) in paths.iter().enumerate() {
        let RelayLinkStatistics { forward, reverse } = relay.statistics(index);
        let name = &path.name;
        print::note(format_args!(
            "{name}, there: {}",
            report::direction_line(&forward)
        ));
        print::note(format_args!(
            "{name}, back:  {}",
            report::direction_line(&reverse)
        ));
    }
    let errors = relay.release_errors();
    print::note(report::lateness_line(&errors));
    let unread = [(&network.near, "path"), (&network.far, "far")].map(|(namespace, prefix)| {
        let devices = namespace.run(|| fs::read_to_string("/proc/thread-self/net/dev"));
        report::unread_packets(&devices.unwrap_or_default(), prefix)
    });
    if let Some(reason) = report::distrust(&errors, unread.iter().sum(), slow_second_count) {
        print::warn(reason);
    }
}

/// Counts the seconds in which the machine was too slow, in a thread of its own.
struct SlownessWatch {
    stop: anabranch_terminal::stop::Stop,
    thread: std::thread::JoinHandle<u64>,
}

impl SlownessWatch {
    fn start(relay: &Arc<Relay>) -> anyhow::Result<SlownessWatch> {
        let stop = anabranch_terminal::stop::Stop::new()?;
        let (relay, until) = (Arc::clone(relay), stop.clone());
        let thread = std::thread::Builder::new()
            .name("slowness".to_owned())
            .spawn(move || {
                let clock = Clock::start();
                let mut slowness = Slowness::default();
                while until.wait_until(&clock, clock.now() + crate::emulate::SECOND) {
                    // The end reports it: a terminal belongs to the command.
                    let _ = slowness.due_report(clock.now(), relay.lateness());
                }
                slowness.second_count()
            })?;
        Ok(SlownessWatch { stop, thread })
    }

    fn stop(self) -> u64 {
        self.stop.stop();
        let joined = self.thread.join();
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_link::LinkConfig;
    use anabranch_units::Instant;

    use super::*;

    /// Returns a path with an MTU there, and a later one back.
    fn path(mtu: Option<u32>, later: Option<u32>) -> EmulatedRoute {
        EmulatedRoute {
            name: "wifi".to_owned(),
            forward: LinkConfig {
                mtu,
                ..LinkConfig::default()
            },
            reverse: LinkConfig {
                mtu_schedule: later.map(|mtu| (Instant::ZERO, mtu)).into_iter().collect(),
                ..LinkConfig::default()
            },
        }
    }

    #[test]
    fn interfaces_carry_what_links_carry_at_any_time() {
        assert_eq!(interface_mtu(&path(None, None)), 1_500);
        assert_eq!(interface_mtu(&path(Some(1_280), Some(1_400))), 1_500);
        assert_eq!(interface_mtu(&path(Some(1_280), Some(9_000))), 9_000);
        assert_eq!(interface_mtu(&path(Some(u32::MAX), None)), 65_535);
    }
}
