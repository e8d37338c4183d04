//! Options of commands that have sessions: statistics, logs and commands on events.

use std::path::PathBuf;

use anabranch_observe::http::HttpAddress;
use anabranch_observe::{HostName, Opened, Options, StandardOutput, StatsName};
use anyhow::ensure;

use crate::keygen::read_or_make_token;

/// Options of every command that has sessions.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ObserveArguments {
    /// Write statistics to a file: one JSON object a second, each in its own line, and events in
    /// between. `-` is standard output. An existing file is appended to.
    #[arg(long, value_name = "FILE|-")]
    stats: Option<StatsName>,
    /// Answer HTTP at this address, or at this port of 127.0.0.1: /metrics for Prometheus,
    /// /status.json for NOALBS and `anabranch top`; at this machine's own addresses, / for a
    /// browser. Everybody who can reach the address can read the answers.
    #[arg(long, value_name = "[ADDR:]PORT")]
    metrics: Option<HttpAddress>,
    /// Show each path in a browser at this address, or at this port of 127.0.0.1. An address that
    /// other machines reach needs --dashboard-token-file. It has the answers of --metrics, too.
    #[arg(long, value_name = "[ADDR:]PORT")]
    dashboard: Option<HttpAddress>,
    /// File with the token that requests to --dashboard, and to `recv --whep`, need: 16 to 256
    /// letters, digits and -._~. If there is no file, one is made.
    #[arg(long, value_name = "FILE")]
    dashboard_token_file: Option<PathBuf>,
    /// File with another token, of the same kind: its owner may change the program while it runs,
    /// at the address of --dashboard (`anabranch ctl --help`). Nobody else can change anything.
    #[arg(long, value_name = "FILE", requires = "dashboard")]
    control_token: Option<PathBuf>,
    /// With --metrics or --dashboard, also answer requests that call this machine NAME. Requests
    /// to its addresses and localhost are always answered. Any other name could let a web page
    /// read the answers.
    #[arg(long, value_name = "NAME")]
    metrics_host: Vec<HostName>,
    /// Log each packet, and the transport's estimates of each path, as qlog (JSON-SEQ). It takes
    /// about 260 bytes a packet. An existing file is overwritten.
    #[arg(long, value_name = "FILE")]
    qlog: Option<PathBuf>,
    /// Run this command with `sh -c` on each event. $ANABRANCH_EVENT is connected, ended,
    /// path-down, path-up, path-problem, all-links-down, source-gone, recovered, cap-reached,
    /// picture-fine, picture-impaired, picture-gone, udp-blocked, peer-left, output-failed,
    /// output-resumed, machine-slow or control.
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
    /// Refuses a token for changes, for a command that has none.
    ///
    /// # Errors
    /// There is one.
    pub(crate) fn ensure_no_control(&self, command: &str) -> anyhow::Result<()> {
        ensure!(
            self.control_token.is_none(),
            "--control-token: {command} takes no changes; `send` to `recv`, `recv` and `serve` do"
        );
        Ok(())
    }

    /// Opens the requested files and sockets, so that errors are reported before the work begins.
    ///
    /// # Errors
    /// A file cannot be written, an address cannot be used, or the token cannot be read.
    pub(crate) fn open(&self, stdout: StandardOutput) -> anyhow::Result<Opened> {
        Ok(self.options(None)?.open(stdout)?)
    }

    /// Opens them for a program that receives pictures, with an address for viewers.
    ///
    /// # Errors
    /// As of [`ObserveArguments::open`].
    pub(crate) fn open_with_pictures(
        &self,
        stdout: StandardOutput,
        whep: Option<&HttpAddress>,
    ) -> anyhow::Result<Opened> {
        let options = Options {
            has_pictures: true,
            ..self.options(whep)?
        };
        Ok(options.open(stdout)?)
    }

    fn options(&self, whep: Option<&HttpAddress>) -> anyhow::Result<Options> {
        let has_token_door = self.dashboard.is_some() || whep.is_some();
        ensure!(
            has_token_door || self.dashboard_token_file.is_none(),
            "--dashboard-token-file is for --dashboard, and for --whep of recv: add one of them"
        );
        let is_served = self.metrics.is_some() || has_token_door;
        ensure!(
            is_served || self.metrics_host.is_empty(),
            "--metrics-host is for --metrics or --dashboard: add one of them"
        );
        let token = self
            .dashboard_token_file
            .as_deref()
            .map(read_or_make_token)
            .transpose()?;
        let control_token = self
            .control_token
            .as_deref()
            .map(read_or_make_token)
            .transpose()?;
        ensure!(
            control_token.is_none() || control_token != token,
            "--control-token: it is the token of --dashboard-token-file, which only reads: name \
             another file"
        );
        Ok(Options {
            stats: self.stats.clone(),
            metrics: self.metrics.clone(),
            dashboard: self.dashboard.clone(),
            whep: whep.cloned(),
            has_pictures: false,
            dashboard_token: token,
            control_token,
            metrics_hosts: self.metrics_host.clone(),
            qlog: self.qlog.clone(),
            on_event: self.on_event.clone(),
        })
    }
}
