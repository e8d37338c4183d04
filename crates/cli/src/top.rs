//! `anabranch top`.

mod about;
mod client;
mod history;
mod picture;
mod screen;
mod view;

use std::io::{self, IsTerminal};
use std::time::Duration as StdDuration;

use anyhow::{Context, bail};

use crate::observe::server::MetricsAddress;
use crate::print;
use client::Client;
use history::History;
use screen::{Screen, Wish};
use view::View;

/// From one question to the next: a program has news once a second.
const INTERVAL: StdDuration = StdDuration::from_secs(1);
/// What `--once` draws on, where the terminal does not say its width.
const WIDTH: u16 = 110;

/// Shows what a running sender, receiver, proxy or server does, path by path.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The other program runs with --metrics. Arrows choose a stream and a column, whose meaning is shown.

Examples:
  anabranch send … --metrics 9797 film.ts &
  anabranch top

  Of a program on another machine, without opening its port to others:
  ssh -L 9797:127.0.0.1:9797 studio &
  anabranch top

  One screen as text:
  anabranch top --once")]
pub(crate) struct Arguments {
    /// What the other program's --metrics says: an address and a port, or a port of this machine.
    #[arg(value_name = "[ADDR:]PORT", default_value = "9797")]
    address: MetricsAddress,
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
    let mut view = View::new(address.to_string(), History::default());
    seconds
        .into_iter()
        .for_each(|second| view.history.add(second));
    if arguments.once {
        let width = screen::width().unwrap_or(WIDTH);
        return print::text(view::text(&view, width));
    }
    if !io::stdout().is_terminal() {
        bail!("standard output is no terminal: `anabranch top --once` prints one screen");
    }
    let mut screen = Screen::open()?;
    loop {
        screen.draw(&view)?;
        match screen.wait(INTERVAL)? {
            Some(Wish::Quit) => return Ok(()),
            Some(wish) => view.follow(wish),
            None => match client.status() {
                Ok(status) => {
                    view.problem = None;
                    view.history.add(status);
                    view.picture = client.thumbnail(view.stream_name());
                }
                // It may come back.
                Err(error) => view.problem = Some(format!("{error:#}")),
            },
        }
    }
}
