//! `--phone NAME=APP`: a stream that one app of a phone sends.

use core::fmt;
use core::str::FromStr;

use anabranch_mpegts_io::InputName;
use anyhow::Context;

use crate::allowed::StreamName;
use crate::recv::listen::OtherSource;

/// UDP port of SRT, which phones share: their stream IDs differ.
const SRT_PORT: u16 = 5_001;
/// UDP ports of SRTLA, one for each phone: SRTLA has no ID that would distinguish phones. The first
/// is BELABOX's.
const SRTLA_PORTS: [u16; 8] = [5_000, 5_002, 5_003, 5_004, 5_005, 5_006, 5_007, 5_008];
/// Latency in milliseconds for links of mobile networks that are bonded. Moblin's own SRT warns of
/// less than half of it.
const SRTLA_LATENCY: u16 = 2_000;
/// Latency in milliseconds for one link of a mobile network. Chosen: some retransmissions.
const SRT_LATENCY: u16 = 800;

/// An app that sends video from a phone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum App {
    Moblin,
    Larix,
    IrlPro,
}

impl App {
    pub(crate) const ALL: [App; 3] = [App::Moblin, App::Larix, App::IrlPro];

    /// Returns its word of the option.
    pub(crate) fn word(self) -> &'static str {
        match self {
            App::Moblin => "moblin",
            App::Larix => "larix",
            App::IrlPro => "irlpro",
        }
    }

    /// Larix is the one that bonds no links.
    fn speaks_srtla(self) -> bool {
        self != App::Larix
    }
}

impl fmt::Display for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            App::Moblin => "Moblin",
            App::Larix => "Larix",
            App::IrlPro => "IRL Pro",
        })
    }
}

/// A `--phone` of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phone {
    pub(crate) name: StreamName,
    pub(crate) app: App,
}

impl FromStr for Phone {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, word) = text.split_once('=').ok_or(
            "expected a stream's name and the phone's app, as van=moblin, van=larix or van=irlpro",
        )?;
        match App::ALL.into_iter().find(|app| app.word() == word) {
            Some(app) => Ok(Phone {
                name: name.parse()?,
                app,
            }),
            None => Err(format!(
                "{word} is not known: moblin, larix and irlpro are. Others: --listen NAME=URL"
            )),
        }
    }
}

/// A phone and the UDP port at which it is received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacedPhone {
    pub(crate) phone: Phone,
    pub(crate) port: u16,
}

impl PlacedPhone {
    /// Returns a place for another phone: its port is none of those that others with SRTLA have.
    ///
    /// # Errors
    /// No port is left.
    pub(crate) fn beside(phone: Phone, others: &[PlacedPhone]) -> anyhow::Result<Self> {
        let port = if phone.app.speaks_srtla() {
            let mut ports = SRTLA_PORTS.into_iter();
            let free = ports.find(|port| others.iter().all(|other| other.port != *port));
            free.context("--phone: eight phones at most send by SRTLA; more of them send by larix")?
        } else {
            SRT_PORT
        };
        Ok(PlacedPhone { phone, port })
    }

    /// Returns the source at which it is received.
    ///
    /// # Errors
    /// Its address cannot be read.
    pub(crate) fn source(&self) -> anyhow::Result<OtherSource> {
        let PlacedPhone { phone, port } = self;
        let url = if phone.app.speaks_srtla() {
            format!("srtla://0.0.0.0:{port}?latency={SRTLA_LATENCY}")
        } else {
            format!("srt://0.0.0.0:{port}?latency={SRT_LATENCY}")
        };
        let input: InputName = url.parse().map_err(anyhow::Error::msg)?;
        Ok(OtherSource {
            name: phone.name.clone(),
            input: input.of_stream(phone.name.as_str()),
        })
    }
}

/// Returns the phone and its place in words.
pub(crate) fn described(placed: &PlacedPhone) -> String {
    let PlacedPhone { phone, port } = placed;
    let name = phone.name.as_str();
    let app = phone.app;
    format!("{name}: a phone with {app} is received at UDP port {port}")
}

/// Returns places for phones of the command line beside those that have one.
///
/// # Errors
/// There are more phones with SRTLA than ports.
pub(crate) fn placed(phones: &[Phone], kept: Vec<PlacedPhone>) -> anyhow::Result<Vec<PlacedPhone>> {
    let mut all = kept;
    for phone in phones {
        all.push(PlacedPhone::beside(phone.clone(), &all)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phone(text: &str) -> Phone {
        text.parse().unwrap()
    }

    fn shown(phones: &[Phone], kept: Vec<PlacedPhone>) -> Vec<String> {
        let all = placed(phones, kept).unwrap();
        let sources = all.iter().map(|placed| placed.source().unwrap());
        sources
            .map(|source| format!("{}={}", source.name.as_str(), source.input))
            .collect()
    }

    #[test]
    fn a_phone_that_was_added_keeps_its_port() {
        let kept = PlacedPhone {
            phone: phone("late=moblin"),
            port: 5_000,
        };
        let expected = ["late=srtla://0.0.0.0:5000", "a=srtla://0.0.0.0:5002"];
        assert_eq!(shown(&[phone("a=moblin")], vec![kept]), expected);
    }

    #[test]
    fn each_bonding_phone_has_a_port_and_the_others_share_one() {
        let phones = ["a=moblin", "b=larix", "c=irlpro", "d=larix"].map(phone);
        let expected = [
            "a=srtla://0.0.0.0:5000",
            "b=srt://0.0.0.0:5001",
            "c=srtla://0.0.0.0:5002",
            "d=srt://0.0.0.0:5001",
        ];
        assert_eq!(shown(&phones, Vec::new()), expected);
        let many = (0..9).map(|number| phone(&format!("p{number}=moblin")));
        let error = placed(&many.collect::<Vec<_>>(), Vec::new()).unwrap_err();
        assert!(error.to_string().contains("eight phones"), "{error}");
    }

    #[test]
    fn mistakes_name_the_apps() {
        for (text, part) in [
            ("van", "van=larix"),
            ("van=obs", "obs is not known: moblin, larix"),
            ("../van=larix", "a stream's name has"),
        ] {
            let error = text.parse::<Phone>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
