//! `anabranch demo`: live video over two emulated links, one of which fails, in one process and
//! over real UDP sockets. It makes promises about the viewer's picture and reports the
//! measurements.
//!
//! ```text
//! Input ─▶ Sender ═▶ network.rs (Relay) ═▶ Receiver ─▶ viewer.rs
//!   └───── ledger.rs: each frame from capture to check ────┘
//! monitor.rs samples all of it ─▶ view.rs, page.rs while it runs;
//! recording.rs ─▶ judge.rs, report.rs, plot.rs at the end; of two runs comparison.rs
//! ```
//!
//! Both ends count time from one origin. A frame's delay, from the capture of the picture to the
//! delivery of the whole frame, is therefore measured and not estimated.

mod comparison;
mod expectation;
mod judge;
mod ledger;
mod moment;
mod monitor;
mod network;
mod page;
mod plot;
mod recording;
mod report;
mod run;
mod view;
mod viewer;

use std::path::{Path, PathBuf};

use anabranch_core::MediaConfig;
use anabranch_mpegts_io::check_container;
use anabranch_schedulers::FEC_DEFAULT;
use anabranch_terminal::exit::Failure;
use anabranch_terminal::files::check_writable;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Instant, Seed};
use anyhow::{Context, bail};

use comparison::{CONVERSATION, Comparison};
use network::{FAILING, LINKS, OUTAGE_AT, RETURN_AT};
use recording::Recording;
use view::View;

/// Duration of each run of `--compare-fec`: the outage, and some time before and after it.
const COMPARED_DURATION: Duration = Duration::from_secs(18);
const COMPARED_LOSS_PERCENT: f64 = 2.0;
/// Suffixes of the file names of the two runs.
const SUFFIXES: [&str; 2] = ["-without-fec", "-with-fec"];
/// Longest deadline; a picture that is older is not live video.
const MAX_DEADLINE: Duration = Duration::from_secs(10);
const COMPARED_FEC: &str = "adaptive";

/// Show live video over two emulated links, one of which fails, and judge the viewer's picture.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Lost packets are retransmitted, which is enough if a film may be half a second behind. A
conversation leaves no time for that: forward error correction adds repairs, from which the receiver
computes lost packets. To compare benefit and cost on the same links:

  anabranch demo --compare-fec

or with another policy, loss and deadline:

  anabranch demo --compare-fec --fec frame --loss 5 --deadline \"200 ms\"")]
pub(crate) struct Arguments {
    /// Duration of the film: by default 30 s, or 18 s per run with --compare-fec. The Wi-Fi link
    /// fails from 10 s to 15 s.
    #[arg(long, value_name = "TIME")]
    duration: Option<Duration>,
    /// Seed for the links' and the transport's random choices.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Send this video at its own bitrate instead of the camera's: MPEG-TS, H.264 Annex B, or any
    /// file that ffmpeg can remux.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Output file for the received video, MPEG-TS.
    #[arg(long, value_name = "FILE", default_value = "demo.ts")]
    output: PathBuf,
    /// Output file for the plot of rates and delays, SVG.
    #[arg(long, value_name = "FILE", default_value = "demo.svg")]
    plot: PathBuf,
    /// Make the plot play the run in a loop, for a web page.
    #[arg(long)]
    moving: bool,
    /// Run twice, without and with forward error correction, and compare the viewers' pictures.
    #[arg(long)]
    compare_fec: bool,
    /// Policy of forward error correction, by default off, or adaptive with --compare-fec.
    /// `anabranch list fec` lists the policies.
    #[arg(long, value_name = "POLICY")]
    fec: Option<String>,
    /// Random loss on each link, in percent; by default none, or 2 with --compare-fec.
    #[arg(long, value_name = "PERCENT")]
    loss: Option<f64>,
    /// Maximum age of a frame that is still sent and waited for, by default 500 ms, or 150 ms with
    /// --compare-fec. Key frames are sent and waited for at any age. The promises apply to this
    /// deadline.
    #[arg(long, value_name = "TIME")]
    deadline: Option<Duration>,
}

