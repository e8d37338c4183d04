//! The set-up of a receiver.

use std::net::{SocketAddr, ToSocketAddrs};

use anabranch_net::words::with_port;
use anabranch_net::{Network, ServerConfig, Surroundings};
use anabranch_secure::PublicKey;
use serde::Deserialize;

use super::{OneOrMany, latency, mistake, parse, read, time};
use crate::error::Error;
use crate::keys;

/// The keys.
#[derive(Deserialize)]
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
pub(crate) struct ReceiverSetup {
    pub(crate) config: ServerConfig,
}

impl ReceiverSetup {
    /// Reads the keys as TOML.
    pub(crate) fn read(text: &str, network: &Network) -> Result<Self, Error> {
        let keys: Keys = read(text, "recv")?;
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
        Ok(ReceiverSetup { config })
    }
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
        ReceiverSetup::read(text, &Network::default()).map(|setup| setup.config)
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
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "key:"),
            ("listen = 'nowhere at all'", "listen:"),
            ("key = 'absec_x'", "key"),
            ("output = 'x.ts'", "output"),
            ("[send]\nto = 'x'", "[recv]"),
        ] {
            let error = setup(text).expect_err(text);
            assert_eq!(error.code, ErrorCode::Config, "{error}");
            assert!(error.text.contains(part), "{text}: {error}");
        }
    }
}
