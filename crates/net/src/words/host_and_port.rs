//! The text of a receiver's place: a host, and a port if it is not the usual one.

use std::borrow::Cow;
use std::net::Ipv6Addr;

/// Default port of receivers.
const USUAL_PORT: u16 = 7_000;

/// Returns a host with its port, which is [`USUAL_PORT`] if the text has none.
pub fn with_port(text: &str) -> Cow<'_, str> {
    let host = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_v6 = |host: &str| host.parse::<Ipv6Addr>().is_ok();
    let has_none = match host {
        Some(host) => is_v6(host),
        None => !text.is_empty() && !text.contains(':'),
    };
    if has_none {
        format!("{text}:{USUAL_PORT}").into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_has_the_usual_one() {
        assert_eq!(with_port("studio.example"), "studio.example:7000");
        assert_eq!(with_port("192.0.2.1"), "192.0.2.1:7000");
        assert_eq!(with_port("[2001:db8::1]"), "[2001:db8::1]:7000");
        for text in ["192.0.2.1:9", "[::1]:9", "2001:db8::1", "[studio]", ""] {
            assert_eq!(with_port(text), text);
        }
    }
}
