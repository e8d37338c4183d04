//! Addresses of SRT with the parameters of libsrt's programs: `srt://HOST:PORT?name=value&…`.

use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use anabranch_net::Surroundings;
use anabranch_srt::{KeyLength, MaxBandwidth, Passphrase, Settings};
use anabranch_units::{DataRate, Duration};

use crate::address_error::{AddressError, ParameterError};
use crate::foreign_name::ForeignName;

/// Parameters whose only value here is libsrt's default of live mode, or that have no meaning here.
const WITHOUT_EFFECT: [&str; 14] = [
    "transtype",
    "messageapi",
    "tsbpdmode",
    "tlpktdrop",
    "nakreport",
    "enforcedencryption",
    "pkt_size",
    "payloadsize",
    "linger",
    "sndbuf",
    "rcvbuf",
    "udp_sndbuf",
    "udp_rcvbuf",
    "lossmaxttl",
];
/// Longest file of a passphrase, line end included.
const MAX_FILE_BYTES: u64 = 1_000;
/// Largest number of packets in flight.
const MAX_WINDOW: u32 = 1 << 16;

/// Which end calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Caller,
    Listener,
}

/// Fields of a listener for the programs that call it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ForCallers {
    /// Stream ID that it expects.
    pub stream_id: Option<String>,
    /// Passphrase, which no log may have.
    pub passphrase: Option<String>,
    /// Latency that it asks for.
    pub latency: Duration,
}

/// A parsed address.
#[derive(Clone, Debug)]
pub(crate) struct SrtAddress {
    /// Stream and address for messages, without parameters.
    pub(super) shown: String,
    /// The address alone, which several streams may share.
    pub(super) port_name: String,
    pub(crate) mode: Mode,
    /// Host and port as written.
    place: String,
    /// Stream ID that a caller gives, or that a listener expects.
    pub(super) stream_id: Option<String>,
    pub(super) settings: Settings,
}

impl SrtAddress {
    /// Parses the parameters.
    ///
    /// # Errors
    /// A parameter is unknown or wrong, or a passphrase cannot be read.
    pub(crate) fn of(name: &ForeignName) -> Result<Self, AddressError> {
        let place = name.authority().to_owned();
        let mut address = SrtAddress {
            shown: name.shown(),
            port_name: name.to_string(),
            mode: default_mode(&place),
            place,
            stream_id: None,
            settings: Settings::default(),
        };
        let mut bandwidth = Bandwidth::default();
        for (parameter, value) in name.parameters() {
            let set = address.set(parameter, value, &mut bandwidth);
            set.map_err(|source| AddressError::Parameter {
                name: name.to_string(),
                parameter: parameter.to_owned(),
                source,
            })?;
        }
        address.settings.max_bandwidth = bandwidth.get()?;
        Ok(address)
    }

    /// Returns the fields that its callers have to know; `None` if this end calls.
    pub(crate) fn for_callers(&self) -> Option<ForCallers> {
        let settings = &self.settings;
        let passphrase = settings.passphrase.as_ref();
        (self.mode == Mode::Listener).then(|| ForCallers {
            stream_id: self.stream_id.clone(),
            passphrase: passphrase.map(|passphrase| passphrase.reveal().to_owned()),
            latency: settings.receive_latency,
        })
    }

    /// Makes the address a listener at another place, as SRTLA's relay needs.
    pub(crate) fn listening_at(mut self, place: SocketAddr) -> Self {
        (self.mode, self.place) = (Mode::Listener, place.to_string());
        self
    }

    /// Returns the socket address.
    ///
    /// # Errors
    /// There is no such host.
    pub(super) fn resolve(&self, surroundings: &Surroundings) -> Result<SocketAddr, AddressError> {
        self.resolve_for(0, surroundings)
    }

    /// Returns the address that attempt number `attempt` calls: a name may have several, of which
    /// some do not answer.
    ///
    /// # Errors
    /// There is no such host.
    pub(super) fn resolve_for(
        &self,
        attempt: usize,
        surroundings: &Surroundings,
    ) -> Result<SocketAddr, AddressError> {
        if let Some(port) = self.place.strip_prefix(':') {
            let port = port.parse().map_err(AddressError::Port)?;
            return Ok((Ipv4Addr::UNSPECIFIED, port).into());
        }
        let found = surroundings
            .resolve(&self.place)
            .map_err(|error| self.no_host(Some(error)))?;
        turn(found, attempt).ok_or_else(|| self.no_host(None))
    }

    fn no_host(&self, source: Option<io::Error>) -> AddressError {
        AddressError::NoHost {
            name: self.shown.clone(),
            source,
        }
    }

