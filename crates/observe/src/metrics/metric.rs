//! A metric, with the names that it has and had.

/// Kind of a metric: a counter only grows within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A sum, which only grows.
    Counter,
    /// A current value.
    Gauge,
}

/// A metric of streams or paths.
pub struct Metric<T> {
    /// Name with its unit.
    pub name: &'static str,
    /// Type for Prometheus.
    pub kind: Kind,
    /// Description in one line.
    pub help: &'static str,
    pub(super) value: fn(&T) -> Option<f64>,
    /// Factor from the value to the metric.
    pub(super) scale: f64,
    /// Name in the release before, whose metric was the value.
    pub(super) former: Option<&'static str>,
}

/// A metric by one of its names.
pub(super) struct Named<'a, T> {
    pub(super) name: &'static str,
    pub(super) scale: f64,
    pub(super) of: &'a Metric<T>,
}

impl<T> Metric<T> {
    /// Returns the metric by each of its names.
    pub(super) fn named(&self, names: Names) -> impl Iterator<Item = Named<'_, T>> {
        let former = if names == Names::WithFormer {
            self.former
        } else {
            None
        };
        let all = [(self.name, self.scale)]
            .into_iter()
            .chain(former.map(|name| (name, 1.0)));
        all.map(|(name, scale)| Named {
            name,
            scale,
            of: self,
        })
    }
}

/// Names of metrics that a scraper gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Names {
    /// The names of this release.
    Current,
    /// The names of the release before, too.
    WithFormer,
}

/// Query that asks for the former names.
const FORMER: &str = "names=former";

impl Names {
    /// Returns the names that a query asks for.
    pub(in super::super) fn of_query(query: Option<&str>) -> Names {
        let has_former = query.is_some_and(|query| query.split('&').any(|part| part == FORMER));
        if has_former {
            Names::WithFormer
        } else {
            Names::Current
        }
    }
}

pub(super) const fn counter<T>(
    name: &'static str,
    help: &'static str,
    value: fn(&T) -> Option<f64>,
) -> Metric<T> {
    Metric {
        name,
        kind: Kind::Counter,
        help,
        value,
        scale: 1.0,
        former: None,
    }
}

pub(super) const fn gauge<T>(
    name: &'static str,
    help: &'static str,
    value: fn(&T) -> Option<f64>,
) -> Metric<T> {
    Metric {
        kind: Kind::Gauge,
        ..counter(name, help, value)
    }
}

/// Returns a rate in bytes a second, Prometheus' base unit; `value` and the former metric are in
/// bits.
pub(super) const fn rate<T>(
    [name, former]: [&'static str; 2],
    help: &'static str,
    value: fn(&T) -> Option<f64>,
) -> Metric<T> {
    Metric {
        scale: 1.0 / 8.0,
        former: Some(former),
        ..gauge(name, help, value)
    }
}
