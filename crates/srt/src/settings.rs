//! Settings of a connection, with libsrt's defaults of live mode.

use core::fmt;

use anabranch_units::{DataRate, Duration, REPEATED_PERCENT};
use zeroize::Zeroize;

/// Shortest and longest passphrase in bytes (libsrt's `SRTO_PASSPHRASE`).
const PASSPHRASE_BYTES: core::ops::RangeInclusive<usize> = 10..=79;

/// A passphrase of 10 to 79 bytes. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Passphrase(String);

impl Drop for Passphrase {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Passphrase {
    /// Takes a passphrase; `None` if its length does not fit.
    pub fn new(text: &str) -> Option<Self> {
        let fits = PASSPHRASE_BYTES.contains(&text.len());
        fits.then(|| Passphrase(text.to_owned()))
    }

    /// Returns the text, for an owner who has to type it elsewhere.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(hidden)")
    }
}

/// Length of AES keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLength {
    /// AES-128.
    Aes128,
    /// AES-192.
    Aes192,
    /// AES-256.
    Aes256,
}

impl KeyLength {
    /// Returns the length in bytes.
    pub fn bytes(self) -> usize {
        match self {
            KeyLength::Aes128 => 16,
            KeyLength::Aes192 => 24,
            KeyLength::Aes256 => 32,
        }
    }

    /// Returns the length that has this number of bytes.
    pub fn of_bytes(bytes: usize) -> Option<Self> {
        let all = [KeyLength::Aes128, KeyLength::Aes192, KeyLength::Aes256];
        all.into_iter().find(|length| length.bytes() == bytes)
    }
}

/// Highest rate at which packets leave, headers included (§5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxBandwidth {
    /// A constant rate. The default is libsrt's "infinite" one.
    Rate(DataRate),
    /// The measured rate of the input, and a percentage of it for retransmissions.
    Input {
        /// Percentage beside the input; libsrt's default is 25.
        overhead_percent: u32,
    },
}

impl MaxBandwidth {
    /// Returns the percentage of the input that retransmissions may have.
    pub(crate) fn repeated_percent(self) -> u32 {
        match self {
            MaxBandwidth::Rate(_) => REPEATED_PERCENT,
            MaxBandwidth::Input { overhead_percent } => overhead_percent,
        }
    }
}

/// Time of keys, in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRefresh {
    /// Packets that are encrypted by one key.
    pub packets: u64,
    /// Packets before the change at which the next key is announced.
    pub announced_before: u64,
}

/// Settings of one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Least delay between a packet's origin and its delivery here.
    pub receive_latency: Duration,
    /// Least such delay at the peer.
    pub peer_latency: Duration,
    /// Passphrase; without one, nothing is encrypted.
    pub passphrase: Option<Passphrase>,
    /// Length of keys that this end makes; `None`: the listener's wish, or AES-128.
    pub key_length: Option<KeyLength>,
    /// Change of keys.
    pub key_refresh: KeyRefresh,
    /// Pace of packets.
    pub max_bandwidth: MaxBandwidth,
    /// Most packets in flight and in a buffer.
    pub flow_window: u32,
    /// Longest IP packet in bytes.
    pub mtu: u32,
    /// Silence of the peer after which the connection is over.
    pub peer_idle_timeout: Duration,
    /// Time for which a caller tries to connect.
    pub connect_timeout: Duration,
    /// Whether a listener gives the place of other connections to this one, and this one's to none:
    /// an input's.
    pub keeps_place: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            receive_latency: Duration::from_millis(120),
            peer_latency: Duration::ZERO,
            passphrase: None,
            key_length: None,
            key_refresh: KeyRefresh {
                packets: 1 << 24,
                announced_before: 1 << 12,
            },
            max_bandwidth: MaxBandwidth::Rate(DataRate::from_megabits_per_second(1_000)),
            flow_window: 8_192,
            mtu: 1_500,
            peer_idle_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(3),
            keeps_place: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passphrases_have_a_length_and_are_never_shown() {
        for (length, fits) in [(9, false), (10, true), (79, true), (80, false)] {
            assert_eq!(Passphrase::new(&"x".repeat(length)).is_some(), fits);
        }
        let settings = Settings {
            passphrase: Passphrase::new("correct horse"),
            ..Settings::default()
        };
        assert!(!format!("{settings:?}").contains("horse"));
    }
}
