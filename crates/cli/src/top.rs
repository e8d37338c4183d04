//! `anabranch top`.

mod about;
mod client;
mod outputs;
mod view;

use std::io::{self, IsTerminal};

use anabranch_net::Clock;
use anabranch_observe::http::HttpAddress;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::Duration;
use anyhow::{Context, bail};

use crate::view::{KeyAction, Screen, width};
use client::Client;
use view::View;

/// Interval between two requests. A program publishes a status once a second.
const INTERVAL: Duration = Duration::from_secs(1);
/// Width of `--once` in columns, if the terminal's is unknown. Chosen.
const WIDTH: u16 = 110;

/// Shows the state of a running sender, receiver, proxy or server, path by path.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The other program must run with --metrics. Arrow keys choose a stream and a column, and show the
column's meaning.

Examples:
  anabranch send … --metrics 9797 film.ts &
  anabranch top

  Watch a program on another machine, without opening its port to others:
  ssh -L 9797:127.0.0.1:9797 studio &
  anabranch top

  One screen as text:
  anabranch top --once")]
pub(crate) struct Arguments {
    /// The address of the other program's --metrics: an address and a port, or a port of this
    /// machine.
    #[arg(value_name = "[ADDR:]PORT", default_value = "9797")]
    address: HttpAddress,
    /// Print one screen and end.
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let address = arguments.address.address;
    let client = Client::new(address)?;
    let seconds = client.history().with_context(|| {
        format!("nothing to see at {address}: does the other program run with --metrics?")
    })?;
    let mut view = View::new(address.to_string());
    let history = &mut view.of_stream.history;
    seconds.into_iter().for_each(|second| history.add(second));
    if arguments.once {
        // Without keys, no column can be chosen.
        view.of_stream.explains_all = true;
        let width = width().unwrap_or(WIDTH);
        return print::text(view::text(&view, width));
    }
    if !io::stdout().is_terminal() {
        bail!("standard output is no terminal: `anabranch top --once` prints one screen");
    }
    watch(&client, &mut view)
}

/// Shows news once a second until the user, or a signal, ends it.
fn watch(client: &Client, view: &mut View) -> anyhow::Result<()> {
    let stop = Stop::new()?;
    stop.on_signals()?;
    let mut screen = Screen::open()?;
    let clock = Clock::start();
    let mut next_at = clock.now() + INTERVAL;
    while !stop.is_stopped() {
        screen.draw(|frame| view::draw(frame, view))?;
        let patience = next_at.saturating_since(clock.now());
        for action in screen.actions(patience.to_std())? {
            match action {
                KeyAction::Quit => return Ok(()),
                action => view.follow(action),
            }
        }
        if clock.now() < next_at {
            continue;
        }
        next_at = clock.now() + INTERVAL;
        match client.status() {
            Ok(status) => {
                view.problem = None;
                view.of_stream.history.add(status);
                view.of_stream.picture = client.thumbnail(view.stream_name());
            }
            // The program may come back.
            Err(error) => view.problem = Some(format!("{error:#}")),
        }
    }
    Ok(())
}
