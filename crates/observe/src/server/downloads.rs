//! Downloads of recordings, whole or from a place on, as players and interrupted downloads ask.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use hyper::body::Bytes;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_RANGE, HeaderValue, RANGE, RETRY_AFTER,
};
use hyper::{Method, Request, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::decoded;
use crate::Shared;
use crate::http::{Answer, body, sized, text};

/// Path of the list.
pub(super) const LIST: &str = "/recordings.json";
/// Path of the files.
pub(super) const FOLDER: &str = "/recordings/";

const NO_TOKEN: &str = "\
recordings need the token of --dashboard-token-file, because their files may be private: start the
program with --dashboard-token-file FILE, which is made if there is none
";
const NO_FILE: &str = "no such recording: /recordings.json lists them\n";
const TOO_MANY: &str = "4 recordings are downloaded already; try again later\n";
const CHUNK_BYTES: usize = 64 << 10;
/// Number of chunks that wait for a client.
const MAX_WAITING: usize = 4;

/// Returns the answer to a request for the list or a file.
pub(super) async fn answer<B>(
    request: &Request<B>,
    shared: &Arc<Shared>,
    has_token: bool,
) -> Answer {
    if !has_token {
        // Browsers report an error in their console for other answers than this.
        return match request.uri().query() {
            Some("quiet") => text(StatusCode::NO_CONTENT, ""),
            _ => text(StatusCode::FORBIDDEN, NO_TOKEN),
        };
    }
    let reader = Arc::clone(shared);
    let path = request.uri().path();
    if path == LIST {
        let list = tokio::task::spawn_blocking(move || reader.recordings.list()).await;
        let list = serde_json::to_string(&list.unwrap_or_default()).unwrap_or_default();
        return body(StatusCode::OK, "application/json", list);
    }
    let Some(name) = path.strip_prefix(FOLDER).and_then(decoded) else {
        return text(StatusCode::NOT_FOUND, NO_FILE);
    };
    let Some(place) = shared.recordings.place() else {
        let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, TOO_MANY);
        let pause = HeaderValue::from_static("10");
        answer.headers_mut().insert(RETRY_AFTER, pause);
        return answer;
    };
    let wanted = name.clone();
    let opened = tokio::task::spawn_blocking(move || reader.recordings.open(&wanted)).await;
    let Ok(Ok((file, length))) = opened else {
        return text(StatusCode::NOT_FOUND, NO_FILE);
    };
    let header = request.headers().get(RANGE);
    let range = header.and_then(|header| header.to_str().ok());
    let wanted = match range.map(|range| Span::of(range, length)) {
        None | Some(Wanted::Whole) => None,
        Some(Wanted::Span(span)) => Some(span),
        Some(Wanted::Nothing) => {
            let mut answer = text(StatusCode::RANGE_NOT_SATISFIABLE, "");
            put(&mut answer, CONTENT_RANGE, format!("bytes */{length}"));
            return answer;
        }
    };
    let span = wanted.unwrap_or(Span { begin: 0, length });
    let kind = if name.ends_with(".mp4") {
        "video/mp4"
    } else if name.ends_with(".csv") {
        "text/csv; charset=utf-8"
    } else {
        "video/mp2t"
    };
    let (chunks, messages) = mpsc::channel(MAX_WAITING);
    let mut answer = sized(kind, span.length, messages);
    if let Some(Span { begin, length: len }) = wanted {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        let last = begin + len - 1;
        let shown = format!("bytes {begin}-{last}/{length}");
        put(&mut answer, CONTENT_RANGE, shown);
    }
    put(&mut answer, ACCEPT_RANGES, "bytes".to_owned());
    let plain: String = name
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .chars()
        .map(plain_character)
        .collect();
    let disposition = format!("attachment; filename=\"{plain}\"");
    put(&mut answer, CONTENT_DISPOSITION, disposition);
    if request.method() != Method::HEAD {
        tokio::task::spawn_blocking(move || read(file, span, &chunks, &place));
    }
    answer
}

/// Sends the bytes until the client has them, or leaves.
fn read(mut file: File, span: Span, chunks: &mpsc::Sender<Bytes>, _place: &OwnedSemaphorePermit) {
    if file.seek(SeekFrom::Start(span.begin)).is_err() {
        return;
    }
    let mut left = span.length;
    while left > 0 {
        let mut chunk = vec![0; CHUNK_BYTES.min(usize::try_from(left).unwrap_or(CHUNK_BYTES))];
        let Ok(count @ 1..) = file.read(&mut chunk) else {
            return;
        };
        chunk.truncate(count);
        left -= count as u64;
        if chunks.blocking_send(chunk.into()).is_err() {
            return;
        }
    }
}

fn put(answer: &mut Answer, name: hyper::header::HeaderName, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        answer.headers_mut().insert(name, value);
    }
}

