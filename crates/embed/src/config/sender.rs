//! The set-up of a sender.

use anabranch_core::{MediaConfig, SourceLimits};
use anabranch_net::words::{BitrateRange, Link, ParseLinkError, TcpChoice, with_port};
use anabranch_net::{ClientConfig, ClientPath, Network, Remote, Surroundings};
use anabranch_secure::{PairingCode, PublicKey};
use anabranch_srt::Settings;
use anabranch_units::ByteCount;
use serde::Deserialize;

use super::{OneOrMany, TextOrNumber, latency, mistake, parse, read, time};
use crate::error::{Error, ErrorCode};
use crate::keys;
use crate::path_book;
use crate::srt_url::{self, SRTLA};
use crate::srtla::SrtlaSetup;

/// The keys.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Keys {
    to: Option<OneOrMany<String>>,
    via: Option<OneOrMany<String>>,
    key: Option<String>,
    peer: Option<String>,
    code: Option<String>,
    controller: Option<String>,
    scheduler: Option<String>,
    max_padding: Option<TextOrNumber>,
    ecn: Option<bool>,
    latency: Option<String>,
    fec: Option<String>,
    timeout: Option<String>,
    give_up_after: Option<String>,
    encoder_range: Option<String>,
    frame_lifetime: Option<String>,
    tcp: Option<TextOrNumber>,
}

/// A checked set-up of a sender.
#[derive(Debug)]
pub(crate) struct SenderSetup {
    /// The protocol, still without paths.
    pub(crate) protocol: Protocol,
    /// Destination of paths that are added.
    pub(crate) remote: Remote,
    /// Paths of the set-up.
    pub(crate) paths: Vec<ClientPath>,
}

/// The protocol of a sender.
#[derive(Debug)]
pub(crate) enum Protocol {
    /// Our own.
    Own(Box<ClientConfig>),
    /// SRT over SRTLA.
    Srtla(SrtlaSetup),
}

impl SenderSetup {
    /// Reads the keys as TOML, or the link or address of a receiver alone.
    pub(crate) fn read(text: &str, network: &Network) -> Result<Self, Error> {
        let line = text.trim();
        let is_address = [Link::SCHEME, SRTLA]
            .iter()
            .any(|scheme| line.starts_with(scheme));
        let keys = if is_address {
            Keys {
                to: Some(OneOrMany::One(line.to_owned())),
                ..Keys::default()
            }
        } else {
            read(text, "send")?
        };
        keys.check(network)
    }
}

impl Keys {
    fn check(mut self, network: &Network) -> Result<SenderSetup, Error> {
        let mut hosts = self.to.take().map_or(Vec::new(), OneOrMany::into_vec);
        if hosts.is_empty() {
            return Err(mistake("to: name the receiver, as \"studio.example:7000\""));
        }
        if hosts.iter().any(|host| host.starts_with(SRTLA)) {
            return self.srtla(&hosts, network);
        }
        if let Some(at) = hosts.iter().position(|host| host.starts_with(Link::SCHEME)) {
            self.take_link(&mut hosts[at])?;
        }
        let parsed: Result<Vec<Remote>, Error> = hosts
            .iter()
            .map(|host| parse("to", &with_port(host)))
            .collect();
        let remotes = parsed?;
        let paths = self.paths(&remotes)?;
        let config = self.client(network)?;
        Ok(SenderSetup {
            protocol: Protocol::Own(Box::new(config)),
            remote: remotes[0].clone(),
            paths,
        })
    }

    /// Reads a set-up for SRTLA, which has no key and no algorithms of ours.
    fn srtla(mut self, hosts: &[String], network: &Network) -> Result<SenderSetup, Error> {
        let (remotes, query) = srt_url::places(hosts)?;
        let paths = self.paths(&remotes)?;
        let mut settings = Settings::default();
        let stream_id = srt_url::parameters(("to", "caller"), &query, &mut settings)?;
        let range = self.encoder_range.take().map(|range| {
            let BitrateRange { min, max } = parse("encoder-range", &range)?;
            Ok::<_, Error>(SourceLimits::Adaptive { min, max })
        });
        let limits = range.transpose()?.unwrap_or(SourceLimits::Fixed);
        if self != Keys::default() {
            return Err(mistake(
                "with srtla:// there are the keys to, via and encoder-range alone",
            ));
        }
        Ok(SenderSetup {
            protocol: Protocol::Srtla(SrtlaSetup {
                network: network.clone(),
                limits,
                stream_id,
                settings,
            }),
            remote: remotes[0].clone(),
            paths,
        })
    }

