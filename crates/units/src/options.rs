//! Options of an algorithm that its user may set: `cubic:hystart=classic`.

use core::fmt;
use core::ops::RangeInclusive;

use crate::known_names;

/// Something that may be set of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlgorithmOption {
    /// Its name, as in `hystart`.
    pub name: &'static str,
    /// Effect of the option in one line, with its source and unit.
    pub summary: &'static str,
    /// Permitted values.
    pub values: OptionValues,
}

impl AlgorithmOption {
    /// Returns an option that is one of `words`; the first is the usual one.
    ///
    /// # Panics
    /// Panics if there are no words: in a constant, when it is compiled.
    pub const fn words(
        name: &'static str,
        summary: &'static str,
        words: &'static [&'static str],
    ) -> AlgorithmOption {
        assert!(!words.is_empty(), "an option has a usual word");
        AlgorithmOption {
            name,
            summary,
            values: OptionValues::Words(words),
        }
    }

    /// Returns an option that is a number in `range`, and `usual` unless set.
    ///
    /// # Panics
    /// Panics if `usual` is outside `range`: in a constant, when it is compiled.
    pub const fn number(
        name: &'static str,
        summary: &'static str,
        usual: f64,
        range: RangeInclusive<f64>,
    ) -> AlgorithmOption {
        let (min, max) = (*range.start(), *range.end());
        assert!(min <= usual && usual <= max, "the usual value is permitted");
        AlgorithmOption {
            name,
            summary,
            values: OptionValues::Number { usual, min, max },
        }
    }
}

/// The values of a [`AlgorithmOption`], and the one it has unless set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionValues {
    /// One of these words; the first is the usual one.
    Words(&'static [&'static str]),
    /// A number.
    Number {
        /// Unless set.
        usual: f64,
        /// The least allowed.
        min: f64,
        /// The largest allowed.
        max: f64,
    },
}

/// The options that were set, every one of them checked. The default sets none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlgorithmOptions(Vec<(&'static str, Setting)>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Setting {
    Word(&'static str),
    Number(f64),
}

/// Why options cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionError {
    /// There is no such option.
    Unknown {
        /// The name asked for.
        name: String,
        /// Known options.
        known: String,
    },
    /// The option cannot have this value.
    Value {
        /// The option.
        name: &'static str,
        /// Requested value.
        value: String,
        /// Permitted values.
        allowed: String,
    },
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::Unknown { name, known } => {
                write!(f, "no option is called {name:?}; known are {known}")
            }
            OptionError::Value {
                name,
                value,
                allowed,
            } => write!(f, "{name} cannot be {value:?}; allowed are {allowed}"),
        }
    }
}

impl core::error::Error for OptionError {}

/// A text that names no algorithm, or sets an option that the algorithm does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownAlgorithm {
    /// No algorithm of this kind has this name.
    Name {
        /// Kind of the algorithm.
        kind: &'static str,
        /// The requested name.
        name: String,
        /// Known names.
        known: String,
    },
    /// The algorithm rejects the option.
    Option {
        /// The algorithm.
        algorithm: &'static str,
        /// Reason of the rejection.
        error: OptionError,
    },
}

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnknownAlgorithm::Name { kind, name, known } => {
                write!(f, "no {kind} is called {name:?}; known are {known}")
            }
            UnknownAlgorithm::Option { algorithm, error } => write!(f, "{algorithm}: {error}"),
        }
    }
}

impl core::error::Error for UnknownAlgorithm {}

/// Reads a name with any options behind it: `cubic`, or `cubic:hystart=classic`. Returns the entry
/// of a registry, and the options. `known` returns an entry's name and its options; `kind` is the
/// noun for messages.
///
/// # Errors
/// [`UnknownAlgorithm`], which lists the known names or the algorithm's options.
pub fn find<E>(
    kind: &'static str,
    text: &str,
    registry: &'static [E],
    known: impl Fn(&E) -> (&'static str, &'static [AlgorithmOption]),
) -> Result<(&'static E, AlgorithmOptions), UnknownAlgorithm> {
    let (name, options) = text.split_once(':').unwrap_or((text, ""));
    let entry = registry.iter().find(|entry| known(entry).0 == name);
    let entry = entry.ok_or_else(|| UnknownAlgorithm::Name {
        kind,
        name: name.to_owned(),
        known: known_names(name, registry.iter().map(|entry| known(entry).0)),
    })?;
    let (algorithm, allowed) = known(entry);
    match AlgorithmOptions::parse(options, allowed) {
        Ok(options) => Ok((entry, options)),
        Err(error) => Err(UnknownAlgorithm::Option { algorithm, error }),
    }
}

