//! Sources of streams: the address of our own protocol, and those of others.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use anabranch_mpegts_io::{ForeignName, Input, InputName, Piece, Wanted};
use anabranch_terminal::print;
use anabranch_units::DataRate;
use anyhow::{bail, ensure};

use super::outputs::Outputs;
use super::stream::Outcome;
use super::stream_counters::StreamCounters;
use super::stream_settings::StreamSettings;
use crate::allowed::StreamName;

/// A `--listen` of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// `ADDR` of our own protocol.
    Native(String),
    /// `[NAME=]URL` of another protocol.
    Other(OtherSource),
}

/// A stream by another protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherSource {
    pub(crate) name: StreamName,
    pub(crate) input: InputName,
}

impl Listen {
    /// Returns the name of a stream by another protocol.
    pub(super) fn name(&self) -> Option<&StreamName> {
        match self {
            Listen::Native(_) => None,
            Listen::Other(source) => Some(&source.name),
        }
    }
}

impl OtherSource {
    /// Prints the address at which it listens.
    pub(super) fn announce(&self) {
        let OtherSource { name, input } = self;
        print::note(format_args!("{}: listening at {input}", name.as_str()));
    }

    /// Returns the address with an example of a name: the stream ID, or the second of its name.
    fn with_name(&self) -> String {
        let OtherSource { name, input } = self;
        match input.stream_id() {
            Some(id) if id.parse::<StreamName>().is_ok() => {
                format!("'{id}={input}?streamid={id}'")
            }
            Some(_) => format!("'{}2={input}?streamid=…'", name.as_str()),
            None => format!("{}2={input}", name.as_str()),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, url) = StreamName::before(text);
        let Some((protocol, _)) = url.split_once("://") else {
            return match name {
                None => Ok(Listen::Native(text.to_owned())),
                Some(_) => Err(
                    "NAME= is for another protocol's address; a sender's name is in \
                                --allow KEY=NAME"
                        .to_owned(),
                ),
            };
        };
        if !["udp", "rtp"].contains(&protocol) && ForeignName::input(url).is_none() {
            return Err(format!(
                "{protocol}:// is not spoken here: srtla, srt, rist, rtmp, udp and rtp are"
            ));
        }
        let input: InputName = url.parse()?;
        let (name, input) = match name {
            Some(name) => {
                let of_stream = input.of_stream(name.as_str());
                (name, of_stream)
            }
            None => (protocol.parse()?, input),
        };
        Ok(Listen::Other(OtherSource { name, input }))
    }
}

/// Addresses of all `--listen`.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) native: Option<String>,
    pub(super) others: Vec<OtherSource>,
}

impl Sources {
    /// Collects the addresses.
    ///
    /// # Errors
    /// Two addresses are of our own protocol, or two streams have the same name.
    pub(super) fn of(all: Vec<Listen>) -> anyhow::Result<Self> {
        let mut sources = Sources::default();
        for listen in all {
            match listen {
                Listen::Native(address) => {
                    if let Some(first) = sources.native.replace(address) {
                        bail!(
                            "--listen {first}: one address takes all senders; `[::]:PORT` is \
                               every one of IPv4 and IPv6"
                        );
                    }
                }
                Listen::Other(source) => {
                    let mut before = sources.others.iter();
                    ensure!(
                        before.all(|other| other.name != source.name),
                        "two streams are called {}: give each a name, as --listen {}",
                        source.name.as_str(),
                        source.with_name()
                    );
                    sources.others.push(source);
                }
            }
        }
        Ok(sources)
    }
}

/// A stream of another protocol and its outputs.
pub(super) struct Carrier {
    name: StreamName,
    settings: StreamSettings,
    counters: Arc<StreamCounters>,
    bytes: u64,
}

impl Carrier {
    pub(super) fn new(
        name: StreamName,
        settings: StreamSettings,
        counters: Arc<StreamCounters>,
    ) -> Self {
        Carrier {
            name,
            settings,
            counters,
            bytes: 0,
        }
    }

