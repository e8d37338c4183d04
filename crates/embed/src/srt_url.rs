//! Addresses of SRT and SRTLA, of either end: `srtla://HOST:PORT?name=value&…`.

use anabranch_net::Remote;
use anabranch_srt::{KeyLength, Passphrase, Settings};
use anabranch_units::Duration;

use crate::error::{Error, ErrorCode};

/// Beginning of an address for SRTLA.
pub(crate) const SRTLA: &str = "srtla://";
/// Beginning of an address for SRT.
pub(crate) const SRT: &str = "srt://";
/// Maximum length of a stream ID in bytes.
const MAX_STREAM_ID_BYTES: usize = 512;

fn mistake(key: &str, text: &str) -> Error {
    Error::new(ErrorCode::Config, format!("{key}: {text}"))
}

/// Reads the parameters of an address in the value of `key`. `mode` is that of this end. Returns
/// the stream ID.
pub(crate) fn parameters(
    (key, mode): (&str, &str),
    query: &str,
    settings: &mut Settings,
) -> Result<Option<String>, Error> {
    let mut stream_id = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "streamid" if value.is_empty() => {}
            "streamid" if value.len() <= MAX_STREAM_ID_BYTES => stream_id = Some(value.to_owned()),
            "latency" => {
                let parsed: Result<u16, _> = value.trim_end_matches("ms").parse();
                let expected = "latency: expected milliseconds up to 65535, as 2000";
                let millis = parsed.map_err(|_| mistake(key, expected))?;
                let latency = Duration::from_millis(millis.into());
                (settings.receive_latency, settings.peer_latency) = (latency, latency);
            }
            "passphrase" => {
                settings.passphrase = Passphrase::new(value);
                if settings.passphrase.is_none() {
                    return Err(mistake(key, "passphrase: SRT's have 10 to 79 characters"));
                }
            }
            "pbkeylen" => {
                settings.key_length = value.parse().ok().and_then(KeyLength::of_bytes);
                if settings.key_length.is_none() {
                    return Err(mistake(key, "pbkeylen: a key has 16, 24 or 32 bytes"));
                }
            }
            "mode" if value == mode => {}
            _ => {
                let known = format!(
                    "parameter {name}: known are streamid, latency, passphrase and pbkeylen"
                );
                return Err(mistake(key, &known));
            }
        }
    }
    Ok(stream_id)
}

/// Reads the places of receivers of SRTLA, which have the same parameters.
pub(crate) fn places(hosts: &[String]) -> Result<(Vec<Remote>, String), Error> {
    let mut remotes = Vec::new();
    let mut query = None;
    for host in hosts {
        let Some(rest) = host.strip_prefix(SRTLA) else {
            return Err(mistake(
                "to",
                "either all receivers are srtla://, or none is",
            ));
        };
        let (place, its) = split(rest);
        if *query.get_or_insert(its) != its {
            return Err(mistake(
                "to",
                "the addresses of one receiver have the same parameters",
            ));
        }
        let expected = "expected a host and a port, as srtla://studio.example:5000";
        remotes.push(place.parse().map_err(|_| mistake("to", expected))?);
    }
    Ok((remotes, query.unwrap_or_default().to_owned()))
}

/// Splits an address without its beginning into host and port, and parameters.
pub(crate) fn split(rest: &str) -> (&str, &str) {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    (place.trim_end_matches('/'), query)
}
