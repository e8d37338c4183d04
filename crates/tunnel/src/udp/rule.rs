//! Value of `--udp`: a port of the proxy, its target, and how the datagrams between them travel.

use core::str::FromStr;
use std::net::SocketAddr;

use anabranch_net::DatagramOptions;
use anabranch_units::{DataRate, Duration, ParseQuantityError};

use crate::request::MAX_TARGET_BYTES;

/// Maximum deadline of a flow's datagrams: the time for which a receiver waits for lost ones.
pub const MAX_DEADLINE: Duration = Duration::from_secs(2);

const EXPECTED: &str = "expected [ADDR:]PORT=HOST:PORT[,deadline=TIME][,unordered][,max=RATE]\
                        [,name=NAME]";

/// A port of the proxy, and the target of its datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Address and port of the proxy.
    pub(super) listen: SocketAddr,
    /// Host and port that the server reaches.
    pub(super) target: String,
    /// Transport of the datagrams.
    pub(super) options: FlowOptions,
    /// Maximum rate from applications; datagrams beyond it are dropped.
    pub(super) max_rate: Option<DataRate>,
    /// Name in messages and statistics.
    name: Option<String>,
}

/// Transport of a flow's datagrams, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowOptions {
    /// Maximum age of a datagram, if it is less than the session's; at most [`MAX_DEADLINE`].
    pub deadline: Option<Duration>,
    /// Whether datagrams are handed out as they arrive, and not in their order.
    pub is_unordered: bool,
}

impl FlowOptions {
    /// Returns the options of a datagram of the flow `number`.
    pub(super) fn of_datagram(self, number: u32) -> DatagramOptions {
        // Group 0 belongs to IP packets. If two flows have one group, they share an order.
        let group = 1 + number % u32::from(u16::MAX);
        DatagramOptions {
            group: (!self.is_unordered).then_some(group as u16),
            lifetime: self.deadline,
        }
    }
}

impl Rule {
    /// Returns the rule's name: the given one, or its target.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.target)
    }

    /// Returns the transport of its datagrams.
    pub fn options(&self) -> FlowOptions {
        self.options
    }

    /// Returns the rule with this deadline unless it has its own.
    #[must_use]
    pub fn or_deadline(mut self, deadline: Duration) -> Rule {
        self.options.deadline.get_or_insert(deadline);
        self
    }

    fn set(&mut self, option: &str) -> Result<(), OptionError> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match key {
            "unordered" if value.is_empty() => self.options.is_unordered = true,
            "deadline" => {
                let deadline: Duration = value.parse()?;
                if deadline < Duration::from_millis(1) || deadline > MAX_DEADLINE {
                    return Err(OptionError::Deadline);
                }
                self.options.deadline = Some(deadline);
            }
            "max" => {
                let rate: DataRate = value.parse()?;
                if rate.is_zero() {
                    return Err(OptionError::NoRate);
                }
                self.max_rate = Some(rate);
            }
            "name" if is_name(value) => self.name = Some(value.to_owned()),
            "name" => return Err(OptionError::Name),
            _ => return Err(OptionError::Unknown),
        }
        Ok(())
    }

    /// Reads the port and the target.
    fn of_ends(ends: &str) -> Option<Rule> {
        let (listen, target) = ends.split_once('=')?;
        let listen = match listen.parse::<u16>() {
            Ok(port) => ([127, 0, 0, 1], port).into(),
            Err(_) => listen.parse().ok()?,
        };
        let (host, port) = target.rsplit_once(':')?;
        if host.is_empty() || port.parse::<u16>().is_err() || target.len() > MAX_TARGET_BYTES {
            return None;
        }
        Some(Rule {
            listen,
            target: target.to_owned(),
            options: FlowOptions::default(),
            max_rate: None,
            name: None,
        })
    }
}

