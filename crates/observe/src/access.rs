//! Token of the dashboard. A browser receives it once, in a link or by its own dialogue, and keeps
//! it; programs send it with each request.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use data_encoding::BASE64;
use hyper::header::{AUTHORIZATION, COOKIE, HeaderValue};
use hyper::{HeaderMap, Request};
use subtle::ConstantTimeEq;

/// Minimum length of a token: 16 random hexadecimal digits are 64 bits.
const MIN_LENGTH: usize = 16;
/// Maximum length of a token. Chosen: far below the limit of a header.
const MAX_LENGTH: usize = 256;
/// Pages that links open, and each one's address relative to itself: behind a proxy, the server
/// does not know the path before it. Others get the token with each request.
const PAGES: [(&str, &str); 3] = [("/", "./"), ("/overlay", "overlay"), ("/watch", "watch")];
/// Lifetime of a browser's copy: 30 days.
const COOKIE_SECONDS: u32 = 30 * 86_400;

/// A secret text that admits its bearer. It consists of characters that links need not encode.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<str>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl FromStr for Token {
    type Err = &'static str;

    /// Reads a token, without spaces around it. Errors do not repeat the text.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if !(MIN_LENGTH..=MAX_LENGTH).contains(&text.len())
            || !text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
        {
            return Err(
                "expected 16 to 256 letters, digits and -._~, as `openssl rand -hex 16` makes them",
            );
        }
        Ok(Token(text.into()))
    }
}

/// Right of a request.
#[derive(Debug)]
pub(super) enum Access {
    /// It has the token.
    Granted,
    /// It is a link with the token. The browser keeps the cookie and asks again at the location.
    Link {
        cookie: HeaderValue,
        location: HeaderValue,
    },
    /// It has no token, or another one.
    Denied,
}

impl Token {
    /// Returns the value of a header `Authorization` with the token.
    pub fn to_bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Returns the right of a request to the server at this port. Cookies do not distinguish ports,
    /// so the cookie's name does.
    pub(super) fn access<B>(&self, request: &Request<B>, port: u16) -> Access {
        let name = format!("anabranch-{port}");
        if self.is_in_header(request) || self.is_in_cookie(request, &name) {
            return Access::Granted;
        }
        let query = request.uri().query().unwrap_or_default();
        let (tokens, others): (Vec<&str>, Vec<&str>) = query
            .split('&')
            .filter(|part| !part.is_empty())
            .partition(|part| part.starts_with("token="));
        if !tokens
            .iter()
            .any(|part| self.is(&part.as_bytes()["token=".len()..]))
        {
            return Access::Denied;
        }
        let path = request.uri().path();
        let Some((_, page)) = PAGES.iter().find(|(page, _)| *page == path) else {
            return Access::Granted;
        };
        let location = if others.is_empty() {
            (*page).to_owned()
        } else {
            format!("{page}?{}", others.join("&"))
        };
        // `Strict` would withhold the cookie from the next request of a link in another page.
        let cookie = format!(
            "{name}={}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Lax",
            self.0
        );
        match (HeaderValue::try_from(cookie), location.try_into()) {
            (Ok(cookie), Ok(location)) => Access::Link { cookie, location },
            _ => Access::Denied,
        }
    }

    /// Compares in a time that depends on the lengths alone.
    fn is(&self, other: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(other).into()
    }

    /// Returns whether a header `Authorization` bears the token. Unlike a password, no browser
    /// sends such a header by itself.
    pub(super) fn is_bearer(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        values.any(|value| {
            let pair = value.to_str().ok().and_then(|value| value.split_once(' '));
            pair.is_some_and(|(scheme, token)| {
                scheme.eq_ignore_ascii_case("bearer") && self.is(token.trim().as_bytes())
            })
        })
    }

    /// Returns whether there is no header `Authorization`.
    pub(super) fn is_none_in(headers: &HeaderMap) -> bool {
        !headers.contains_key(AUTHORIZATION)
    }