    /// Puts the parts of a link in their places.
    fn take_link(&mut self, host: &mut String) -> Result<(), Error> {
        let link: Link = host
            .parse()
            .map_err(|error: ParseLinkError| mistake(error.to_string()))?;
        if self.peer.is_some() || self.code.is_some() {
            return Err(mistake(
                "to: the link names the receiver: leave peer and code out",
            ));
        }
        self.peer = Some(link.key.to_string());
        self.code = link.code.as_ref().map(|code| code.to_text().to_string());
        *host = link.to;
        // A sender that the link alone describes has a key for its own life.
        self.key.get_or_insert_with(keys::generate_key);
        Ok(())
    }

    /// Returns each `via` with its destination; one by the default route without any.
    fn paths(&mut self, remotes: &[Remote]) -> Result<Vec<ClientPath>, Error> {
        let named = self.via.take().map(OneOrMany::into_vec);
        let vias = named.unwrap_or_else(|| vec![String::new(); remotes.len()]);
        let is_paired = remotes.len() == 1 || remotes.len() == vias.len();
        if !is_paired {
            return Err(mistake("give to once, or once for each via"));
        }
        let paths = vias.iter().enumerate().map(|(index, via)| {
            let remote = remotes.get(index).unwrap_or(&remotes[0]);
            path_book::path(via, None, remote)
                .map_err(|error| Error::new(ErrorCode::Config, format!("via: {error}")))
        });
        paths.collect()
    }

