//! Change of the sender's keys (draft-sharabayko-srt-01, §6.1.6): the next key is announced before
//! it is used.

use anabranch_units::{Duration, Instant};

use crate::crypto::Keys;
use crate::entropy::Entropy;
use crate::settings::KeyRefresh;
use crate::wire::{KeyParity, SequenceNumber};

/// Packets that one key encrypts at most: sequence numbers have 31 bits, and with the same number
/// and key two packets would have the same key stream. A buffer's packets are left for repeats.
const MAX_PACKETS: u64 = (1 << 31) - (1 << 20);
/// Least time between two announcements of a key.
const LEAST_RETRY: Duration = Duration::from_millis(100);

/// Keys of a sender, and the announcement of the next one.
#[derive(Debug)]
pub(crate) struct SendingKeys {
    keys: Keys,
    current: KeyParity,
    plan: KeyRefresh,
    /// Packets that the current key has encrypted.
    used: u64,
    announcement: Option<Announcement>,
    entropy: Entropy,
}

#[derive(Debug)]
struct Announcement {
    message: Vec<u8>,
    sent_at: Option<Instant>,
    is_acknowledged: bool,
}

impl SendingKeys {
    pub(crate) fn new(keys: Keys, plan: KeyRefresh, entropy: Entropy) -> Self {
        SendingKeys {
            current: keys.first_parity(),
            keys,
            plan,
            used: 0,
            announcement: None,
            entropy,
        }
    }

    /// Returns whether the key has encrypted as many packets as it may, and the peer has not
    /// acknowledged the next one.
    pub(crate) fn is_used_up(&self) -> bool {
        let has_next = self.announcement.as_ref();
        self.used >= MAX_PACKETS && !has_next.is_some_and(|next| next.is_acknowledged)
    }

    /// Encrypts a payload in place, and returns the key's parity.
    pub(crate) fn encrypt(&mut self, sequence: SequenceNumber, payload: &mut [u8]) -> KeyParity {
        self.advance();
        self.used += 1;
        self.keys.apply(self.current, sequence, payload);
        self.current
    }

    /// Announces the next key, or begins to use it. A key that the peer has not acknowledged is not
    /// used, unlike in libsrt: the peer could not decrypt.
    fn advance(&mut self) {
        let announced_at = self.plan.packets.saturating_sub(self.plan.announced_before);
        match &self.announcement {
            None if self.used >= announced_at => {
                self.keys.renew(self.current.other(), &mut self.entropy);
                self.announcement = Some(Announcement {
                    message: self.keys.message(),
                    sent_at: None,
                    is_acknowledged: false,
                });
            }
            Some(next) if next.is_acknowledged && self.used >= self.plan.packets => {
                self.current = self.current.other();
                self.used = 0;
                self.announcement = None;
            }
            _ => {}
        }
    }

    /// Takes the peer's answer, which repeats the announcement.
    pub(crate) fn on_response(&mut self, message: &[u8]) {
        if let Some(next) = &mut self.announcement
            && next.message == message
        {
            next.is_acknowledged = true;
        }
    }

    /// Returns the time at which the announcement leaves, again after one and a half round trips.
    pub(crate) fn announces_at(&self, rtt: Duration) -> Option<Instant> {
        let next = self.announcement.as_ref()?;
        let retry = (rtt * 3 / 2).max(LEAST_RETRY);
        let due_at = next.sent_at.map_or(Instant::ZERO, |at| at + retry);
        (!next.is_acknowledged).then_some(due_at)
    }

    /// Returns the announcement, which leaves now.
    pub(crate) fn announce(&mut self, now: Instant) -> Option<&[u8]> {
        let next = self.announcement.as_mut()?;
        next.sent_at = Some(now);
        Some(&next.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::SECRET_BYTES;
    use crate::settings::{KeyLength, Passphrase};

    #[test]
    fn section_6_1_6_a_key_is_announced_acknowledged_and_then_used() {
        fn encrypt(sending: &mut SendingKeys, count: u32) -> KeyParity {
            let mut last = KeyParity::Even;
            for number in 0..count {
                last = sending.encrypt(SequenceNumber::new(number), &mut [0; 4]);
            }
            last
        }

        let mut entropy = Entropy::new(&[3; SECRET_BYTES]);
        let passphrase = Passphrase::new("correct horse").unwrap();
        let keys = Keys::generate(&passphrase, KeyLength::Aes128, &mut entropy);
        let plan = KeyRefresh {
            packets: 10,
            announced_before: 4,
        };
        let mut sending = SendingKeys::new(keys, plan, entropy);
        let rtt = Duration::from_millis(100);
        assert_eq!(encrypt(&mut sending, 6), KeyParity::Even);
        assert_eq!(sending.announces_at(rtt), None);
        encrypt(&mut sending, 1);
        assert_eq!(sending.announces_at(rtt), Some(Instant::ZERO));
        let now = Instant::from_secs(1);
        let message = sending.announce(now).unwrap().to_vec();
        let again_at = now + Duration::from_millis(150);
        assert_eq!(sending.announces_at(rtt), Some(again_at));
        assert_eq!(
            encrypt(&mut sending, 20),
            KeyParity::Even,
            "without an answer"
        );
        sending.on_response(&[0; 4]);
        assert_eq!(encrypt(&mut sending, 1), KeyParity::Even);
        sending.on_response(&message);
        assert_eq!(sending.announces_at(rtt), None);
        assert_eq!(encrypt(&mut sending, 1), KeyParity::Odd);
        assert_eq!(encrypt(&mut sending, 9), KeyParity::Odd);
    }
    #[test]
    fn a_key_is_used_up_before_numbers_repeat() {
        let mut entropy = Entropy::new(&[3; SECRET_BYTES]);
        let passphrase = Passphrase::new("correct horse").unwrap();
        let keys = Keys::generate(&passphrase, KeyLength::Aes128, &mut entropy);
        let plan = KeyRefresh {
            packets: u64::MAX,
            announced_before: 0,
        };
        let mut sending = SendingKeys::new(keys, plan, entropy);
        sending.used = (1 << 31) - (1 << 20) - 1;
        assert!(!sending.is_used_up());
        sending.encrypt(SequenceNumber::new(0), &mut [0; 4]);
        assert!(sending.is_used_up());
        // With an acknowledged key, the next packet changes to it.
        sending.plan.packets = 10;
        sending.encrypt(SequenceNumber::new(1), &mut [0; 4]);
        let message = sending.announce(Instant::ZERO).unwrap().to_vec();
        sending.on_response(&message);
        assert!(!sending.is_used_up());
        sending.encrypt(SequenceNumber::new(2), &mut [0; 4]);
        assert_eq!(sending.used, 1);
    }
}
