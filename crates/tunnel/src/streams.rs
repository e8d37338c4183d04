//! The server's end of streams: from a request to its connection.

use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_net::Accepted;
use anabranch_observe::Transport;
use anabranch_secure::PublicKey;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::{Connection, Dialer};
use super::policy::Policy;
use super::relay::{self, Answered};
use super::request::{self, Answer};

/// Time in which a target must answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections of a key with unlimited buffers, for high rates over long round trips. Linux grants
/// up to 4 MiB for sending and 32 MiB for receiving (chosen).
const MAX_WIDE: usize = 16;

/// Serves all streams that are opened.
pub async fn serve_all(accepted: UnboundedReceiver<Accepted>, policy: Arc<Policy>) {
    serve_by(accepted, policy, Dialer::System).await;
}

pub(super) async fn serve_by(
    mut accepted: UnboundedReceiver<Accepted>,
    policy: Arc<Policy>,
    dialer: Dialer,
) {
    let wide = Arc::new(Wide::default());
    while let Some(accepted) = accepted.recv().await {
        let (policy, wide) = (Arc::clone(&policy), Arc::clone(&wide));
        let dialer = dialer.clone();
        // Both ends of a connection notice its abort.
        tokio::spawn(async move { serve(accepted, &policy, &dialer, &wide).await });
    }
}

/// Connects a stream to the target that it requests.
async fn serve(
    accepted: Accepted,
    policy: &Policy,
    dialer: &Dialer,
    wide: &Wide,
) -> io::Result<()> {
    let Accepted { peer, mut stream } = accepted;
    let asked = request::in_time(request::read(&mut stream)).await?;
    match connected(policy, dialer, peer, &asked).await {
        Ok(connection) => {
            let _place = wide.admit(&peer, &connection)?;
            stream.write_u8(Answer::Connected.to_byte()).await?;
            relay::run(connection, stream, Answered::Yes).await
        }
        Err(answer) => {
            stream.write_u8(answer.to_byte()).await?;
            stream.shutdown().await
        }
    }
}

async fn connected(
    policy: &Policy,
    dialer: &Dialer,
    peer: PublicKey,
    asked: &str,
) -> Result<Connection, Answer> {
    let request = policy.request(peer, Transport::Tcp, asked)?;
    let addresses = policy.addresses(&request).await?;
    let connection = connect(dialer, &addresses).await.map_err(|error| {
        let answer = Answer::of_error(&error);
        policy.failed(&request, answer);
        answer
    })?;
    if let Ok(address) = connection.peer_addr() {
        policy.connected(&request, address);
    }
    Ok(connection)
}

/// Connects once to the server's own target, so that a mistake shows before a proxy connects.
pub async fn try_forward(policy: Arc<Policy>) {
    let Some(target) = policy.forward() else {
        return;
    };
    let failure = match policy.forward_addresses().await {
        Ok(addresses) => connect(&Dialer::System, &addresses)
            .await
            .err()
            .map(|e| Answer::of_error(&e)),
        Err(answer) => Some(answer),
    };
    if let Some(answer) = failure {
        log::warn!(
            "--forward {target}: {answer}; it may come later, and until then each connection fails"
        );
    }
}

/// Wide connections of each key; all others are narrow.
#[derive(Debug, Default)]
struct Wide(Mutex<BTreeMap<PublicKey, Arc<Semaphore>>>);

impl Wide {
    /// Returns a place for a wide connection of the peer, or makes the connection narrow.
    fn admit(
        &self,
        peer: &PublicKey,
        connection: &Connection,
    ) -> io::Result<Option<OwnedSemaphorePermit>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|_, places| places.available_permits() < MAX_WIDE);
        let its = places
            .entry(*peer)
            .or_insert_with(|| Arc::new(Semaphore::new(MAX_WIDE)));
        let place = Arc::clone(its).try_acquire_owned().ok();
        if place.is_none() {
            connection.make_narrow()?;
        }
        Ok(place)
    }
}

/// Connects to the first of a target's addresses that answers.
async fn connect(dialer: &Dialer, addresses: &[SocketAddr]) -> io::Result<Connection> {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, dialer.dial(addresses)).await;
    let connection = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    connection.set_up()?;
    Ok(connection)
}

// Needs a clock: connections are real ones.
#[cfg(test)]
mod real_time_tests {
    use anabranch_secure::SecretKey;
    use socket2::SockRef;
    use tokio::net::TcpListener;

    use super::*;

    /// Returns the room for received bytes.
    fn buffer_bytes(connection: &Connection) -> usize {
        match connection {
            Connection::System(socket) => SockRef::from(socket).recv_buffer_size().unwrap(),
            Connection::Memory(_) => unreachable!("a real one"),
        }
    }

    #[tokio::test]
    async fn a_keys_connections_beyond_the_first_are_narrow_until_one_of_these_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap();
        let (wide, peer) = (Wide::default(), SecretKey::generate().public_key());
        let mut held = Vec::new();
        for number in 0..2 * MAX_WIDE {
            let connection = connect(&Dialer::System, &[target]).await.unwrap();
            let before = buffer_bytes(&connection);
            let place = wide.admit(&peer, &connection).unwrap();
            assert_eq!(place.is_some(), number < MAX_WIDE);
            let after = buffer_bytes(&connection);
            assert_eq!(after == before, number < MAX_WIDE, "{before}");
            held.push((place, connection));
        }
        let other = SecretKey::generate().public_key();
        let connection = connect(&Dialer::System, &[target]).await.unwrap();
        assert!(wide.admit(&other, &connection).unwrap().is_some());
        assert!(wide.admit(&peer, &connection).unwrap().is_none());
        held.remove(0);
        assert!(wide.admit(&peer, &connection).unwrap().is_some());
    }
}
