//! Client of the control interface.

use core::time::Duration as StdDuration;
use std::net::SocketAddr;

use anabranch_observe::Token;
use anabranch_observe::control::Change;
use anabranch_terminal::clean::without_controls;
use anabranch_terminal::exit::Failure;
use anyhow::{anyhow, bail};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::http::request::Builder;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// Longest wait for an answer: longer than the program's for a sender far away.
const PATIENCE: StdDuration = StdDuration::from_secs(20);
/// Maximum size of an answer.
const MAX_BYTES: usize = 16 << 20;

pub(super) struct Client {
    runtime: Runtime,
    address: SocketAddr,
    token: Token,
}

/// An answer of the program.
pub(super) struct Answer {
    status: StatusCode,
    body: Bytes,
}

impl Answer {
    /// Returns the answer as it came, fit for a terminal.
    pub(super) fn text(&self) -> String {
        without_controls(&String::from_utf8_lossy(&self.body)).into_owned()
    }

    /// Returns the content of an answer that does not refuse.
    ///
    /// # Errors
    /// The program's reason.
    pub(super) fn outcome(&self) -> anyhow::Result<&[u8]> {
        if self.status == StatusCode::OK {
            return Ok(&self.body);
        }
        match self.field("error") {
            Some(error) if self.status == StatusCode::GATEWAY_TIMEOUT => {
                Err(Failure::PeerLost(error).into())
            }
            Some(error) => Err(anyhow!(error)),
            None => bail!("the program answers {}: is it this address?", self.status),
        }
    }

    /// Returns the words about a change that was made.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome).
    pub(super) fn done(&self) -> anyhow::Result<String> {
        self.outcome()?;
        let done = self.field("done");
        done.ok_or_else(|| anyhow!("its answer is not one of this version"))
    }

    fn field(&self, name: &str) -> Option<String> {
        let value: Value = serde_json::from_slice(&self.body).ok()?;
        let text = value.get(name)?.as_str()?;
        Some(without_controls(text).into_owned())
    }
}

impl Client {
    pub(super) fn new(address: SocketAddr, token: Token) -> anyhow::Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build()?;
        Ok(Client {
            runtime,
            address,
            token,
        })
    }

    /// Asks for a change.
    ///
    /// # Errors
    /// The program does not answer.
    pub(super) fn change(&self, change: &Change) -> anyhow::Result<Answer> {
        let body = serde_json::to_vec(&content(change)?)?;
        self.ask(Request::post(change.path()), body)
    }

    /// Asks for the content of a path.
    ///
    /// # Errors
    /// As of [`change`](Self::change).
    pub(super) fn read(&self, path: &str) -> anyhow::Result<Answer> {
        self.ask(Request::get(path), Vec::new())
    }

    fn ask(&self, request: Builder, body: Vec<u8>) -> anyhow::Result<Answer> {
        self.runtime.block_on(async {
            match tokio::time::timeout(PATIENCE, self.request(request, body)).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(error)) => Err(self.lost(&error.to_string()).into()),
                Err(_) => Err(self.lost("it took 20 s").into()),
            }
        })
    }

    fn lost(&self, reason: &str) -> Failure {
        Failure::PeerLost(format!(
            "nothing answers at {} ({reason}): does the other program run with --dashboard and \
             --control-token, and is --at its address?",
            self.address
        ))
    }

    async fn request(&self, request: Builder, body: Vec<u8>) -> anyhow::Result<Answer> {
        let connection = TcpStream::connect(self.address).await?;
        let connected = hyper::client::conn::http1::handshake(TokioIo::new(connection));
        let (mut sender, connection) = connected.await?;
        let connection = tokio::spawn(connection);
        let request = request
            .header(HOST, self.address.to_string())
            .header(AUTHORIZATION, self.token.to_bearer())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let collected = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
        connection.abort();
        let body = collected
            .map_err(|error| anyhow!("its answer broke off: {error}"))?
            .to_bytes();
        Ok(Answer { status, body })
    }
}

/// Returns the fields of a change, whose name is in the path.
fn content(change: &Change) -> anyhow::Result<Value> {
    let mut named = serde_json::to_value(change)?;
    Ok(named[change.name()].take())
}
