//! URLs of MPEG-TS in datagrams with parameters, as in ffmpeg, VLC and GStreamer:
//! `udp://ADDR:PORT?name=value&…`.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::address_error::AddressError;

/// Longest datagram that a parameter may set.
const MAX_DATAGRAM_BYTES: usize = 65_000;
/// Largest buffer that a parameter may set.
const MAX_BUFFER_BYTES: usize = 1 << 30;
/// Names that an error lists.
const KNOWN: &str = "localaddr, iface, ttl, rcvbuf (or buffer_size), localport, pkt_size, reuse, \
                     sources, and without effect fifo_size, overrun_nonfatal, timeout and mode";

/// Advice for groups that do not arrive by the default interface.
pub(super) const NAME_INTERFACE: &str = "name its interface by ?iface=NAME or ?localaddr=ADDR";

/// Section of the help of `send` and `recv`.
pub const PARAMETERS: &str = "
PARAMETERS of udp:// and rtp:// addresses follow a `?` and are joined by `&`, as in ffmpeg and VLC:
  localaddr=ADDR    local address: of the interface at which a multicast group is joined or sent
                    to, from which an output sends, or at which an input udp://@:PORT listens
  iface=NAME        local interface, by its name (also miface, interface)
  ttl=N             hops of an output's datagrams; 1 to a multicast group unless set
  rcvbuf=BYTES      buffer of the socket (also buffer_size)
  localport=PORT    local port
  pkt_size=BYTES    longest datagram of an output, rounded down to packets of 188 bytes; 1316
  reuse=0|1         share an input's port with other programs; 1 for multicast groups unless set
  sources=A,B       receive an IPv4 multicast group from these senders only
An unknown parameter is an error, and one without effect is named. udp://@GROUP:PORT joins a group;
udp://ADDR@GROUP:PORT joins it at this machine's address ADDR, or else from the sender ADDR only.
Quote such addresses: `&` and `?` mean something to shells.
";

/// URL of an input or output of MPEG-TS in datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpUrl {
    /// Complete text as written.
    text: String,
    /// Host and port as written; names are resolved on opening.
    place: String,
    /// Address before an `@`.
    pub(super) before_at: Option<IpAddr>,
    pub(super) parameters: Parameters,
}

/// Parameters after the question mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    /// Address of the local interface.
    pub(super) local_address: Option<IpAddr>,
    /// Name of the local interface.
    pub(super) interface: Option<String>,
    pub(super) local_port: Option<u16>,
    /// Time to live of datagrams, or the hop limit of IPv6.
    pub(super) ttl: Option<u8>,
    pub(super) buffer_bytes: Option<usize>,
    pub(super) datagram_bytes: Option<usize>,
    /// Whether other programs may listen at the port too.
    pub(super) is_shared: Option<bool>,
    /// The only accepted senders to a group.
    pub(super) sources: Vec<IpAddr>,
    /// Names that only other programs use.
    foreign: Vec<String>,
}

/// Direction of datagrams through a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Input,
    Output,
}

impl Parameters {
    /// Sets a parameter.
    ///
    /// # Errors
    /// The name is unknown, or cannot have this value.
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let pair = Pair { name, value };
        match name {
            "localaddr" => {
                let local = address(value);
                self.local_address = Some(pair.expected("a local IP address", local)?);
            }
            "iface" | "interface" | "miface" => {
                let is_name = !value.is_empty() && value.len() < 16;
                let interface = is_name.then(|| value.to_owned());
                self.interface = Some(pair.expected("an interface's name", interface)?);
            }
            "ttl" => {
                let ttl = number(value, 0, 255);
                self.ttl = Some(pair.expected("0 to 255", ttl)? as u8);
            }
            "localport" => {
                let port = number(value, 1, 65_535);
                self.local_port = Some(pair.expected("1 to 65535", port)? as u16);
            }
            "rcvbuf" | "buffer_size" => {
                let bytes = number(value, 1, MAX_BUFFER_BYTES);
                self.buffer_bytes = Some(pair.expected("bytes, at most 1 GiB", bytes)?);
            }
            "pkt_size" => {
                let bytes = number(value, 188, MAX_DATAGRAM_BYTES);
                self.datagram_bytes = Some(pair.expected("188 to 65000 bytes", bytes)?);
            }
            "reuse" | "reuse_socket" => {
                let is_shared = match value {
                    "" | "1" => Some(true),
                    "0" => Some(false),
                    _ => None,
                };
                self.is_shared = Some(pair.expected("0 or 1", is_shared)?);
            }
            "sources" => {
                let sources: Option<Vec<_>> = value.split(',').map(address).collect();
                self.sources = pair.expected("IP addresses, joined by commas", sources)?;
            }
            // Queues and timeouts of other programs, and a mode that is always on.
            "fifo_size" | "overrun_nonfatal" | "timeout" | "mode" => {
                self.foreign.push(name.to_owned());
            }
            _ => {
                return Err(format!(
                    "there is no parameter {name:?}: the known ones are {KNOWN}"
                ));
            }
        }
        Ok(())
    }
}

