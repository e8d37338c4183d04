//! `anabranch emulate`: a scenario's network in real time, for any program that speaks UDP.

pub(crate) mod control;
mod listen;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_emu::{DirectionStatistics, Relay, RelayConfig, RelayLink};
use anabranch_lab::Scenario;
use anabranch_net::Clock;
use anabranch_observe::http::{HttpAddress, Server};
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Seed};

use crate::slowness::Slowness;
use control::{CONTROL_HELP, Changes};
use listen::ListenAt;

const INTRODUCTION: &str = "\
Each route of the scenario becomes a UDP port, in the order of the file. Packets to this port pass
the route's link to the address of --to; the answers pass the link back. Schedules, outages and
traces begin at the start of the program.

  anabranch recv --listen 127.0.0.1:7000 --key studio.key --allow abpub_… received.ts &
  anabranch emulate scenarios/multipath/cellular.toml --to 127.0.0.1:7000 &
  anabranch send --to 127.0.0.1:7101 --via lo --to 127.0.0.1:7102 --via lo \\
      --key camera.key --peer abpub_… test:
";

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Emulates a scenario's network between programs, in real time.
#[derive(Debug, clap::Args)]
#[command(after_help = [INTRODUCTION, CONTROL_HELP].concat())]
pub(crate) struct Arguments {
    /// The scenario file. Its flows are ignored.
    scenario: PathBuf,
    /// Address to which packets are forwarded.
    #[arg(long, value_name = "IP:PORT")]
    to: SocketAddr,
    /// Address at which the first route of the file listens; the others listen at the next ports.
    /// Port 0 chooses any free ones. With a route's name it is the address of that route:
    /// `--listen wifi=127.0.0.1:7200`. May be repeated [default: 127.0.0.1:7101].
    #[arg(long, value_name = "[ROUTE=]IP:PORT")]
    listen: Vec<ListenAt>,
    /// Also accept changes by HTTP at this address. A port alone is a port of 127.0.0.1, which no
    /// other machine reaches.
    #[arg(long, value_name = "[IP:]PORT")]
    control: Option<HttpAddress>,
    /// End when standard input ends, as it does when the program that opened it ends.
    #[arg(long)]
    until_input_ends: bool,
    /// Seed of the random losses and jitter.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Set a value of the scenario: `links.wifi.rate="2 Mbit/s"`. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let scenario = Scenario::load(&arguments.scenario, &arguments.settings)?;
    let links = links(&scenario, arguments)?;
    let control = arguments
        .control
        .as_ref()
        .map(|address| Server::bind("--control", address, &[]))
        .transpose()?;
    let stop = Stop::new()?;
    stop.on_signals()?;
    let names: Vec<String> = links.iter().map(|link| link.name.clone()).collect();
    let relay = Relay::start(RelayConfig {
        links,
        origin: None,
    })?;
    let relay = Arc::new(relay);
    print::note(format_args!("{}, until Ctrl-C", scenario.title));
    for (index, name) in names.iter().enumerate() {
        let (listen, to) = (relay.listen_addr(index), arguments.to);
        print::note(format_args!("{name}: {listen} to {to}"));
    }
    let changes = Arc::new(Changes::new(names.clone(), Arc::clone(&relay)));
    changes.read_standard_input(arguments.until_input_ends.then(|| stop.clone()))?;
    let serving = match control {
        Some(server) => {
            print::note(format_args!("changes at http://{}/", server.address()?));
            Some(server.start("control", control::Control::new(Arc::clone(&changes)))?)
        }
        None => None,
    };
    let clock = Clock::start();
    let mut slowness = Slowness::default();
    while stop.wait_until(&clock, clock.now() + SECOND) {
        if let Some(warning) = slowness.due_report(clock.now(), relay.lateness()) {
            print::warn(warning);
        }
    }
    for (index, name) in names.iter().enumerate() {
        let statistics = relay.statistics(index);
        print::note(format_args!(
            "{name}, there: {}",
            describe(&statistics.forward)
        ));
        print::note(format_args!(
            "{name}, back:  {}",
            describe(&statistics.reverse)
        ));
    }
    drop(serving);
    changes.end();
    Ok(())
}

/// Returns a link for each route.
fn links(scenario: &Scenario, arguments: &Arguments) -> anyhow::Result<Vec<RelayLink>> {
    let routes = scenario.emulated_routes()?;
    let names: Vec<&str> = routes.iter().map(|route| route.name.as_str()).collect();
    let addresses = listen::addresses(&arguments.listen, &names)?;
    let links = routes
        .into_iter()
        .zip(addresses)
        .map(|(route, listen)| RelayLink {
            listen,
            target: arguments.to,
            forward: route.forward,
            reverse: route.reverse,
            seed: Seed(arguments.seed).derive(&route.name),
            name: route.name,
        });
    Ok(links.collect())
}

fn describe(direction: &DirectionStatistics) -> String {
    let link = &direction.link;
    let waited = link.queue.waited.as_millis_f64() / link.queue.started_packets.max(1) as f64;
    format!(
        "{} packets in, {} out, {} lost; waited {waited:.1} ms on average, {:.1} ms at most",
        link.offered_packets,
        link.delivered_packets,
        link.dropped.total() + direction.overflow_packets + direction.unsent_packets,
        link.queue.max_wait.as_millis_f64(),
    )
}