impl Arguments {
    /// Returns the run that the arguments describe; with --compare-fec, the run with repairs.
    fn plan(&self) -> anyhow::Result<run::Plan> {
        let usual = MediaConfig::default();
        let is_two = self.compare_fec;
        let duration = self.duration.unwrap_or(if is_two {
            COMPARED_DURATION
        } else {
            Duration::from_secs(30)
        });
        if duration < Duration::from_secs(1) {
            bail!("a demo of {duration}: it must last at least 1 s");
        }
        let loss_percent = self
            .loss
            .unwrap_or(if is_two { COMPARED_LOSS_PERCENT } else { 0.0 });
        if !(0.0..=50.0).contains(&loss_percent) {
            bail!("--loss {loss_percent}: it is in percent, from 0 to 50");
        }
        let fec = self.fec.clone().unwrap_or(if is_two {
            COMPARED_FEC.to_owned()
        } else {
            FEC_DEFAULT.to_owned()
        });
        let deadline = self
            .deadline
            .unwrap_or(if is_two { CONVERSATION } else { usual.deadline });
        check_deadline(deadline)?;
        check_container(&self.output)?;
        Ok(run::Plan {
            duration,
            seed: Seed(self.seed),
            input: self.input.clone(),
            output: self.output.clone(),
            fec,
            deadline,
            loss_percent,
        })
    }
}

/// Checks that a deadline is longer than the delay of the fastest link, and at most
/// [`MAX_DEADLINE`].
fn check_deadline(deadline: Duration) -> anyhow::Result<()> {
    let fastest = LINKS.iter().min_by_key(|link| link.delay);
    if let Some(link) = fastest.filter(|link| link.delay >= deadline) {
        bail!(
            "--deadline {deadline}: no picture can keep it; the fastest link, {}, takes {} one way",
            link.name,
            link.delay
        );
    }
    if deadline > MAX_DEADLINE {
        bail!("--deadline {deadline}: it may be {MAX_DEADLINE} at most");
    }
    Ok(())
}

/// Runs the demo, prints its report and draws its picture.
///
/// # Errors
/// A file or socket that cannot be opened, a missing `ffmpeg`, or [`Failure::Unmet`] for a broken
/// promise.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let plan = arguments.plan()?;
    let plots = if arguments.compare_fec {
        SUFFIXES
            .map(|suffix| with_suffix(&arguments.plot, suffix))
            .to_vec()
    } else {
        vec![arguments.plot.clone()]
    };
    plots.iter().try_for_each(|plot| check_writable(plot))?;
    let stop = Stop::new()?;
    stop.on_signals()?;
    let drawing = Drawing {
        path: &arguments.plot,
        is_moving: arguments.moving,
    };
    if arguments.compare_fec {
        run_twice(&plan, drawing, &stop)
    } else {
        run_once(&plan, drawing, &stop)
    }
}

/// Output file of a run's plot.
#[derive(Clone, Copy, Debug)]
struct Drawing<'a> {
    path: &'a Path,
    /// Whether the plot is animated.
    is_moving: bool,
}

fn run_once(plan: &run::Plan, drawing: Drawing<'_>, stop: &Stop) -> anyhow::Result<()> {
    print::line(announcement(plan))?;
    let recording = record(plan, drawing, stop)?;
    let promises = judge::judge(&recording);
    print::text(report::report(&recording, &promises))?;
    let (video, picture) = (plan.output.display(), drawing.path.display());
    print::line(format_args!(
        "\n{video} holds the video as received, {picture} shows the run."
    ))?;
    print::line("--compare-fec shows the effect of forward error correction on lossy links.")?;
    let broken_count = judge::broken_count(&promises);
    if broken_count > 0 {
        let failure = format!("{broken_count} of {} promises broken", promises.len());
        return Err(Failure::Unmet(failure).into());
    }
    print::line(format_args!("\n{}", report::conclusion(&recording)))
}