    /// Carries the stream until the program is stopped.
    pub(super) fn run(mut self, input: Input, outputs: &Outputs) -> Outcome {
        let StreamSettings {
            clock,
            stop,
            observation,
            ..
        } = self.settings.clone();
        let mut written = Ok(());
        let mut feed = observation.feed(self.name.as_str());
        let ran = input.run(
            &clock,
            &stop,
            || Wanted {
                bitrate: DataRate::ZERO,
                is_key: false,
            },
            |unit, now| {
                self.bytes += unit.bytes.len() as u64;
                if self.counters.add(now, unit.bytes.len()) {
                    outputs.begin_session(&self.name, now);
                }
                observation.on_frame(self.name.as_str(), unit.importance, &unit.bytes);
                if let Some(feed) = &mut feed {
                    feed.push(&unit.bytes, true);
                }
                let piece = Piece {
                    begins_key_frame: unit.importance.is_key(),
                    bytes: unit.bytes,
                    ..Piece::default()
                };
                written = outputs.write(piece, &clock, &stop);
                written.is_ok()
            },
        );
        let megabytes = self.bytes as f64 / 1e6;
        print::note(format_args!("{self}: {megabytes:.1} MB of MPEG-TS came"));
        written?;
        ran?;
        outputs.check()
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(text: &str) -> Listen {
        text.parse().unwrap()
    }

    fn other(text: &str) -> (String, String) {
        match listen(text) {
            Listen::Other(source) => (source.name.as_str().to_owned(), source.input.to_string()),
            Listen::Native(address) => panic!("{address} is another's"),
        }
    }

    fn pair(name: &str, input: &str) -> (String, String) {
        (name.to_owned(), input.to_owned())
    }

    #[test]
    fn addresses_of_ours_and_of_other_protocols() {
        assert_eq!(listen("[::]:7000"), Listen::Native("[::]:7000".into()));
        let srtla = "srtla://0.0.0.0:5000";
        assert_eq!(other(srtla), pair("srtla", srtla));
        let with_parameters = format!("{srtla}?latency=200&passphrase=0123456789");
        assert_eq!(other(&with_parameters), pair("srtla", srtla));
        let named = format!("phone={with_parameters}");
        assert_eq!(other(&named), pair("phone", srtla));
        let udp = "udp://127.0.0.1:5000";
        assert_eq!(other(&format!("van={udp}")), pair("van", udp));
        for (wrong, part) in [
            ("phone=0.0.0.0:7000", "--allow KEY=NAME"),
            ("webrtc://0.0.0.0:5000", "srtla, srt, rist"),
        ] {
            let error = wrong.parse::<Listen>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    fn sources(texts: &[&str]) -> anyhow::Result<Sources> {
        Sources::of(texts.iter().map(|text| listen(text)).collect())
    }

    #[test]
    fn one_address_of_ours_and_each_name_once() {
        let all = sources(&["0.0.0.0:7000", "srt://:5000", "b=srt://:5001"]).unwrap();
        assert_eq!(
            (all.native.as_deref(), all.others.len()),
            (Some("0.0.0.0:7000"), 2)
        );
        let error = sources(&["srt://:5000", "srt://:5001"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("srt2=srt://:5001"), "{error}");
        for (id, hint) in [
            ("roof", "'roof=srt://:5000?streamid=roof'"),
            ("#!::r=roof", "'srt2=srt://:5000?streamid=…'"),
        ] {
            let second = format!("srt://:5000?streamid={id}&passphrase=correcthorse");
            let error = sources(&["srt://:5000?streamid=cam", &second]).unwrap_err();
            assert!(error.to_string().ends_with(hint), "{error}");
        }
        let error = sources(&["0.0.0.0:1", "[::]:1"]).unwrap_err().to_string();
        assert!(error.contains("one address"), "{error}");
    }
}
