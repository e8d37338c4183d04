//! The set-up of a receiver.

use std::net::{SocketAddr, ToSocketAddrs};

use anabranch_net::words::with_port;
use anabranch_net::{Network, ServerConfig, Surroundings};
use anabranch_secure::PublicKey;
use anabranch_srt::Settings;
use serde::Deserialize;

use super::{OneOrMany, latency, mistake, parse, read, time};
use crate::error::Error;
use crate::ingest::{Admission, IngestProtocol, IngestSetup};
use crate::keys;
use crate::srt_url::{self, SRT, SRTLA};

/// The keys.
#[derive(Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Keys {
    listen: Option<String>,
    listen_tcp: Option<String>,
    key: Option<String>,
    allow: Option<OneOrMany<String>>,
    latency: Option<String>,
    timeout: Option<String>,
    reassembly_wait: Option<String>,
    max_sessions: Option<u16>,
}

/// A checked set-up of a receiver.
#[derive(Debug)]
pub(crate) enum ReceiverSetup {
    /// A receiver of our protocol.
    Own(Box<ServerConfig>),
    /// A receiver of SRT, over SRTLA or alone.
    Srt(IngestSetup),
}

impl ReceiverSetup {
    /// Reads the keys as TOML, or an address of SRT or SRTLA alone.
    pub(crate) fn read(text: &str, network: &Network) -> Result<Self, Error> {
        let line = text.trim();
        if is_srt(line) {
            return srt(line, None, network);
        }
        let mut keys: Keys = read(text, "recv")?;
        if let Some(listen) = keys.listen.take_if(|listen| is_srt(listen)) {
            let max_sessions = keys.max_sessions.take();
            if keys != Keys::default() {
                return Err(mistake(
                    "with srt:// and srtla:// there are the keys listen and max-sessions alone",
                ));
            }
            return srt(&listen, max_sessions, network);
        }
        let listen = keys.listen.as_deref().unwrap_or("0.0.0.0");
        let listen = address("listen", listen)?;
        let key = keys
            .key
            .ok_or_else(|| mistake("key: name this end's key or its file"))?;
        let texts = keys.allow.map_or(Vec::new(), OneOrMany::into_vec);
        let parsed: Result<Vec<PublicKey>, Error> = texts
            .iter()
            // The name of a stream behind the key is the program's.
            .map(|text| parse("allow", text.split('=').next().unwrap_or_default()))
            .collect();
        let allowed = parsed?;
        let most = allowed.len().max(1);
        let mut config = ServerConfig::new(listen, keys::read(&key)?, allowed);
        config.network = network.clone();
        config.clock = *Surroundings::of(network, config.clock).clock();
        config.max_sessions = keys.max_sessions.map_or(most, usize::from);
        if let Some(tcp) = &keys.listen_tcp {
            config.listen_tcp = Some(address("listen-tcp", tcp)?);
        }
        if let Some(text) = &keys.latency {
            config.latency = latency(text)?;
        }
        if let Some(limit) = &keys.timeout {
            config.silence_timeout = time("timeout", limit)?;
        }
        if let Some(wait) = &keys.reassembly_wait {
            config.reassembly_wait = Some(time("reassembly-wait", wait)?);
        }
        Ok(ReceiverSetup::Own(Box::new(config)))
    }

    /// Returns this end's public key; `None` for SRT.
    pub(crate) fn public_key(&self) -> Option<PublicKey> {
        match self {
            ReceiverSetup::Own(config) => Some(config.local_key.public_key()),
            ReceiverSetup::Srt(_) => None,
        }
    }
}

/// Returns whether a place is an address of SRT or SRTLA.
fn is_srt(listen: &str) -> bool {
    [SRT, SRTLA].iter().any(|scheme| listen.starts_with(scheme))
}

