//! Detection of several encoders that send to one port at the same time, which breaks their
//! pictures.
//!
//! An encoder that restarts has another port or RTP source, and the old one falls silent. Encoders
//! that send at the same time alternate.

use core::fmt;
use std::collections::VecDeque;
use std::net::SocketAddr;

use anabranch_units::{Duration, Instant};

/// Time within which alternating encoders count as simultaneous.
const WINDOW: Duration = Duration::from_secs(1);
/// Alternations that prove it. A single one may be the last datagram of an encoder, overtaken by
/// the first of its successor.
const LEAST_TURNS: u32 = 3;
/// Number of remembered encoders.
const MAX_COUNT: usize = 8;

/// Origin of an MPEG-TS datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) address: SocketAddr,
    /// Synchronization source of RTP. The same one from two addresses is one stream over two
    /// networks (SMPTE 2022-7).
    pub(super) rtp_source: Option<u32>,
}

impl Origin {
    fn is(&self, other: &Origin) -> bool {
        match (self.rtp_source, other.rtp_source) {
            (None, None) => self.address == other.address,
            (mine, its) => mine == its,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rtp_source {
            Some(source) => write!(f, "{} (RTP source {source:#010x})", self.address),
            None => self.address.fmt(f),
        }
    }
}

/// Encoders that have been heard.
#[derive(Debug, Default)]
pub(super) struct Senders {
    current: Option<Origin>,
    /// Earlier encoders, newest last, and the time of each one's last datagram.
    before: VecDeque<(Origin, Instant)>,
    heard_at: Instant,
    turns: u32,
    /// Encoders that were reported.
    reported: VecDeque<Origin>,
    warning: Option<String>,
}

impl Senders {
    /// Records a datagram that arrived at `now`.
    pub(super) fn on_datagram(&mut self, now: Instant, origin: Origin) {
        let heard_at = core::mem::replace(&mut self.heard_at, now);
        let Some(last) = self
            .current
            .replace(origin)
            .filter(|last| !last.is(&origin))
        else {
            return;
        };
        self.turns = if self
            .before
            .iter()
            .any(|(other, at)| origin.is(other) && *at + WINDOW >= now)
        {
            self.turns.saturating_add(1)
        } else {
            0
        };
        self.before.retain(|(other, _)| !other.is(&origin));
        push_bounded(&mut self.before, (last, heard_at));
        let is_reported =
            |origin: &Origin| self.reported.iter().any(|reported| reported.is(origin));
        if self.turns < LEAST_TURNS || (is_reported(&last) && is_reported(&origin)) {
            return;
        }
        self.warning = Some(format!(
            "two encoders send to this port at a time, {last} and {origin}, and their pictures \
             break up: stop one of them, or let it send to a port of its own"
        ));
        for origin in [last, origin] {
            if !self.reported.iter().any(|reported| reported.is(&origin)) {
                push_bounded(&mut self.reported, origin);
            }
        }
    }

    /// Takes the pending warning about the encoders.
    pub(super) fn warning(&mut self) -> Option<String> {
        self.warning.take()
    }
}

fn push_bounded<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == MAX_COUNT {
        list.pop_front();
    }
    list.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(port: u16) -> Origin {
        Origin {
            address: ([127, 0, 0, 1], port).into(),
            rtp_source: None,
        }
    }

    fn rtp(port: u16, source: u32) -> Origin {
        Origin {
            rtp_source: Some(source),
            ..plain(port)
        }
    }

    /// Returns the warnings about datagrams from these origins, 10 ms apart.
    fn warnings(senders: &mut Senders, origins: impl IntoIterator<Item = Origin>) -> Vec<String> {
        let mut now = senders.heard_at;
        let mut warnings = Vec::new();
        for origin in origins {
            now += Duration::from_millis(10);
            senders.on_datagram(now, origin);
            warnings.extend(senders.warning());
        }
        warnings
    }

    #[test]
    fn encoders_that_take_turns_are_reported_once_by_name() {
        let mut senders = Senders::default();
        let reported = warnings(&mut senders, [plain(1), plain(2)].repeat(50));
        assert_eq!(reported.len(), 1);
        let names = ["127.0.0.1:1", "127.0.0.1:2"];
        assert!(
            names.iter().all(|name| reported[0].contains(name)),
            "{reported:?}"
        );
        // One of them stops and comes back.
        let reported = warnings(&mut senders, [plain(1); 500]);
        assert!(reported.is_empty());
        let reported = warnings(&mut senders, [plain(1), plain(2)].repeat(50));
        assert!(reported.is_empty(), "{reported:?}");
        // A third encoder is reported.
        let reported = warnings(&mut senders, [plain(1), plain(2), plain(3)].repeat(50));
        assert_eq!(reported.len(), 1);
        assert!(reported[0].contains("127.0.0.1:3"));
    }

    #[test]
    fn rtp_encoders_differ_by_ssrc() {
        let mut senders = Senders::default();
        let reported = warnings(&mut senders, [rtp(1, 7), rtp(1, 8)].repeat(50));
        assert_eq!(reported.len(), 1);
        assert!(
            reported[0].contains("0x00000007") && reported[0].contains("0x00000008"),
            "{reported:?}"
        );
        let over_two_networks = [rtp(1, 7), rtp(2, 7)].repeat(50);
        assert!(warnings(&mut Senders::default(), over_two_networks).is_empty());
    }

    #[test]
    fn encoders_that_follow_one_another_are_no_news() {
        let restarts = (0..20).flat_map(|port| [plain(port); 10]);
        assert!(warnings(&mut Senders::default(), restarts).is_empty());
        let overtaken = [plain(1), plain(1), plain(2), plain(1), plain(2), plain(2)];
        assert!(warnings(&mut Senders::default(), overtaken).is_empty());
        // A standby encoder that takes over now and then.
        let in_turn = [[plain(1); 200], [plain(2); 200]].concat().repeat(5);
        assert!(warnings(&mut Senders::default(), in_turn).is_empty());
    }
}
