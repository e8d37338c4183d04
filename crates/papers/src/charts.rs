//! Pictures that the claims of several papers draw.

use anabranch_lab::metrics::FlowSeries;
use anabranch_lab::{Bar, BarKind, Bars, Chart, Line, Lines};

use super::judgement::Samples;
use super::record::RunRecord;

/// Bars of one kind: name, and one number for each group. A number that is not finite has no bar.
pub(super) type Kind = (String, Vec<Samples>);

/// Makes a bar of the median, with the least and the largest sample, all times `factor`.
fn bar(samples: &Samples, factor: f64) -> Option<Bar> {
    let spread = samples.spread()?;
    Some(Bar {
        value: spread.median * factor,
        low: spread.min * factor,
        high: spread.max * factor,
    })
}

/// Returns bars of medians with the range over the seeds, all multiplied by `factor`: 100 for
/// shares in percent.
pub(super) fn bars(
    title: impl Into<String>,
    y: impl Into<String>,
    factor: f64,
    groups: impl IntoIterator<Item = String>,
    kinds: impl IntoIterator<Item = Kind>,
) -> Chart {
    Chart::Bars(Bars {
        title: title.into(),
        y: y.into(),
        groups: groups.into_iter().collect(),
        kinds: kinds
            .into_iter()
            .map(|(label, samples)| BarKind {
                label,
                bars: samples.iter().map(|samples| bar(samples, factor)).collect(),
            })
            .collect(),
    })
}

/// Returns the sending rates of flows over time.
pub(super) fn sending_rates<'a>(
    title: impl Into<String>,
    run: &RunRecord,
    flows: impl IntoIterator<Item = &'a FlowSeries>,
) -> Lines {
    let flows = flows.into_iter();
    let lines = flows.map(|flow| Line::new(flow.name.as_str(), run.sent_kbits(flow)));
    Lines {
        title: title.into(),
        x: "time, s".to_owned(),
        y: "sending rate, kbit/s".to_owned(),
        lines: lines.collect(),
        ..Lines::default()
    }
}