    fn set(
        &mut self,
        name: &str,
        value: &str,
        bandwidth: &mut Bandwidth,
    ) -> Result<(), ParameterError> {
        let settings = &mut self.settings;
        match name {
            "mode" => self.mode = mode(value)?,
            "streamid" => {
                if value.len() > 512 {
                    return Err(ParameterError::StreamId);
                }
                self.stream_id = Some(value.to_owned()).filter(|id| !id.is_empty());
            }
            "latency" => {
                let latency = millis(value)?;
                (settings.receive_latency, settings.peer_latency) = (latency, latency);
            }
            "rcvlatency" => settings.receive_latency = millis(value)?,
            "peerlatency" => settings.peer_latency = millis(value)?,
            "passphrase" => settings.passphrase = Some(passphrase(value)?),
            "passphrase_file" => settings.passphrase = Some(passphrase(&read(value)?)?),
            "passphrase_env" => {
                let text = std::env::var(value).map_err(|source| ParameterError::Variable {
                    name: value.to_owned(),
                    source,
                })?;
                settings.passphrase = Some(passphrase(&text)?);
            }
            "pbkeylen" => {
                let bytes: usize = number(value)?;
                settings.key_length = KeyLength::of_bytes(bytes);
                if bytes != 0 && settings.key_length.is_none() {
                    return Err(ParameterError::KeyLength);
                }
            }
            "maxbw" => bandwidth.max = number(value)?,
            "inputbw" => bandwidth.input = number(value)?,
            "oheadbw" => bandwidth.overhead = number(value)?,
            "kmrefreshrate" => settings.key_refresh.packets = number(value)?,
            "kmpreannounce" => settings.key_refresh.announced_before = number(value)?,
            "peeridletimeo" => settings.peer_idle_timeout = millis(value)?,
            "conntimeo" => settings.connect_timeout = millis(value)?,
            "fc" => {
                settings.flow_window = number(value)?;
                if !(32..=MAX_WINDOW).contains(&settings.flow_window) {
                    return Err(ParameterError::FlowWindow { most: MAX_WINDOW });
                }
            }
            "mss" => {
                settings.mtu = number(value)?;
                if !(576..=1_500).contains(&settings.mtu) {
                    return Err(ParameterError::PacketSize);
                }
            }
            _ if WITHOUT_EFFECT.contains(&name) => without_effect(name, value)?,
            _ => return Err(ParameterError::Unknown),
        }
        Ok(())
    }
}

/// Parameters of the pace, in bytes per second as libsrt has them.
#[derive(Clone, Copy, Debug)]
struct Bandwidth {
    max: i64,
    input: u64,
    overhead: u32,
}

impl Default for Bandwidth {
    fn default() -> Self {
        Bandwidth {
            max: -1,
            input: 0,
            overhead: 25,
        }
    }
}

impl Bandwidth {
    fn get(self) -> Result<MaxBandwidth, AddressError> {
        fn rate(bytes: u64) -> MaxBandwidth {
            MaxBandwidth::Rate(DataRate::from_bits_per_second(bytes.saturating_mul(8)))
        }

        if !(5..=100).contains(&self.overhead) {
            return Err(AddressError::Overhead);
        }
        Ok(match (self.max, self.input) {
            (..0, _) => Settings::default().max_bandwidth,
            (0, 0) => MaxBandwidth::Input {
                overhead_percent: self.overhead,
            },
            (0, input) => rate(input / 100 * u64::from(100 + self.overhead)),
            (max, _) => rate(max.unsigned_abs()),
        })
    }
}

/// Returns the mode of an address that names none: without a host it listens.
fn default_mode(place: &str) -> Mode {
    let is_any = ["0.0.0.0:", "[::]:", ":"]
        .iter()
        .any(|any| place.starts_with(any));
    if is_any { Mode::Listener } else { Mode::Caller }
}

fn mode(value: &str) -> Result<Mode, ParameterError> {
    match value {
        "caller" | "client" => Ok(Mode::Caller),
        "listener" | "server" => Ok(Mode::Listener),
        "rendezvous" => Err(ParameterError::Rendezvous),
        _ => Err(ParameterError::Mode),
    }
}

fn without_effect(name: &str, value: &str) -> Result<(), ParameterError> {
    let is_other_mode = match name {
        "transtype" => value != "live",
        "messageapi" | "tsbpdmode" | "tlpktdrop" | "enforcedencryption" => {
            ["0", "no", "off", "false"].contains(&value)
        }
        _ => false,
    };
    if is_other_mode {
        return Err(ParameterError::NotLive);
    }
    Ok(())
}

fn number<T: FromStr>(value: &str) -> Result<T, ParameterError> {
    value.parse().map_err(|_| ParameterError::NoNumber)
}

/// Parses milliseconds, with or without their unit.
fn millis(value: &str) -> Result<Duration, ParameterError> {
    let text = value.strip_suffix("ms").unwrap_or(value);
    let millis: u16 = text.parse().map_err(|_| ParameterError::NoMilliseconds)?;
    Ok(Duration::from_millis(millis.into()))
}

