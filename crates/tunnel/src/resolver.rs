//! Names of targets, resolved on separate threads.
//!
//! The system's resolver blocks, and a look-up that hangs cannot be cancelled. It keeps its slot
//! until the resolver returns, long after its request has timed out. Each peer therefore has its
//! own slots, so that one peer's names do not delay another's:
//!
//! | slots | for | bound |
//! |---|---|---|
//! | first | each peer, always | 1 a peer |
//! | further | each peer | 7 a peer, 256 in all |

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anabranch_secure::PublicKey;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, oneshot};

/// Maximum parallel look-ups of a peer, beside its first. A browser requests about ten names at
/// once, and look-ups take milliseconds (chosen).
const MAX_FURTHER: usize = 7;
/// Maximum parallel look-ups of all peers, beside the first of each. A thread in the resolver takes
/// some 50 kB (chosen).
const MAX_SHARED: usize = 256;
/// Longest wait of a request for the addresses of its target, including the wait for a slot.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of a name's addresses that are used.
const MAX_ADDRESSES: usize = 32;

type Found = io::Result<Vec<SocketAddr>>;

/// Begins the look-up of a host and port. The answer comes when the resolver returns.
type LookUp = dyn Fn(String) -> io::Result<oneshot::Receiver<Found>> + Send + Sync;

/// Resolver of targets.
pub struct Resolver {
    look_up: Arc<LookUp>,
    timeout: Duration,
    shared: Arc<Semaphore>,
    desks: Mutex<BTreeMap<PublicKey, Arc<Desk>>>,
}

/// Slots of a peer.
#[derive(Debug)]
struct Desk {
    first: Arc<Semaphore>,
    further: Arc<Semaphore>,
}

