//! The proxy's end of connections: from an application's request to a stream.

use core::time::Duration;
use std::io;
use std::sync::Arc;

use anabranch_net::{ByteStream, OpenError, StreamClient};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::connection::Connection;
use super::relay::{self, Answered};
use super::request::{self, Answer};
use super::{http, socks5};

/// Maximum wait of a connection for a session …
const SESSION_PATIENCE: Duration = Duration::from_secs(10);
/// … and interval between its attempts.
const SESSION_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Pause after a connection could not be accepted, for example with too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Protocol in which the applications of a listener name their target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// No protocol: the server forwards to a target of its own.
    Nothing,
    /// SOCKS5.
    Socks5,
    /// HTTP to a proxy.
    Http,
}

/// Carries all connections of a listener.
pub async fn accept_all(listener: TcpListener, protocol: Protocol, client: Arc<StreamClient>) {
    loop {
        match listener.accept().await {
            Ok((connection, _)) => {
                let client = Arc::clone(&client);
                let connection = Connection::System(connection);
                // The two ends of a broken connection notice it themselves.
                tokio::spawn(async move { carry(connection, protocol, &client).await });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

pub(super) async fn carry(
    mut connection: Connection,
    protocol: Protocol,
    client: &StreamClient,
) -> io::Result<()> {
    connection.set_up()?;
    match protocol {
        Protocol::Nothing => forward(connection, client).await,
        Protocol::Socks5 => match request::in_time(socks5::target(&mut connection)).await {
            Ok(target) => connect(connection, client, &Wanted::Socks5(target)).await,
            Err(_) => relay::close_after_answer(connection).await,
        },
        Protocol::Http => match http::wanted(&mut connection).await {
            Ok(request) => connect(connection, client, &Wanted::Http(request)).await,
            Err(_) => relay::close_after_answer(connection).await,
        },
    }
}

/// Request of an application.
#[derive(Debug)]
enum Wanted {
    /// Host and port.
    Socks5(String),
    Http(http::Wanted),
}

impl Wanted {
    fn target(&self) -> &str {
        match self {
            Wanted::Socks5(target) => target,
            Wanted::Http(request) => &request.target,
        }
    }

    /// Bytes that the application has already sent to the target.
    fn head(&self) -> &[u8] {
        match self {
            Wanted::Socks5(_) => &[],
            Wanted::Http(request) => &request.head,
        }
    }

    async fn answer(&self, connection: &mut Connection, answer: Answer) -> io::Result<()> {
        match self {
            Wanted::Socks5(_) => socks5::answer(connection, answer).await,
            Wanted::Http(request) => http::answer(connection, request, answer).await,
        }
    }
}

/// Relays a connection to the server's own target. The application may send before the answer.
async fn forward(connection: Connection, client: &StreamClient) -> io::Result<()> {
    let opened = async {
        let mut stream = open(client).await?;
        stream.write_all(&request::bytes("")?).await?;
        Ok::<_, io::Error>(stream)
    };
    match opened.await {
        Ok(stream) => relay::run(connection, stream, Answered::NotYet).await,
        Err(error) => {
            connection.reset();
            Err(error)
        }
    }
}

/// Relays a connection to the requested target, and reports success or failure to the application.
async fn connect(
    mut connection: Connection,
    client: &StreamClient,
    wanted: &Wanted,
) -> io::Result<()> {
    let asked = async {
        let mut stream = open(client).await?;
        stream.write_all(&request::bytes(wanted.target())?).await?;
        let answer = Answer::read(&mut stream).await?;
        Ok::<_, io::Error>((stream, answer))
    };
    let (mut stream, answer) = match asked.await {
        Ok(asked) => asked,
        Err(error) => {
            wanted.answer(&mut connection, Answer::Unreachable).await?;
            relay::close_after_answer(connection).await?;
            return Err(error);
        }
    };
    wanted.answer(&mut connection, answer).await?;
    if answer != Answer::Connected {
        return relay::close_after_answer(connection).await;
    }
    stream.write_all(wanted.head()).await?;
    relay::run(connection, stream, Answered::Yes).await
}

/// Opens a stream, and waits for a session if there is none.
async fn open(client: &StreamClient) -> io::Result<ByteStream> {
    let patience = tokio::time::Instant::now() + SESSION_PATIENCE;
    loop {
        match client.open() {
            Ok(stream) => return Ok(stream),
            Err(error) if !is_passing(error) || tokio::time::Instant::now() >= patience => {
                return Err(io::Error::other(error));
            }
            Err(_) => tokio::time::sleep(SESSION_RETRY_INTERVAL).await,
        }
    }
}

/// Returns whether a session may come soon.
fn is_passing(error: OpenError) -> bool {
    use anabranch_net::RefusedStream::SessionOver;
    matches!(
        error,
        OpenError::NotConnected | OpenError::Refused(SessionOver)
    )
}
