//! The server's end of streams: from a request to the connection that it asks for.

use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_net::Accepted;
use anabranch_secure::PublicKey;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;

use super::journal::Transport;
use super::policy::Policy;
use super::relay::{self, Answered};
use super::request::{self, Answer};

/// Time in which a target must answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves all streams that are opened.
pub(crate) async fn serve_all(mut accepted: UnboundedReceiver<Accepted>, policy: Arc<Policy>) {
    while let Some(accepted) = accepted.recv().await {
        let policy = Arc::clone(&policy);
        // A connection that breaks off is its two ends' concern.
        tokio::spawn(async move { serve(accepted, &policy).await });
    }
}

/// Connects a stream to the target that it asks for.
async fn serve(accepted: Accepted, policy: &Policy) -> io::Result<()> {
    let Accepted { peer, mut stream } = accepted;
    let asked = request::in_time(request::read(&mut stream)).await?;
    match connected(policy, peer, &asked).await {
        Ok(connection) => {
            stream.write_u8(Answer::Connected.to_byte()).await?;
            relay::run(connection, stream, Answered::Yes).await
        }
        Err(answer) => {
            stream.write_u8(answer.to_byte()).await?;
            stream.shutdown().await
        }
    }
}

async fn connected(policy: &Policy, peer: PublicKey, asked: &str) -> Result<TcpStream, Answer> {
    let request = policy.request(peer, Transport::Tcp, asked)?;
    let addresses = policy.addresses(&request).await?;
    let connection = connect(&addresses).await;
    let connection = connection.map_err(|error| Answer::of_error(&error))?;
    if let Ok(address) = connection.peer_addr() {
        policy.connected(&request, address);
    }
    Ok(connection)
}

/// Connects to the first of a target's addresses that answers.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(addresses)).await;
    let connection = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    relay::set_up(&connection)?;
    Ok(connection)
}
