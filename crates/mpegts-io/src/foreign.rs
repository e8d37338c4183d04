//! Other protocols than ours: SRT and SRTLA in this process, RIST and RTMP by other programs.
//!
//! Such a program is supervised. As an input it sends MPEG-TS to our socket at loopback, as an
//! output it receives it from there (decisions 182 and 245).

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use anabranch_net::{Clock, Surroundings};
use anabranch_terminal::stop::Stop;

use super::address_error::AddressError;
use super::claimed::Claim;
use super::foreign_error::ForeignError;
use super::foreign_name::{ForeignName, Protocol};
use super::links::Links;
use super::loopback_pair::loopback_pair;
use super::source::Source;
use super::srt::{ForCallers, SrtAddress, SrtError, SrtInput, SrtOutput, SrtReceivers};
use super::srtla::Relay;
use super::supervised::{Supervised, Tool};
use super::tool_error::ToolError;
use super::udp_input::UdpInput;
use super::udp_output::UdpOutput;

/// Implementation of an input's protocol, which ends when this is dropped.
#[derive(Debug)]
pub(super) enum ForeignInput {
    Tool(#[expect(dead_code, reason = "it is kept until the input ends")] Supervised),
    Srt(SrtInput),
    /// The relay of the links, and the SRT inside.
    Srtla(
        Relay,
        #[expect(dead_code, reason = "it is kept until the input ends")] SrtInput,
    ),
}

impl ForeignInput {
    /// Returns the links or callers, if the protocol shows them.
    pub(super) fn links(&self) -> Option<Links> {
        match self {
            ForeignInput::Tool(_) => None,
            ForeignInput::Srt(input) => Some(input.links()),
            ForeignInput::Srtla(relay, _) => Some(relay.links()),
        }
    }
}

/// An output by another protocol.
#[derive(Debug)]
pub enum ForeignOutput {
    /// SRT.
    Srt(SrtOutput),
    /// A program that takes MPEG-TS from a socket at loopback.
    Tool(UdpOutput, ForeignTool),
}

/// A supervised program, which ends when this is dropped.
#[derive(Debug)]
pub struct ForeignTool(
    #[expect(dead_code, reason = "it is kept until the output ends")] Supervised,
);

impl ForeignOutput {
    /// Returns the connections, if the protocol shows them.
    pub(super) fn receivers(&self) -> Option<SrtReceivers> {
        match self {
            ForeignOutput::Srt(output) => Some(output.receivers()),
            ForeignOutput::Tool(..) => None,
        }
    }

    /// Sends a unit. A receiver that is not there is no error.
    pub(super) fn write(&mut self, unit: &[u8], clock: &Clock, stop: &Stop) {
        match self {
            ForeignOutput::Srt(output) => output.write(unit),
            ForeignOutput::Tool(output, _) => output.write(unit, clock, stop),
        }
    }
}

impl ForeignName {
    /// Returns the fields that callers of an SRT or SRTLA listener have to know; `None` for another
    /// protocol, and if this end calls.
    ///
    /// # Errors
    /// A parameter is wrong, or a passphrase cannot be read.
    pub fn for_callers(&self) -> Result<Option<ForCallers>, AddressError> {
        Ok(match self.protocol {
            Protocol::Srt | Protocol::Srtla => SrtAddress::of(self)?.for_callers(),
            Protocol::Rist | Protocol::Rtmp => None,
        })
    }

    /// Returns the address at which an input listens for an SRT sender, if it does.
    ///
    /// # Errors
    /// There is no such address, or it has parameters that the SRT sender sets.
    pub fn srt_listener(&self) -> Result<Option<SocketAddr>, AddressError> {
        if self.protocol != Protocol::Srt || self.parameter("mode") != Some("listener") {
            return Ok(None);
        }
        self.check()?;
        let others = self.parameters.iter().find(|(name, _)| name != "mode");
        if let Some((name, _)) = others {
            return Err(AddressError::SetByCaller {
                name: self.to_string(),
                parameter: name.clone(),
            });
        }
        match self.authority().strip_prefix(':') {
            Some(port) => {
                let port: u16 = port.parse().map_err(AddressError::Port)?;
                Ok(Some((Ipv4Addr::UNSPECIFIED, port).into()))
            }
            None => self.address().map(Some),
        }
    }

    /// Checks the port, and the parameters of SRT.
    ///
    /// # Errors
    /// There is no port, or a parameter is wrong.
    pub(super) fn check_all(&self) -> Result<(), AddressError> {
        self.check()?;
        if self.protocol == Protocol::Srt {
            SrtAddress::of(self)?;
        }
        Ok(())
    }

    /// Opens the input.
    ///
    /// # Errors
    /// The address or a parameter is invalid, the tool is missing, or the address is taken.
    pub(super) fn open_input(&self, clock: &Clock) -> Result<(Source, ForeignInput), ForeignError> {
        self.check()?;
        match self.protocol {
            Protocol::Srt => {
                let address = SrtAddress::of(self)?;
                let (input, payloads) = SrtInput::open(&address, &Surroundings::system(*clock))?;
                Ok((Source::Srt(payloads), ForeignInput::Srt(input)))
            }
            Protocol::Srtla => self.open_srtla(clock),
            Protocol::Rist => {
                let input = UdpInput::open_loopback()?;
                let port = input.port().map_err(ForeignError::LocalAddress)?;
                self.open_tool(input, self.rist_input(port))
            }
            Protocol::Rtmp => {
                let [ours, theirs] = loopback_pair().map_err(ToolError::Loopback)?;
                self.open_tool(UdpInput::of_helper(ours)?, self.rtmp_input(theirs))
            }
        }
    }

