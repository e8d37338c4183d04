//! `anabranch list`: names of everything that can be chosen.

use anabranch_core::SendReason;
use anabranch_observe::metrics;
use anabranch_terminal::names::{self, ALGORITHMS, Section};
use anabranch_terminal::print;
use clap::builder::PossibleValuesParser;

/// List all names that other commands accept or print: algorithms, reasons, statistics.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  anabranch list
  anabranch list controllers
  anabranch list statistics | grep rtt

A name with options goes wherever an algorithm is named:

  anabranch send --controller nada:priority=2 --fec fixed:overhead=0.25:window=20 …")]
pub(crate) struct Arguments {
    /// Kind of names; all kinds by default.
    #[arg(value_parser = kinds())]
    kind: Option<String>,
}

const STREAMS: [Section; 2] = [
    Section {
        name: "reasons",
        about: "reasons for sent packets, in summaries, statistics and traces",
        list: reasons,
    },
    Section {
        name: "statistics",
        about: "names at /metrics of --metrics, of streams, paths and outputs",
        list: statistics,
    },
];

fn sections() -> Vec<Section> {
    [&ALGORITHMS[..], &STREAMS].concat()
}

fn kinds() -> PossibleValuesParser {
    let names = sections().into_iter().map(|section| section.name);
    names.collect::<Vec<_>>().into()
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    print::text(names::text(&sections(), arguments.kind.as_deref()))
}

fn reasons() -> String {
    SendReason::ALL
        .into_iter()
        .map(|reason| format!("{:<24} {}\n", reason.name(), meaning(reason)))
        .collect()
}

fn meaning(reason: SendReason) -> &'static str {
    match reason {
        _ if reason.is_retransmission() => "sent again by the session",
        _ if reason.is_scheduled_copy() => "a copy for which the scheduler asked",
        SendReason::New => "the first time",
        SendReason::Repair => "forward error correction",
        SendReason::Control => "reports and answers",
        _ => "a probe",
    }
}

fn statistics() -> String {
    let of_streams = metrics::OF_STREAMS.iter().map(|of| (of.name, of.help));
    let of_paths = metrics::OF_PATHS.iter().map(|of| (of.name, of.help));
    let others = metrics::OF_REASONS.into_iter().chain([metrics::OF_STATES]);
    let of_outputs = metrics::OF_OUTPUTS.iter().map(|of| (of.name, of.help));
    let of_connections = metrics::OF_CONNECTIONS.iter().map(|of| (of.name, of.help));
    let all = of_streams
        .chain(of_paths)
        .chain(others)
        .chain(of_outputs)
        .chain(of_connections);
    all.map(|(name, help)| format!("{name:<45} {help}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_reasons_and_statistics_are_listed() {
        let all = names::text(&sections(), None);
        for name in SendReason::ALL.into_iter().map(SendReason::name) {
            assert!(
                all.lines().any(|line| line.split(' ').next() == Some(name)),
                "{name}"
            );
        }
        for name in [
            "anabranch_path_rtt_seconds ",
            "anabranch_output_rtt_seconds ",
        ] {
            assert!(all.contains(name), "{name}");
        }
    }
}
