//! Bonding senders as the judge drives them.

use anabranch_srtla::{LinkId, LinkOptions, Sender};
use anabranch_units::{DataRate, Instant};

/// A bonding sender with links that are numbered from zero.
pub trait Bond {
    fn new(now: Instant, link_count: usize) -> Self;
    fn handle_srt(&mut self, now: Instant, datagram: &[u8]);
    fn handle_link(&mut self, now: Instant, link: usize, datagram: &[u8]);
    fn handle_time(&mut self, now: Instant);
    /// Returns the next datagram for a link.
    fn poll_transmit(&mut self, now: Instant) -> Option<(usize, Vec<u8>)>;
    /// Returns the next datagram for SRT.
    fn poll_srt(&mut self) -> Option<Vec<u8>>;
    /// Returns the bitrate for an encoder, if the sender knows one.
    fn target(&self, now: Instant) -> Option<DataRate>;
}

/// This crate's sender.
#[derive(Debug)]
pub struct Ours(pub Sender);

impl Bond for Ours {
    fn new(now: Instant, link_count: usize) -> Self {
        let mut sender = Sender::new(now, &[7; 32]);
        for _ in 0..link_count {
            sender
                .add_link(now, LinkOptions::default())
                .expect("few links");
        }
        Ours(sender)
    }

    fn handle_srt(&mut self, now: Instant, datagram: &[u8]) {
        self.0.handle_srt(now, datagram);
    }

    fn handle_link(&mut self, now: Instant, link: usize, datagram: &[u8]) {
        self.0.handle_link(now, LinkId(link as u8), datagram);
    }

    fn handle_time(&mut self, now: Instant) {
        self.0.handle_time(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(usize, Vec<u8>)> {
        let transmit = self.0.poll_transmit(now)?;
        Some((usize::from(transmit.link.0), transmit.datagram))
    }

    fn poll_srt(&mut self) -> Option<Vec<u8>> {
        self.0.poll_srt()
    }

    fn target(&self, now: Instant) -> Option<DataRate> {
        Some(self.0.target(now))
    }
}
