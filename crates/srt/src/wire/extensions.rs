//! Extensions of a conclusion (draft-sharabayko-srt-01, §3.2.1.1 to §3.2.1.3).

use anabranch_units::Duration;

use super::handshake::swap_words;

/// Longest stream ID in bytes (libsrt's `SRTO_STREAMID`).
pub const MAX_STREAM_ID_BYTES: usize = 512;

/// Types of extensions; those of key material are also control packets.
pub mod kinds {
    /// Handshake request.
    pub const HANDSHAKE_REQUEST: u16 = 1;
    /// Handshake response.
    pub const HANDSHAKE_RESPONSE: u16 = 2;
    /// Key material request.
    pub const KEY_MATERIAL_REQUEST: u16 = 3;
    /// Key material response.
    pub const KEY_MATERIAL_RESPONSE: u16 = 4;
    /// Stream ID.
    pub const STREAM_ID: u16 = 5;
    /// Name of the congestion controller.
    pub const CONGESTION: u16 = 6;
    /// Settings of a packet filter, such as FEC.
    pub const FILTER: u16 = 7;
    /// Membership in a bonding group.
    pub const GROUP: u16 = 8;
}

/// Capabilities in a handshake request or response (§3.2.1.1.1).
pub mod capabilities {
    /// The sender of the handshake sends with timestamps for the receiver's playout.
    pub const TSBPD_SENDER: u32 = 1;
    /// It receives so.
    pub const TSBPD_RECEIVER: u32 = 2;
    /// It knows encryption.
    pub const CRYPT: u32 = 4;
    /// It drops packets that are too late.
    pub const TOO_LATE_DROP: u32 = 8;
    /// It repeats negative acknowledgements.
    pub const PERIODIC_NAK: u32 = 0x10;
    /// It marks retransmissions.
    pub const RETRANSMISSION_FLAG: u32 = 0x20;
    /// It sends a stream of bytes instead of messages.
    pub const STREAM: u32 = 0x40;
    /// Capabilities of this implementation.
    pub const OURS: u32 =
        TSBPD_SENDER | TSBPD_RECEIVER | CRYPT | TOO_LATE_DROP | PERIODIC_NAK | RETRANSMISSION_FLAG;
}

/// Handshake request or response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeExtension {
    /// Version of SRT, as 0x010501.
    pub srt_version: u32,
    /// Capabilities of the sender of this packet.
    pub capabilities: u32,
    /// Latency of the sender of this packet as a receiver, in whole milliseconds.
    pub receive_latency: Duration,
    /// Latency that it asks of its peer.
    pub peer_latency: Duration,
}

impl HandshakeExtension {
    fn parse(body: &[u8]) -> Option<Self> {
        let [version, capabilities, latency] = words(body)?;
        Some(HandshakeExtension {
            srt_version: version,
            capabilities,
            receive_latency: Duration::from_millis(u64::from(latency >> 16)),
            peer_latency: Duration::from_millis(u64::from(latency & 0xffff)),
        })
    }

    /// Returns the extension's body.
    pub fn to_bytes(self) -> Vec<u8> {
        fn millis(latency: Duration) -> u32 {
            latency.as_millis().min(u64::from(u16::MAX)) as u32
        }
        let latency = millis(self.receive_latency) << 16 | millis(self.peer_latency);
        let words = [self.srt_version, self.capabilities, latency];
        words.into_iter().flat_map(u32::to_be_bytes).collect()
    }
}

/// Extensions that this implementation reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions<'a> {
    /// Request or response of the handshake.
    pub handshake: Option<HandshakeExtension>,
    /// Body of the key material request or response.
    pub key_material: Option<&'a [u8]>,
    /// Stream ID.
    pub stream_id: Option<String>,
    /// Name of the congestion controller, such as `live`.
    pub congestion: Option<String>,
    /// Whether a packet filter is asked for.
    pub has_filter: bool,
    /// Whether the connection is a member of a group.
    pub has_group: bool,
}

impl<'a> Extensions<'a> {
    /// Parses all extensions; `None` if one is malformed.
    pub fn parse(mut bytes: &'a [u8]) -> Option<Self> {
        let mut found = Extensions::default();
        while !bytes.is_empty() {
            let ([kind_high, kind_low, words_high, words_low], rest) = bytes.split_first_chunk()?;
            let length = 4 * usize::from(u16::from_be_bytes([*words_high, *words_low]));
            let (body, rest) = rest.split_at_checked(length)?;
            found.take(u16::from_be_bytes([*kind_high, *kind_low]), body)?;
            bytes = rest;
        }
        Some(found)
    }

