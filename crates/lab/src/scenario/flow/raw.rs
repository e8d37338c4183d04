//! Flows of raw datagrams: they get no answers, and react to nothing.

use anabranch_sim::{GeneratorConfig, GeneratorRate, RouteId, Spacing};
use anabranch_units::Instant;

use super::{Context, FlowKind, Kind};
use crate::scenario::link::{RATE_CHANGE_KEYS, rate_change, repeated};
use crate::scenario::reader::{Read, Table, bytes, choice, positive_duration, positive_rate, rate};
use crate::scenario::shape::{Key, Shape};

/// Raw datagrams.
#[derive(Clone, Debug, PartialEq)]
pub struct RawSpec {
    /// Name of its kind.
    pub kind: &'static str,
    /// Bytes of each packet on the wire.
    pub size_bytes: u32,
    /// Rate at which it sends.
    pub rate: GeneratorRate,
    /// Spacing of packets at that rate.
    pub spacing: Spacing,
}

impl RawSpec {
    /// Returns the generator that sends them along `route`.
    pub(crate) fn generator(
        &self,
        route: RouteId,
        start: Instant,
        stop: Option<Instant>,
    ) -> GeneratorConfig {
        GeneratorConfig {
            route,
            size_bytes: self.size_bytes,
            rate: self.rate.clone(),
            spacing: self.spacing,
            start,
            stop,
        }
    }
}

pub(super) const CBR: Kind = Kind {
    name: "cbr",
    keys: &[STEADY_KEYS],
    read: |table, context| {
        let rate = steps(table)?;
        raw("cbr", table, context, rate, Spacing::Even)
    },
};

pub(super) const POISSON: Kind = Kind {
    name: "poisson",
    keys: &[STEADY_KEYS],
    read: |table, context| {
        let rate = steps(table)?;
        raw("poisson", table, context, rate, Spacing::Exponential)
    },
};

pub(super) const ON_OFF: Kind = Kind {
    name: "on-off",
    keys: &[ON_OFF_KEYS],
    read: |table, context| {
        let periods = [("periodic", false), ("exponential", true)];
        let rate = GeneratorRate::OnOff {
            rate: table.required("rate", positive_rate)?,
            on: table.required("on", positive_duration)?,
            off: table.required("off", positive_duration)?,
            is_exponential: table.or("periods", false, |node| choice(node, "law", &periods))?,
            starts_on: table.or("first", true, |node| {
                choice(node, "period", &[("on", true), ("off", false)])
            })?,
        };
        raw("on-off", table, context, rate, Spacing::Even)
    },
};

const RATE: Key = Key::new("rate", Shape::Rate, "rate of its bytes on the wire");
const SIZE: Key = Key::new("size", Shape::Amount, "bytes of a packet on the wire");

const STEADY_KEYS: &[Key] = &[
    RATE,
    SIZE,
    Key::new(
        "rate-schedule",
        Shape::List(&Shape::Table(RATE_CHANGE_KEYS)),
        "rates that hold from a moment on",
    ),
];

const ON_OFF_KEYS: &[Key] = &[
    RATE,
    SIZE,
    Key::new("on", Shape::Duration, "length of a burst"),
    Key::new("off", Shape::Duration, "length of a pause"),
    Key::new(
        "periods",
        Shape::Name(laws),
        "whether they are all alike, or random",
    ),
    Key::new("first", Shape::Name(periods), "initial period"),
];

fn laws() -> Vec<String> {
    vec!["periodic".to_owned(), "exponential".to_owned()]
}

fn periods() -> Vec<String> {
    vec!["on".to_owned(), "off".to_owned()]
}

fn steps(table: &Table<'_>) -> Read<GeneratorRate> {
    Ok(GeneratorRate::Steps {
        rate: table.required("rate", rate)?,
        changes: table.or("rate-schedule", Vec::new(), |node| {
            repeated(node, rate_change)
        })?,
    })
}

fn raw(
    kind: &'static str,
    table: &Table<'_>,
    context: &Context<'_>,
    rate: GeneratorRate,
    spacing: Spacing,
) -> Read<FlowKind> {
    if let [_, _, ..] = context.paths {
        return Err(table.mistake("paths", "raw datagrams take one path"));
    }
    let size_bytes = table.or("size", 1_500, |node| bytes(node, 29..=65_535))? as u32;
    let raw = RawSpec {
        kind,
        size_bytes,
        rate,
        spacing,
    };
    let refused = raw.generator(RouteId(0), Instant::ZERO, None).check();
    refused.map_err(|error| table.mistake("", error))?;
    Ok(FlowKind::Raw(raw))
}
