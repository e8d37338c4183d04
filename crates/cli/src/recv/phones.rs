//! Links and QR codes for the apps of phones, which speak SRT, SRTLA or RTMP to this receiver.
//!
//! Formats: Moblin's custom URL (its README, "Import settings using moblin://", and
//! `MoblinSettingsUrl.swift`, both of 6e7686d), and Larix Grove (softvelum.com/larix/grove, and the
//! export of Softvelum's own samples, `Connection.toGrove`), which IRL Pro also reads.

mod kept;
mod option;
mod secrets;

use std::fmt::Write as _;

use anabranch_mpegts_io::{ForCallers, InputName};
use anabranch_observe::control::JoinLink;
use anabranch_terminal::print;
use serde_json::json;

use super::listen::OtherSource;
use crate::pairing::{print_qr_code, qr_code};
pub(crate) use kept::KeptPhones;
pub(crate) use option::{App, Phone, PlacedPhone, described, placed};
pub(super) use secrets::for_one_phone;
pub(crate) use secrets::passphrase_path;

/// An address that an app calls.
pub(crate) struct PhoneAddress {
    stream: String,
    /// `srt://HOST:PORT`, without parameters, or with RTMP's path.
    url: String,
    fields: ForCallers,
    /// App of the phone; `None`: any.
    app: Option<App>,
}

impl PhoneAddress {
    /// Returns the address of a source for phones that reach this machine as `host`; `None` if no
    /// app calls it.
    ///
    /// # Errors
    /// A parameter of the source is wrong, or its passphrase cannot be read.
    pub(crate) fn of(
        source: &OtherSource,
        host: &str,
        phones: &[Phone],
    ) -> anyhow::Result<Option<Self>> {
        let InputName::Foreign(name) = &source.input else {
            return Ok(None);
        };
        let fields = match name.protocol() {
            "rtmp" => ForCallers::default(),
            _ => match name.for_callers()? {
                Some(fields) => fields,
                None => return Ok(None),
            },
        };
        let (authority, path) = match name.place().split_once('/') {
            Some((authority, path)) => (authority, format!("/{path}")),
            None => (name.place(), String::new()),
        };
        let port = authority.rsplit(':').next().unwrap_or_default();
        let mut phones = phones.iter();
        let phone = phones.find(|phone| phone.name == source.name);
        Ok(Some(PhoneAddress {
            app: phone.map(|phone| phone.app),
            stream: source.name.as_str().to_owned(),
            url: format!("{}://{host}:{port}{path}", name.protocol()),
            fields,
        }))
    }

    fn is_srt(&self) -> bool {
        self.url.starts_with("srt")
    }

    fn is_srtla(&self) -> bool {
        self.url.starts_with("srtla")
    }

    /// Returns the name that apps show.
    fn shown_name(&self) -> String {
        format!("Anabranch {}", self.stream)
    }

    /// Returns the address with stream ID and passphrase in its query.
    fn whole_url(&self) -> String {
        let ForCallers {
            stream_id,
            passphrase,
            ..
        } = &self.fields;
        let fields = [("streamid", stream_id), ("passphrase", passphrase)];
        let known = fields
            .iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let mut url = self.url.clone();
        for (index, (name, value)) in known.enumerate() {
            let mark = if index == 0 { '?' } else { '&' };
            let _ = write!(url, "{mark}{name}={}", encoded(value));
        }
        url
    }

    /// Returns Moblin's link, which makes a stream with this address.
    fn moblin(&self) -> String {
        let mut stream = json!({ "name": self.shown_name(), "url": self.whole_url() });
        if self.is_srt() {
            stream["srt"] = json!({
                "latency": self.fields.latency.as_millis(),
                "adaptiveBitrateEnabled": true,
            });
        }
        let settings = json!({ "streams": [stream] }).to_string();
        format!("moblin://?{}", encoded(&settings))
    }

    /// Returns the link of Larix Grove, which makes a connection with this address.
    fn grove(&self) -> String {
        let mut fields = vec![
            ("url", self.url.clone()),
            ("name", self.shown_name()),
            ("mode", "va".to_owned()),
            ("overwrite", "on".to_owned()),
        ];
        if self.is_srt() {
            let latency = self.fields.latency.as_millis();
            fields.push(("srtmode", "c".to_owned()));
            fields.push(("srtlatency", latency.to_string()));
        }
        let secrets = [
            ("srtstreamid", &self.fields.stream_id),
            ("srtpass", &self.fields.passphrase),
        ];
        for (name, value) in secrets {
            fields.extend(value.clone().map(|value| (name, value)));
        }
        let mut link = "larix://set/v1?".to_owned();
        for (index, (name, value)) in fields.iter().enumerate() {
            let mark = if index == 0 { "" } else { "&" };
            let _ = write!(link, "{mark}conn[][{name}]={}", encoded(value));
        }
        link
    }