fn passphrase(text: &str) -> Result<Passphrase, ParameterError> {
    Passphrase::new(text).ok_or(ParameterError::Passphrase)
}

/// Reads the first line of a file.
fn read(path: &str) -> Result<String, ParameterError> {
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(text.lines().next().unwrap_or_default().to_owned()),
        Err(source) => Err(ParameterError::File {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Returns the address whose turn it is.
fn turn(mut addresses: Vec<SocketAddr>, attempt: usize) -> Option<SocketAddr> {
    let mut known = Vec::new();
    addresses.retain(|address| {
        let is_new = !known.contains(address);
        known.push(*address);
        is_new
    });
    let place = attempt.checked_rem(addresses.len())?;
    addresses.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::WithCauses;

    fn address(text: &str) -> Result<SrtAddress, AddressError> {
        SrtAddress::of(&ForeignName::input(text).unwrap())
    }

    #[test]
    fn parameters_are_those_of_libsrt() {
        let parsed = address(
            "srt://:9000?streamid=#!::r=cam&latency=200ms&peerlatency=300&pbkeylen=32\
             &passphrase=correct%horse&maxbw=0&oheadbw=50&fc=4096&transtype=live&pkt_size=1316",
        );
        let SrtAddress {
            mode,
            stream_id,
            settings,
            ..
        } = parsed.unwrap();
        assert_eq!(
            (mode, stream_id.as_deref()),
            (Mode::Listener, Some("#!::r=cam"))
        );
        let millis = Duration::from_millis;
        assert_eq!(settings.receive_latency, millis(200));
        assert_eq!(settings.peer_latency, millis(300));
        assert_eq!(settings.key_length, Some(KeyLength::Aes256));
        assert_eq!(settings.passphrase, Passphrase::new("correct%horse"));
        let overhead_percent = 50;
        assert_eq!(
            settings.max_bandwidth,
            MaxBandwidth::Input { overhead_percent }
        );
        assert_eq!(settings.flow_window, 4_096);
        let rate = address("srt://a:1?maxbw=0&inputbw=1000000").unwrap();
        let expected = DataRate::from_megabits_per_second(10);
        assert_eq!(rate.settings.max_bandwidth, MaxBandwidth::Rate(expected));
    }

    #[test]
    fn the_mode_follows_the_host_unless_it_is_given() {
        for (text, mode) in [
            ("srt://:9000", Mode::Listener),
            ("srt://0.0.0.0:9000", Mode::Listener),
            ("srt://[::]:9000", Mode::Listener),
            ("srt://127.0.0.1:9000", Mode::Caller),
            ("srt://127.0.0.1:9000?mode=listener", Mode::Listener),
            ("srt://:9000?mode=caller", Mode::Caller),
        ] {
            assert_eq!(address(text).unwrap().mode, mode, "{text}");
        }
        let system = Surroundings::system(anabranch_net::Clock::start());
        let any = address("srt://:9000").unwrap().resolve(&system).unwrap();
        assert_eq!(any.to_string(), "0.0.0.0:9000");
    }

    #[test]
    fn mistakes_are_named_without_secrets() {
        for (parameters, part) in [
            ("mode=rendezvous", "let one end be the listener"),
            ("latency=1s", "expected milliseconds"),
            ("passphrase=short", "10 to 79"),
            ("passphrase_env=ANABRANCH_NO_SUCH", "ANABRANCH_NO_SUCH"),
            ("passphrase_file=/nowhere/secret", "/nowhere/secret"),
            ("pbkeylen=20", "16, 24 or 32"),
            ("transtype=file", "only live mode"),
            ("packetfilter=fec", "is not known; there are mode"),
            ("oheadbw=1", "5 to 100"),
            ("mss=9000", "576 to 1500"),
        ] {
            let parsed = address(&format!("srt://127.0.0.1:9000?{parameters}"));
            let error = WithCauses(&parsed.unwrap_err()).to_string();
            assert!(error.contains(part) && !error.contains("short"), "{error}");
        }
    }

    #[test]
    fn a_passphrase_may_come_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "correct horse\n").unwrap();
        let text = format!("srt://127.0.0.1:9000?passphrase_file={}", path.display());
        let settings = address(&text).unwrap().settings;
        assert_eq!(settings.passphrase, Passphrase::new("correct horse"));
    }
    #[test]
    fn each_attempt_calls_the_next_address() {
        let [first, second] = ["[2001:db8::1]:9", "192.0.2.1:9"].map(|text| text.parse().unwrap());
        let called = [0, 1, 2, 3].map(|attempt| turn(vec![first, second, first], attempt));
        assert_eq!(called, [first, second, first, second].map(Some));
        assert_eq!(turn(Vec::new(), 3), None);
    }
}