/// A parameter as written.
struct Pair<'a> {
    name: &'a str,
    value: &'a str,
}

impl Pair<'_> {
    /// Returns the parsed value.
    ///
    /// # Errors
    /// There is none. The text names the parameter and the expected values.
    fn expected<T>(&self, what: &str, parsed: Option<T>) -> Result<T, String> {
        let Pair { name, value } = self;
        parsed.ok_or_else(|| format!("{name}={value}: expected {what}"))
    }
}

fn address(text: &str) -> Option<IpAddr> {
    text.trim_matches(['[', ']']).parse().ok()
}

fn number(text: &str, least: usize, most: usize) -> Option<usize> {
    let number = text.parse().ok()?;
    (least..=most).contains(&number).then_some(number)
}

impl UdpUrl {
    /// Returns whether the address is `rtp://`.
    pub(super) fn is_rtp(&self) -> bool {
        self.text.starts_with("rtp:")
    }

    /// Parses `text` if it begins with one of `schemes`.
    ///
    /// # Errors
    /// A parameter is unknown or wrong, or the text before an `@` is no address.
    pub(super) fn parse(text: &str, schemes: &[&str]) -> Option<Result<Self, String>> {
        let (scheme, rest) = text.split_once("://")?;
        let is_known = schemes.contains(&scheme);
        is_known.then(|| Self::of(text, rest).map_err(|error| format!("{text}: {error}")))
    }

    fn of(text: &str, rest: &str) -> Result<Self, String> {
        let (whole, query) = rest.split_once('?').unwrap_or((rest, ""));
        // VLC writes udp://@:5000 for every local address, and SRT's tools udp://:5000.
        let whole = whole.trim_end_matches('/');
        let (before_at, place) = match whole.rsplit_once('@') {
            Some((before, place)) if !before.is_empty() => {
                let before_at = address(before).ok_or_else(|| {
                    format!(
                        "{before} before the @ is no IP address, as in 192.0.2.1@239.1.1.1:5000"
                    )
                })?;
                (Some(before_at), place)
            }
            Some((_, place)) => (None, place),
            None => (None, whole),
        };
        let mut parameters = Parameters::default();
        let (place, zone) = without_zone(place);
        parameters.interface = zone;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.set(name, value)?;
        }
        Ok(UdpUrl {
            text: text.to_owned(),
            place,
            before_at,
            parameters,
        })
    }

    /// Returns the URL with `text` in place of every `place`.
    pub(super) fn with(&self, place: &str, text: &str) -> Self {
        UdpUrl {
            text: self.text.replace(place, text),
            place: self.place.replace(place, text),
            ..self.clone()
        }
    }

    /// Returns address and port, with names resolved.
    ///
    /// # Errors
    /// The address does not exist.
    pub(super) fn resolve(&self) -> Result<SocketAddr, AddressError> {
        let any = match &self.parameters.local_address {
            Some(IpAddr::V6(_)) => "[::]",
            _ => "0.0.0.0",
        };
        let whole = if self.place.starts_with(':') {
            format!("{any}{}", self.place)
        } else {
            self.place.clone()
        };
        let mut addresses = whole.to_socket_addrs().ok().into_iter().flatten();
        let Some(to) = addresses.next() else {
            return Err(AddressError::NoAddress {
                url: self.to_string(),
            });
        };
        let others = self.before_at.iter().chain(&self.parameters.local_address);
        for other in others.chain(&self.parameters.sources) {
            if other.is_ipv4() != to.is_ipv4() {
                return Err(AddressError::Families {
                    url: self.to_string(),
                    one: *other,
                    other: to.ip(),
                });
            }
        }
        let needs_group = self.before_at.is_some() || !self.parameters.sources.is_empty();
        if needs_group && !to.ip().is_multicast() {
            return Err(AddressError::NoGroup {
                url: self.to_string(),
                address: to.ip(),
            });
        }
        Ok(to)
    }

    /// Returns a note about parameters without effect in this direction; `None` if all have one.
    pub(super) fn without_effect(&self, direction: Direction) -> Option<String> {
        let parameters = &self.parameters;
        let (is_input, is_output) = (
            direction == Direction::Input,
            direction == Direction::Output,
        );
        let mut names = Vec::new();
        if is_input && parameters.ttl.is_some() {
            names.push("ttl");
        }
        if is_input && parameters.datagram_bytes.is_some() {
            names.push("pkt_size");
        }
        if is_output && parameters.is_shared.is_some() {
            names.push("reuse");
        }
        names.extend(parameters.foreign.iter().map(String::as_str));
        let side = if is_input { "input" } else { "output" };
        if names.is_empty() {
            return None;
        }
        let list = names.join(", ");
        Some(format!("{side} {self}: without effect here: {list}"))
    }

    /// Returns whether it is a multicast group without a chosen interface.
    pub(super) fn joins_by_default(&self) -> bool {
        let parameters = &self.parameters;
        let is_chosen = parameters.local_address.is_some() || parameters.interface.is_some();
        !is_chosen
            && self.before_at.is_none()
            && self.resolve().is_ok_and(|to| {
                let has_scope = matches!(to, SocketAddr::V6(to) if to.scope_id() != 0);
                to.ip().is_multicast() && !has_scope
            })
    }
}

