//! The element's properties as settings.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};

use anabranch_controllers::by_name;
use anabranch_net::ServerConfig;
use anabranch_secure::{PublicKey, SecretKey};
use anabranch_units::Duration;

/// The properties that may be written.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) listen: String,
    pub(super) key: String,
    pub(super) allow: String,
    /// Latency in milliseconds.
    pub(super) latency: u32,
    /// Silence of a sender, in milliseconds, that ends its session.
    pub(super) timeout: u32,
    /// Whether the element waits for the next session when one is over.
    pub(super) keep_listening: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listen: "0.0.0.0:7000".to_owned(),
            key: String::new(),
            allow: String::new(),
            latency: 500,
            timeout: 60_000,
            keep_listening: false,
        }
    }
}

impl Settings {
    /// Returns the set-up for listening.
    ///
    /// # Errors
    /// The name of the wrong property and the mistake, in words.
    pub(super) fn config(&self) -> Result<ServerConfig, String> {
        let key = fs::read_to_string(&self.key);
        let key = key.map_err(|error| format!("key: cannot read {:?}: {error}", self.key))?;
        let key = SecretKey::from_text(&key).map_err(|error| format!("key: {error}"))?;
        let mut config = ServerConfig::new(self.address()?, key, self.allowed()?);
        let transport = &mut config.transport;
        transport.controller = by_name(anabranch_controllers::DEFAULT).map_err(say)?;
        let scheduler = anabranch_schedulers::by_name(anabranch_schedulers::DEFAULT);
        transport.scheduler = scheduler.map_err(say)?;
        config.latency = Some(Duration::from_millis(self.latency.into()));
        config.silence_timeout = Duration::from_millis(self.timeout.into());
        Ok(config)
    }

    fn address(&self) -> Result<SocketAddr, String> {
        let addresses = self.listen.to_socket_addrs();
        let wrong = "listen: expected an address and a port, as 0.0.0.0:7000";
        let mut addresses = addresses.map_err(|error| format!("{wrong}: {error}"))?;
        addresses.next().ok_or_else(|| wrong.to_owned())
    }

    fn allowed(&self) -> Result<Vec<PublicKey>, String> {
        let keys = self.allow.split(',').map(str::trim);
        let keys = keys.map(|key| key.parse().map_err(|error| format!("allow: {error}")));
        keys.collect()
    }
}

fn say(error: impl core::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_name_their_property() {
        let folder = std::env::temp_dir().join(format!("anabranchsrc-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let key = SecretKey::generate();
        let file = folder.join("key");
        fs::write(&file, &*key.to_text()).unwrap();
        let right = Settings {
            key: file.to_str().unwrap().to_owned(),
            allow: format!("{0}, {0}", key.public_key()),
            ..Settings::default()
        };
        assert_eq!(right.config().unwrap().allowed.len(), 2);
        let wrong = [
            (
                Settings {
                    key: "/none".to_owned(),
                    ..right.clone()
                },
                "key: cannot read",
            ),
            (
                Settings {
                    allow: String::new(),
                    ..right.clone()
                },
                "allow: ",
            ),
            (
                Settings {
                    listen: "7000".to_owned(),
                    ..right.clone()
                },
                "listen: expected",
            ),
        ];
        for (settings, part) in wrong {
            let error = settings.config().unwrap_err();
            assert!(error.starts_with(part), "{error}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
