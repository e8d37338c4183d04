//! Fields of a request that are forwarded to the target.

use httparse::Header;

use super::{Rejection, bad};

/// Fields for the proxy alone (RFC 9110 §7.6.1, §11.7.2), and Host, which is written first.
/// Transfer-Encoding is forwarded, since the body is unchanged.
const OF_THIS_HOP: [&str; 9] = [
    "host",
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "upgrade",
    "http2-settings",
];
/// Fields that define the end of the body. If `Connection` could remove one, the body would become
/// a second request.
const OF_FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// Returns the fields that are forwarded.
///
/// # Errors
/// The end of the body is ambiguous (RFC 9112 §6.1, §6.3).
pub(super) fn forwarded<'a, 'b>(
    fields: &'a [Header<'b>],
    is_http_1_0: bool,
) -> Result<impl Iterator<Item = &'a Header<'b>>, Rejection> {
    check_framing(fields, is_http_1_0)?;
    let options: Vec<&[u8]> = values(fields, "connection").flat_map(items).collect();
    if OF_FRAMING.into_iter().any(|name| {
        options
            .iter()
            .any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
    }) {
        return Err(bad("Connection names a field of the body's framing"));
    }
    let options: Vec<Vec<u8>> = options
        .iter()
        .map(|option| option.to_ascii_lowercase())
        .collect();
    Ok(fields.iter().filter(move |field| {
        let name = field.name.to_ascii_lowercase();
        !OF_THIS_HOP.contains(&name.as_str()) && !options.iter().any(|o| *o == name.as_bytes())
    }))
}

fn check_framing(fields: &[Header<'_>], is_http_1_0: bool) -> Result<(), Rejection> {
    let lengths: Vec<&[u8]> = values(fields, "content-length").collect();
    let codings: Vec<&[u8]> = values(fields, "transfer-encoding")
        .flat_map(items)
        .collect();
    let has_codings = values(fields, "transfer-encoding").next().is_some();
    if has_codings && !lengths.is_empty() {
        return Err(bad(
            "Content-Length and Transfer-Encoding exclude each other",
        ));
    }
    if lengths.len() > 1
        || !lengths
            .iter()
            .all(|value| !value.is_empty() && value.iter().all(u8::is_ascii_digit))
    {
        return Err(bad("Content-Length is not one number"));
    }
    let is_last = codings.last().is_some_and(|last| is_chunked(last));
    let is_once = codings.iter().filter(|coding| is_chunked(coding)).count() == 1;
    if has_codings && (is_http_1_0 || !is_last || !is_once) {
        return Err(bad(
            "the last Transfer-Encoding must be chunked, in HTTP/1.1",
        ));
    }
    Ok(())
}

fn is_chunked(coding: &[u8]) -> bool {
    coding.eq_ignore_ascii_case(b"chunked")
}

/// Returns the values of all fields of this name.
fn values<'a>(fields: &'a [Header<'_>], name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    let fields = fields.iter();
    let of_name = fields.filter(move |field| field.name.eq_ignore_ascii_case(name));
    of_name.map(|field| field.value.trim_ascii())
}

/// Returns the items of a list (RFC 9110 §5.6.1).
fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let items = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    items.filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the forwarded fields.
    fn names(fields: &[(&str, &str)], is_http_1_0: bool) -> Result<Vec<String>, Rejection> {
        let fields: Vec<Header<'_>> = fields
            .iter()
            .map(|(name, value)| Header {
                name,
                value: value.as_bytes(),
            })
            .collect();
        let forwarded = forwarded(&fields, is_http_1_0)?;
        Ok(forwarded.map(|field| field.name.to_owned()).collect())
    }

    #[test]
    fn fields_of_this_hop_and_those_that_connection_names_stay_here() {
        let fields = [
            ("Host", "x"),
            ("Accept", "*/*"),
            ("Connection", "keep-alive, X-Internal ,,"),
            ("connection", "x-other"),
            ("X-Internal", "1"),
            ("x-OTHER", "2"),
            ("X-Third", "3"),
            ("Keep-Alive", "5"),
            ("Proxy-Connection", "close"),
            ("Proxy-Authorization", "Basic eA=="),
            ("TE", "trailers"),
            ("Upgrade", "h2c"),
            ("Transfer-Encoding", "chunked"),
        ];
        let expected = ["Accept", "X-Third", "Transfer-Encoding"];
        assert_eq!(names(&fields, false).unwrap(), expected);
    }

    fn length(value: &str) -> (&str, &str) {
        ("Content-Length", value)
    }

    fn coding(value: &str) -> (&str, &str) {
        ("Transfer-Encoding", value)
    }

    #[test]
    fn bodies_whose_end_can_be_read_in_two_ways_are_rejected() {
        for fields in [
            vec![length("5"), coding("chunked")],
            vec![coding("chunked"), length("5")],
            vec![coding(""), length("5")],
            vec![length("5"), length("6")],
            vec![length("5"), length("5")],
            vec![length("5, 5")],
            vec![length("+5")],
            vec![length("0x5")],
            vec![length("-1")],
            vec![length("")],
            vec![coding("gzip")],
            vec![coding("chunked, gzip")],
            vec![coding("chunked, chunked")],
            vec![coding("chunked"), coding("identity")],
            vec![coding("")],
            vec![coding("\x0bchunked")],
            vec![length("5"), ("Connection", "Content-Length")],
            vec![
                coding("chunked"),
                ("Connection", "close, transfer-encoding"),
            ],
        ] {
            assert!(names(&fields, false).is_err(), "{fields:?}");
        }
        assert!(names(&[coding("chunked")], true).is_err(), "HTTP/1.0");
        for fields in [vec![length("5")], vec![coding("gzip, Chunked")], vec![]] {
            assert_eq!(names(&fields, false).unwrap().len(), fields.len());
        }
        assert!(names(&[length("5")], true).is_ok());
    }
}