fn plain_character(character: char) -> char {
    if character.is_ascii_graphic() && !matches!(character, '"' | '\\') {
        character
    } else {
        '_'
    }
}

/// Part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    begin: u64,
    length: u64,
}

/// Part that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// The whole file. Several parts are answered by it, too (RFC 9110, 14.2).
    Whole,
    Span(Span),
    /// A part behind the end.
    Nothing,
}

impl Span {
    /// Reads a `Range` for a file of `length` bytes (RFC 9110, 14.1.2).
    fn of(range: &str, length: u64) -> Wanted {
        let Some((first, last)) = range
            .strip_prefix("bytes=")
            .and_then(|spec| spec.split_once('-'))
        else {
            return Wanted::Whole;
        };
        let (begin, end) = match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
            (Ok(begin), Ok(last)) if begin <= last => (begin, last.saturating_add(1).min(length)),
            (Ok(begin), Err(_)) if last.trim().is_empty() => (begin, length),
            (Err(_), Ok(count)) if first.trim().is_empty() => {
                (length.saturating_sub(count), length)
            }
            _ => return Wanted::Whole,
        };
        if begin < end {
            Wanted::Span(Span {
                begin,
                length: end - begin,
            })
        } else {
            Wanted::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_net::Clock;
    use http_body_util::BodyExt;

    use super::*;

    const MAX_TURNS: u32 = 1_000_000;

    #[test]
    fn a_range_is_a_part_the_whole_or_behind_the_end() {
        fn span(begin: u64, length: u64) -> Wanted {
            Wanted::Span(Span { begin, length })
        }
        for (range, expected) in [
            ("bytes=0-9", span(0, 10)),
            ("bytes=90-", span(90, 10)),
            ("bytes=90-200", span(90, 10)),
            ("bytes=-10", span(90, 10)),
            ("bytes=-200", span(0, 100)),
            ("bytes=100-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=9-0", Wanted::Whole),
            ("bytes=0-1,5-6", Wanted::Whole),
            ("lines=1-2", Wanted::Whole),
            ("bytes=18446744073709551615-", Wanted::Nothing),
            ("bytes=0-18446744073709551615", span(0, 100)),
        ] {
            assert_eq!(Span::of(range, 100), expected, "{range}");
        }
        assert_eq!(Span::of("bytes=0-", 0), Wanted::Nothing);
    }

    fn get(path: &str, range: Option<&str>) -> Request<()> {
        let mut request = Request::builder().uri(path);
        if let Some(range) = range {
            request = request.header(RANGE, range);
        }
        request.body(()).unwrap()
    }

    #[tokio::test]
    async fn recordings_are_listed_and_read_with_a_token_alone() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..200_000_u32).map(|index| index as u8).collect();
        std::fs::write(folder.path().join("a b.ts"), &bytes).unwrap();
        let shared = Arc::new(Shared::new(Clock::start()));
        shared.recordings.add(folder.path().join("{name}.ts"));
        let refused = answer(&get(LIST, None), &shared, false).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        let listed = answer(&get(LIST, None), &shared, true).await;
        let text = listed.into_body().collect().await.unwrap().to_bytes();
        let list: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(list[0]["name"], "a b.ts");
        for (range, status, expected) in [
            (None, StatusCode::OK, &bytes[..]),
            (
                Some("bytes=199990-"),
                StatusCode::PARTIAL_CONTENT,
                &bytes[199_990..],
            ),
            (Some("bytes=5-5"), StatusCode::PARTIAL_CONTENT, &bytes[5..6]),
        ] {
            let whole = answer(&get("/recordings/a%20b.ts", range), &shared, true).await;
            assert_eq!(whole.status(), status);
            let shown = &whole.headers()[CONTENT_DISPOSITION];
            assert_eq!(shown, "attachment; filename=\"a_b.ts\"");
            let read = whole.into_body().collect().await.unwrap().to_bytes();
            assert!(read == expected);
        }
        let behind = get("/recordings/a%20b.ts", Some("bytes=200000-"));
        let behind = answer(&behind, &shared, true).await;
        assert_eq!(behind.status(), StatusCode::RANGE_NOT_SATISFIABLE);
        for path in ["/recordings/", "/recordings/%2e%2e%2fa", "/recordings/%zz"] {
            let none = answer(&get(path, None), &shared, true).await;
            assert_eq!(none.status(), StatusCode::NOT_FOUND, "{path}");
        }
        // A download gives its place back a moment after its last byte.
        let mut places = Vec::new();
        for _ in 0..MAX_TURNS {
            places.extend(shared.recordings.place());
            if places.len() == 4 {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(places.len(), 4);
        assert!(shared.recordings.place().is_none(), "there are four places");
        let busy = answer(&get("/recordings/a%20b.ts", None), &shared, true).await;
        assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