/// Returns the promise of a run in a sentence.
fn announcement(plan: &run::Plan) -> String {
    let [wifi, lte] = LINKS.map(|link| link.name);
    let links = format!("Live video over two emulated links, {wifi} and {lte}");
    if Instant::ZERO + plan.duration < RETURN_AT {
        return format!("{links}.");
    }
    format!(
        "{links}. {} fails from {:.0} s to {:.0} s, and the picture must stay.",
        LINKS[FAILING].name,
        OUTAGE_AT.as_secs_f64(),
        RETURN_AT.as_secs_f64()
    )
}

/// Runs the plan without repairs and with them. The demo promises nothing about random losses.
fn run_twice(plan: &run::Plan, drawing: Drawing<'_>, stop: &Stop) -> anyhow::Result<()> {
    let without = run::Plan {
        fec: FEC_DEFAULT.to_owned(),
        output: with_suffix(&plan.output, SUFFIXES[0]),
        ..plan.clone()
    };
    let with = run::Plan {
        output: with_suffix(&plan.output, SUFFIXES[1]),
        ..plan.clone()
    };
    let mut recordings = Vec::new();
    for (plan, suffix) in [&without, &with].into_iter().zip(SUFFIXES) {
        stop.clear();
        print::line(format_args!("forward error correction: {}", plan.fec))?;
        let path = &with_suffix(drawing.path, suffix);
        let recording = record(plan, Drawing { path, ..drawing }, stop)?;
        if recording.is_interrupted {
            return print::line("interrupted: there is nothing to compare");
        }
        recordings.push(recording);
    }
    let comparison = Comparison {
        fec: &plan.fec,
        without: &recordings[0],
        with: &recordings[1],
        loss_percent: plan.loss_percent,
    };
    print::text(comparison.table())?;
    // The simulator's camera does not resemble a film from a file.
    if plan.input.is_none() {
        print::text(expectation::table(plan)?)?;
    }
    print::line(format_args!(
        "\n{} and {} hold the videos as received.",
        without.output.display(),
        with.output.display()
    ))
}

/// Runs the plan with a live view, and draws the plot.
fn record(plan: &run::Plan, drawing: Drawing<'_>, stop: &Stop) -> anyhow::Result<Recording> {
    let mut view = View::for_standard_output();
    let ran = run::run(plan, &mut view, stop);
    // The terminal is restored before anything is printed, including an error.
    drop(view);
    let recording = ran?;
    let path = drawing.path;
    plot::draw(path, &recording, drawing.is_moving)
        .with_context(|| format!("cannot draw {}", path.display()))?;
    Ok(recording)
}

/// Inserts the suffix before the extension: `demo.ts` with `-with-fec` is `demo-with-fec.ts`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(suffix);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn plan(line: &str) -> anyhow::Result<run::Plan> {
        let words = ["demo"].into_iter().chain(line.split(' '));
        Line::try_parse_from(words)?.arguments.plan()
    }

    #[test]
    fn a_deadline_that_no_link_can_keep_is_refused() {
        let error = plan("--deadline 20ms").unwrap_err().to_string();
        assert!(
            error.contains("the fastest link, Wi-Fi, takes 20 ms"),
            "{error}"
        );
        assert!(plan("--deadline 0s").is_err());
        assert!(plan("--deadline 11s").is_err());
        let kept = plan("--deadline 21ms").expect("a plan");
        assert_eq!(kept.deadline, Duration::from_millis(21));
    }

    /// Returns the sentence that a command line's run begins with.
    fn sentence(line: &str) -> String {
        announcement(&plan(line).expect("a plan"))
    }

    fn deadline(line: &str) -> Duration {
        plan(line).expect("a plan").deadline
    }

    #[test]
    fn the_first_sentence_promises_an_outage_that_the_run_has() {
        assert!(
            sentence("--seed 1")
                .ends_with("Wi-Fi fails from 10 s to 15 s, and the picture must stay.")
        );
        assert!(sentence("--duration 9s").ends_with("Wi-Fi and LTE."));
    }

    #[test]
    fn two_runs_have_the_deadline_of_a_conversation_unless_another_is_asked_for() {
        assert_eq!(deadline("--compare-fec"), CONVERSATION);
        let asked = deadline("--compare-fec --deadline 2s");
        assert_eq!(asked, Duration::from_secs(2));
    }
}
