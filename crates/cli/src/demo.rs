//! `anabranch demo`: live video over two emulated links, one of which fails, in one process and over
//! real UDP sockets. It promises what the viewer sees and says what was measured.
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

use core::sync::atomic::AtomicBool;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anabranch_units::{Duration, Seed};
use anyhow::{Context, bail};
use signal_hook::consts::{SIGINT, SIGTERM};

use view::View;

/// What the demo is started with.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArguments {
    /// How long to film; the Wi-Fi link fails from 10 s to 15 s
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub duration: Duration,
    /// Chooses the camera's grain and the transport's random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Send this video at its own bitrate instead of the camera: MPEG-TS, H.264 Annex B, or any
    /// H.264 file that ffmpeg can remux
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Where to write the video as received, MPEG-TS
    #[arg(long, value_name = "FILE", default_value = "demo.ts")]
    pub output: PathBuf,
    /// Where to draw rates and delays, SVG
    #[arg(long, value_name = "FILE", default_value = "demo.svg")]
    pub plot: PathBuf,
}

/// Runs the demo, prints its report and draws its picture. The exit code is that of failure if a
/// promise is broken.
///
/// # Errors
/// What keeps the demo from running: a file, a socket, a missing `ffmpeg`.
pub fn run(arguments: DemoArguments) -> anyhow::Result<ExitCode> {
    if arguments.duration < Duration::from_secs(1) {
        bail!("a demo of {}: it must last at least 1 s", arguments.duration);
    }
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&is_interrupted))
            .context("cannot listen for the request to end")?;
    }
    let plan = run::Plan {
        duration: arguments.duration,
        seed: Seed(arguments.seed),
        input: arguments.input,
        output: arguments.output,
    };
    let mut view = View::for_standard_output();
    let recording = run::run(&plan, &mut view, &is_interrupted)?;
    // The terminal is given back before anything is printed.
    drop(view);
    let promises = judge::judge(&recording);
    print!("{}", report::report(&recording, &promises));
    plot::draw(&arguments.plot, &recording)
        .with_context(|| format!("cannot draw {}", arguments.plot.display()))?;
    let (video, picture) = (plan.output.display(), arguments.plot.display());
    println!("\n{video} holds the video as received, {picture} the run as a picture.");
    Ok(match judge::is_any_broken(&promises) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}
