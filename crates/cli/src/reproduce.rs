//! `anabranch reproduce`: published results beside ours.

use anabranch_lab::papers::zhang_delay_bbr;
use anabranch_units::Duration;
use clap::ValueEnum;

use crate::exit::Unmet;
use crate::progress::Progress;

/// Runs a paper's experiments in the simulator and prints its figures beside ours.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
  zhang-delay-bbr   Zhang & Lei, Table 1: nine bottlenecks, three flows of Delay-BBR in three forms;
                    mean one-way delay and loss beside Table 2

  anabranch reproduce zhang-delay-bbr
  anabranch reproduce zhang-delay-bbr --seeds 3")]
pub(crate) struct Arguments {
    /// Which paper.
    #[arg(value_enum)]
    paper: Paper,
    /// How many seeds; medians and ranges are printed.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// How many runs at a time; 0: one per core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Paper {
    ZhangDelayBbr,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Paper::ZhangDelayBbr = arguments.paper;
    let run_count = (zhang_delay_bbr::CASES.len() * zhang_delay_bbr::CONTROLLERS.len()) as u64;
    let progress = Progress::new(Duration::from_secs(300) * run_count * arguments.seeds);
    let rows = zhang_delay_bbr::reproduce(arguments.seeds, arguments.threads, &|part| {
        progress.add(part.simulated);
    })?;
    progress.finish();
    print!("{}", zhang_delay_bbr::table(&rows));
    let broken = rows
        .iter()
        .filter(|row| row.is_as_expected == Some(false))
        .count();
    if broken > 0 {
        let text = format!("delay-bbr misses what is expected of it in {broken} of the nine cases");
        return Err(Unmet(text).into());
    }
    Ok(())
}
