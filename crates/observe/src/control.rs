//! Control of a running program by HTTP: changes for the owner of a control token.
//!
//! `docs/control.openapi.json` describes the interface, and a test holds both together. The HTTP
//! server checks each request ([`checks`]) and queues it ([`desk`]); the program's main thread
//! takes it, decides, and answers.

mod changes;
mod checks;
mod desk;
mod links;
mod state;

use core::time::Duration as StdDuration;
use std::net::IpAddr;

use http_body_util::{BodyExt, Limited};
use hyper::header::{ALLOW, CACHE_CONTROL, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Request, StatusCode};
use serde::Serialize;

use super::access::Token;
use super::http::{Answer, AnyBody, ClientAddress, body};

pub use changes::{
    Change, LatencyChange, LinkAddition, OutputChange, PathChange, RecordingChange, Reload,
    SessionAdmission, SessionEnd, TargetChange,
};
pub(super) use checks::Controls;
use checks::{Refusal, Wanted};
pub use desk::{Asked, Order, Refused};
pub(crate) use desk::{Desk, Orders, desk};
pub use links::{JoinLink, Links};
pub use state::{ControlState, KeptOut, OutputState, PathControl, StreamControl, TargetControl};

/// Path of the state, and beginning of the paths of all changes.
const ROOT: &str = "/control";
/// Path of the links.
const LINKS: &str = "/control/links";
/// Maximum length of a request.
const MAX_BYTES: usize = 16 << 10;
/// Longest wait for the program's answer. A sender far away may be asked meanwhile.
const PATIENCE: StdDuration = StdDuration::from_secs(15);
const JSON: &str = "application/json";

/// Answer to a change that was made.
#[derive(Debug, Serialize)]
struct Done<'a> {
    done: &'a str,
}

/// Answer to a request that was refused.
#[derive(Debug, Serialize)]
struct Mistake<'a> {
    error: &'a str,
}

/// Returns whether a path belongs to the control.
pub(super) fn has(path: &str) -> bool {
    path.strip_prefix(ROOT)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the answer to a request for a path of the control. `reading` is the token that only
/// reads.
pub(super) async fn answer<B: AnyBody>(
    request: Request<B>,
    controls: Option<&Controls>,
    reading: Option<&Token>,
) -> Answer {
    let Some(controls) = controls else {
        return refusal(&Refusal::NotHere);
    };
    let client = request
        .extensions()
        .get::<ClientAddress>()
        .copied()
        .map_or(IpAddr::from([0, 0, 0, 0]), |ClientAddress(address)| address);
    let (head, body) = request.into_parts();
    let wanted = match controls.check(&head, client, reading) {
        Ok(wanted) => wanted,
        Err(refused) => {
            controls.report(client, &refused);
            return refusal(&refused);
        }
    };
    let asked = match wanted {
        Wanted::State => Asked::State,
        Wanted::Links => Asked::Links,
        Wanted::Change(path) => {
            let Ok(body) = Limited::new(body, MAX_BYTES).collect().await else {
                return refusal(&Refusal::TooLong);
            };
            match Change::read(path, &body.to_bytes()) {
                Ok(change) => Asked::Change(change),
                Err(error) => return refusal(&Refusal::Malformed(error)),
            }
        }
    };
    let Some(answer) = controls.desk().ask(asked, client) else {
        return refusal(&Refusal::Busy);
    };
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(answer)) => of_program(answer),
        Ok(Err(_)) => refusal(&Refusal::Ending),
        Err(_) => refusal(&Refusal::Silent),
    }
}

/// Returns the program's answer in JSON.
fn of_program(answer: desk::Reply) -> Answer {
    match answer {
        desk::Reply::State(state) => json(StatusCode::OK, &*state),
        desk::Reply::Links(links) => private(json(StatusCode::OK, &links)),
        desk::Reply::Done(done) => json(StatusCode::OK, &Done { done: &done }),
        desk::Reply::Refused(refused) => {
            let error = refused.to_string();
            json(refused.status(), &Mistake { error: &error })
        }
    }
}

/// Keeps an answer with secrets out of every store.
fn private(mut answer: Answer) -> Answer {
    let never = HeaderValue::from_static("no-store");
    answer.headers_mut().insert(CACHE_CONTROL, never);
    answer
}

fn refusal(refused: &Refusal) -> Answer {
    let text = refused.to_string();
    let mut answer = json(refused.status(), &Mistake { error: &text });
    let headers = answer.headers_mut();
    match refused {
        Refusal::NoToken => {
            let challenge = HeaderValue::from_static("Bearer realm=\"anabranch control\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        Refusal::Method(allowed) => {
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        }
        Refusal::TooMany | Refusal::Busy => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        _ => {}
    }
    answer
}

fn json(status: StatusCode, content: &impl Serialize) -> Answer {
    let text = serde_json::to_string(content).unwrap_or_default();
    body(status, JSON, text)
}

#[cfg(test)]
mod openapi_tests;
