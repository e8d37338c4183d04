//! Datagrams of any protocol over all paths of a session, each worthless after a deadline.
//!
//! A [`DatagramClient`] opens the session;
//! [`StreamServer::start_with_datagrams`](crate::streams::StreamServer::start_with_datagrams)
//! accepts it. Both ends exchange datagrams by a [`DatagramChannel`].
//!
//! ```
//! use std::time::Duration;
//!
//! use anabranch::SecretKey;
//! use anabranch::datagrams::DatagramClient;
//! use anabranch::streams::StreamServer;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! let (car, server) = (SecretKey::generate(), SecretKey::generate());
//! let (car_name, server_name) = (car.public_key(), server.public_key());
//! let (server, _streams, mut accepted, _events) = StreamServer::builder()
//!     .key(server)
//!     .allow(car_name)
//!     .listen("127.0.0.1:0")
//!     .start_with_datagrams(Duration::from_millis(300))?;
//! let (client, _events) = DatagramClient::builder()
//!     .key(car)
//!     .peer(server_name)
//!     .to(server.local_addr())
//!     .deadline(Duration::from_millis(300))
//!     .connect_async()
//!     .await?;
//!
//! client.channel().send("position".into());
//! let peer = accepted.recv().await.ok_or("the server is over")?;
//! assert_eq!(peer.channel.recv().await.as_deref(), Some(b"position".as_slice()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use anabranch_net::{
    AcceptedDatagrams, DEFAULT_DATAGRAM_DEADLINE, DatagramChannel, DatagramClient, DatagramOptions,
    MAX_UNDIVIDED_BYTES, datagram_transport,
};
