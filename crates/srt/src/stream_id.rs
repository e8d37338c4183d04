//! Forms in which devices and guides write the stream ID of one stream.

/// Returns the IDs that a caller may mean, the most exact one first: the ID as it stands, without
/// percent-encoding, its resource, and the last part of a path or of `publish:NAME`.
pub fn stream_names(stream_id: &str) -> Vec<String> {
    let mut names = vec![stream_id.to_owned()];
    let decoded = decoded(stream_id);
    let resource = resource(&decoded).unwrap_or(&decoded);
    for name in [decoded.as_str(), resource, last_part(resource)] {
        if !name.is_empty() && names.iter().all(|known| known != name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Returns the resource of a stream ID in SRT's form for access control: `cam` of
/// `#!::r=cam,m=publish` (Haivision, "SRT Access Control"). Some encoders put a space before a key.
fn resource(stream_id: &str) -> Option<&str> {
    let mut pairs = stream_id.strip_prefix("#!::")?.split(',').map(str::trim);
    pairs.find_map(|pair| pair.strip_prefix("r="))
}

/// Returns `NAME` of `publish:NAME`, `app/NAME` and `/NAME`.
fn last_part(resource: &str) -> &str {
    let parts = resource.trim().rsplit(['/', ':']);
    parts.map(str::trim).next().unwrap_or_default()
}

/// Returns the text without percent-encoding, or as it stands if it has none that is valid.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = if first == b'%' { after.get(..2) } else { None };
        let value = digits
            .and_then(|digits| core::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(value.unwrap_or(first));
        rest = if value.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_stream_is_among_those_of_each_form() {
        for id in [
            "front",
            "publish:front",
            "live/front",
            "#!::m=publish,r=front",
            "%23!::r=front",
        ] {
            let names = stream_names(id);
            assert_eq!(names[0], id, "the most exact one comes first");
            assert!(names.iter().any(|name| name == "front"), "{names:?}");
        }
        assert_eq!(stream_names("%zz"), ["%zz"]);
        assert_eq!(stream_names(""), [""]);
    }
}
