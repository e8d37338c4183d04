//! Links of `--pair` on command lines.

use std::ffi::{OsStr, OsString};

pub(crate) use anabranch_net::words::Link;
use anyhow::ensure;

use crate::usage::usual_folder;

/// Commands that take a link, with the key files that they make beside their other state.
const COMMANDS: [(&str, &str); 2] = [("send", "sender.key"), ("proxy", "proxy.key")];

/// Returns the link that a word is, alone or as `--to=LINK`.
fn link_of(word: &OsString) -> Option<String> {
    let text = word.to_str()?;
    let link = text.strip_prefix("--to=").unwrap_or(text);
    link.starts_with(Link::SCHEME).then(|| link.to_owned())
}

/// Puts the options of `send` or `proxy` in place of a link among its words.
///
/// # Errors
/// The link is invalid, or there are two.
pub(crate) fn expanded(mut words: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let command = words.get(1).map(OsString::as_os_str);
    let named = COMMANDS
        .iter()
        .find(|(name, _)| command == Some(OsStr::new(name)));
    let Some((_, key_file)) = named else {
        return Ok(words);
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
    let link: Link = text.parse()?;
    let mut options: Vec<OsString> = vec!["--to".into(), link.to.clone().into()];
    options.extend(["--peer".into(), link.key.to_string().into()]);
    if let Some(code) = &link.code {
        options.push(format!("--code={}", *code.to_text()).into());
    }
    if !words.iter().any(|word| {
        let word = word.to_string_lossy();
        word == "--key" || word.starts_with("--key=")
    }) {
        let folder = usual_folder().unwrap_or_default();
        options.extend(["--key".into(), folder.join(key_file).into_os_string()]);
    }
    words.splice(2..2, options);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use anabranch_secure::{PairingCode, SecretKey};

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
