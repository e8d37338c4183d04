//! The `anabranch` program: one module per command.

mod clean;
mod command_line;
mod compare;
mod contest;
mod delivery;
mod demo;
mod exit;
mod io;
mod keygen;
mod new;
mod path_news;
mod plot;
mod print;
mod progress;
mod quality;
mod recv;
mod registry;
mod reproduce;
mod run;
mod schema;
mod send;
mod slowness;
mod stop;
mod summary;
mod trace;
mod way_out;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Live video over several network paths at once.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, also after Ctrl-C; 1 a file, key, address or input cannot be used; 2 the command
line is wrong; 3 the peer did not answer or fell silent; 4 what was promised or expected was not
met; 5 the session ended as it should, but less than half of the frames arrived.

To see it work: `anabranch demo`. To stream: `anabranch keygen --output my.key` on both machines,
then `anabranch recv --help` and `anabranch send --help`. To experiment: `anabranch run --help`.";

#[derive(Debug, Subcommand)]
enum Command {
    Compare(compare::Arguments),
    Contest(contest::Arguments),
    Controllers(registry::ControllerArguments),
    Demo(demo::Arguments),
    Fec(registry::FecArguments),
    Keygen(keygen::Arguments),
    New(new::Arguments),
    Plot(plot::Arguments),
    Quality(quality::Arguments),
    Recv(recv::Arguments),
    Reproduce(reproduce::Arguments),
    Run(run::Arguments),
    Schedulers(registry::SchedulerArguments),
    Schema(schema::Arguments),
    Send(send::Arguments),
    Trace(trace::Arguments),
}

fn main() -> ExitCode {
    let command = match Arguments::try_parse() {
        Ok(arguments) => arguments.command,
        Err(error) => return exit::refuse(&error),
    };
    let done = match command {
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Contest(arguments) => contest::run(&arguments),
        Command::Controllers(arguments) => registry::controllers(&arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Fec(arguments) => registry::fec(&arguments),
        Command::Keygen(arguments) => keygen::run(&arguments),
        Command::New(arguments) => new::run(&arguments),
        Command::Plot(arguments) => plot::run(&arguments),
        Command::Quality(arguments) => quality::run(&arguments),
        Command::Recv(arguments) => recv::run(arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Schedulers(arguments) => registry::schedulers(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Send(arguments) => send::run(arguments),
        Command::Trace(arguments) => trace::run(&arguments),
    };
    exit::report(done)
}
