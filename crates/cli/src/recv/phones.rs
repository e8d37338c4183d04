//! Links and QR codes for the apps of phones, which speak SRT, SRTLA or RTMP to this receiver.
//!
//! Formats: Moblin's custom URL (its README, "Import settings using moblin://", and
//! `MoblinSettingsUrl.swift`), and Larix Grove (softvelum.com/larix/grove), which IRL Pro also
//! reads.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{IsTerminal, Write as _};
use std::path::Path;

use anabranch_mpegts_io::{ForCallers, ForeignName, InputName};
use anabranch_net::system::allow_owner_alone;
use anabranch_secure::PairingCode;
use anabranch_terminal::files::make_private_folder;
use anabranch_terminal::print;
use anyhow::Context;
use qrcode::{EcLevel, QrCode};
use serde_json::json;

use super::listen::OtherSource;
use crate::allowed::StreamName;
use crate::pairing::qr_code;

/// An address that an app calls.
pub(super) struct PhoneAddress {
    stream: String,
    /// `srt://HOST:PORT`, without parameters, or with RTMP's path.
    url: String,
    fields: ForCallers,
}

impl PhoneAddress {
    /// Returns the address of a source for phones that reach this machine as `host`; `None` if no
    /// app calls it.
    ///
    /// # Errors
    /// A parameter of the source is wrong, or its passphrase cannot be read.
    pub(super) fn of(source: &OtherSource, host: &str) -> anyhow::Result<Option<Self>> {
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
        Ok(Some(PhoneAddress {
            stream: source.name.as_str().to_owned(),
            url: format!("{}://{host}:{port}{path}", name.protocol()),
            fields,
        }))
    }

    fn is_srt(&self) -> bool {
        self.url.starts_with("srt")
    }

    /// Returns Moblin's link, which makes a stream with this address.
    fn moblin(&self) -> String {
        let ForCallers {
            stream_id,
            passphrase,
            latency,
        } = &self.fields;
        let mut url = self.url.clone();
        let fields = [("streamid", stream_id), ("passphrase", passphrase)];
        let known = fields
            .iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        for (index, (name, value)) in known.enumerate() {
            let mark = if index == 0 { '?' } else { '&' };
            let _ = write!(url, "{mark}{name}={}", encoded(value));
        }
        let mut stream = json!({ "name": format!("Anabranch {}", self.stream), "url": url });
        if self.is_srt() {
            stream["srt"] = json!({
                "latency": latency.as_millis(),
                "adaptiveBitrateEnabled": true,
            });
        }
        let settings = json!({ "streams": [stream] }).to_string();
        format!("moblin://?{}", encoded(&settings))
    }

