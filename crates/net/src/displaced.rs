//! Displaced sessions, whose place another session has taken. Their senders are notified if they
//! still send.
//!
//! A sender that was cut off while another program took over does not know of it. Without a notice
//! it would ask for a new session, and the two would displace each other for ever.

use std::collections::VecDeque;

use anabranch_core::REPLACED_NOTICE;
use anabranch_secure::{PROTECTION_OVERHEAD_BYTES, Session};
use anabranch_units::{Duration, Ecn, Instant};

use crate::port::Port;
use crate::socket::{Arrival, Batch};

/// Number of remembered sessions, the newest, about 10 kB each.
const MAX_SESSIONS: usize = 16;
/// Least time between notices to a sender, of which many datagrams may be in flight. Chosen.
const NOTICE_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(crate) struct Displaced(VecDeque<Old>);

#[derive(Debug)]
struct Old {
    session: Session,
    next_notice_at: Instant,
}

impl Displaced {
    #[cfg(feature = "testing")]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn push(&mut self, session: Session) {
        if self.0.len() == MAX_SESSIONS {
            self.0.pop_front();
        }
        self.0.push_back(Old {
            session,
            next_notice_at: Instant::ZERO,
        });
    }

    /// Answers a datagram of one of these sessions. Returns whether it is addressed to one.
    pub(crate) fn answer(
        &mut self,
        now: Instant,
        index: Option<u32>,
        arrival: &Arrival,
        datagram: &mut [u8],
        ports: &[Port],
    ) -> bool {
        let mut all = self.0.iter_mut();
        let Some(old) = all.find(|old| index == Some(old.session.local_index())) else {
            return false;
        };
        if now < old.next_notice_at {
            return true;
        }
        let Ok(opened) = old.session.open(datagram) else {
            return true;
        };
        let path_id = opened.path_id;
        let mut notice = Vec::with_capacity(REPLACED_NOTICE.len() + PROTECTION_OVERHEAD_BYTES);
        let sealed = old
            .session
            .seal_append(path_id, REPLACED_NOTICE, &mut notice);
        if sealed.is_ok() {
            old.next_notice_at = now + NOTICE_INTERVAL;
            // A lost one is requested again.
            let _ = ports[arrival.socket].send(&Batch {
                to: arrival.from,
                from: arrival.to,
                ecn: Ecn::NotEct,
                bytes: &notice,
                datagram_bytes: notice.len(),
            });
        }
        true
    }
}
