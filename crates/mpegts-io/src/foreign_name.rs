//! Addresses of inputs and outputs by other protocols than ours.

use core::fmt;

use super::address_error::AddressError;

/// Parameters whose values are not shown.
const SECRETS: [&str; 4] = ["passphrase", "secret", "password", "username"];

/// A protocol that is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Srt,
    Srtla,
    Rist,
    Rtmp,
}

/// The address of a foreign input or output, as `srt://ADDR:PORT?latency=200`.
#[derive(Clone, PartialEq, Eq)]
pub struct ForeignName {
    pub(super) protocol: Protocol,
    /// Text between the slashes and the question mark: address and port, and for RTMP a path.
    pub(super) place: String,
    /// Names and values behind the question mark.
    pub(super) parameters: Vec<(String, String)>,
    /// The stream's name, by which messages distinguish several inputs.
    stream: Option<String>,
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
            stream: None,
        })
    }

    /// Returns the name of an input for this stream.
    pub(super) fn of_stream(self, stream: &str) -> Self {
        let stream = Some(stream.to_owned());
        ForeignName { stream, ..self }
    }

    /// Returns the name for messages of an open input or output.
    pub(super) fn shown(&self) -> String {
        match &self.stream {
            Some(stream) => format!("{stream}, {self}"),
            None => self.to_string(),
        }
    }

    /// Returns the protocol's name.
    pub fn protocol(&self) -> &'static str {
        self.protocol.name()
    }

    /// Returns the name with `text` in place of every `place`.
    pub(super) fn with(&self, place: &str, text: &str) -> Self {
        let parameters = self.parameters.iter();
        ForeignName {
            protocol: self.protocol,
            place: self.place.replace(place, text),
            parameters: parameters
                .map(|(name, value)| (name.clone(), value.replace(place, text)))
                .collect(),
            stream: self.stream.clone(),
        }
    }

    /// Returns the name with a passphrase from a file.
    pub fn with_passphrase_file(self, file: &str) -> Self {
        self.with_parameter("passphrase_file", file)
    }

    /// Returns the name with a stream ID, which its callers must give.
    pub fn with_stream_id(self, stream_id: &str) -> Self {
        self.with_parameter("streamid", stream_id)
    }

    fn with_parameter(mut self, name: &str, value: &str) -> Self {
        self.parameters.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the text between the slashes and the question mark.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the names and values behind the question mark.
    pub(super) fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.parameters.iter();
        all.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let mut all = self.parameters.iter();
        let found = all.find(|(its, _)| its == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns address and port, for RTMP without the path, for RIST without the `@`.
    pub(super) fn authority(&self) -> &str {
        let plain = self.place.split('/').next().unwrap_or_default();
        plain.rsplit_once('@').map_or(plain, |(_, plain)| plain)
    }

    /// Checks the port.
    ///
    /// # Errors
    /// There is no port.
    pub(super) fn check(&self) -> Result<(), AddressError> {
        let port = self.authority().rsplit_once(':').map(|(_, port)| port);
        if port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0)) {
            return Ok(());
        }
        Err(AddressError::NoPort {
            name: self.to_string(),
            protocol: self.protocol(),
        })
    }

    /// Returns the URL for a tool, with another place.
    pub(super) fn url(&self, scheme: &str, place: &str) -> String {
        let pairs: Vec<_> = self
            .parameters()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if pairs.is_empty() {
            format!("{scheme}://{place}")
        } else {
            format!("{scheme}://{place}?{}", pairs.join("&"))
        }
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        let parameters = self.parameters.iter();
        let secret = parameters.filter(|(name, _)| SECRETS.contains(&name.as_str()));
        let path = self.place.split_once('/').map(|(_, path)| path.to_owned());
        let secrets = secret.map(|(_, value)| value.clone());
        secrets.chain(path).collect()
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