    fn is_in_header<B>(&self, request: &Request<B>) -> bool {
        let values = request.headers().get_all(AUTHORIZATION).iter();
        values
            .filter_map(|value| value.to_str().ok())
            .any(|value| match value.split_once(' ') {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                    self.is(token.trim().as_bytes())
                }
                // The user's name may be any.
                Some((scheme, pair)) if scheme.eq_ignore_ascii_case("basic") => {
                    let pair = BASE64.decode(pair.trim().as_bytes()).unwrap_or_default();
                    let mut parts = pair.splitn(2, |byte| *byte == b':').skip(1);
                    parts.next().is_some_and(|password| self.is(password))
                }
                _ => false,
            })
    }

    fn is_in_cookie<B>(&self, request: &Request<B>, name: &str) -> bool {
        let values = request
            .headers()
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let mut cookies = values
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='));
        cookies.any(|(of, token)| of == name && self.is(token.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0123456789abcdef0123";

    fn token() -> Token {
        TEXT.parse().unwrap()
    }

    fn access(target: &str, headers: &[(&str, &str)]) -> Access {
        let mut request = Request::get(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        token().access(&request.body(()).unwrap(), 9_797)
    }

    #[test]
    fn a_short_or_odd_token_is_refused_and_never_repeated() {
        for text in ["", "short", "0123456789abcde/", "0123456789abcdé0", "a b"] {
            let error = text.parse::<Token>().unwrap_err();
            assert!(error.contains("openssl rand"), "{error}");
        }
        assert!("x".repeat(257).parse::<Token>().is_err());
        assert_eq!(format!("{TEXT}\n").parse(), Ok(token()));
        assert!(!format!("{:?}", token()).contains(TEXT));
    }

    #[test]
    fn programs_send_it_in_a_header() {
        let bearer = format!("Bearer {TEXT}");
        let basic = format!("basic {}", BASE64.encode(format!("me:{TEXT}").as_bytes()));
        for value in [&bearer, &basic] {
            let access = access("/metrics", &[("authorization", value)]);
            assert!(matches!(access, Access::Granted), "{value}");
        }
        let short = format!("Bearer {}", &TEXT[1..]);
        let longer = format!("Bearer {TEXT}0");
        let no_pair = format!("Basic {}", BASE64.encode(TEXT.as_bytes()));
        for value in [
            &*short, &longer, &no_pair, "Basic !!", TEXT, "Bearer", "Bearer ",
        ] {
            let access = access("/metrics", &[("authorization", value)]);
            assert!(matches!(access, Access::Denied), "{value}");
        }
    }

    #[test]
    fn a_link_leaves_a_cookie_and_loses_its_token() {
        let target = format!("/overlay?show=bitrate&token={TEXT}&stream=a%20b");
        let Access::Link { cookie, location } = access(&target, &[]) else {
            panic!("no link");
        };
        // Behind a proxy, the page may be below another path.
        assert_eq!(location, "overlay?show=bitrate&stream=a%20b");
        let Access::Link { location, .. } = access(&format!("/?token={TEXT}"), &[]) else {
            panic!("no link");
        };
        assert_eq!(location, "./");
        let cookie = cookie.to_str().unwrap();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite"));
        let pair = cookie.split(';').next().unwrap();
        let others = format!("a=b; {pair}");
        assert!(matches!(
            access("/live", &[("cookie", &others)]),
            Access::Granted
        ));
        let of_other_port = pair.replace("9797", "9798");
        assert!(matches!(
            access("/live", &[("cookie", &of_other_port)]),
            Access::Denied
        ));
    }

    #[test]
    fn a_link_leads_to_no_other_machine() {
        let target = format!("//evil.example/?token={TEXT}");
        assert!(matches!(access(&target, &[]), Access::Granted), "no page");
        let wrong = access("/?token=0123456789abcdef0124", &[]);
        assert!(matches!(wrong, Access::Denied));
    }
}
