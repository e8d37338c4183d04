//! `anabranch-lab kernel`: coupled congestion control in this machine's kernel.

mod arithmetic;
mod check;
mod connections;
mod event;
pub(crate) mod needs;
mod networks;
pub(crate) mod programs;
mod record;
mod replay;
mod sources;

use anabranch_terminal::print;
use clap::Subcommand;

/// Load coupled congestion controllers into this machine's kernel.
///
/// LIA, OLIA, BALIA, Compound and CCP run in an unpatched kernel, as programs of BPF. Subflows of a
/// connection of MPTCP share their state.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It needs root, Linux 6.1 or later with BTF, and the programs clang and bpftool. Connections choose a
controller by its name, as they choose cubic:

  anabranch-lab kernel load --allow
  anabranch link --path '5 Mbit/s, 20 ms' --path '5 Mbit/s, 40 ms' --mptcp -- \\
      sh -c 'sysctl -w net.ipv4.tcp_congestion_control=bpf_lia; mptcpize run iperf3 …'
  anabranch-lab kernel unload

docs/kernel.md has the controllers, their limits and measurements.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile the controllers, and register them with the kernel.
    Load {
        /// Let users without root, and settings of network namespaces, choose them too.
        #[arg(long)]
        allow: bool,
    },
    /// Take them out. Connections that use one keep it until they end.
    Unload,
    /// Show which are registered, their connections, and anything that is missing.
    Status,
    /// Compare their windows with this program's own, over 20 recorded sequences.
    ///
    /// Each sequence of acknowledgements, losses and round-trip times comes from a simulated
    /// connection. Both windows are at most a packet apart after each of its events, or the exit
    /// code is 4.
    Check(check::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.command {
        Command::Load { allow } => load(*allow),
        Command::Unload => unload(),
        Command::Status => status(),
        Command::Check(arguments) => check::run(arguments),
    }
}

fn load(allow: bool) -> anyhow::Result<()> {
    needs::require()?;
    let before = programs::registered()?;
    if before.is_empty() {
        programs::register()?;
    }
    if allow {
        programs::allow(&programs::registered()?)?;
    }
    let names = programs::registered()?.join(", ");
    if before.is_empty() {
        print::note(format_args!("registered {names}"));
    } else {
        print::note(format_args!(
            "{names} were registered before; `unload` makes room for others"
        ));
    }
    Ok(())
}

fn unload() -> anyhow::Result<()> {
    needs::require()?;
    let names = programs::registered()?;
    if names.is_empty() {
        print::note(format_args!("none was registered"));
        return Ok(());
    }
    for name in &names {
        programs::unregister(name)?;
    }
    print::note(format_args!("took out {}", names.join(", ")));
    Ok(())
}

fn status() -> anyhow::Result<()> {
    let registered = programs::registered()?;
    let allowed = programs::allowed()?;
    let mut text = String::new();
    for name in programs::NAMES {
        let state = if !registered.iter().any(|other| other == name) {
            "not registered"
        } else if allowed.iter().any(|other| other == name) {
            "registered, for everyone"
        } else {
            "registered, for root"
        };
        text += &format!("{name:<14} {state}\n");
    }
    let missing = needs::missing();
    if missing.is_empty() {
        text += "this machine can load them\n";
    }
    for need in &missing {
        text += &format!("missing: {need}\n");
    }
    if missing.is_empty() && !registered.is_empty() {
        text += &connections::lines()?;
    }
    print::text(text)
}
