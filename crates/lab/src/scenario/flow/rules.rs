//! Rules of the sender: which endpoint it is, and the rules that a scenario switches off.

use anabranch_core::{SenderRule, SenderRules};

use crate::scenario::reader::{Read, Table, choice, list_of};

/// The sender of papers about controllers and schedulers, for their experiments. The encoder's
/// target and the scheduler follow the controllers' estimates alone, and controllers do not
/// learn the source's rate. Frames are sent up to their deadline, and a lost packet is
/// retransmitted once.
pub const BARE_SENDER: SenderRules = SenderRules::ALL
    .without(SenderRule::Admission)
    .without(SenderRule::Congestion)
    .without(SenderRule::QueueForecast)
    .without(SenderRule::LastTries)
    .without(SenderRule::SecondCopies)
    .without(SenderRule::SourceRate)
    .without(SenderRule::Standstill)
    .without(SenderRule::Spoilers);

const ENDPOINTS: [(&str, SenderRules); 2] =
    [("anabranch", SenderRules::ALL), ("bare", BARE_SENDER)];

/// A rule of the sender that a scenario can switch off.
#[derive(Clone, Copy, Debug)]
pub struct SenderRuleEntry {
    /// Name in `without-rules`.
    pub name: &'static str,
    /// Effect on packets and frames.
    pub summary: &'static str,
    rule: SenderRule,
}

/// All rules that a scenario can switch off.
pub const SENDER_RULES: [SenderRuleEntry; 12] = [
    entry(
        "admission",
        "frames that cannot arrive in time are refused as they come",
        SenderRule::Admission,
    ),
    entry(
        "congested-copies",
        "packets in flight on a congested path are copied to another one",
        SenderRule::CongestedCopies,
    ),
    entry(
        "congestion",
        "a path that delivers less than is sent there is congested",
        SenderRule::Congestion,
    ),
    entry(
        "last-tries",
        "copies leave before a loss is known, if it would be known too late",
        SenderRule::LastTries,
    ),
    entry(
        "late-drops",
        "packets that cannot arrive in time leave the queues",
        SenderRule::LateDrops,
    ),
    entry(
        "queue-forecast",
        "a new packet arrives behind those in flight",
        SenderRule::QueueForecast,
    ),
    entry(
        "rebinding",
        "packets that wait long for a path are bound to another one",
        SenderRule::Rebinding,
    ),
    entry(
        "second-copies",
        "a fragment may be copied more than once",
        SenderRule::SecondCopies,
    ),
    entry(
        "source-rate",
        "controllers learn the rate of a source that has one of its own",
        SenderRule::SourceRate,
    ),
    entry(
        "spoilers",
        "a path that can only spoil frames stands by",
        SenderRule::Spoilers,
    ),
    entry(
        "standstill",
        "the rate of a path that stands still starts again",
        SenderRule::Standstill,
    ),
    entry(
        "suspect-copies",
        "packets in flight on a silent path are copied to another one",
        SenderRule::SuspectCopies,
    ),
];

const fn entry(name: &'static str, summary: &'static str, rule: SenderRule) -> SenderRuleEntry {
    SenderRuleEntry {
        name,
        summary,
        rule,
    }
}

pub(super) fn endpoints() -> Vec<String> {
    ENDPOINTS.map(|(name, _)| name.to_owned()).to_vec()
}

pub(super) fn rules() -> Vec<String> {
    SENDER_RULES.map(|entry| entry.name.to_owned()).to_vec()
}

/// Reads the endpoint, and the rules that it lacks beside.
pub(super) fn read(table: &Table<'_>) -> Read<SenderRules> {
    let of_endpoint = table.or("endpoint", SenderRules::ALL, |node| {
        choice(node, "endpoint", &ENDPOINTS)
    })?;
    let known = SENDER_RULES.map(|entry| (entry.name, entry.rule));
    let switched_off = table.or("without-rules", Vec::new(), |node| {
        list_of(node, |rule| choice(rule, "rule of the sender", &known))
    })?;
    Ok(switched_off
        .into_iter()
        .fold(of_endpoint, SenderRules::without))
}