    /// Returns an app's link; `None` if it does not speak the protocol: Larix has no SRTLA.
    fn link_for(&self, app: App) -> Option<String> {
        match app {
            App::Moblin => Some(self.moblin()),
            App::Larix if self.is_srtla() => None,
            App::Larix | App::IrlPro => Some(self.grove()),
        }
    }

    /// Returns the links of all apps that may call, those with the same link together.
    fn links(&self) -> Vec<(String, String)> {
        let mut links: Vec<(String, String)> = Vec::new();
        for app in App::ALL {
            if self.app.is_some_and(|only| only != app) {
                continue;
            }
            let Some(link) = self.link_for(app) else {
                continue;
            };
            match links.iter_mut().find(|(_, known)| *known == link) {
                Some((apps, _)) => *apps = format!("{apps} or {app}"),
                None => links.push((app.to_string(), link)),
            }
        }
        links
    }

    /// Returns the fields for an app that takes no link.
    pub(crate) fn fields(&self) -> String {
        let mut text = self.url.clone();
        if self.is_srt() {
            let _ = write!(text, ", latency {} ms", self.fields.latency.as_millis());
        }
        if let Some(stream_id) = &self.fields.stream_id {
            let _ = write!(text, ", stream ID {stream_id}");
        }
        if let Some(passphrase) = &self.fields.passphrase {
            let _ = write!(text, ", passphrase {passphrase}");
        }
        text
    }

    /// Returns the links for a page, each with its QR code.
    pub(super) fn join_links(&self) -> Vec<JoinLink> {
        let links = self.links().into_iter().map(|(app, link)| {
            let stream = Some(self.stream.clone());
            qr_code::join_link(stream, app, link, Some(self.fields()))
        });
        links.collect()
    }

    /// Prints the links, with their QR codes on a terminal.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let stream = &self.stream;
        print::note(format_args!(
            "{stream}: for a phone. Scan the code of its app, or type the fields"
        ));
        for (app, link) in self.links() {
            print_qr_code(&link)?;
            print::secret(&format!("{stream}, {app}: {link}"))?;
        }
        print::secret(&format!("{stream}, by hand: {}", self.fields()))
    }
}

