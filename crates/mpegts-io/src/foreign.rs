//! Protocols that other programs implement for this one: SRT, RIST, RTMP, and the SRT inside SRTLA.
//!
//! A foreign input is a supervised program that sends MPEG-TS to our socket at loopback. A foreign
//! output is one that receives it from there (decision 182).

use core::fmt;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use anabranch_net::Clock;
use anyhow::{Context, anyhow, bail, ensure};

use super::links::Links;
use super::srtla::Relay;
use super::supervised::{Supervised, Tool};
use super::udp_input::UdpInput;
use super::udp_output::UdpOutput;

/// Parameters whose values are not shown.
const SECRETS: [&str; 4] = ["passphrase", "secret", "password", "username"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Srt,
    Srtla,
    Rist,
    Rtmp,
}

/// The address of a foreign input or output, as `srt://ADDR:PORT?latency=200`.
#[derive(Clone, PartialEq, Eq)]
pub struct ForeignName {
    protocol: Protocol,
    /// Text between the slashes and the question mark: address and port, and for RTMP a path.
    place: String,
    /// Names and values behind the question mark.
    parameters: Vec<(String, String)>,
}

/// Program and relay of an input.
#[derive(Debug)]
pub(super) struct ForeignInput {
    _tool: Supervised,
    relay: Option<Relay>,
}

impl ForeignInput {
    /// Returns the links, if there are several.
    pub(super) fn links(&self) -> Option<Links> {
        self.relay.as_ref().map(Relay::links)
    }
}

/// An output through another program.
#[derive(Debug)]
pub struct ForeignOutput {
    pub(super) output: UdpOutput,
    _tool: Supervised,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Protocol::Srt => "srt",
            Protocol::Srtla => "srtla",
            Protocol::Rist => "rist",
            Protocol::Rtmp => "rtmp",
        }
    }
}

impl ForeignName {
    /// Parses `text` if it names a foreign protocol that can be an input.
    pub fn input(text: &str) -> Option<Self> {
        use Protocol::{Rist, Rtmp, Srt, Srtla};
        ForeignName::parse(text, &[Srt, Srtla, Rist, Rtmp])
    }

    /// Parses `text` if it names a foreign protocol that can be an output.
    pub(super) fn output(text: &str) -> Option<Self> {
        ForeignName::parse(text, &[Protocol::Srt, Protocol::Rist])
    }