/// Permission for one look-up, until its answer comes.
#[derive(Debug)]
struct Slot {
    _of_peer: OwnedSemaphorePermit,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Resolver {
    /// Creates a resolver that uses the operating system's `getaddrinfo`, with the order of RFC
    /// 6724.
    pub fn of_system() -> Self {
        Resolver::new(look_up_by_system, TIMEOUT, MAX_SHARED)
    }

    fn new(
        look_up: impl Fn(String) -> io::Result<oneshot::Receiver<Found>> + Send + Sync + 'static,
        timeout: Duration,
        max_shared: usize,
    ) -> Self {
        Resolver {
            look_up: Arc::new(look_up),
            timeout,
            shared: Arc::new(Semaphore::new(max_shared)),
            desks: Mutex::default(),
        }
    }

    /// Returns the addresses of a host and port that `peer` requests. An address needs no look-up.
    ///
    /// # Errors
    /// The name cannot be resolved, or not in time.
    pub async fn resolve(&self, peer: &PublicKey, target: &str) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = target.parse() {
            return Ok(vec![address]);
        }
        let found = tokio::time::timeout(self.timeout, self.look_up(peer, target.to_owned())).await;
        found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn look_up(&self, peer: &PublicKey, target: String) -> io::Result<Vec<SocketAddr>> {
        let slot = self.slot(peer).await.map_err(io::Error::other)?;
        let look_up = (self.look_up)(target)?;
        let (answer, answered) = oneshot::channel();
        // A task of its own, as the request may time out before.
        tokio::spawn(async move {
            let found = look_up.await;
            drop(slot);
            let _ = answer.send(found);
        });
        let found = answered.await.map_err(io::Error::other)?;
        found.map_err(io::Error::other)?
    }

    /// Waits for a slot of the peer.
    async fn slot(&self, peer: &PublicKey) -> Result<Slot, AcquireError> {
        let desk = self.desk(peer);
        let first = async {
            let of_peer = Arc::clone(&desk.first).acquire_owned().await?;
            Ok((of_peer, None))
        };
        let further = async {
            // A peer is in the shared queue at most as often as it has slots.
            let of_peer = Arc::clone(&desk.further).acquire_owned().await?;
            let of_all = Arc::clone(&self.shared).acquire_owned().await?;
            Ok((of_peer, Some(of_all)))
        };
        let (of_peer, of_all) = tokio::select! {
            biased;
            slot = first => slot?,
            slot = further => slot?,
        };
        Ok(Slot {
            _of_peer: of_peer,
            _of_all: of_all,
        })
    }

    /// Returns the peer's slots, and forgets those of peers without look-ups.
    fn desk(&self, peer: &PublicKey) -> Arc<Desk> {
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        desks.retain(|_, desk| Arc::strong_count(desk) > 1 || !desk.is_idle());
        let desk = desks.entry(*peer).or_insert_with(|| {
            Arc::new(Desk {
                first: Arc::new(Semaphore::new(1)),
                further: Arc::new(Semaphore::new(MAX_FURTHER)),
            })
        });
        Arc::clone(desk)
    }
}

/// Looks a name up in a thread.
fn look_up_by_system(target: String) -> io::Result<oneshot::Receiver<Found>> {
    let (answer, answered) = oneshot::channel();
    let resolver = thread::Builder::new().name("resolver".to_owned());
    resolver.spawn(move || {
        let resolved = target.to_socket_addrs();
        let found = resolved.map(|found| found.take(MAX_ADDRESSES).collect());
        // The program may have ended.
        let _ = answer.send(found);
    })?;
    Ok(answered)
}

impl Desk {
    fn is_idle(&self) -> bool {
        self.first.available_permits() + self.further.available_permits() == 1 + MAX_FURTHER
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use anabranch_secure::SecretKey;
    use tokio::sync::watch;

    use super::*;

    /// Time limit of look-ups that hang. Others take no time.
    const SHORT: Duration = Duration::from_secs(1);
    const LONG: Duration = Duration::from_secs(20);

    /// A name server that does not answer for names beginning with "hang" until it is released.
    struct NameServer {
        released: watch::Sender<bool>,
        hanging_count: AtomicUsize,
    }

    impl NameServer {
        fn look_up(self: &Arc<Self>, target: &str) -> oneshot::Receiver<Found> {
            let (answer, answered) = oneshot::channel();
            let is_hanging = target.starts_with("hang");
            let server = Arc::clone(self);
            tokio::spawn(async move {
                if is_hanging {
                    server.hanging_count.fetch_add(1, Ordering::Relaxed);
                    let mut released = server.released.subscribe();
                    released.wait_for(|is| *is).await.expect("it goes on");
                    server.hanging_count.fetch_sub(1, Ordering::Relaxed);
                }
                let _ = answer.send(Ok(vec![([192, 0, 2, 1], 80).into()]));
            });
            answered
        }

        fn release(&self) {
            self.released.send_replace(true);
        }

        async fn wait_for_hanging(&self, count: usize) {
            let reached = async {
                while self.hanging_count.load(Ordering::Relaxed) != count {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(LONG, reached).await.unwrap();
        }
    }

    fn resolver(timeout: Duration, max_shared: usize) -> (Arc<Resolver>, Arc<NameServer>) {
        let server = Arc::new(NameServer {
            released: watch::channel(false).0,
            hanging_count: AtomicUsize::new(0),
        });
        let its = Arc::clone(&server);
        (
            Arc::new(Resolver::new(
                move |target| Ok(its.look_up(&target)),
                timeout,
                max_shared,
            )),
            server,
        )
    }

    fn peer() -> PublicKey {
        SecretKey::generate().public_key()
    }

    /// Requests `count` names whose look-ups hang.
    fn flood(resolver: &Arc<Resolver>, peer: PublicKey, count: usize) {
        for number in 0..count {
            let resolver = Arc::clone(resolver);
            let name = format!("hang{number}.example:80");
            tokio::spawn(async move { resolver.resolve(&peer, &name).await });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn names_of_one_peer_that_hang_delay_no_other_peers() {
        let (resolver, server) = resolver(LONG, MAX_SHARED);
        // More than a shared pool of 512 threads holds.
        flood(&resolver, peer(), 600);
        server.wait_for_hanging(1 + MAX_FURTHER).await;
        let other = peer();
        for _ in 0..20 {
            let found = resolver.resolve(&other, "a.example:80");
            let found = tokio::time::timeout(LONG / 4, found).await;
            assert_eq!(found.unwrap().unwrap().len(), 1);
        }
        let hanging = server.hanging_count.load(Ordering::Relaxed);
        assert_eq!(hanging, 1 + MAX_FURTHER);
        server.release();
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_up_keeps_its_slot_after_its_request_has_timed_out() {
        let (resolver, server) = resolver(SHORT, MAX_SHARED);
        let its = peer();
        flood(&resolver, its, 1 + MAX_FURTHER);
        server.wait_for_hanging(1 + MAX_FURTHER).await;
        tokio::time::sleep(SHORT * 2).await;
        let found = resolver.resolve(&its, "a.example:80").await;
        assert_eq!(found.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let hanging = server.hanging_count.load(Ordering::Relaxed);
        assert_eq!(hanging, 1 + MAX_FURTHER, "no look-up beyond the slots");
        // An address needs no slot.
        assert!(resolver.resolve(&its, "192.0.2.7:80").await.is_ok());
        server.release();
        server.wait_for_hanging(0).await;
        assert!(resolver.resolve(&its, "a.example:80").await.is_ok());
        // Slots of peers without look-ups are forgotten.
        let forgotten = async {
            while resolver.desks.lock().unwrap().contains_key(&its) {
                let other = peer();
                assert!(resolver.resolve(&other, "a.example:80").await.is_ok());
            }
        };
        tokio::time::timeout(LONG, forgotten).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn many_peers_together_leave_each_other_peer_its_first_slot() {
        let max_shared = 10;
        let (resolver, server) = resolver(LONG, max_shared);
        for _ in 0..5 {
            flood(&resolver, peer(), 20);
        }
        server.wait_for_hanging(5 + max_shared).await;
        let other = peer();
        let found = resolver.resolve(&other, "a.example:80");
        let found = tokio::time::timeout(LONG / 4, found).await;
        assert!(found.unwrap().is_ok());
        let hanging = server.hanging_count.load(Ordering::Relaxed);
        assert_eq!(hanging, 5 + max_shared, "the total is bounded");
        server.release();
    }
}
