//! The element's properties as settings.

use std::fs;

use anabranch_controllers::by_name;
use anabranch_core::SourceLimits;
use anabranch_net::{ClientConfig, ClientPath, Remote, Via};
use anabranch_secure::{PublicKey, SecretKey};
use anabranch_units::{DataRate, Duration};

/// The properties that may be written.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) to: String,
    pub(super) via: String,
    pub(super) key: String,
    pub(super) peer: String,
    /// Latency in milliseconds.
    pub(super) latency: u32,
    /// Minimum bitrate in bit/s.
    pub(super) min_bitrate: u32,
    /// Maximum bitrate in bit/s.
    pub(super) max_bitrate: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            to: String::new(),
            via: String::new(),
            key: String::new(),
            peer: String::new(),
            latency: 500,
            min_bitrate: 500_000,
            max_bitrate: 6_000_000,
        }
    }
}

impl Settings {
    /// Returns the set-up for opening a session.
    ///
    /// # Errors
    /// The name of the wrong property and the mistake, in words.
    pub(super) fn config(&self) -> Result<ClientConfig, String> {
        let key = fs::read_to_string(&self.key);
        let key = key.map_err(|error| format!("key: cannot read {:?}: {error}", self.key))?;
        let key = SecretKey::from_text(&key).map_err(|error| format!("key: {error}"))?;
        let peer: PublicKey = self
            .peer
            .parse()
            .map_err(|error| format!("peer: {error}"))?;
        let remote: Remote = self
            .to
            .parse()
            .map_err(|error| format!("to: {error}: expected host and port, as 192.0.2.1:7000"))?;
        let vias: Vec<Via> = match self.via.as_str() {
            "" => vec![Via::DefaultRoute],
            names => {
                let names = names.split(',');
                let Ok(vias) = names.map(|name| name.trim().parse()).collect();
                vias
            }
        };
        let path = |via| ClientPath {
            via,
            remote: remote.clone(),
            options: anabranch_core::PathOptions::default(),
        };
        let [min, max] = [self.min_bitrate, self.max_bitrate]
            .map(|rate| DataRate::from_bits_per_second(rate.into()));
        if min.is_zero() || min > max {
            return Err("min-bitrate must be above zero and not above max-bitrate".to_owned());
        }
        let mut config = ClientConfig::new(key, peer, vias.into_iter().map(path).collect());
        let transport = &mut config.transport;
        transport.controller = by_name(anabranch_controllers::DEFAULT).map_err(say)?;
        let scheduler = anabranch_schedulers::by_name(anabranch_schedulers::DEFAULT);
        transport.scheduler = scheduler.map_err(say)?;
        transport.media.source = SourceLimits::Adaptive { min, max };
        config.latency = Some(Duration::from_millis(self.latency.into()));
        Ok(config)
    }
}

fn say(error: impl core::fmt::Display) -> String {
    error.to_string()
}
