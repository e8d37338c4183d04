//! Keys of overrides: names between dots, some of them in quotes as in TOML.

/// Splits a setting at its first equals sign outside of quotes: into the names of its key and the
/// value.
///
/// `None` if there is no equals sign, a quote is not closed, or a name is empty.
pub(super) fn parse(setting: &str) -> Option<(Vec<String>, &str)> {
    let mut names = Vec::new();
    let mut rest = setting.trim_start();
    loop {
        let (name, after) = name(rest)?;
        names.push(name);
        rest = after.trim_start();
        match rest.strip_prefix('.') {
            Some(after) => rest = after.trim_start(),
            None => return Some((names, rest.strip_prefix('=')?.trim())),
        }
    }
}

/// Returns the first name, and the text behind it.
fn name(text: &str) -> Option<(String, &str)> {
    let quote = text
        .chars()
        .next()
        .filter(|first| matches!(first, '"' | '\''));
    let (name, after) = match quote {
        Some(quote) => text[1..].split_once(quote)?,
        None => text.split_at(text.find(['.', '='])?),
    };
    let name = match quote {
        Some(_) => name,
        None => name.trim(),
    };
    (!name.is_empty()).then(|| (name.to_owned(), after))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn dots_and_equals_signs_in_quotes_belong_to_the_name() {
        fn names(setting: &str) -> Option<(String, String)> {
            parse(setting).map(|(names, value)| (names.join("|"), value.to_owned()))
        }
        for (setting, key, value) in [
            ("links.wifi.rate=2 Mbit/s", "links|wifi|rate", "2 Mbit/s"),
            (" flows.0.name = a=b ", "flows|0|name", "a=b"),
            ("sweep.\"links.up.rate\"=[1]", "sweep|links.up.rate", "[1]"),
            (
                "links.'my.link'.rate=\"1 Mbit/s\"",
                "links|my.link|rate",
                "\"1 Mbit/s\"",
            ),
            ("links.\"a=b\".rate=", "links|a=b|rate", ""),
        ] {
            assert_eq!(
                names(setting),
                Some((key.to_owned(), value.to_owned())),
                "{setting}"
            );
        }
        for wrong in [
            "",
            "key",
            "=1",
            "a..b=1",
            "a.=1",
            "a.\"b=1",
            "\"\"=1",
            "a.\"b\"c=1",
        ] {
            assert_eq!(names(wrong), None, "{wrong}");
        }
    }
}
