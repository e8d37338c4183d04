//! The links of a bonded stream by another protocol, for the statistics.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_units::{Duration, Instant};

/// Maximum number of links, equal to the limit of an SRTLA sender.
const MAX_LINKS: usize = 16;

/// Observations of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Its address at the sender, the last one that was seen.
    pub address: SocketAddr,
    /// Number of datagrams that arrived by it.
    pub datagram_count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time of the last arrival.
    pub heard_at: Instant,
    /// Whether the link is present: it was not removed for its silence.
    pub is_there: bool,
    /// Round-trip time and loss, if the protocol measures them.
    pub quality: Option<LinkQuality>,
}

/// Measurements of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkQuality {
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Its variation.
    pub rtt_variation: Duration,
    /// Share of packets that were missing when later ones arrived, in the last second.
    pub loss_ratio: f64,
    /// Packets that were missing, since the connection began.
    pub missing_packets: u64,
}

/// Present and past links. A link keeps its index while it is present.
#[derive(Clone, Debug, Default)]
pub struct Links(Arc<Mutex<Vec<Link>>>);

impl Links {
    /// Returns all links, by their indices.
    pub fn get(&self) -> Vec<Link> {
        let links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.clone()
    }

    /// Updates the present links. A new link takes the index of a past one from the same host,
    /// because a modem returns with another port. Otherwise it gets an index of its own. If there
    /// are none left, it takes that of the link that has been silent for longest.
    pub(super) fn set(&self, now: &[Link]) {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for link in &mut *links {
            let current = now.iter().find(|current| current.address == link.address);
            match current {
                Some(current) => *link = *current,
                None => link.is_there = false,
            }
        }
        for new in now {
            if links.iter().any(|link| link.address == new.address) {
                continue;
            }
            let past = links
                .iter()
                .position(|link| !link.is_there && link.address.ip() == new.address.ip());
            match past {
                Some(at) => links[at] = *new,
                None if links.len() < MAX_LINKS => links.push(*new),
                None => {
                    let gone = links.iter_mut().filter(|link| !link.is_there);
                    if let Some(oldest) = gone.min_by_key(|link| link.heard_at) {
                        *oldest = *new;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(last: u8, port: u16, second: u64) -> Link {
        Link {
            address: ([192, 0, 2, last], port).into(),
            datagram_count: second,
            bytes: 1_000 * second,
            heard_at: Instant::from_secs(second),
            is_there: true,
            quality: None,
        }
    }

    #[test]
    fn links_keep_their_places_and_their_number_is_bounded() {
        let links = Links::default();
        links.set(&[link(1, 1, 1), link(2, 1, 1)]);
        links.set(&[link(2, 1, 2)]);
        let gone = Link {
            is_there: false,
            ..link(1, 1, 1)
        };
        assert_eq!(links.get(), [gone, link(2, 1, 2)]);
        // With another port it is still the same link.
        links.set(&[link(2, 1, 3), link(1, 7, 3)]);
        assert_eq!(links.get(), [link(1, 7, 3), link(2, 1, 3)]);
        for host in 3..100 {
            links.set(&[link(host, 1, u64::from(host))]);
        }
        assert_eq!(links.get().len(), MAX_LINKS);
        let mut there = links.get();
        there.retain(|link| link.is_there);
        assert_eq!(there, [link(99, 1, 99)]);
    }
}