/// Splits the interface off `[ff02::1%eth0]:5000`.
fn without_zone(place: &str) -> (String, Option<String>) {
    let parts = place.split_once('%').and_then(|(host, rest)| {
        let (zone, port) = rest.split_once(']')?;
        Some((format!("{host}]{port}"), zone.to_owned()))
    });
    match parts {
        Some((place, zone)) if zone.parse::<u32>().is_err() => (place, Some(zone)),
        _ => (place.to_owned(), None),
    }
}

impl FromStr for UdpUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = Self::parse(text, &["udp", "rtp"]);
        parsed.unwrap_or_else(|| Err(format!("{text}: expected udp://ADDR:PORT")))
    }
}

impl fmt::Display for UdpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::InputName;
    use crate::output::OutputName;

    fn url(text: &str) -> UdpUrl {
        text.parse().unwrap()
    }

    fn error(text: &str) -> String {
        text.parse::<InputName>().unwrap_err()
    }

    #[test]
    fn addresses_as_players_write_them() {
        let expected: SocketAddr = "127.0.0.1:5000".parse().unwrap();
        for text in [
            "udp://127.0.0.1:5000",
            "rtp://@127.0.0.1:5000",
            "udp://127.0.0.1:5000?pkt_size=1316",
        ] {
            assert_eq!(url(text).resolve().unwrap(), expected);
        }
        let any: SocketAddr = "0.0.0.0:5000".parse().unwrap();
        for text in [
            "udp://@:5000",
            "udp://:5000",
            "udp://@:5000?mode=listener",
            "udp://:5000/",
        ] {
            assert_eq!(url(text).resolve().unwrap(), any, "{text}");
        }
        let any_of_ipv6 = url("udp://@:5000?localaddr=::1").resolve().unwrap();
        assert_eq!(any_of_ipv6, "[::]:5000".parse().unwrap());
        let error = url("udp://127.0.0.1").resolve().unwrap_err().to_string();
        assert!(error.contains("as udp://127.0.0.1:5000"), "{error}");
    }

    #[test]
    fn parameters_are_parsed() {
        let parsed = url(
            "udp://239.1.1.1:5000?localaddr=10.2.0.2&iface=eth2&ttl=8&rcvbuf=100000\
             &localport=7&pkt_size=376&reuse=0&sources=10.0.0.1,10.0.0.2",
        );
        let expected = Parameters {
            local_address: Some("10.2.0.2".parse().unwrap()),
            interface: Some("eth2".to_owned()),
            local_port: Some(7),
            ttl: Some(8),
            buffer_bytes: Some(100_000),
            datagram_bytes: Some(376),
            is_shared: Some(false),
            sources: ["10.0.0.1", "10.0.0.2"]
                .map(|at| at.parse().unwrap())
                .to_vec(),
            foreign: Vec::new(),
        };
        assert_eq!(parsed.parameters, expected);
        assert_eq!(
            url("udp://:1?buffer_size=9").parameters.buffer_bytes,
            Some(9)
        );
        assert_eq!(
            url("udp://:1?miface=a").parameters.interface.as_deref(),
            Some("a")
        );
    }

    #[test]
    fn parameters_without_effect_are_named() {
        let all = url("udp://127.0.0.1:1?ttl=3&pkt_size=1316&reuse=1&rcvbuf=9000&fifo_size=1");
        let input = all.without_effect(Direction::Input).unwrap();
        assert!(input.ends_with("here: ttl, pkt_size, fifo_size"), "{input}");
        let output = all.without_effect(Direction::Output).unwrap();
        assert!(output.ends_with("here: reuse, fifo_size"), "{output}");
        let none = url("udp://127.0.0.1:1?localaddr=127.0.0.1&rcvbuf=9000&iface=lo");
        for direction in [Direction::Input, Direction::Output] {
            assert_eq!(none.without_effect(direction), None);
        }
    }

    #[test]
    fn interfaces_and_addresses_in_front() {
        let plain = url("udp://@239.1.1.1:5000");
        assert_eq!(plain.before_at, None);
        assert_eq!(plain.resolve().unwrap(), "239.1.1.1:5000".parse().unwrap());
        assert!(plain.joins_by_default());
        for text in [
            "udp://127.0.0.1:5000",
            "udp://10.2.0.2@239.1.1.1:5000",
            "udp://239.1.1.1:5000?localaddr=10.2.0.2",
            "udp://239.1.1.1:5000?iface=eth2",
            "udp://[ff02::1%2]:5000",
        ] {
            assert!(!url(text).joins_by_default(), "{text}");
        }
        let joined = url("udp://10.2.0.2@239.1.1.1:5000");
        assert_eq!(joined.before_at, Some("10.2.0.2".parse().unwrap()));
        assert_eq!(joined.resolve().unwrap(), "239.1.1.1:5000".parse().unwrap());
        let zoned = url("udp://[ff02::1%eth1]:5000");
        assert_eq!(zoned.parameters.interface.as_deref(), Some("eth1"));
        assert_eq!(zoned.resolve().unwrap(), "[ff02::1]:5000".parse().unwrap());
        for text in [
            "udp://10.2.0.2@127.0.0.1:5000",
            "udp://127.0.0.1:5000?sources=10.0.0.1",
            "udp://239.1.1.1:5000?localaddr=::1",
        ] {
            assert!(url(text).resolve().is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_parameters_and_wrong_values_are_errors() {
        let text = "udp://127.0.0.1:5000?localadr=10.0.0.1";
        let of_output = text.parse::<OutputName>().unwrap_err();
        for unknown in [text.parse::<InputName>().unwrap_err(), of_output] {
            assert!(unknown.contains("\"localadr\"") && unknown.contains("localaddr, iface"));
        }
        for text in [
            "udp://:1?ttl=256",
            "udp://:1?localaddr=eth0",
            "udp://:1?iface=",
            "udp://:1?rcvbuf=4M",
            "udp://:1?pkt_size=187",
            "udp://:1?reuse=yes",
            "udp://:1?sources=",
            "udp://:1?localport=0",
            "udp://me@239.1.1.1:1",
        ] {
            let of_output = text.parse::<OutputName>().unwrap_err();
            assert_eq!(of_output, error(text), "in both directions");
            let name = text.split(['?', '=']).nth(1).unwrap_or("before the @");
            let is_named = of_output.contains(name) && of_output.contains(text);
            assert!(
                is_named && !of_output.contains("no parameter"),
                "{of_output}"
            );
        }
    }

    #[test]
    fn names_of_streams_are_filled_in() {
        let filled = url("udp://127.0.0.1:60{name}?ttl=3").with("{name}", "01");
        assert_eq!(filled.to_string(), "udp://127.0.0.1:6001?ttl=3");
        assert_eq!(filled.resolve().unwrap().port(), 6_001);
        assert_eq!(filled.parameters.ttl, Some(3));
    }
}
