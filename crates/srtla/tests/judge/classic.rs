//! The usual algorithm of SRTLA senders: windows that only rank links.
//!
//! Each packet goes to the link with the largest `window / (packets in flight + 1)`, at once. A
//! window has 1 to 60 packets. It grows with acknowledgements while the link is full, and over
//! time, and shrinks with each packet that is reported missing. All reports are passed on. A link
//! that is silent for 4 s is not used. The steps are chosen: 0.03 packets for growth, 0.1 for a
//! loss.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Duration, Instant};

use super::bond::Bond;
use super::libsrt::word;

const TIMEOUT: Duration = Duration::from_secs(4);
const KEEPALIVES: Duration = Duration::from_secs(1);
const LEAST: f64 = 1.0;
const MOST: f64 = 60.0;

#[derive(Debug)]
struct Link {
    is_joined: bool,
    window: f64,
    in_flight: Vec<u32>,
    heard_at: Instant,
}

/// The state of a sender.
#[derive(Debug)]
pub struct Classic {
    links: Vec<Link>,
    keepalive_at: Instant,
    last_ack: u32,
    out: VecDeque<(usize, Vec<u8>)>,
    to_srt: VecDeque<Vec<u8>>,
}

impl Classic {
    fn best(&self, now: Instant) -> Option<usize> {
        fn score(link: &Link) -> f64 {
            link.window / (link.in_flight.len() + 1) as f64
        }

        let links = self.links.iter().enumerate();
        let usable = links
            .filter(|(_, link)| link.is_joined && now.saturating_since(link.heard_at) < TIMEOUT);
        let best = usable.max_by(|(_, left), (_, right)| score(left).total_cmp(&score(right)));
        best.map(|(index, _)| index)
    }

    fn on_acked(&mut self, number: u32) {
        for link in &mut self.links {
            let before = link.in_flight.len();
            link.in_flight.retain(|&flying| flying != number);
            if link.in_flight.len() < before && before as f64 > link.window {
                link.window = (link.window + 0.03).min(MOST);
            }
            link.window = (link.window + 0.001).min(MOST);
        }
    }

    fn on_nak(&mut self, number: u32) {
        for link in &mut self.links {
            if link.in_flight.contains(&number) {
                link.in_flight.retain(|&flying| flying != number);
                link.window = (link.window - 0.1).max(LEAST);
            }
        }
    }

    fn on_srt(&mut self, datagram: &[u8]) {
        match (word(datagram, 0) >> 16) as u16 {
            0x8002 => {
                if word(datagram, 1) <= self.last_ack {
                    return;
                }
                self.last_ack = word(datagram, 1);
                let next = word(datagram, 4);
                for link in &mut self.links {
                    link.in_flight.retain(|&flying| flying >= next);
                }
            }
            0x8003 => {
                let mut at = 4;
                while 4 * at < datagram.len() {
                    let marked = word(datagram, at);
                    let is_range = marked >> 31 == 1;
                    let last = word(datagram, at + usize::from(is_range));
                    let first = marked & (u32::MAX >> 1);
                    (first..=last).for_each(|number| self.on_nak(number));
                    at += 1 + usize::from(is_range);
                }
            }
            _ => {}
        }
        self.to_srt.push_back(datagram.to_vec());
    }
}

impl Bond for Classic {
    fn new(now: Instant, link_count: usize) -> Self {
        fn link(now: Instant) -> Link {
            Link {
                is_joined: false,
                window: 20.0,
                in_flight: Vec::new(),
                heard_at: now,
            }
        }
        let asks = [&[0x92, 0][..], &[5; 256]].concat();
        Classic {
            links: (0..link_count).map(|_| link(now)).collect(),
            keepalive_at: now,
            last_ack: 0,
            out: [(0, asks)].into(),
            to_srt: VecDeque::new(),
        }
    }

    fn handle_srt(&mut self, now: Instant, datagram: &[u8]) {
        let Some(index) = self.best(now) else {
            return;
        };
        let number = word(datagram, 0);
        if number >> 31 == 0 {
            self.links[index].in_flight.push(number);
        }
        self.out.push_back((index, datagram.to_vec()));
    }

    fn handle_link(&mut self, now: Instant, link: usize, datagram: &[u8]) {
        self.links[link].heard_at = now;
        match (word(datagram, 0) >> 16) as u16 {
            0x9201 => {
                let all = 0..self.links.len();
                self.out.extend(all.map(|index| (index, datagram.to_vec())));
            }
            0x9202 => self.links[link].is_joined = true,
            0x9100 => (1..datagram.len() / 4).for_each(|at| self.on_acked(word(datagram, at))),
            0x9000 => {}
            _ => self.on_srt(datagram),
        }
    }

    fn handle_time(&mut self, now: Instant) {
        if now < self.keepalive_at {
            return;
        }
        self.keepalive_at = now + KEEPALIVES;
        if self.links.iter().all(|link| !link.is_joined) {
            return;
        }
        let keepalive = [&[0x90, 0][..], &[0; 8]].concat();
        self.out
            .extend((0..self.links.len()).map(|index| (index, keepalive.clone())));
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<(usize, Vec<u8>)> {
        self.out.pop_front()
    }

    fn poll_srt(&mut self) -> Option<Vec<u8>> {
        self.to_srt.pop_front()
    }

    fn target(&self, _now: Instant) -> Option<DataRate> {
        None
    }
}
