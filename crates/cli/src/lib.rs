//! The `anabranch` program: one module per command, and entry points for fuzz targets.

#![cfg_attr(
    not(all(feature = "codec", feature = "demo", feature = "top")),
    allow(
        dead_code,
        unused_imports,
        reason = "the linker drops code that only left-out commands use"
    )
)]

mod allowed;
mod command_line;
mod config;
mod ctl;
mod delivery;
#[cfg(feature = "demo")]
mod demo;
mod disabled_commands;
#[cfg(feature = "emulate")]
mod emulate;
mod end;
pub mod fuzzing;
mod keygen;
mod latency;
mod link;
mod list;
mod message;
#[cfg(feature = "emulate")]
mod network;
mod observe_arguments;
mod open_port;
mod outages;
mod overload;
mod pair;
mod pairing;
mod path_reports;
mod path_watch;
mod paths;
mod proxy;
#[cfg(feature = "codec")]
mod quality;
mod recv;
mod refusals;
mod remote_control;
mod return_feed;
mod secret_kind;
mod send;
mod serve;
mod slowness;
mod stale_frames;
mod summary;
mod system;
mod target;
#[cfg(feature = "top")]
mod top;
mod tunnel_arguments;
mod usage;
#[cfg(any(feature = "demo", feature = "top"))]
mod view;
mod worker;

use std::env;
use std::process::ExitCode;

use anabranch_terminal::system::forbid_core_dumps;
use anabranch_terminal::{exit, log_output, manual, menu, print};
use clap::{CommandFactory, Parser, Subcommand};

const PROGRAM: &str = "anabranch";

/// Live video over several network paths at once.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version, after_help = after_help())]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// Returns the text behind the list of commands. It names commands of this build only.
fn after_help() -> String {
    let mut text = "\
Exit codes: 0 done, also after Ctrl-C; 1 a file, key, address or input cannot be used; 2 the command
line is wrong; 3 the peer did not answer or fell silent; 4 a promise or expectation was not met;
5 the session ended normally, but less than half of the frames arrived; 6 another sender with the
same key has replaced this one.

"
    .to_owned();
    if cfg!(feature = "demo") {
        text.push_str("To see it work: `anabranch demo`. ");
    }
    text.push_str(
        "To stream: `anabranch recv --pair film.ts` on one machine,
`anabranch send INPUT LINK` with its link on the other; then `anabranch recv --help`.
To simulate and compare: the program anabranch-lab.",
    );
    text
}

#[derive(Debug, Subcommand)]
enum Command {
    Send(Box<send::Arguments>),
    /// `send` to a receiver of SRTLA.
    #[command(hide = true, name = send::srtla::COMMAND)]
    SendSrtla(Box<send::srtla::Arguments>),
    Recv(recv::Arguments),
    Keygen(keygen::Arguments),
    Pair(pair::Arguments),
    Config(config::Arguments),
    Ctl(ctl::Arguments),
    Proxy(proxy::Arguments),
    Serve(serve::Arguments),
    #[cfg(feature = "top")]
    Top(top::Arguments),
    List(list::Arguments),
    #[cfg(feature = "emulate")]
    Emulate(emulate::Arguments),
    #[cfg(feature = "emulate")]
    Link(network::Arguments),
    #[cfg(feature = "demo")]
    Demo(demo::Arguments),
    #[cfg(feature = "codec")]
    Quality(quality::Arguments),
    Completions(manual::CompletionArguments),
    Manual(manual::ManualArguments),
    /// Draws a key frame, for `--metrics` only.
    #[cfg(feature = "codec")]
    #[command(hide = true, name = anabranch_observe::drawing::COMMAND)]
    DrawKeyFrame,
}

impl Command {
    /// Returns the value of --log-time, for commands whose standard error is a log.
    fn log_time(&self) -> Option<bool> {
        let observe = match self {
            Command::Proxy(arguments) => &arguments.observe,
            Command::Recv(arguments) => &arguments.observe,
            Command::Send(arguments) => &arguments.observe,
            Command::SendSrtla(arguments) => &arguments.observe,
            Command::Serve(arguments) => &arguments.observe,
            _ => return None,
        };
        Some(observe.log_time)
    }
}

/// Runs the program with the words of its command line.
pub fn main() -> ExitCode {
    forbid_core_dumps();
    log_output::print_library_logs();
    let words = match config::with_file(env::args_os().collect()) {
        Ok(words) => words,
        Err(error) => return exit::report(PROGRAM, Err(error)),
    };
    let words = match link::expanded(words) {
        Ok(words) => words,
        Err(error) => return exit::report(PROGRAM, Err(error)),
    };
    let command = match Arguments::try_parse_from(send::srtla::routed(words)) {
        Ok(arguments) => arguments.command,
        Err(mut error) => {
            menu::suggest_shown(&Arguments::command(), &mut error);
            return menu::refuse(PROGRAM, disabled_commands::COMMANDS, &error);
        }
    };
    command.log_time().into_iter().for_each(print::start_log);
    exit::report(PROGRAM, run_command(command))
}

fn run_command(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Completions(shell) => manual::print_completions(Arguments::command(), &shell),
        Command::Config(arguments) => config::run(&arguments),
        Command::Ctl(arguments) => ctl::run(arguments),
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => demo::run(arguments),
        #[cfg(feature = "codec")]
        Command::DrawKeyFrame => Ok(anabranch_observe::drawing::run()?),
        #[cfg(feature = "emulate")]
        Command::Emulate(arguments) => emulate::run(&arguments),
        #[cfg(feature = "emulate")]
        Command::Link(arguments) => network::run(&arguments),
        Command::Keygen(arguments) => keygen::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Manual(folder) => manual::write_pages(Arguments::command(), &folder),
        Command::Pair(arguments) => pair::run(&arguments),
        Command::Proxy(arguments) => proxy::run(&arguments),
        #[cfg(feature = "codec")]
        Command::Quality(arguments) => quality::run(&arguments),
        Command::Recv(arguments) => recv::run(arguments),
        Command::Send(arguments) => send::run(*arguments),
        Command::SendSrtla(arguments) => send::srtla::run(*arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        #[cfg(feature = "top")]
        Command::Top(arguments) => top::run(&arguments),
    }
}
