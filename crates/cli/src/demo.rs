//! `anabranch demo`: live video over two emulated links, one of which fails, in one process and
//! over real UDP sockets. It promises what the viewer sees and says what was measured.
//!
//! ```text
//! camera.rs or file.rs ─▶ feed.rs ─▶ Sender ═▶ network.rs (Relay) ═▶ Receiver ─▶ viewer.rs
//!          └────────── ledger.rs: each frame from capture to check ─────────────┘
//! monitor.rs samples all of it ─▶ view.rs, screen.rs while it runs;
//! recording.rs ─▶ judge.rs, report.rs, plot.rs at the end
//! ```
//!
//! Both ends count time from one origin, so that a frame's delay, from the capture of the picture
//! to the delivery of the whole frame, is measured and not estimated.

mod camera;
mod feed;
mod file;
mod judge;
mod ledger;
mod monitor;
mod network;
mod plot;
mod recording;
mod report;
mod run;
mod screen;
mod view;
mod viewer;

use std::path::PathBuf;

use anabranch_units::{Duration, Seed};
use anyhow::{Context, bail};

use crate::exit::Unmet;
use crate::print;
use crate::stop::Stop;
use view::View;

/// Shows live video over two emulated links, of which one fails, and judges what a viewer saw.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long to film; the Wi-Fi link fails from 10 s to 15 s.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    duration: Duration,
    /// Chooses the camera's grain and the transport's random choices.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Sends this video at its own bitrate instead of the camera's: MPEG-TS, H.264 Annex B, or any
    /// H.264 file that ffmpeg can remux.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Where to write the video as received, MPEG-TS.
    #[arg(long, value_name = "FILE", default_value = "demo.ts")]
    output: PathBuf,
    /// Where to draw rates and delays, SVG.
    #[arg(long, value_name = "FILE", default_value = "demo.svg")]
    plot: PathBuf,
}

/// Runs the demo, prints its report and draws its picture.
///
/// # Errors
/// What keeps the demo from running: a file, a socket, a missing `ffmpeg`; [`Unmet`] for a promise
/// that is broken.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    if arguments.duration < Duration::from_secs(1) {
        bail!(
            "a demo of {}: it must last at least 1 s",
            arguments.duration
        );
    }
    let stop = Stop::new()?;
    stop.on_signals()?;
    let plan = run::Plan {
        duration: arguments.duration,
        seed: Seed(arguments.seed),
        input: arguments.input,
        output: arguments.output,
    };
    let mut view = View::for_standard_output();
    let recording = run::run(&plan, &mut view, &stop);
    // The terminal is given back before anything is printed, an error too.
    drop(view);
    let recording = recording?;
    let promises = judge::judge(&recording);
    print::text(report::report(&recording, &promises))?;
    plot::draw(&arguments.plot, &recording)
        .with_context(|| format!("cannot draw {}", arguments.plot.display()))?;
    let (video, picture) = (plan.output.display(), arguments.plot.display());
    print::line(format_args!(
        "\n{video} holds the video as received, {picture} shows the run."
    ))?;
    match judge::broken_count(&promises) {
        0 => Ok(()),
        count => Err(Unmet(format!("{count} of {} promises broken", promises.len())).into()),
    }
}