    /// Opens the relay of the links, and a listener at loopback for the SRT inside.
    fn open_srtla(&self, clock: &Clock) -> Result<(Source, ForeignInput), ForeignError> {
        let inside = SrtAddress::of(self)?.listening_at(at(0));
        let surroundings = Surroundings::system(*clock);
        let (input, payloads) = SrtInput::open(&inside, &surroundings)?;
        let srt = input
            .local_address()
            .zip(input.origins())
            .ok_or(SrtError::NoListener)?;
        let relay = Relay::start(&self.shown(), self.address()?, srt, &surroundings)?;
        Ok((Source::Srt(payloads), ForeignInput::Srtla(relay, input)))
    }

    /// Starts the program that sends MPEG-TS to the input.
    fn open_tool(
        &self,
        input: UdpInput,
        tool: Tool,
    ) -> Result<(Source, ForeignInput), ForeignError> {
        let tool = Supervised::start(tool, &self.to_string())?;
        let source = Source::Udp(Box::new(input));
        Ok((source, ForeignInput::Tool(tool)))
    }

    /// Opens the output.
    ///
    /// # Errors
    /// As for [`ForeignName::open_input`].
    pub(super) fn open_output(&self, clock: &Clock) -> Result<ForeignOutput, ForeignError> {
        self.check()?;
        if self.protocol == Protocol::Srt {
            let output = SrtOutput::open(&SrtAddress::of(self)?, &Surroundings::system(*clock))?;
            return Ok(ForeignOutput::Srt(output));
        }
        let address = free_address()?;
        let from = format!("udp://{address}");
        let output = UdpOutput::to(address).map_err(ForeignError::Socket)?;
        let source = output.source().map_err(ForeignError::Socket)?;
        let tool = self.tool(
            "ristsender",
            "rist-tools",
            ["-S", "0", "-v", "4", "-i", &from, "-o", &self.rist()],
        );
        let tool = Tool {
            input: Some(Claim {
                at: address,
                source,
            }),
            ..tool
        };
        let tool = Supervised::start(tool, &self.to_string())?;
        Ok(ForeignOutput::Tool(output, ForeignTool(tool)))
    }

    fn address(&self) -> Result<SocketAddr, AddressError> {
        let mut addresses = self.authority().to_socket_addrs().ok();
        let first = addresses.as_mut().and_then(Iterator::next);
        first.ok_or_else(|| AddressError::Unknown {
            name: self.to_string(),
        })
    }

    fn rist(&self) -> String {
        // An unspecified address means that the tool listens.
        let is_any = ["0.0.0.0:", "[::]:", ":"]
            .iter()
            .any(|any| self.place.starts_with(any));
        let at = if is_any { "@" } else { "" };
        self.url("rist", &format!("{at}{}", self.place))
    }

    fn rist_input(&self, port: u16) -> Tool {
        let to = format!("udp://{}", at(port));
        let arguments = ["-S", "0", "-v", "4", "-i", &self.rist(), "-o", &to];
        self.tool("ristreceiver", "rist-tools", arguments)
    }

    /// Returns the `ffmpeg` that listens for one publisher. It ends with the publisher and is
    /// started again.
    fn rtmp_input(&self, output: UdpSocket) -> Tool {
        let from = self.url("rtmp", &self.place);
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
            // Seven packets a datagram.
            &[
                "-flush_packets",
                "1",
                "-f",
                "mpegts",
                "-blocksize",
                "1316",
                "pipe:1",
            ],
        ];
        Tool {
            output: Some(output),
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
            output: None,
            input: None,
            hopeless: None,
            arguments: arguments.into_iter().map(OsString::from).collect(),
            secrets: self.secrets(),
            boring: &["[INFO]"],
            instead: &[],
        }
    }
}

fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Returns an address at loopback that a tool can listen at.
fn free_address() -> Result<SocketAddr, ForeignError> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|socket| socket.local_addr())
        .map_err(ForeignError::NoPort)
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
    fn errors_precede_any_start() {
        for (text, part) in [
            ("srt://127.0.0.1", "an address and a port"),
            ("srtla://0.0.0.0:0", "an address and a port"),
            ("rist://@0.0.0.0", "rist://0.0.0.0:5000"),
        ] {
            let error = name(text).check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
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
    fn tools_get_the_given_parameters() {
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
        let [output, _] = loopback_pair().unwrap();
        let rtmp = name("rtmp://0.0.0.0:1935/live/key").rtmp_input(output);
        let rtmp = arguments(&rtmp).join(" ");
        assert!(
            rtmp.contains("-listen 1 -i rtmp://0.0.0.0:1935/live/key "),
            "{rtmp}"
        );
    }
}
