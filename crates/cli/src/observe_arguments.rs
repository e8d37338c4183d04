//! Options of commands that have sessions: statistics, logs and commands on events.

use std::path::PathBuf;

use anabranch_observe::http::HttpAddress;
use anabranch_observe::{HostName, Opened, Options, StandardOutput, StatsName};

/// Options of every command that has sessions.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ObserveArguments {
    /// Write statistics to a file: one JSON object a second, each in its own line, and events in
    /// between. `-` is standard output. An existing file is appended to.
    #[arg(long, value_name = "FILE|-")]
    stats: Option<StatsName>,
    /// Answer HTTP at this address, or at this port of 127.0.0.1: /metrics for Prometheus,
    /// /status.json for NOALBS and `anabranch top`. Everybody who can reach the address can read
    /// the answers.
    #[arg(long, value_name = "[ADDR:]PORT")]
    metrics: Option<HttpAddress>,
    /// With --metrics, also answer requests that call this machine NAME. Requests to its addresses
    /// and localhost are always answered. Any other name could let a web page read the answers.
    #[arg(long, value_name = "NAME", requires = "metrics")]
    metrics_host: Vec<HostName>,
    /// Log each packet, and the transport's estimates of each path, as qlog (JSON-SEQ). It takes
    /// about 260 bytes a packet. An existing file is overwritten.
    #[arg(long, value_name = "FILE")]
    qlog: Option<PathBuf>,
    /// Run this command with `sh -c` on each event. $ANABRANCH_EVENT is connected, ended,
    /// path-down, path-up, path-problem, all-links-down, source-gone, recovered, cap-reached,
    /// udp-blocked, peer-left, output-failed or output-resumed.
    #[arg(long, value_name = "COMMAND")]
    on_event: Option<String>,
    /// Begin each line on standard error with its time and level, on a terminal too.
    #[arg(long)]
    pub(crate) log_time: bool,
    /// A TOML file with options of the same names, in a table send, recv, serve or proxy, or
    /// without one. The command line takes precedence.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl ObserveArguments {
    /// Opens the requested files and sockets, so that errors are reported before the work begins.
    ///
    /// # Errors
    /// A file cannot be written, or an address cannot be used.
    pub(crate) fn open(&self, stdout: StandardOutput) -> anyhow::Result<Opened> {
        let options = Options {
            stats: self.stats.clone(),
            metrics: self.metrics.clone(),
            metrics_hosts: self.metrics_host.clone(),
            qlog: self.qlog.clone(),
            on_event: self.on_event.clone(),
        };
        options.open(stdout)
    }
}
