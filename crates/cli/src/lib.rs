//! The `anabranch` program: one module per command, and entry points for fuzz targets.

#![cfg_attr(
    not(all(feature = "demo", feature = "papers", feature = "top")),
    allow(
        dead_code,
        unused_imports,
        reason = "the linker drops code that only left-out commands use"
    )
)]

mod allowed;
mod clean;
mod command_line;
#[cfg(feature = "laboratory")]
mod compare;
mod config;
#[cfg(feature = "laboratory")]
mod contest;
mod delivery;
#[cfg(feature = "demo")]
mod demo;
mod disabled_commands;
#[cfg(feature = "laboratory")]
mod emulate;
mod exit;
pub mod fuzzing;
mod io;
mod keygen;
mod latency;
mod link;
mod list;
mod local_address;
mod message;
#[cfg(feature = "laboratory")]
mod new;
mod observe;
mod overload;
mod path_reports;
mod path_watch;
mod paths;
#[cfg(feature = "laboratory")]
mod plot;
mod print;
#[cfg(feature = "laboratory")]
mod progress;
mod proxy;
#[cfg(feature = "codec")]
mod quality;
mod recv;
mod refusals;
mod registry;
#[cfg(feature = "papers")]
mod reproduce;
mod return_feed;
#[cfg(feature = "laboratory")]
mod run;
#[cfg(feature = "laboratory")]
mod schema;
mod send;
mod serve;
mod service;
mod slowness;
mod stale_frames;
mod stop;
mod summary;
mod target;
mod tcp_choice;
#[cfg(feature = "top")]
mod top;
#[cfg(feature = "laboratory")]
mod trace;
mod tunnel;
mod usage;
mod via;
#[cfg(any(feature = "demo", feature = "top"))]
mod view;

use std::env;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Live video over several network paths at once.
#[derive(Debug, Parser)]
#[command(version, after_help = after_help())]
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
`anabranch send INPUT LINK` with its link on the other; then `anabranch recv --help`.",
    );
    if cfg!(feature = "laboratory") {
        text.push_str(" To experiment: `anabranch run --help`.");
    }
    text
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "laboratory")]
    Compare(compare::Arguments),
    #[cfg(feature = "laboratory")]
    Contest(contest::Arguments),
    Config(config::Arguments),
    Controllers(registry::ControllerArguments),
    #[cfg(feature = "demo")]
    Demo(demo::Arguments),
    /// Draws a key frame, for `--metrics` only.
    #[cfg(feature = "codec")]
    #[command(hide = true, name = observe::drawing::COMMAND)]
    DrawKeyFrame,
    #[cfg(feature = "laboratory")]
    Emulate(emulate::Arguments),
    Fec(registry::FecArguments),
    Keygen(keygen::Arguments),
    List(list::Arguments),
    #[cfg(feature = "laboratory")]
    New(new::Arguments),
    #[cfg(feature = "laboratory")]
    Plot(plot::Arguments),
    Proxy(proxy::Arguments),
    #[cfg(feature = "codec")]
    Quality(quality::Arguments),
    Recv(recv::Arguments),
    #[cfg(feature = "papers")]
    Reproduce(reproduce::Arguments),
    #[cfg(feature = "laboratory")]
    Run(run::Arguments),
    Schedulers(registry::SchedulerArguments),
    #[cfg(feature = "laboratory")]
    Schema(schema::Arguments),
    Send(Box<send::Arguments>),
    Serve(serve::Arguments),
    #[cfg(feature = "top")]
    Top(top::Arguments),
    #[cfg(feature = "laboratory")]
    Trace(trace::Arguments),
}

impl Command {
    /// Returns the value of --log-time, for commands whose standard error is a log.
    fn log_time(&self) -> Option<bool> {
        let observe = match self {
            Command::Proxy(arguments) => &arguments.observe,
            Command::Recv(arguments) => &arguments.observe,
            Command::Send(arguments) => &arguments.observe,
            Command::Serve(arguments) => &arguments.observe,
            _ => return None,
        };
        Some(observe.log_time)
    }
}

/// Forbids core dumps, which would write keys to a file. Programs that this one starts have the
/// same limit, and may raise it.
fn forbid_core_dumps() {
    let mut limit = getrlimit(Resource::Core);
    limit.current = Some(0);
    // Lowering a limit needs no privilege. A system without limits writes no dumps either.
    let _ = setrlimit(Resource::Core, limit);
}

/// Runs the program with the words of its command line.
pub fn main() -> ExitCode {
    forbid_core_dumps();
    let words = match config::with_file(env::args_os().collect()) {
        Ok(words) => words,
        Err(error) => return exit::report(Err(error)),
    };
    let words = match link::expanded(words) {
        Ok(words) => words,
        Err(error) => return exit::report(Err(error)),
    };
    let command = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments.command,
        Err(error) => return exit::refuse(&error),
    };
    command.log_time().into_iter().for_each(print::start_log);
    exit::report(run_command(command))
}

fn run_command(command: Command) -> anyhow::Result<()> {
    match command {
        #[cfg(feature = "laboratory")]
        Command::Compare(arguments) => compare::run(&arguments),
        #[cfg(feature = "laboratory")]
        Command::Contest(arguments) => contest::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Controllers(arguments) => registry::controllers(&arguments),
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => demo::run(arguments),
        #[cfg(feature = "codec")]
        Command::DrawKeyFrame => observe::drawing::run(),
        #[cfg(feature = "laboratory")]
        Command::Emulate(arguments) => emulate::run(&arguments),
        Command::Fec(arguments) => registry::fec(&arguments),
        Command::Keygen(arguments) => keygen::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        #[cfg(feature = "laboratory")]
        Command::New(arguments) => new::run(&arguments),
        #[cfg(feature = "laboratory")]
        Command::Plot(arguments) => plot::run(&arguments),
        Command::Proxy(arguments) => proxy::run(&arguments),
        #[cfg(feature = "codec")]
        Command::Quality(arguments) => quality::run(&arguments),
        Command::Recv(arguments) => recv::run(arguments),
        #[cfg(feature = "papers")]
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        #[cfg(feature = "laboratory")]
        Command::Run(arguments) => run::run(&arguments),
        Command::Schedulers(arguments) => registry::schedulers(&arguments),
        #[cfg(feature = "laboratory")]
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Send(arguments) => send::run(*arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        #[cfg(feature = "top")]
        Command::Top(arguments) => top::run(&arguments),
        #[cfg(feature = "laboratory")]
        Command::Trace(arguments) => trace::run(&arguments),
    }
}
