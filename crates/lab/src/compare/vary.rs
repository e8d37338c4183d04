//! Differences from column to column in their written form: `fec=off,adaptive`.

use super::{Column, expanded_controllers, expanded_schedulers};

/// Prefix of a bare key, which is one of the first flow, the one under test.
pub(super) const FIRST_FLOW: &str = "flows.0.";

/// A key and the values to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    /// `controller` and `scheduler` replace those under test; another bare name is a key of the
    /// first flow; one with dots is any key, as in `--set`.
    pub key: String,
    /// Its values.
    pub values: Vec<String>,
}

/// Reason why a text is no [`Vary`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: expected KEY=VALUE,VALUE,…, such as scheduler=min-cost,wrr")]
pub struct VaryError {
    text: String,
}

impl std::str::FromStr for Vary {
    type Err = VaryError;

    fn from_str(text: &str) -> Result<Vary, VaryError> {
        // Without `=` the key is empty.
        let (key, values) = text.split_once('=').unwrap_or_default();
        let values = split(values);
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(VaryError {
                text: text.to_owned(),
            });
        }
        Ok(Vary {
            key: key.trim().to_owned(),
            values,
        })
    }
}

/// Splits a text at the commas outside brackets and quotation marks.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut is_quoted) = (vec![String::new()], 0_i32, false);
    for letter in text.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth -= 1,
            _ => {}
        }
        if letter == ',' && depth == 0 && !is_quoted {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

impl Vary {
    /// Returns every one of `columns` with every value.
    pub fn over(&self, columns: &[Column]) -> Vec<Column> {
        let values = match self.key.as_str() {
            "controller" => expanded_controllers(&self.values),
            "scheduler" => expanded_schedulers(&self.values),
            _ => self.values.clone(),
        };
        let values = &values;
        let columns = columns.iter();
        columns
            .flat_map(|column| values.iter().map(move |value| self.set(column, value)))
            .collect()
    }

    /// Returns the column with this value of the key.
    fn set(&self, column: &Column, value: &str) -> Column {
        let mut column = column.clone();
        let value = value.to_owned();
        match self.key.as_str() {
            "controller" => column.controller = Some(value),
            "scheduler" => column.scheduler = Some(value),
            key if key.contains('.') => column.settings.push((key.to_owned(), value)),
            key => column.settings.push((format!("{FIRST_FLOW}{key}"), value)),
        }
        column
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(texts: &[&str]) -> Vec<String> {
        let varies = texts.iter().map(|text| text.parse::<Vary>().unwrap());
        let columns = varies.fold(vec![Column::default()], |columns, vary| vary.over(&columns));
        columns.iter().map(Column::label).collect()
    }

    #[test]
    fn columns_are_every_value_with_every_other() {
        assert_eq!(
            labels(&["scheduler=min-cost,wrr", "padding=never,always"]),
            [
                "min-cost + padding=never",
                "min-cost + padding=always",
                "wrr + padding=never",
                "wrr + padding=always",
            ]
        );
        assert_eq!(
            labels(&["links.lte.rate=1 Mbit/s"]),
            ["links.lte.rate=1 Mbit/s"]
        );
    }

    #[test]
    fn a_value_may_have_commas_of_its_own() {
        let vary: Vary = "loss={ a = 1, b = 2 },[1, 2],\"x,y\"".parse().unwrap();
        assert_eq!(vary.values, ["{ a = 1, b = 2 }", "[1, 2]", "\"x,y\""]);
        for wrong in ["scheduler", "=a", "a=", "a=b,,c"] {
            assert!(wrong.parse::<Vary>().is_err(), "{wrong}");
        }
    }
}
