//! Set-ups as texts: the keys of `anabranch send --config` and `anabranch recv --config`.

mod receiver;
mod sender;

use core::str::FromStr;

use anabranch_units::Duration;
use serde::Deserialize;

use crate::error::{Error, ErrorCode};

pub(crate) use receiver::ReceiverSetup;
pub(crate) use sender::{Protocol, SenderSetup};

/// Longest set-up in bytes.
const MAX_BYTES: usize = 1 << 20;

/// A value that may be given once or several times.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            OneOrMany::One(value) => vec![value],
            OneOrMany::Many(values) => values,
        }
    }
}

/// A number or a text, as both are written for a port.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Number(i64),
    Text(String),
}

impl TextOrNumber {
    fn into_text(self) -> String {
        match self {
            TextOrNumber::Number(number) => number.to_string(),
            TextOrNumber::Text(text) => text,
        }
    }
}

fn mistake(text: impl Into<String>) -> Error {
    Error::new(ErrorCode::Config, text)
}

/// Reads the keys of a set-up: those of the table `[command]`, or all if there are no tables.
fn read<'a, T: Deserialize<'a>>(text: &str, command: &str) -> Result<T, Error> {
    if text.len() > MAX_BYTES {
        return Err(mistake(format!("a set-up has {MAX_BYTES} bytes at most")));
    }
    let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        mistake(format!("the set-up is no TOML: {}", error.message()))
    })?;
    let has_tables = table.values().any(toml::Value::is_table);
    let own = match table.remove(command) {
        Some(toml::Value::Table(own)) => own,
        _ if has_tables => return Err(mistake(format!("the set-up has no table [{command}]"))),
        _ => table,
    };
    own.try_into()
        .map_err(|error: toml::de::Error| mistake(error.message()))
}

/// Parses a value, and names its key in the error.
fn parse<T>(key: &str, text: &str) -> Result<T, Error>
where
    T: FromStr,
    T::Err: ToString,
{
    text.parse()
        .map_err(|error: T::Err| mistake(format!("{key}: {}", error.to_string())))
}

/// Parses a time above zero.
fn time(key: &str, text: &str) -> Result<Duration, Error> {
    match parse(key, text)? {
        Duration::ZERO => Err(mistake(format!("{key}: it must be longer than nothing"))),
        time => Ok(time),
    }
}

/// Parses a latency; `None` for `min`: no wish.
fn latency(text: &str) -> Result<Option<Duration>, Error> {
    if text == "min" {
        return Ok(None);
    }
    let latency = time("latency", text)?;
    if latency > Duration::from_secs(60) {
        return Err(mistake("latency: it may be 60 s at most"));
    }
    Ok(Some(latency))
}
