//! `/hour.json`: the last hour in steps of ten seconds, for charts.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::status::{Path, Status, Stream};

/// Number of seconds in a step.
const STEP_SECONDS: u32 = 10;
/// Number of steps in an hour.
const STEPS: usize = 360;
/// Maximum number of points in memory: some megabytes. With more paths than 50 the past is shorter.
const MAX_POINTS: usize = 20_000;

/// Means of all streams and paths in each step.
#[derive(Debug, Default)]
pub(super) struct Hour {
    steps: VecDeque<Step>,
    point_count: usize,
    sums: BTreeMap<String, Sums>,
    second_count: u32,
}

/// Means of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Step {
    /// Time of the step's end.
    unix_time_s: f64,
    streams: Vec<StreamPoint>,
}

impl Step {
    fn point_count(&self) -> usize {
        let paths = self.streams.iter().map(|stream| stream.paths.len() + 1);
        paths.sum()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct StreamPoint {
    name: String,
    target_rate_bps: f32,
    media_rate_bps: f32,
    paths: Vec<PathPoint>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct PathPoint {
    path: usize,
    name: String,
    rate_bps: f32,
    rtt_s: Option<f32>,
    loss_ratio: f32,
}

/// Sums of a stream in the current step.
#[derive(Debug, Default)]
struct Sums {
    target: Mean,
    media: Mean,
    paths: BTreeMap<usize, PathSums>,
}

#[derive(Debug, Default)]
struct PathSums {
    name: String,
    rate: Mean,
    rtt: Mean,
    loss: Mean,
}

#[derive(Debug, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn get(&self) -> Option<f32> {
        (self.count > 0).then(|| (self.sum / f64::from(self.count)) as f32)
    }
}

impl Sums {
    fn add(&mut self, stream: &Stream) {
        self.target.add(stream.target_rate_bps as f64);
        self.media.add(stream.media_rate_bps.avg);
        for path in &stream.paths {
            self.paths.entry(path.path).or_default().add(path);
        }
    }

    fn point(self, name: String) -> StreamPoint {
        let paths = self.paths.into_iter();
        StreamPoint {
            name,
            target_rate_bps: self.target.get().unwrap_or_default(),
            media_rate_bps: self.media.get().unwrap_or_default(),
            paths: paths.map(|(path, sums)| sums.point(path)).collect(),
        }
    }
}

impl PathSums {
    fn add(&mut self, path: &Path) {
        if self.name != path.name {
            self.name.clone_from(&path.name);
        }
        self.rate
            .add(path.sent_rate_bps.avg + path.received_rate_bps.avg);
        self.loss.add(path.loss_ratio);
        if let Some(rtt) = path.rtt_s {
            self.rtt.add(rtt.avg);
        }
    }

    fn point(self, path: usize) -> PathPoint {
        PathPoint {
            path,
            name: self.name,
            rate_bps: self.rate.get().unwrap_or_default(),
            rtt_s: self.rtt.get(),
            loss_ratio: self.loss.get().unwrap_or_default(),
        }
    }
}

impl Hour {
    /// Takes the status of a second.
    pub(super) fn add(&mut self, status: &Status) {
        for stream in &status.streams {
            let sums = self.sums.entry(stream.name.clone()).or_default();
            sums.add(stream);
        }
        self.second_count += 1;
        if self.second_count < STEP_SECONDS {
            return;
        }
        self.second_count = 0;
        let sums = core::mem::take(&mut self.sums).into_iter();
        let step = Step {
            unix_time_s: status.unix_time_s,
            streams: sums.map(|(name, sums)| sums.point(name)).collect(),
        };
        self.point_count += step.point_count();
        self.steps.push_back(step);
        while self.steps.len() > STEPS || self.point_count > MAX_POINTS {
            let Some(oldest) = self.steps.pop_front() else {
                return;
            };
            self.point_count -= oldest.point_count();
        }
    }

    /// Returns all steps as a JSON array, the newest last.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(&self.steps).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Spread;

    fn status(second: u32, rate_bps: f64, stream_count: usize) -> Status {
        let rate = Spread {
            avg: rate_bps,
            ..Spread::default()
        };
        let path = Path {
            path: 1,
            name: "wwan0".to_owned(),
            sent_rate_bps: rate,
            ..Path::default()
        };
        Status {
            unix_time_s: f64::from(second),
            streams: (0..stream_count)
                .map(|number| Stream {
                    name: format!("camera-{number}"),
                    paths: vec![path.clone()],
                    ..Stream::default()
                })
                .collect(),
            ..Status::default()
        }
    }

    #[test]
    fn a_step_is_the_mean_of_ten_seconds() {
        let mut hour = Hour::default();
        for second in 1..=15 {
            hour.add(&status(second, f64::from(second) * 1e3, 1));
        }
        let json: serde_json::Value = serde_json::from_str(&hour.json()).unwrap();
        assert_eq!(json.as_array().unwrap().len(), 1);
        assert_eq!(json[0]["unix_time_s"], 10.0);
        let path = &json[0]["streams"][0]["paths"][0];
        assert_eq!(path["name"], "wwan0");
        assert_eq!(path["rate_bps"], 5_500.0);
        assert!(path["rtt_s"].is_null(), "an unknown value is not zero");
    }

    #[test]
    fn an_hour_is_kept_and_of_many_streams_less() {
        for (stream_count, steps) in [(1, STEPS), (100, MAX_POINTS / 200)] {
            let mut hour = Hour::default();
            for second in 0..5_000 {
                hour.add(&status(second, 0.0, stream_count));
            }
            assert_eq!(hour.steps.len(), steps);
            let counts = hour.steps.iter().map(Step::point_count);
            assert_eq!(hour.point_count, counts.sum::<usize>());
        }
    }
}
