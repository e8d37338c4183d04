//! Reliable streams of bytes over all paths of a session, as TCP connections over one.
//!
//! A [`StreamClient`] opens [`ByteStream`]s, which implement tokio's `AsyncRead` and `AsyncWrite`,
//! and a [`StreamServer`] accepts them. A lost packet holds up only the stream whose bytes it
//! carried.
//!
//! ```
//! use anabranch::SecretKey;
//! use anabranch::streams::{StreamClient, StreamServer};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! let (phone, server) = (SecretKey::generate(), SecretKey::generate());
//! let (phone_name, server_name) = (phone.public_key(), server.public_key());
//! let (server, mut accepted, _events) = StreamServer::builder()
//!     .key(server)
//!     .allow(phone_name)
//!     .listen("127.0.0.1:0")
//!     .start()?;
//! let (client, _events) = StreamClient::builder()
//!     .key(phone)
//!     .peer(server_name)
//!     .to(server.local_addr())
//!     .connect_async()
//!     .await?;
//!
//! let mut stream = client.open()?;
//! stream.write_all(b"GET /").await?;
//! stream.shutdown().await?;
//!
//! let mut request = String::new();
//! let mut peer = accepted.recv().await.ok_or("the server is over")?;
//! peer.stream.read_to_string(&mut request).await?;
//! assert_eq!(request, "GET /");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use anabranch_net::{
    Accepted, ByteStream, OpenError, RefusedStream, Started, StreamClient, StreamReader,
    StreamServer, StreamWriter, stream_transport,
};