fn is_name(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Mistake in the text of a rule for UDP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseRuleError {
    /// It is no port and target.
    #[error("{text:?}: {EXPECTED}")]
    Syntax {
        /// The text.
        text: String,
    },
    /// An option is wrong.
    #[error("{option:?}: {reason}")]
    Option {
        /// The option with its value.
        option: String,
        /// The mistake.
        reason: OptionError,
    },
}

/// Mistake in an option of a rule for UDP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// The value is no time, or no rate.
    #[error(transparent)]
    Quantity(#[from] ParseQuantityError),
    /// The deadline is too short or too long.
    #[error("a deadline is from 1 ms to 2 s")]
    Deadline,
    /// The maximum rate is zero.
    #[error("nothing could be sent")]
    NoRate,
    /// The name is empty, too long, or has other characters.
    #[error("a name has 1 to 32 letters, digits, - and _")]
    Name,
    /// There is no such option.
    #[error("{EXPECTED}")]
    Unknown,
}

impl FromStr for Rule {
    type Err = ParseRuleError;

    /// Parses `5000=example.org:5000` or `0.0.0.0:5000=192.0.2.1:9,unordered,deadline=80ms`.
    fn from_str(text: &str) -> Result<Self, ParseRuleError> {
        let mut parts = text.split(',');
        let Some(mut rule) = parts.next().and_then(Rule::of_ends) else {
            let text = text.to_owned();
            return Err(ParseRuleError::Syntax { text });
        };
        for option in parts {
            if let Err(reason) = rule.set(option) {
                let option = option.to_owned();
                return Err(ParseRuleError::Option { option, reason });
            }
        }
        Ok(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_a_port_and_a_target() {
        for (text, listen, target) in [
            ("5000=a.b:9", "127.0.0.1:5000", "a.b:9"),
            ("0.0.0.0:5000=192.0.2.1:9", "0.0.0.0:5000", "192.0.2.1:9"),
            (
                "[::1]:5000=[2001:db8::1]:9",
                "[::1]:5000",
                "[2001:db8::1]:9",
            ),
        ] {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(
                (rule.listen.to_string().as_str(), rule.target.as_str()),
                (listen, target)
            );
        }
        for wrong in [
            "",
            "5000=a.b:9,",
            "5000=a.b:9,ordered",
            "5000=a.b:9,unordered=yes",
            "5000",
            "5000=",
            "5000=a.b",
            "5000=:9",
            "x=a.b:9",
            "70000=a.b:9",
        ] {
            let error_text = wrong.parse::<Rule>().unwrap_err().to_string();
            assert!(
                error_text.contains("expected [ADDR:]PORT=HOST:PORT"),
                "{error_text}"
            );
        }
    }

    #[test]
    fn options_follow_the_target() {
        let text = "5000=a.b:9,deadline=80ms,unordered,max=4 Mbit/s,name=cam-1";
        let rule: Rule = text.parse().unwrap();
        let deadline = Some(Duration::from_millis(80));
        let options = FlowOptions {
            deadline,
            is_unordered: true,
        };
        assert_eq!((rule.name(), rule.options()), ("cam-1", options));
        assert_eq!(rule.max_rate, Some(DataRate::from_megabits_per_second(4)));
        let later = Duration::from_millis(200);
        assert_eq!(rule.or_deadline(later).options.deadline, deadline);
        let plain: Rule = "5000=a.b:9".parse().unwrap();
        assert_eq!(
            (plain.name(), plain.options()),
            ("a.b:9", FlowOptions::default())
        );
        assert_eq!(plain.or_deadline(later).options.deadline, Some(later));
        for (wrong, part) in [
            ("deadline=5s", "from 1 ms to 2 s"),
            ("deadline=0ms", "from 1 ms to 2 s"),
            ("deadline=soon", "deadline=soon"),
            ("max=0", "nothing could be sent"),
            ("name=", "1 to 32"),
            ("name=a b", "1 to 32"),
        ] {
            let error = format!("5000=a.b:9,{wrong}").parse::<Rule>().unwrap_err();
            assert!(error.to_string().contains(part), "{wrong}: {error}");
        }
    }
}
