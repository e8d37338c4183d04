//! Answers to viewers of live pictures.

use anabranch_net::Clock;
use anabranch_viewers::Hub;
use http_body_util::{BodyExt, Full};

use super::*;
use crate::http::Ends;

const TOKEN: &str = "0123456789abcdef0123";

/// A receiver without streams, and the rights of its address.
struct Bed(Metrics);

impl Bed {
    fn new(rights: AccessRights) -> Bed {
        let clock = Clock::start();
        let viewing = Viewing::new(Hub::start(clock).unwrap(), clock);
        let shared = Arc::new(Shared {
            viewing: Some(viewing),
            ..Shared::new(clock)
        });
        Bed(Metrics { shared, rights })
    }

    /// Returns the status of an answer, its headers and its text.
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Asked {
        let mut builder = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        let mut request = builder
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        request.extensions_mut().insert(Ends {
            local: SocketAddr::from(([127, 0, 0, 1], 8_080)),
            client: [127, 0, 0, 1].into(),
        });
        let answer = self.0.answer_any(request).await;
        let code = answer.status().as_u16();
        let headers = format!("{:?}", answer.headers());
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        Asked {
            code,
            headers,
            text,
        }
    }

    async fn code(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
        self.ask(method, path, headers, body).await.code
    }
}

/// An answer.
struct Asked {
    code: u16,
    headers: String,
    text: String,
}

fn for_viewers() -> AccessRights {
    AccessRights {
        token: Some(TOKEN.parse().unwrap()),
        has_pictures: true,
        is_for_viewers: true,
        is_shared: true,
        ..AccessRights::default()
    }
}

fn bearer() -> String {
    format!("Bearer {TOKEN}")
}

#[tokio::test]
async fn viewers_need_the_token_and_pages_elsewhere_may_have_it() {
    let bed = Bed::new(for_viewers());
    for path in ["/whep", "/live.mp4", "/picture.json", "/", "/viewers/1"] {
        assert_eq!(bed.code("GET", path, &[], "").await, 401, "{path}");
    }
    let origin = [("origin", "https://a.example")];
    let permissions = bed.ask("OPTIONS", "/whep", &origin, "").await;
    assert_eq!(permissions.code, 204);
    let bearer = [("authorization", &*bearer())];
    let described = bed
        .ask("GET", "/picture.json?stream=van", &bearer, "")
        .await;
    for answer in [&permissions, &described] {
        let headers = &answer.headers;
        assert!(
            headers.contains("\"access-control-allow-origin\": \"*\""),
            "{headers}"
        );
        assert!(!headers.contains("allow-credentials"), "{headers}");
    }
    assert!(described.text.contains("there is no such stream"));
    assert!(
        bed.ask("GET", "/", &bearer, "")
            .await
            .text
            .contains("watch.js")
    );
    // It is no address of statistics.
    for path in ["/status.json", "/metrics", "/dashboard.js", "/live"] {
        assert_eq!(bed.code("GET", path, &bearer, "").await, 404, "{path}");
    }
}

#[tokio::test]
async fn offers_have_their_type_and_viewers_their_methods() {
    let bed = Bed::new(for_viewers());
    let token = bearer();
    let with_token = ("authorization", &*token);
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let headers = [with_token, ("content-type", kind)];
        assert_eq!(bed.code("POST", "/whep", &headers, "v=0").await, 415);
    }
    let sdp = [
        with_token,
        ("content-type", "application/sdp; charset=utf-8"),
    ];
    let long = "a".repeat(70_000);
    assert_eq!(bed.code("POST", "/whep", &sdp, &long).await, 413);
    assert_eq!(bed.code("GET", "/whep", &sdp, "").await, 405);
    assert_eq!(bed.code("PATCH", "/viewers/0123", &sdp, "").await, 405);
    assert_eq!(bed.code("DELETE", "/viewers/0123", &sdp, "").await, 404);
    assert_eq!(bed.code("POST", "/live.mp4", &sdp, "").await, 405);
}

#[tokio::test]
async fn the_dashboard_gives_other_sites_no_permission() {
    let bed = Bed::new(AccessRights {
        has_pictures: true,
        has_dashboard: true,
        ..AccessRights::default()
    });
    assert_eq!(bed.code("OPTIONS", "/whep", &[], "").await, 405);
    let described = bed.ask("GET", "/picture.json", &[], "").await;
    assert_eq!(described.code, 200);
    assert!(!described.headers.contains("access-control"));
}

#[tokio::test]
async fn offers_of_one_host_have_a_rate() {
    let bed = Bed::new(AccessRights {
        has_pictures: true,
        ..AccessRights::default()
    });
    let sdp = [("content-type", "application/sdp")];
    let long = "a".repeat(70_000);
    for _ in 0..32 {
        assert_eq!(bed.code("POST", "/whep", &sdp, &long).await, 413);
    }
    assert_eq!(bed.code("POST", "/whep", &sdp, &long).await, 429);
}
