//! Files of the dashboard and the overlay, which the program contains.

use hyper::StatusCode;
use hyper::header::{
    CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};

use super::http::{Answer, body};

/// A file by its path in addresses.
struct File {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! file {
    ($path:literal, $kind:expr, $file:literal) => {
        File {
            path: $path,
            kind: $kind,
            text: include_str!(concat!("../../../web/", $file)),
        }
    };
}

const FILES: [File; 29] = [
    file!("/", HTML, "dashboard/index.html"),
    file!("/dashboard.css", CSS, "dashboard/dashboard.css"),
    file!("/dashboard.js", SCRIPT, "dashboard/dashboard.js"),
    file!("/air.js", SCRIPT, "dashboard/air.js"),
    file!("/charts.js", SCRIPT, "dashboard/charts.js"),
    file!("/control.css", CSS, "dashboard/control.css"),
    file!("/control.js", SCRIPT, "dashboard/control.js"),
    file!("/events.js", SCRIPT, "dashboard/events.js"),
    file!("/feed.js", SCRIPT, "dashboard/feed.js"),
    file!("/format.js", SCRIPT, "dashboard/format.js"),
    file!("/join.js", SCRIPT, "dashboard/join.js"),
    file!("/live.js", SCRIPT, "dashboard/live.js"),
    file!("/outputs.js", SCRIPT, "dashboard/outputs.js"),
    file!("/picture.js", SCRIPT, "dashboard/picture.js"),
    file!("/recordings.js", SCRIPT, "dashboard/recordings.js"),
    file!("/stream.js", SCRIPT, "dashboard/stream.js"),
    file!("/table.js", SCRIPT, "dashboard/table.js"),
    file!("/words.js", SCRIPT, "dashboard/words.js"),
    file!("/watch", HTML, "dashboard/watch.html"),
    file!("/watch.css", CSS, "dashboard/watch.css"),
    file!("/watch.js", SCRIPT, "dashboard/watch.js"),
    file!("/overlay", HTML, "dashboard/overlay.html"),
    file!("/overlay.css", CSS, "dashboard/overlay.css"),
    file!("/overlay.js", SCRIPT, "dashboard/overlay.js"),
    file!("/style.css", CSS, "style.css"),
    file!("/uplot.js", SCRIPT, "vendor/uPlot.iife.min.js"),
    file!("/uplot.css", CSS, "vendor/uPlot.min.css"),
    file!(
        "/uplot.LICENSE",
        "text/plain; charset=utf-8",
        "vendor/uPlot.LICENSE"
    ),
    file!("/icon.svg", "image/svg+xml", "icon.svg"),
];

/// Content Security Policy: only this server's files, no frames around or inside of the page, and
/// no scripts or styles within it. Films come as objects that a script of the page made (`blob:`).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      media-src 'self' blob:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Returns the file at a path.
pub(super) fn page(path: &str) -> Option<Answer> {
    let file = FILES.iter().find(|file| file.path == path)?;
    Some(body(StatusCode::OK, file.kind, file.text))
}

/// Returns the file at a path of an address for viewers alone, which has one page.
pub(super) fn page_for_viewers(path: &str) -> Option<Answer> {
    let path = if path == "/" { "/watch" } else { path };
    let names = [
        "/watch",
        "/watch.css",
        "/watch.js",
        "/live.js",
        "/format.js",
        "/icon.svg",
    ];
    if names.contains(&path) {
        page(path)
    } else {
        None
    }
}

/// Adds headers that keep other sites from an answer's content.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (RESOURCE_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the values of `src="…"`, `href="…"` and `from './…'` in a file.
    fn named(text: &str) -> Vec<String> {
        let marks = ["src=\"", "href=\"", "from './", "import './"];
        let after = marks.iter().flat_map(|mark| text.split(mark).skip(1));
        let names = after.filter_map(|rest| rest.split(['"', '\'', '?']).next());
        names.map(str::to_owned).collect()
    }

    #[test]
    fn pages_name_only_files_and_answers_of_the_program() {
        let answers = ["metrics", "status.json", "overlay", "history.json"];
        let paths: BTreeSet<&str> = FILES.iter().map(|file| &file.path[1..]).collect();
        let ours = FILES.iter().filter(|file| file.path != "/uplot.js");
        for file in ours {
            for name in named(file.text) {
                let is_known = paths.contains(&*name) || answers.contains(&&*name);
                assert!(is_known, "{} names {name}", file.path);
            }
            assert!(!file.text.contains("//fonts."), "{}", file.path);
            assert!(!file.text.contains("innerHTML"), "{}", file.path);
        }
    }
}