    /// Returns Larix' link, which makes a connection with this address. Larix has no SRTLA.
    fn larix(&self) -> Option<String> {
        if self.url.starts_with("srtla") {
            return None;
        }
        let mut fields = vec![
            ("url", self.url.clone()),
            ("name", format!("Anabranch {}", self.stream)),
            ("mode", "av".to_owned()),
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
        Some(link)
    }

    /// Returns the fields for an app that takes no link.
    fn fields(&self) -> String {
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

    /// Prints the links, with their QR codes on a terminal.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn print(&self) -> anyhow::Result<()> {
        let stream = &self.stream;
        print::note(format_args!(
            "{stream}: for a phone. Scan the code of its app, or type the fields"
        ));
        let links = [
            ("Moblin", Some(self.moblin())),
            ("Larix or IRL Pro", self.larix()),
        ];
        for (app, link) in links {
            let Some(link) = link else { continue };
            if std::io::stdout().is_terminal()
                && let Ok(code) = QrCode::with_error_correction_level(link.as_bytes(), EcLevel::L)
            {
                print::secret(&qr_code::drawn(&code))?;
            }
            print::secret(&format!("{stream}, {app}: {link}"))?;
        }
        print::secret(&format!("{stream}, by hand: {}", self.fields()))
    }
}

/// Returns a listener of SRT or SRTLA with a passphrase of its stream's own, which is made and kept
/// in `folder`, unless it has one.
///
/// # Errors
/// The file cannot be made, or a parameter is wrong.
pub(super) fn with_passphrase(
    name: ForeignName,
    stream: &StreamName,
    folder: &Path,
) -> anyhow::Result<ForeignName> {
    let lacks_one = name
        .for_callers()?
        .is_some_and(|fields| fields.passphrase.is_none());
    if !lacks_one {
        return Ok(name);
    }
    let file = folder.join(format!("{}.passphrase", stream.as_str()));
    let context = || format!("cannot make {}", file.display());
    make_private_folder(folder).with_context(context)?;
    if !file.exists() {
        let mut private = OpenOptions::new();
        private.write(true).create_new(true);
        let made = allow_owner_alone(&mut private).open(&file);
        let text = PairingCode::generate().to_text();
        made.with_context(context)?
            .write_all(text.as_bytes())
            .with_context(context)?;
        print::note(format_args!(
            "{}: its passphrase is in {}. Without --pair, add passphrase_file={1} to its address",
            stream.as_str(),
            file.display()
        ));
    }
    let file = file.to_str().context("the folder's name is not UTF-8")?;
    Ok(name.with_passphrase_file(file))
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
    use std::os::unix::fs::PermissionsExt;

    use super::super::listen::Listen;
    use super::*;

    fn source(listen: &str) -> OtherSource {
        match listen.parse::<Listen>().unwrap() {
            Listen::Other(source) => source,
            Listen::Native(_) => unreachable!("another protocol"),
        }
    }

    fn address(listen: &str) -> PhoneAddress {
        let address = PhoneAddress::of(&source(listen), "studio.example");
        address.unwrap().expect("apps call it")
    }

    /// The form of the README's example: one object with `streams` of `name` and `url`.
    #[test]
    fn moblin_gets_a_stream_with_its_passphrase() {
        let phone = address("phone=srtla://0.0.0.0:5000?latency=2000&passphrase=correct horse");
        let link = phone.moblin();
        let query = link.strip_prefix("moblin://?").unwrap();
        assert!(query.starts_with("%7B%22streams%22%3A%5B%7B%22"), "{query}");
        let bytes: Vec<u8> = decoded(query);
        let settings: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let stream = &settings["streams"][0];
        assert_eq!(stream["name"], "Anabranch phone");
        let url = "srtla://studio.example:5000?passphrase=correct%20horse";
        assert_eq!(stream["url"], url);
        assert_eq!(stream["srt"]["latency"], 2000);
        assert_eq!(phone.larix(), None, "Larix has no SRTLA");
    }

    /// The form of Larix Grove's documentation: `conn[][…]` for each field.
    #[test]
    fn larix_gets_a_connection() {
        let phone = address("a=srt://:5001?streamid=a&latency=800&passphrase=correct horse");
        assert_eq!(
            phone.larix().unwrap(),
            "larix://set/v1?conn[][url]=srt%3A%2F%2Fstudio.example%3A5001&conn[][name]=Anabranch\
             %20a&conn[][mode]=av&conn[][overwrite]=on&conn[][srtmode]=c&conn[][srtlatency]=800&\
             conn[][srtstreamid]=a&conn[][srtpass]=correct%20horse"
        );
        assert_eq!(
            phone.fields(),
            "srt://studio.example:5001, latency 800 ms, stream ID a, passphrase correct horse"
        );
        let rtmp = address("rtmp://0.0.0.0:1935/live/KEY");
        assert_eq!(rtmp.fields(), "rtmp://studio.example:1935/live/KEY");
        assert!(rtmp.larix().unwrap().contains("1935%2Flive%2FKEY&"));
    }

    #[test]
    fn addresses_that_no_app_calls_have_no_link() {
        for listen in [
            "a=srt://studio.example:5000",
            "b=udp://127.0.0.1:5000",
            "c=rist://:5000",
        ] {
            let address = PhoneAddress::of(&source(listen), "studio.example").unwrap();
            assert!(address.is_none(), "{listen}");
        }
    }

    #[test]
    fn a_passphrase_is_made_once_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("anabranch");
        let passphrase = |listen: &str| {
            let OtherSource { name, input } = source(listen);
            let InputName::Foreign(foreign) = input else {
                unreachable!("a foreign name")
            };
            let made = with_passphrase(foreign, &name, &folder).unwrap();
            made.for_callers().unwrap().unwrap().passphrase.unwrap()
        };
        let made = passphrase("phone=srtla://:5000");
        assert_eq!(made.len(), 22);
        assert_eq!(passphrase("phone=srtla://:5000"), made, "phones know it");
        assert_ne!(passphrase("other=srt://:5001"), made);
        assert_eq!(
            passphrase("own=srt://:5002?passphrase=0123456789"),
            "0123456789"
        );
        let mode = std::fs::metadata(folder.join("phone.passphrase"))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        assert!(!folder.join("own.passphrase").exists());
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
