//! Links of `--pair`: `anabranch://studio.example:7000?key=abpub_…&code=…`.

use core::fmt;
use core::str::FromStr;
use std::ffi::{OsStr, OsString};

use anabranch_secure::{PairingCode, PublicKey};
use anyhow::ensure;

use crate::command_line::with_port;
use crate::usage::usual_folder;

/// Beginning of a link.
const SCHEME: &str = "anabranch://";
/// Commands that take a link, with the key files that they make beside their other state.
const COMMANDS: [(&str, &str); 2] = [("send", "sender.key"), ("proxy", "proxy.key")];

/// Address and key of a receiver, and a code that lets a sender in.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Host and port.
    pub(crate) to: String,
    pub(crate) key: PublicKey,
    pub(crate) code: Option<PairingCode>,
}

impl Link {
    /// Returns the link as it is given to senders. It holds the code.
    pub(crate) fn to_text(&self) -> String {
        let Link { to, key, code } = self;
        let mut text = format!("{SCHEME}{to}?key={key}");
        if let Some(code) = code {
            text.push_str("&code=");
            text.push_str(&code.to_text());
        }
        text
    }
}

impl FromStr for Link {
    type Err = String;

    /// Reads a link. An error repeats nothing of it: it may hold a good code.
    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix(SCHEME).unwrap_or(text);
        let (to, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let to = to.trim_end_matches('/');
        if to.is_empty() {
            return Err("the link names no host".to_owned());
        }
        let (mut key, mut code) = (None, None);
        for parameter in parameters.split('&').filter(|text| !text.is_empty()) {
            match parameter.split_once('=') {
                Some(("key", text)) => {
                    let read = text.parse::<PublicKey>();
                    key = Some(read.map_err(|error| format!("the link's key: {error}"))?);
                }
                Some(("code", text)) => {
                    let read = text.parse::<PairingCode>();
                    code = Some(read.map_err(|error| format!("the link's code: {error}"))?);
                }
                _ => return Err("the link has other parameters than `key` and `code`".to_owned()),
            }
        }
        let missing = "the link has no key of the receiver: was it copied whole? A shell needs \
                       quotes around it, because of its `&`";
        Ok(Link {
            to: with_port(to).into_owned(),
            key: key.ok_or(missing)?,
            code,
        })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.to)
    }
}

/// Puts the options of `send` or `proxy` in place of a link among its words.
///
/// # Errors
/// The link is invalid, or there are two.
pub(crate) fn expanded(mut words: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let command = words.get(1).map(OsString::as_os_str);
    let is_it = |(name, _): &&(&str, &str)| command == Some(OsStr::new(name));
    let Some((_, key_file)) = COMMANDS.iter().find(is_it) else {
        return Ok(words);
    };
    let link_of = |word: &OsString| {
        let text = word.to_str()?;
        let text = text.strip_prefix("--to=").unwrap_or(text);
        text.starts_with(SCHEME).then(|| text.to_owned())
    };
    let Some(at) = words.iter().position(|word| link_of(word).is_some()) else {
        return Ok(words);
    };
    let text = link_of(&words.remove(at)).unwrap_or_default();
    ensure!(
        !words.iter().any(|word| link_of(word).is_some()),
        "two links: a session has one receiver"
    );
    if words[at - 1] == "--to" {
        words.remove(at - 1);
    }
    let link: Link = text.parse().map_err(anyhow::Error::msg)?;
    let mut options = vec!["--to".to_owned(), link.to.clone()];
    options.extend(["--peer".to_owned(), link.key.to_string()]);
    if let Some(code) = &link.code {
        options.push(format!("--code={}", *code.to_text()));
    }
    let is_key = |word: &OsString| {
        let word = word.to_string_lossy();
        word == "--key" || word.starts_with("--key=")
    };
    let mut options: Vec<OsString> = options.into_iter().map(OsString::from).collect();
    if !words.iter().any(is_key) {
        let folder = usual_folder().unwrap_or_default();
        options.extend(["--key".into(), folder.join(key_file).into_os_string()]);
    }
    words.splice(2..2, options);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    fn link() -> Link {
        Link {
            to: "studio.example:7000".to_owned(),
            key: SecretKey::generate().public_key(),
            code: Some(PairingCode::generate()),
        }
    }

    fn words(texts: &[&str]) -> Vec<OsString> {
        texts.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_link_reads_as_it_is_written_and_shows_no_code() {
        let link = link();
        let text = link.to_text();
        let read: Link = text.parse().unwrap();
        assert_eq!((&read.to, read.key), (&link.to, link.key));
        assert_eq!(read.to_text(), text);
        let code = link.code.as_ref().unwrap().to_text();
        assert!(text.ends_with(code.as_str()));
        assert!(!format!("{link} {link:?}").contains(code.as_str()));
        let bare = format!("{SCHEME}[::1]/?key={}", link.key);
        assert_eq!(bare.parse::<Link>().unwrap().to, "[::1]:7000");
        for wrong in [
            format!("{SCHEME}?key={}", link.key),
            format!("{SCHEME}studio.example"),
            format!("{SCHEME}studio.example?key={}&x=1", link.key),
            format!("{SCHEME}studio.example?key=abpub_x"),
            format!("{SCHEME}studio.example?key={}&code={}x", link.key, *code),
        ] {
            let error = wrong.parse::<Link>().unwrap_err();
            assert!(!error.contains(code.as_str()), "{error}");
        }
    }

    #[test]
    fn a_link_becomes_options_wherever_it_stands() {
        let (link, text) = (link(), link().to_text());
        let link_text = link.to_text();
        let by_to = format!("--to={link_text}");
        let lines: [&[&str]; 4] = [
            &["send", "film.ts", &link_text],
            &["send", &link_text, "film.ts"],
            &["send", "--to", &link_text, "film.ts"],
            &["send", &by_to, "film.ts"],
        ];
        let key = link.key.to_string();
        let code = format!("--code={}", *link.code.as_ref().unwrap().to_text());
        for line in lines {
            let line = [&["anabranch"], line, &["--key", "a.key"]].concat();
            let expected = [
                "anabranch",
                "send",
                "--to",
                &link.to,
                "--peer",
                &key,
                &code,
                "film.ts",
                "--key",
                "a.key",
            ];
            assert_eq!(expanded(words(&line)).unwrap(), words(&expected));
        }
        let without_key = expanded(words(&["anabranch", "send", &link_text, "-"])).unwrap();
        let path = without_key[without_key.len() - 2].to_string_lossy();
        assert!(path.ends_with("anabranch/sender.key"), "{path}");
        let proxy = expanded(words(&["anabranch", "proxy", &link_text])).unwrap();
        let path = proxy.last().unwrap().to_string_lossy();
        assert!(path.ends_with("anabranch/proxy.key"), "{path}");
        let two = words(&["anabranch", "send", &link_text, &text]);
        assert!(expanded(two).is_err());
        let other = words(&["anabranch", "recv", &link_text]);
        assert_eq!(expanded(other.clone()).unwrap(), other);
    }
}
