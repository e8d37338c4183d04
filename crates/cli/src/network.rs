//! `anabranch link`: a command in a network namespace, whose interfaces are emulated links.

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "it takes Linux"))]
mod path;

#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod command;
#[cfg(target_os = "linux")]
mod far;
#[cfg(target_os = "linux")]
mod leftovers;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod run;

use std::ffi::OsString;
use std::path::PathBuf;

use anabranch_observe::http::HttpAddress;

#[cfg(target_os = "linux")]
use far::FarWait;
use path::PathText;
/// Other systems have the option, but no namespaces.
#[cfg(not(target_os = "linux"))]
type FarWait = String;

const INTRODUCTION: &str = "\
The command has an interface for each route, path0 and so on, in the order of the file. It reaches
the other end of path0 at 10.27.0.1 and fd00:27::1, that of path1 at 10.27.1.1 and fd00:27:1::1, and
nothing else. $ANABRANCH_FAR is the first of these addresses.

  anabranch link scenarios/multipath/cellular.toml -- ping -c 3 10.27.0.1
  anabranch link --path '3 Mbit/s, 50 ms, 300 ms of queue, 1 % loss' \\
      --far 'iperf3 --server' -- iperf3 --client 10.27.0.1
  anabranch link --path '10 Mbit/s, 10 ms' --path '5 Mbit/s, 40 ms' --mptcp

A path's numbers hold both ways, its delay one way. Schedules, outages and traces begin at the start
of the program. A `link` inside a `link` is one more link in a row. The program ends with the
command, and has its exit code if that is not 0. It needs Linux and the programs ip, chrt and
setpriv; as root it keeps time better.";

/// Runs a command, or a shell, behind a scenario's links.
#[derive(Debug, clap::Args)]
#[command(after_help = INTRODUCTION)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "it takes Linux"))]
pub(crate) struct Arguments {
    /// The scenario file. Its flows are ignored.
    #[arg(required_unless_present = "paths")]
    scenario: Option<PathBuf>,
    /// The command and its arguments [default: a shell, $SHELL].
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// A path instead of a scenario: a rate, a delay, a queue, a loss, jitter and an MTU in any
    /// order, as in `3 Mbit/s, 50 ms, 300 ms of queue, 1 % loss, 5 ms of jitter, MTU 1400`. May be
    /// repeated.
    #[arg(long = "path", value_name = "TEXT", conflicts_with_all = ["scenario", "settings"])]
    paths: Vec<PathText>,
    /// Run this command line at the other end, from before the command's start to its end.
    #[arg(long, value_name = "COMMAND LINE")]
    far: Option<String>,
    /// Start the command when the far one listens at this port, or after this time, as `500 ms`
    /// [default: when it listens at any port, or after 2 s].
    #[arg(long, value_name = "PORT|TIME", requires = "far")]
    far_wait: Option<FarWait>,
    /// Run the command at the routes' receiving end, as a viewer. Otherwise it sends.
    #[arg(long)]
    as_receiver: bool,
    /// Let connections of MPTCP that the command opens use all paths.
    #[arg(long)]
    mptcp: bool,
    /// Accept changes by HTTP at this address, as `emulate` does. A port alone is a port of
    /// 127.0.0.1, which no other machine reaches.
    #[arg(long, value_name = "[IP:]PORT")]
    control: Option<HttpAddress>,
    /// Write each packet's fate to this file as CSV.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the packets at the command's interfaces to this file, for Wireshark (pcapng).
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Seed of the random losses and jitter.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Set a value of the scenario: `links.wifi.rate="2 Mbit/s"`. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

#[cfg(target_os = "linux")]
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    run::run(arguments)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &Arguments) -> anyhow::Result<()> {
    use anabranch_net::system::{Feature, ensure_has};
    Ok(ensure_has(Feature::Namespaces, "`link`")?)
}
