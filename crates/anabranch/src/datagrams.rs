//! Datagrams of any protocol over all paths of a session, each worthless after a deadline.
//!
//! A [`DatagramClient`] opens the session;
//! [`StreamServer::start_with_datagrams`](crate::streams::StreamServer::start_with_datagrams)
//! accepts it. Both ends exchange datagrams by a [`DatagramChannel`].
//!
//! ```
//! use anabranch::config::ClientConfig;
//! use anabranch::datagrams::datagram_transport;
//! use anabranch::units::Duration;
//! use anabranch::{ClientPath, SecretKey, Via};
//!
//! let path = ClientPath::new(Via::DefaultRoute, "vpn.example:7000".parse()?);
//! let peer = SecretKey::generate().public_key();
//! let mut config = ClientConfig::new(SecretKey::generate(), peer, vec![path]);
//! config.transport = datagram_transport(Duration::from_millis(300));
//! // DatagramClient::start(config) opens the session.
//! assert_eq!(config.transport.media.deadline, Duration::from_millis(300));
//! # Ok::<(), anabranch::RemoteError>(())
//! ```

pub use anabranch_net::{
    AcceptedDatagrams, DatagramChannel, DatagramClient, DatagramOptions, MAX_UNDIVIDED_BYTES,
    datagram_transport,
};