    /// Parses without checks, which follow on opening: an error in the command line would be
    /// printed with the passphrases in it.
    fn parse(text: &str, known: &[Protocol]) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let protocol = known.iter().find(|protocol| protocol.name() == scheme)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let parameters = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), value.to_owned())
        });
        Some(ForeignName {
            protocol: *protocol,
            place: place.to_owned(),
            parameters: parameters.collect(),
        })
    }

    /// Returns the protocol's name.
    pub fn protocol(&self) -> &'static str {
        self.protocol.name()
    }

    /// Returns the name with `text` in place of every `place`.
    pub(super) fn with(&self, place: &str, text: &str) -> Self {
        let replaced = |part: &String| part.replace(place, text);
        let parameters = self.parameters.iter();
        ForeignName {
            protocol: self.protocol,
            place: replaced(&self.place),
            parameters: parameters
                .map(|(name, value)| (name.clone(), replaced(value)))
                .collect(),
        }
    }

    /// Returns the address at which an input listens for an SRT sender, if it does.
    ///
    /// # Errors
    /// There is no such address, or it has parameters that the SRT sender sets.
    pub fn srt_listener(&self) -> anyhow::Result<Option<SocketAddr>> {
        if self.protocol != Protocol::Srt || self.parameter("mode") != Some("listener") {
            return Ok(None);
        }
        self.check()?;
        let others = self.parameters.iter().find(|(name, _)| name != "mode");
        if let Some((name, _)) = others {
            bail!("{self}: the program that calls sets {name}, as its connection is carried whole");
        }
        match self.authority().strip_prefix(':') {
            Some(port) => Ok(Some((Ipv4Addr::UNSPECIFIED, port.parse::<u16>()?).into())),
            None => self.address().map(Some),
        }
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let mut all = self.parameters.iter();
        let found = all.find(|(its, _)| its == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns address and port, for RTMP without the path, for RIST without the `@`.
    fn authority(&self) -> &str {
        let plain = self.place.split('/').next().unwrap_or_default();
        plain.rsplit_once('@').map_or(plain, |(_, plain)| plain)
    }

    /// Checks port and parameters.
    ///
    /// # Errors
    /// There is no port, or the parameters contradict each other.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let port = self.authority().rsplit_once(':').map(|(_, port)| port);
        ensure!(
            port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0)),
            "{self}: expected an address and a port, as {}://0.0.0.0:5000",
            self.protocol()
        );
        if !matches!(self.protocol, Protocol::Srt | Protocol::Srtla) {
            return Ok(());
        }
        let mode = self.parameter("mode");
        ensure!(
            mode.is_none_or(|mode| ["caller", "listener", "rendezvous"].contains(&mode)),
            "{self}: mode is caller, listener or rendezvous"
        );
        let latency = self.parameter("latency").map(millis);
        ensure!(
            latency.is_none_or(|latency| latency.parse::<u32>().is_ok()),
            "{self}: latency is a number of milliseconds, as latency=200"
        );
        let length = self.parameter("passphrase").map(str::len);
        ensure!(
            length.is_none_or(|length| (10..80).contains(&length)),
            "{self}: SRT's passphrases have 10 to 79 characters"
        );
        Ok(())
    }

    /// Returns the URL for a tool, with another place and with other parameters first.
    fn url(&self, scheme: &str, place: &str, fixed: &[(&str, &str)]) -> String {
        let is_fixed = |name: &str| fixed.iter().any(|(its, _)| *its == name);
        let given = self.parameters.iter();
        let given = given.map(|(name, value)| (name.as_str(), value.as_str()));
        let given = given.filter(|(name, _)| !is_fixed(name));
        let pairs = fixed.iter().copied().chain(given);
        let pairs: Vec<_> = pairs
            .map(|(name, value)| match name {
                "latency" => format!("{name}={}", millis(value)),
                _ => format!("{name}={value}"),
            })
            .collect();
        match pairs.is_empty() {
            true => format!("{scheme}://{place}"),
            false => format!("{scheme}://{place}?{}", pairs.join("&")),
        }
    }

    fn secrets(&self) -> Vec<String> {
        let parameters = self.parameters.iter();
        let secret = parameters.filter(|(name, _)| SECRETS.contains(&name.as_str()));
        let path = self.place.split_once('/').map(|(_, path)| path.to_owned());
        let secrets = secret.map(|(_, value)| value.clone());
        secrets.chain(path).collect()
    }

    /// Opens the input: the socket that receives MPEG-TS, and the program that sends it there.
    ///
    /// # Errors
    /// The address is invalid, the tool is missing or, for SRTLA, the address is taken.
    pub(super) fn open_input(&self, clock: &Clock) -> anyhow::Result<(UdpInput, ForeignInput)> {
        self.check()?;
        let input = UdpInput::open_loopback()?;
        let port = input.port().context("a socket without an address")?;
        let mut relay = None;
        let tool = match self.protocol {
            Protocol::Srt => self.srt(
                &self.url("srt", &self.place, &[]),
                &format!("udp://{}", at(port)),
            ),
            Protocol::Srtla => {
                let srt = free_address()?;
                let name = self.to_string();
                relay = Some(Relay::start(&name, self.address()?, srt, clock)?);
                let fixed = [("mode", "listener")];
                let url = self.url("srt", &srt.to_string(), &fixed);
                self.srt(&url, &format!("udp://{}", at(port)))
            }
            Protocol::Rist => self.rist_input(port),
            Protocol::Rtmp => self.rtmp_input(port),
        };
        let tool = Supervised::start(tool, &self.to_string())?;
        let foreign = ForeignInput { _tool: tool, relay };
        Ok((input, foreign))
    }

    /// Opens the output.
    ///
    /// # Errors
    /// As for [`ForeignName::open_input`].
    pub(super) fn open_output(&self) -> anyhow::Result<ForeignOutput> {
        self.check()?;
        let address = free_address()?;
        let from = format!("udp://{address}");
        let tool = match self.protocol {
            Protocol::Rist => self.tool(
                "ristsender",
                "rist-tools",
                ["-S", "0", "-v", "4", "-i", &from, "-o", &self.rist()],
            ),
            _ => self.srt(&from, &self.url("srt", &self.place, &[])),
        };
        Ok(ForeignOutput {
            output: UdpOutput::to(address).context("cannot open a socket")?,
            _tool: Supervised::start(tool, &self.to_string())?,
        })
    }

    fn address(&self) -> anyhow::Result<SocketAddr> {
        let mut addresses = self.authority().to_socket_addrs().ok();
        let first = addresses.as_mut().and_then(Iterator::next);
        first.ok_or_else(|| anyhow!("{self}: there is no such address"))
    }

    fn srt(&self, from: &str, to: &str) -> Tool {
        // The chunk is as long as SRT's packets may be. Our datagrams to it have seven transport
        // packets.
        let arguments = ["-chunk:1456", "-loglevel:error", from, to];
        self.tool("srt-live-transmit", "srt-tools", arguments)
    }

    fn rist(&self) -> String {
        // An unspecified address means that the tool listens.
        let is_any = ["0.0.0.0:", "[::]:", ":"]
            .iter()
            .any(|any| self.place.starts_with(any));
        let at = if is_any { "@" } else { "" };
        self.url("rist", &format!("{at}{}", self.place), &[])
    }

    fn rist_input(&self, port: u16) -> Tool {
        let to = format!("udp://{}", at(port));
        let arguments = ["-S", "0", "-v", "4", "-i", &self.rist(), "-o", &to];
        self.tool("ristreceiver", "rist-tools", arguments)
    }

    /// Returns the `ffmpeg` that listens for one publisher. It ends with the publisher and is
    /// started again.
    fn rtmp_input(&self, port: u16) -> Tool {
        let from = self.url("rtmp", &self.place, &[]);
        let to = format!("udp://{}?pkt_size=1316", at(port));
        let listen = ["-hide_banner", "-nostdin", "-loglevel", "warning"];
        // A publisher without sound sends none, so the wait for sound is short. The video that has
        // arrived meanwhile is kept (`nobuffer` would discard it).
        let read = ["-analyzeduration", "500000"];
        let write = ["-c", "copy", "-muxdelay", "0", "-muxpreload", "0"];
        let parts = [
            &listen[..],
            &read,
            &["-listen", "1", "-i", &from],
            &write,
            &["-flush_packets", "1", "-f", "mpegts", &to],
        ];
        Tool {
            // ffmpeg reports this at the end of every connection, even an orderly one.
            instead: &[("Input/output error", "the publisher has gone")],
            ..self.tool("ffmpeg", "ffmpeg", parts.concat())
        }
    }

    fn tool<'a>(
        &self,
        program: &'static str,
        package: &'static str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Tool {
        Tool {
            program,
            label: None,
            package,
            stdin: "",
            arguments: arguments.into_iter().map(OsString::from).collect(),
            secrets: self.secrets(),
            boring: &["Media path:", "[INFO]"],
            instead: &[],
        }
    }
}