impl AlgorithmOptions {
    /// Reads `name=value:name=value`, or with commas; the empty text sets nothing.
    ///
    /// # Errors
    /// [`OptionError`], which lists the known options or the allowed values.
    pub fn parse(text: &str, known: &[AlgorithmOption]) -> Result<Self, OptionError> {
        let set = text
            .split([':', ','])
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                let option = known
                    .iter()
                    .find(|option| option.name == name)
                    .ok_or_else(|| unknown(name, known))?;
                Ok((option.name, option.values.parse(option.name, value)?))
            });
        set.collect::<Result<_, _>>().map(AlgorithmOptions)
    }

    /// Returns the word that `option` is set to, or its usual one.
    ///
    /// # Panics
    /// If the option is a number.
    pub fn word(&self, option: &AlgorithmOption) -> &'static str {
        match (self.setting(option), option.values) {
            (Some(Setting::Word(word)), _) => word,
            (None, OptionValues::Words(words)) => words[0],
            _ => panic!("{} is a number", option.name),
        }
    }

    /// Returns the number that `option` is set to, or its usual one.
    ///
    /// # Panics
    /// If the option is a word.
    pub fn number(&self, option: &AlgorithmOption) -> f64 {
        match (self.setting(option), option.values) {
            (Some(Setting::Number(number)), _) => number,
            (None, OptionValues::Number { usual, .. }) => usual,
            _ => panic!("{} is a word", option.name),
        }
    }

    fn setting(&self, option: &AlgorithmOption) -> Option<Setting> {
        let set = self.0.iter().rev().find(|(name, _)| *name == option.name);
        set.map(|(_, setting)| *setting)
    }
}

impl OptionValues {
    fn parse(self, name: &'static str, value: &str) -> Result<Setting, OptionError> {
        let setting = match self {
            OptionValues::Words(words) => words
                .iter()
                .find(|word| **word == value)
                .map(|word| Setting::Word(word)),
            OptionValues::Number { min, max, .. } => value
                .parse()
                .ok()
                .filter(|number| (min..=max).contains(number))
                .map(Setting::Number),
        };
        setting.ok_or_else(|| OptionError::Value {
            name,
            value: value.to_owned(),
            allowed: match self {
                OptionValues::Words(words) => words.join(", "),
                OptionValues::Number { min, max, .. } => format!("{min} to {max}"),
            },
        })
    }
}

fn unknown(name: &str, known: &[AlgorithmOption]) -> OptionError {
    OptionError::Unknown {
        name: name.to_owned(),
        known: known_names(name, known.iter().map(|option| option.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: AlgorithmOption =
        AlgorithmOption::words("start", "how it starts", &["slow", "fast"]);
    const GAIN: AlgorithmOption = AlgorithmOption::number("gain", "how much", 2.0, 1.0..=3.0);
    const ALL: [AlgorithmOption; 2] = [START, GAIN];

    #[test]
    fn unset_options_have_defaults() {
        let set = AlgorithmOptions::parse("gain=2.5", &ALL).unwrap();
        assert_eq!((set.word(&START), set.number(&GAIN)), ("slow", 2.5));
        let set = AlgorithmOptions::parse("gain=1:start=fast:gain=3", &ALL).unwrap();
        assert_eq!((set.word(&START), set.number(&GAIN)), ("fast", 3.0));
    }

    #[test]
    fn errors_list_allowed_values() {
        for (text, expected) in [
            ("speed=1", "start, gain"),
            ("gain=4", "1 to 3"),
            ("gain=x", "1 to 3"),
            ("start", "slow, fast"),
        ] {
            let error = AlgorithmOptions::parse(text, &ALL).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn names_are_found_with_their_options() {
        fn found(text: &str) -> Result<(&'static str, f64), String> {
            static REGISTRY: [&str; 2] = ["plain", "steep"];
            let (name, options) = find("curve", text, &REGISTRY, |name| (*name, &ALL))
                .map_err(|error| error.to_string())?;
            Ok((name, options.number(&GAIN)))
        }

        assert_eq!(found("plain"), Ok(("plain", 2.0)));
        assert_eq!(found("steep:gain=3"), Ok(("steep", 3.0)));
        let unknown = found("step").unwrap_err();
        assert!(
            unknown.starts_with("no curve is called \"step\"; known are"),
            "{unknown}"
        );
        let refused = found("plain:speed=1").unwrap_err();
        assert!(
            refused.starts_with("plain: no option is called \"speed\""),
            "{refused}"
        );
    }
}