/// Reads an address of SRT or SRTLA.
fn srt(listen: &str, max_sessions: Option<u16>, network: &Network) -> Result<ReceiverSetup, Error> {
    let (protocol, rest) = match listen.strip_prefix(SRTLA) {
        Some(rest) => (IngestProtocol::Srtla, rest),
        None => (IngestProtocol::Srt, &listen[SRT.len()..]),
    };
    let (place, query) = srt_url::split(rest);
    let mut settings = Settings {
        keeps_place: true,
        ..Settings::default()
    };
    let stream_id = srt_url::parameters(("listen", "listener"), query, &mut settings)?;
    let any = place
        .strip_prefix(':')
        .map(|port| format!("0.0.0.0:{port}"));
    let place = any.unwrap_or_else(|| place.to_owned());
    let mut found = place.to_socket_addrs().into_iter().flatten();
    let listen = found.next().ok_or_else(|| {
        mistake("listen: expected an address and a port, as srtla://0.0.0.0:5000")
    })?;
    Ok(ReceiverSetup::Srt(IngestSetup {
        network: network.clone(),
        protocol,
        listen,
        admission: Admission {
            stream_id,
            settings,
            max_sessions: max_sessions.map_or(1, |count| usize::from(count).max(1)),
        },
    }))
}

/// Returns an address of this machine.
fn address(key: &str, text: &str) -> Result<SocketAddr, Error> {
    let found = with_port(text).to_socket_addrs().ok();
    let first = found.and_then(|mut found| found.next());
    first.ok_or_else(|| mistake(format!("{key}: expected an address, as 0.0.0.0:7000")))
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;
    use anabranch_units::Duration;

    use super::*;
    use crate::error::ErrorCode;

    fn setup(text: &str) -> Result<ServerConfig, Error> {
        match ReceiverSetup::read(text, &Network::default())? {
            ReceiverSetup::Own(config) => Ok(*config),
            ReceiverSetup::Srt(_) => panic!("it is our protocol"),
        }
    }

    #[test]
    fn senders_are_let_in_by_key_and_each_has_a_place() {
        let names = [SecretKey::generate(), SecretKey::generate()].map(|key| key.public_key());
        let text = format!(
            "listen = '127.0.0.1:9'\nkey = '{}'\nallow = ['{}=front', '{}']\nlatency = '1 s'\n",
            keys::generate_key(),
            names[0],
            names[1]
        );
        let config = setup(&text).expect("it is complete");
        assert_eq!(config.allowed, names);
        assert_eq!(config.max_sessions, 2);
        assert_eq!(config.latency, Some(Duration::from_secs(1)));
    }

    #[test]
    fn an_address_of_srt_is_a_whole_set_up() {
        for (text, protocol, max_sessions) in [
            (
                "srtla://:5000?streamid=van&latency=1000&mode=listener",
                IngestProtocol::Srtla,
                1,
            ),
            (
                "listen = 'srt://0.0.0.0:5000?streamid=van&latency=1000'\nmax-sessions = 3",
                IngestProtocol::Srt,
                3,
            ),
        ] {
            let setup = ReceiverSetup::read(text, &Network::default());
            let Ok(ReceiverSetup::Srt(setup)) = setup else {
                panic!("{setup:?}");
            };
            assert_eq!((setup.protocol, setup.listen.port()), (protocol, 5_000));
            assert_eq!(setup.admission.stream_id.as_deref(), Some("van"));
            assert_eq!(setup.admission.max_sessions, max_sessions);
            let latency = setup.admission.settings.receive_latency;
            assert_eq!(latency, Duration::from_secs(1));
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "key:"),
            ("listen = 'nowhere at all'", "listen:"),
            ("key = 'absec_x'", "key"),
            ("output = 'x.ts'", "output"),
            ("[send]\nto = 'x'", "[recv]"),
            ("srtla://0.0.0.0", "a port"),
            ("srt://0.0.0.0:5000?passphrase=short", "10 to 79"),
            ("srt://0.0.0.0:5000?mode=caller", "mode"),
            ("listen = 'srtla://0.0.0.0:5000'\nallow = 'x'", "alone"),
        ] {
            let error = setup(text).expect_err(text);
            assert_eq!(error.code, ErrorCode::Config, "{error}");
            assert!(error.text.contains(part), "{text}: {error}");
        }
    }
}