/// Hides possible secrets: parameters, and the paths that RTMP servers use as keys.
impl fmt::Display for ForeignName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.protocol(), self.authority())
    }
}

impl fmt::Debug for ForeignName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Removes the unit: SRT's tools expect latency in milliseconds without one.
fn millis(latency: &str) -> &str {
    latency.strip_suffix("ms").unwrap_or(latency)
}

fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Returns an address at loopback that a tool can listen at.
pub(super) fn free_address() -> anyhow::Result<SocketAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    socket.local_addr().context("no port is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ForeignName {
        ForeignName::input(text).unwrap()
    }

    fn arguments(tool: &Tool) -> Vec<&str> {
        let arguments = tool.arguments.iter();
        arguments
            .map(|argument| argument.to_str().unwrap())
            .collect()
    }

    #[test]
    fn protocols_of_inputs_and_outputs() {
        assert_eq!(name("srtla://0.0.0.0:5000").protocol, Protocol::Srtla);
        assert_eq!(ForeignName::output("srtla://0.0.0.0:5000"), None);
        assert_eq!(ForeignName::output("rtmp://127.0.0.1/live"), None);
        assert_eq!(ForeignName::input("udp://127.0.0.1:5000"), None);
        assert_eq!(ForeignName::input("/tmp/srt.ts"), None);
    }

    #[test]
    fn secrets_are_not_shown() {
        let srt = name("srt://a.example:5000?passphrase=correct%20horse&streamid=x");
        let rtmp = name("rtmp://0.0.0.0:1935/live/key");
        assert_eq!(
            format!("{srt} {srt:?}"),
            "srt://a.example:5000 srt://a.example:5000"
        );
        assert_eq!(rtmp.to_string(), "rtmp://0.0.0.0:1935");
        assert_eq!(srt.secrets(), ["correct%20horse"]);
        assert_eq!(rtmp.secrets(), ["live/key"]);
    }

    #[test]
    fn mistakes_are_told_before_anything_is_started() {
        for (text, part) in [
            ("srt://127.0.0.1", "an address and a port"),
            ("srt://127.0.0.1:5000?mode=server", "mode is"),
            ("srtla://0.0.0.0:5000?latency=1s", "latency is"),
            ("srt://127.0.0.1:5000?passphrase=short", "10 to 79"),
            ("rist://@0.0.0.0", "rist://0.0.0.0:5000"),
        ] {
            let error = name(text).check().unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("short"), "{error}");
        }
        for text in [
            "srt://:5000?latency=200ms&mode=listener",
            "srt://[::]:5000?passphrase=0123456789",
            "rtmp://0.0.0.0:1935/live/key",
            "rist://@0.0.0.0:8193?secret=x",
        ] {
            name(text).check().unwrap();
        }
    }

    #[test]
    fn tools_are_called_with_what_was_asked_for() {
        let srtla = name("srtla://0.0.0.0:5000?latency=800ms&mode=caller&passphrase=0123456789");
        let url = srtla.url("srt", "127.0.0.1:9", &[("mode", "listener")]);
        let expected = "srt://127.0.0.1:9?mode=listener&latency=800&passphrase=0123456789";
        assert_eq!(url, expected);
        let rist = name("rist://0.0.0.0:8193?buffer=300").rist_input(7);
        let expected = [
            "-i",
            "rist://@0.0.0.0:8193?buffer=300",
            "-o",
            "udp://127.0.0.1:7",
        ];
        assert_eq!(arguments(&rist)[4..], expected);
        assert_eq!(
            name("rist://a.example:8193").rist(),
            "rist://a.example:8193"
        );
        let rtmp = name("rtmp://0.0.0.0:1935/live/key").rtmp_input(7);
        let rtmp = arguments(&rtmp).join(" ");
        assert!(
            rtmp.contains("-listen 1 -i rtmp://0.0.0.0:1935/live/key "),
            "{rtmp}"
        );
    }
}
