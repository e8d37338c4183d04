//! Measurements of runs. Everything streams, so that the memory depends on the number of flows and
//! paths, not on the duration of a run. The exception are the flows' rates every 100 ms.

mod catalogue;
mod counters;
mod fairness;
mod fragments;
mod frames;
mod histogram;
mod phases;
mod rates;
mod record;
mod recorder;
mod series;
mod statistics;
mod variation;
mod viewer;
mod window;

pub use catalogue::{METRICS, Metric, Scope, Subject, Unit};
pub use counters::Counters;
pub use fairness::jain_index;
pub use frames::FrameMeter;
pub use histogram::Histogram;
pub use rates::RateSamples;
pub use series::{FlowSeries, LinkSeries, PathSeries, Series};
pub use statistics::{
    AdaptiveStatistics, Distribution, DownloadStatistics, DropReport, FlowStatistics,
    FragmentStatistics, FrameStatistics, HeadOfLineStatistics, LinkStatistics, PathStatistics,
    Phase, PlayerStatistics, ReasonTraffic, Statistics, Traffic,
};
pub use variation::Variation;
pub use window::Window;

pub(crate) use recorder::{Recorder, least_delay};
pub(crate) use series::SeriesRecorder;