    fn client(self, network: &Network) -> Result<ClientConfig, Error> {
        let key = self
            .key
            .ok_or_else(|| mistake("key: name this end's key or its file"))?;
        let peer = self
            .peer
            .ok_or_else(|| mistake("peer: name the receiver's public key"))?;
        let peer: PublicKey = parse("peer", &peer)?;
        let key = keys::read(&key)?;
        if key.public_key() == peer {
            return Err(mistake("peer: this is the own key: name the receiver's"));
        }
        let mut config = ClientConfig::new(key, peer, Vec::new());
        config.network = network.clone();
        config.clock = *Surroundings::of(network, config.clock).clock();
        if let Some(name) = &self.controller {
            let found = anabranch_controllers::by_name(name);
            config.transport.controller =
                found.map_err(|error| Error::of(ErrorCode::Config, &error))?;
        }
        if let Some(name) = &self.scheduler {
            let found = anabranch_schedulers::by_name(name);
            config.transport.scheduler =
                found.map_err(|error| Error::of(ErrorCode::Config, &error))?;
        }
        if let Some(code) = &self.code {
            let code: PairingCode = parse("code", code)?;
            config.pairing_code = Some(code);
        }
        if let Some(limit) = &self.timeout {
            config.connect_timeout = time("timeout", limit)?;
        }
        if let Some(limit) = &self.give_up_after {
            config.give_up_after = Some(time("give-up-after", limit)?);
        }
        if let Some(bytes) = self.max_padding {
            let ByteCount(bytes) = parse("max-padding", &bytes.into_text())?;
            config.transport.padding_bytes_per_minute = Some(bytes);
        }
        if let Some(range) = &self.encoder_range {
            let BitrateRange { min, max } = parse("encoder-range", range)?;
            config.transport.media.source = SourceLimits::Adaptive { min, max };
        }
        if let Some(name) = &self.fec {
            let found = anabranch_schedulers::fec_policy(name);
            config.transport.media.fec =
                found.map_err(|error| Error::of(ErrorCode::Config, &error))?;
        }
        let tcp_text = self.tcp.map(TextOrNumber::into_text);
        let tcp = tcp_text
            .map(|text| parse::<TcpChoice>("tcp", &text))
            .transpose()?;
        config.tcp = tcp.unwrap_or_default().0;
        config.transport.is_ecn_capable = self.ecn.unwrap_or(false);
        config.keeps_deadline = self.frame_lifetime.is_some();
        config.latency = match &self.latency {
            Some(text) => latency(text)?,
            None => (!config.keeps_deadline).then(|| MediaConfig::default().deadline),
        };
        if let Some(lifetime) = &self.frame_lifetime {
            config.transport.media.deadline = time("frame-lifetime", lifetime)?;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_net::{TcpFallback, Via};
    use anabranch_secure::SecretKey;
    use anabranch_units::{DataRate, Duration};

    use super::*;

    fn setup(text: &str) -> Result<SenderSetup, Error> {
        SenderSetup::read(text, &Network::default())
    }

    fn own(setup: SenderSetup) -> ClientConfig {
        match setup.protocol {
            Protocol::Own(config) => *config,
            Protocol::Srtla(_) => panic!("it is our protocol"),
        }
    }

    #[test]
    fn an_address_of_srtla_has_the_parameters_of_srt() {
        let text =
            "srtla://studio.example:5000?streamid=live&passphrase=correct%horse&latency=2000";
        let setup = setup(text).expect("it is complete");
        assert_eq!(setup.remote.to_string(), "studio.example:5000");
        let Protocol::Srtla(srtla) = setup.protocol else {
            panic!("it is SRTLA");
        };
        assert_eq!(srtla.stream_id.as_deref(), Some("live"));
        assert!(srtla.settings.passphrase.is_some());
        assert_eq!(srtla.settings.peer_latency, Duration::from_secs(2));
    }

    fn keys() -> String {
        let peer = SecretKey::generate().public_key();
        format!("key = '{}'\npeer = '{peer}'\n", keys::generate_key())
    }

    #[test]
    fn keys_have_the_meaning_of_the_program_file() {
        let text = format!(
            "[send]\n{}to = 'studio.example'\nvia = ['wlan0', 'wwan0,metered']\n\
             latency = '800 ms'\nencoder-range = '500kbit/s..6Mbit/s'\ntcp = 8443\n\
             fec = 'adaptive'\ntimeout = '3 s'\n[recv]\nlisten = '0.0.0.0:7000'\n",
            keys()
        );
        let setup = setup(&text).expect("it is complete");
        assert_eq!(setup.remote.to_string(), "studio.example:7000");
        let names: Vec<_> = setup
            .paths
            .iter()
            .map(|path| path.via.to_string())
            .collect();
        assert_eq!(names, ["wlan0", "wwan0"]);
        assert!(setup.paths[1].options.is_metered);
        let config = own(setup);
        assert_eq!(config.latency, Some(Duration::from_millis(800)));
        assert_eq!(config.tcp, TcpFallback::Port(8_443));
        assert_eq!(config.connect_timeout, Duration::from_secs(3));
        let limits = SourceLimits::Adaptive {
            min: DataRate::from_kilobits_per_second(500),
            max: DataRate::from_megabits_per_second(6),
        };
        assert_eq!(config.transport.media.source, limits);
    }

    #[test]
    fn without_ways_there_is_the_default_route_and_none_if_the_list_is_empty() {
        let text = format!("{}to = '192.0.2.1:9'\n", keys());
        let paths = setup(&text).expect("it is complete").paths;
        assert_eq!(paths.len(), 1);
        assert_eq!(paths[0].via, Via::DefaultRoute);
        let paths = setup(&format!("{text}via = []\n"))
            .expect("it is complete")
            .paths;
        assert!(paths.is_empty());
    }

    #[test]
    fn a_link_is_a_whole_set_up() {
        let link = Link {
            to: "studio.example:7000".to_owned(),
            key: SecretKey::generate().public_key(),
            code: Some(PairingCode::generate()),
        };
        let config = own(setup(&link.to_text()).expect("it is complete"));
        assert_eq!(config.peer_key, link.key);
        assert!(config.pairing_code.is_some());
    }

    #[test]
    fn mistakes_are_named_and_secrets_are_not_repeated() {
        let secret = keys::generate_key();
        for (text, part) in [
            ("", "to:"),
            ("to = '192.0.2.1:9'", "key:"),
            ("to = ", "TOML"),
            ("[recv]\nlisten = '0.0.0.0:1'", "[send]"),
            ("to = 'a b'\nvia = 'lo'", "to:"),
            ("to = '192.0.2.1:9'\nvia = ['wwan*']", "via:"),
            ("to = ['192.0.2.1:9', '192.0.2.2:9']\nvia = 'lo'", "once"),
            ("to = '192.0.2.1:9'\nmetrics = 9000", "metrics"),
            ("anabranch://studio", "key"),
            ("srtla://studio.example", "a port"),
            ("srtla://a:1?passphrase=short", "10 to 79"),
            ("srtla://a:1?maxbw=1", "maxbw"),
            ("to = 'srtla://a:1'\nfec = 'adaptive'", "alone"),
            ("to = ['srtla://a:1', 'b:2']", "srtla://"),
        ] {
            let error = setup(text).expect_err(text);
            assert_eq!(error.code, ErrorCode::Config, "{error}");
            assert!(error.text.contains(part), "{text}: {error}");
        }
        for wrong in [
            "tcp = 0",
            "latency = '0 s'",
            "fec = 7",
            "fec = 'x'",
            "timeout = 'x'",
            "controller = 'x'",
        ] {
            let text = format!("{}to = '192.0.2.1:9'\n{wrong}\n", keys());
            let error = setup(&text).expect_err(wrong);
            assert_eq!(error.code, ErrorCode::Config);
        }
        let text = format!("to = '192.0.2.1:9'\nkey = '{secret}x'\npeer = '{secret}'\n");
        let error = setup(&text).expect_err("neither is right");
        assert!(!error.text.contains(&secret), "{error}");
    }
}
