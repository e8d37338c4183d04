//! Client that fetches the status of a program.

use core::time::Duration as StdDuration;
use std::net::SocketAddr;

use anabranch_observe::status::Status;
use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::view::Picture;

/// Longest wait for an answer.
const PATIENCE: StdDuration = StdDuration::from_secs(3);
/// Maximum size of an answer: some thousands of streams.
const MAX_BYTES: usize = 64 << 20;

pub(super) struct Client {
    runtime: Runtime,
    address: SocketAddr,
}

impl Client {
    pub(super) fn new(address: SocketAddr) -> anyhow::Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build()?;
        Ok(Client { runtime, address })
    }

    /// Fetches the status.
    ///
    /// # Errors
    /// The program cannot be reached, or its answer is not of this version.
    pub(super) fn status(&self) -> anyhow::Result<Status> {
        let bytes = self.get("/status.json")?;
        serde_json::from_slice(&bytes).context("its status is not one of this version")
    }

    /// Fetches the status of the last seconds, the newest last.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub(super) fn history(&self) -> anyhow::Result<Vec<Status>> {
        let bytes = self.get("/history.json")?;
        serde_json::from_slice(&bytes).context("its status is not one of this version")
    }

    /// Fetches the last key frame of a stream, if the program has one.
    pub(super) fn thumbnail(&self, stream: &str) -> Option<Picture> {
        // A name may contain any character.
        let name: String = stream.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let bytes = self.get(&format!("/thumbnail?stream={name}")).ok()?;
        Picture::read(&bytes)
    }

    fn get(&self, path: &str) -> anyhow::Result<Bytes> {
        self.runtime.block_on(async {
            let asked = tokio::time::timeout(PATIENCE, self.ask(path));
            asked.await.context("no answer in 3 s")?
        })
    }

    async fn ask(&self, path: &str) -> anyhow::Result<Bytes> {
        let connection = TcpStream::connect(self.address).await?;
        let connected = hyper::client::conn::http1::handshake(TokioIo::new(connection));
        let (mut sender, connection) = connected.await?;
        let connection = tokio::spawn(connection);
        let request = Request::get(path)
            .header(HOST, self.address.to_string())
            .body(Empty::<Bytes>::new())?;
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        ensure!(status == StatusCode::OK, "it answers {status}");
        let collected = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
        connection.abort();
        let body = collected.map_err(|error| anyhow::anyhow!("its answer broke off: {error}"))?;
        Ok(body.to_bytes())
    }
}