    fn take(&mut self, kind: u16, body: &'a [u8]) -> Option<()> {
        match kind {
            kinds::HANDSHAKE_REQUEST | kinds::HANDSHAKE_RESPONSE => {
                self.handshake = Some(HandshakeExtension::parse(body)?);
            }
            kinds::KEY_MATERIAL_REQUEST | kinds::KEY_MATERIAL_RESPONSE => {
                self.key_material = Some(body);
            }
            kinds::STREAM_ID => self.stream_id = Some(text(body)?),
            kinds::CONGESTION => self.congestion = Some(text(body)?),
            kinds::FILTER => self.has_filter = true,
            kinds::GROUP => self.has_group = true,
            // Later versions may have others (§3.2.1).
            _ => {}
        }
        Some(())
    }
}

/// Appends an extension whose body is whole words.
pub fn append(bytes: &mut Vec<u8>, kind: u16, body: &[u8]) {
    bytes.extend(kind.to_be_bytes());
    bytes.extend(((body.len() / 4) as u16).to_be_bytes());
    bytes.extend(body);
}

/// Appends an extension of text: its words are in little-endian order and padded with zeros
/// (§3.2.1.3).
pub fn append_text(bytes: &mut Vec<u8>, kind: u16, text: &str) {
    let mut body = text.as_bytes().to_vec();
    body.resize(text.len().next_multiple_of(4), 0);
    swap_words(&mut body);
    append(bytes, kind, &body);
}

fn text(body: &[u8]) -> Option<String> {
    if body.len() > MAX_STREAM_ID_BYTES {
        return None;
    }
    let mut bytes = body.to_vec();
    swap_words(&mut bytes);
    let length = bytes.iter().rposition(|&byte| byte != 0);
    bytes.truncate(length.map_or(0, |last| last + 1));
    String::from_utf8(bytes).ok()
}

fn words<const COUNT: usize>(body: &[u8]) -> Option<[u32; COUNT]> {
    let mut words = body.chunks_exact(4).map(|word| {
        let word = word.first_chunk();
        word.map_or(0, |word| u32::from_be_bytes(*word))
    });
    let mut read = [0; COUNT];
    for place in &mut read {
        *place = words.next()?;
    }
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_3_2_1_3_text_has_words_in_little_endian_order() {
        let mut bytes = Vec::new();
        append_text(&mut bytes, kinds::STREAM_ID, "abcdef");
        assert_eq!(
            bytes,
            [0, 5, 0, 2, b'd', b'c', b'b', b'a', 0, 0, b'f', b'e']
        );
        let found = Extensions::parse(&bytes).unwrap();
        assert_eq!(found.stream_id.as_deref(), Some("abcdef"));
    }

    #[test]
    fn all_extensions_are_found_and_malformed_ones_refused() {
        let handshake = HandshakeExtension {
            srt_version: 0x01_05_01,
            capabilities: capabilities::OURS,
            receive_latency: Duration::from_millis(120),
            peer_latency: Duration::from_millis(70),
        };
        let mut bytes = Vec::new();
        append(&mut bytes, kinds::HANDSHAKE_REQUEST, &handshake.to_bytes());
        append(&mut bytes, kinds::KEY_MATERIAL_REQUEST, &[9; 8]);
        append_text(&mut bytes, kinds::CONGESTION, "live");
        append(&mut bytes, 99, &[0; 4]);
        let found = Extensions::parse(&bytes).unwrap();
        assert_eq!(found.handshake, Some(handshake));
        assert_eq!(found.key_material, Some(&[9; 8][..]));
        assert_eq!(found.congestion.as_deref(), Some("live"));
        assert!(!found.has_filter && !found.has_group && found.stream_id.is_none());
        assert_eq!(Extensions::parse(&bytes[..bytes.len() - 1]), None);
        assert_eq!(
            Extensions::parse(&[0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]),
            None
        );
        assert_eq!(
            Extensions::parse(&[0, 5, 0, 1, 0xff, 0xff, 0xff, 0xff]),
            None
        );
        let long = [&[0, 5, 0, 200][..], &[b'a'; 800]].concat();
        assert_eq!(Extensions::parse(&long), None);
    }
}