/// Encodes a value of a URL's query (RFC 3986 §2.1).
fn encoded(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::listen::Listen;
    use super::*;

    /// The first example of Moblin's README (6e7686d), and the object that it says is in it.
    const MOBLIN_EXAMPLE: &str = concat!(
        r#"moblin://?{"streams":[{"name":"BELABOX%20UK","#,
        r#""url":"srtla://uk.srt.belabox.net:5000?streamid=9812098rh9hf8942hid","#,
        r#""video":{"codec":"H.265/HEVC"},"#,
        r#""obs":{"webSocketUrl":"ws://123.22.32.112:5465","webSocketPassword":"foobar"}}]}"#,
    );
    /// Members of `MoblinSettingsUrlStream` and `MoblinSettingsSrt` (6e7686d).
    const MOBLIN_STREAM: &str = "name url selected backgroundStreaming backgroundStreamingPiP \
        video audio srt obs twitch kick";
    const MOBLIN_SRT: &str = "latency adaptiveBitrateEnabled dnsLookupStrategy";
    /// Parameters that Softvelum's samples export (`Connection.toGrove`).
    const GROVE: &str = "url name overwrite active user pass mode target srtlatency srtmaxbw \
        srtpass srtpbkl srtmode srtstreamid ristProfile";

    fn source(listen: &str) -> OtherSource {
        match listen.parse::<Listen>().unwrap() {
            Listen::Other(source) => source,
            Listen::Native(_) => unreachable!("another protocol"),
        }
    }

    fn address(listen: &str) -> PhoneAddress {
        let address = PhoneAddress::of(&source(listen), "studio.example", &[]);
        address.unwrap().expect("apps call it")
    }

    /// Returns the object of a link, as `handleSettingsUrls` reads it.
    fn moblin_settings(link: &str) -> serde_json::Value {
        let query = link.strip_prefix("moblin://?").unwrap();
        serde_json::from_slice(&decoded(query)).unwrap()
    }

    fn has_only(object: &serde_json::Value, members: &str) {
        for name in object.as_object().unwrap().keys() {
            assert!(members.split_whitespace().any(|its| its == name), "{name}");
        }
    }

    #[test]
    fn moblin_gets_its_example_of_a_stream() {
        let example = moblin_settings(MOBLIN_EXAMPLE);
        let ours = PhoneAddress {
            stream: "uk".to_owned(),
            url: "srtla://uk.srt.belabox.net:5000".to_owned(),
            fields: ForCallers {
                stream_id: Some("9812098rh9hf8942hid".to_owned()),
                ..ForCallers::default()
            },
            app: Some(App::Moblin),
        };
        let ours = moblin_settings(&ours.moblin());
        assert_eq!(ours["streams"][0]["url"], example["streams"][0]["url"]);
        assert_eq!(ours["streams"].as_array().unwrap().len(), 1);
        has_only(&ours, "streams");
        has_only(&example["streams"][0], MOBLIN_STREAM);
        has_only(&ours["streams"][0], MOBLIN_STREAM);
        has_only(&ours["streams"][0]["srt"], MOBLIN_SRT);
    }

    #[test]
    fn moblin_gets_a_stream_with_its_secrets() {
        let listen =
            "phone=srtla://0.0.0.0:5000?latency=2000&streamid=van&passphrase=correct horse";
        let link = address(listen).moblin();
        // "Format: `moblin://?<URL encoded JSON blob>`".
        assert!(link.starts_with("moblin://?%7B%22streams%22%3A%5B%7B%22"));
        let settings = moblin_settings(&link);
        let stream = &settings["streams"][0];
        assert_eq!(stream["name"], "Anabranch phone");
        let url = "srtla://studio.example:5000?streamid=van&passphrase=correct%20horse";
        assert_eq!(stream["url"], url);
        assert_eq!(stream["srt"]["latency"], 2000);
    }

    /// "The only required parameter is url"; fields are grouped as `conn[][…]`.
    #[test]
    fn larix_gets_a_connection() {
        let phone = address("a=srt://:5001?streamid=a&latency=800&passphrase=correct horse");
        let link = phone.link_for(App::Larix).unwrap();
        assert_eq!(
            link,
            "larix://set/v1?conn[][url]=srt%3A%2F%2Fstudio.example%3A5001&conn[][name]=Anabranch\
             %20a&conn[][mode]=va&conn[][overwrite]=on&conn[][srtmode]=c&conn[][srtlatency]=800&\
             conn[][srtstreamid]=a&conn[][srtpass]=correct%20horse"
        );
        let (_, query) = link.split_once('?').unwrap();
        for pair in query.split('&') {
            let field = pair.strip_prefix("conn[][").unwrap();
            let (name, _) = field.split_once("]=").unwrap();
            assert!(GROVE.split_whitespace().any(|its| its == name), "{name}");
        }
        assert_eq!(
            phone.fields(),
            "srt://studio.example:5001, latency 800 ms, stream ID a, passphrase correct horse"
        );
        let rtmp = address("rtmp://0.0.0.0:1935/live/KEY");
        assert_eq!(rtmp.fields(), "rtmp://studio.example:1935/live/KEY");
        assert!(rtmp.grove().contains("1935%2Flive%2FKEY&"));
    }

    #[test]
    fn a_page_gets_the_link_its_code_and_the_fields() {
        let links = address("a=srtla://:5000?passphrase=correct horse").join_links();
        assert_eq!(links.len(), 2);
        assert_eq!(
            (&*links[0].app, links[0].stream.as_deref()),
            ("Moblin", Some("a"))
        );
        assert!(links[0].link.starts_with("moblin://") && !links[0].qr_code.is_empty());
        let fields = links[1].fields.as_deref().unwrap();
        assert!(fields.ends_with("passphrase correct horse"), "{fields}");
    }

    fn apps(phone: &PhoneAddress) -> Vec<String> {
        phone.links().into_iter().map(|(apps, _)| apps).collect()
    }

    #[test]
    fn each_app_has_the_protocols_that_it_speaks() {
        let srtla = address("a=srtla://:5000");
        assert_eq!(apps(&srtla), ["Moblin", "IRL Pro"]);
        let srt = address("a=srt://:5000");
        assert_eq!(apps(&srt), ["Moblin", "Larix or IRL Pro"]);
        let phones = ["a=larix".parse().unwrap()];
        let only = PhoneAddress::of(&source("a=srt://:5000"), "studio.example", &phones);
        assert_eq!(apps(&only.unwrap().unwrap()), ["Larix"]);
    }

    #[test]
    fn addresses_that_no_app_calls_have_no_link() {
        for listen in [
            "a=srt://studio.example:5000",
            "b=udp://127.0.0.1:5000",
            "c=rist://:5000",
        ] {
            let address = PhoneAddress::of(&source(listen), "studio.example", &[]).unwrap();
            assert!(address.is_none(), "{listen}");
        }
    }

    fn decoded(text: &str) -> Vec<u8> {
        let mut bytes = text.bytes();
        let mut out = Vec::new();
        while let Some(byte) = bytes.next() {
            if byte == b'%' {
                let pair = [bytes.next().unwrap(), bytes.next().unwrap()];
                let hex = std::str::from_utf8(&pair).unwrap();
                out.push(u8::from_str_radix(hex, 16).unwrap());
            } else {
                out.push(byte);
            }
        }
        out
    }
}
