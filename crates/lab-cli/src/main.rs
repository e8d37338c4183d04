//! The `anabranch-lab` program: one module per command.

mod compare;
mod contest;
mod dominance;
mod frontier;
#[cfg(target_os = "linux")]
mod kernel;
mod list;
mod merge;
mod missing;
mod new;
#[cfg(target_os = "linux")]
mod over_link;
#[cfg(target_os = "linux")]
mod parity;
mod plot;
mod progress;
mod reproduce;
mod rows;
mod run;
mod runtime;
mod schema;
#[cfg(target_os = "linux")]
mod soak;
#[cfg(target_os = "linux")]
mod testbed;
mod trace;

use std::process::ExitCode;

use anabranch_terminal::{exit, log_output, manual, menu};
use clap::{CommandFactory, Parser, Subcommand};

const PROGRAM: &str = "anabranch-lab";

/// Experiments with multipath transport: scenarios, comparisons, published results.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version, after_help = "\
Exit codes: 0 done, also if a claim differs; 1 a file or name cannot be used; 2 the command line is
wrong; 4 an expectation was not met.

To begin, in a checkout:

  anabranch-lab run scenarios/two-paths.toml
  anabranch-lab compare --schedulers min-cost,wrr scenarios/two-paths.toml
  anabranch-lab reproduce S0-F7

docs/scenarios.md explains scenario files. The program anabranch sends and receives real video, and
`anabranch link` and `anabranch emulate` run a scenario's network in real time.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Merge(merge::Arguments),
    Compare(compare::Arguments),
    Frontier(frontier::Arguments),
    Reproduce(reproduce::Arguments),
    Contest(contest::Arguments),
    Dominance(dominance::Arguments),
    #[cfg(target_os = "linux")]
    Parity(parity::Arguments),
    #[cfg(target_os = "linux")]
    Kernel(kernel::Arguments),
    #[cfg(target_os = "linux")]
    Testbed(testbed::Arguments),
    #[cfg(target_os = "linux")]
    Soak(soak::Arguments),
    Plot(plot::Arguments),
    Trace(trace::Arguments),
    New(new::Arguments),
    Schema(schema::Arguments),
    List(list::Arguments),
    Completions(manual::CompletionArguments),
    Manual(manual::ManualArguments),
}

fn main() -> ExitCode {
    log_output::print_library_logs();
    match Arguments::try_parse() {
        Ok(arguments) => exit::report(PROGRAM, run_command(&arguments.command)),
        Err(error) => menu::refuse(PROGRAM, missing::COMMANDS, &error),
    }
}

fn run_command(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Run(arguments) => run::run(arguments),
        Command::Merge(arguments) => merge::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Frontier(arguments) => frontier::run(arguments),
        Command::Reproduce(arguments) => reproduce::run(arguments),
        Command::Contest(arguments) => contest::run(arguments),
        Command::Dominance(arguments) => dominance::run(arguments),
        #[cfg(target_os = "linux")]
        Command::Parity(arguments) => parity::run(arguments),
        #[cfg(target_os = "linux")]
        Command::Kernel(arguments) => kernel::run(arguments),
        #[cfg(target_os = "linux")]
        Command::Testbed(arguments) => testbed::run(arguments),
        #[cfg(target_os = "linux")]
        Command::Soak(arguments) => soak::run(arguments),
        Command::Plot(arguments) => plot::run(arguments),
        Command::Trace(arguments) => trace::run(arguments),
        Command::New(arguments) => new::run(arguments),
        Command::Schema(arguments) => schema::run(arguments),
        Command::List(arguments) => list::run(arguments),
        Command::Completions(shell) => manual::print_completions(Arguments::command(), shell),
        Command::Manual(folder) => manual::write_pages(Arguments::command(), folder),
    }
}
