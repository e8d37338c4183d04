//! Rules of this project's sender of media, each of which experiments can switch off.
//! `docs/session-rules.md` explains them, decision 262 has the effect of each.

/// A rule of a sender of media that papers about controllers and schedulers do not describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SenderRule {
    /// Frames that cannot arrive in time are refused as they come.
    Admission,
    /// Packets that cannot arrive in time leave the queues.
    LateDrops,
    /// A path that delivers less than is sent there is congested, whatever its controller says.
    Congestion,
    /// A new packet arrives behind those in flight, and not after half of the latest round trip.
    QueueForecast,
    /// Packets in flight on a congested path are copied to another one.
    CongestedCopies,
    /// Packets that wait for a path are bound again when the wait is long.
    Rebinding,
    /// Packets in flight on a silent path are copied to another one.
    SuspectCopies,
    /// Copies leave before the last one is known to be lost, if no time remains for another try.
    LastTries,
    /// A fragment may be copied more than once.
    SecondCopies,
    /// Controllers learn the rate of a source that has one of its own.
    SourceRate,
    /// The rate of a path that stands still starts again.
    Standstill,
    /// A path that can only spoil frames stands by.
    Spoilers,
}

/// Rules that a sender of media follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderRules {
    /// Bit of each rule that is off.
    off: u16,
}

impl SenderRules {
    /// All rules.
    pub const ALL: SenderRules = SenderRules { off: 0 };

    /// Returns the rules with one switched off.
    #[must_use]
    pub const fn without(self, rule: SenderRule) -> SenderRules {
        SenderRules {
            off: self.off | 1 << rule as u16,
        }
    }

    /// Returns whether the sender follows the rule.
    pub const fn has(self, rule: SenderRule) -> bool {
        self.off & 1 << rule as u16 == 0
    }
}
