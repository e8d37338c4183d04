//! Contents of conclusions (draft-sharabayko-srt-01, §4.3): latencies, keys and the reasons for
//! which a connection is refused.

use anabranch_units::Duration;

use crate::rejection::Rejection;
use crate::settings::Settings;
use crate::wire::extensions::{
    self, Extensions, HandshakeExtension, MAX_STREAM_ID_BYTES, capabilities, kinds,
};
use crate::wire::handshake::{Handshake, flags};
use crate::wire::{HEADER_BYTES, IP_AND_UDP_BYTES};

/// Version of SRT whose behaviour this implementation has: 1.5.1.
pub(crate) const SRT_VERSION: u32 = 0x01_05_01;
/// First version whose handshake has extensions: 1.3.0.
const LEAST_SRT_VERSION: u32 = 0x01_03_00;
/// Shortest and longest IP packets that are agreed on.
const MTUS: core::ops::RangeInclusive<u32> = 576..=1_500;

/// States of key material in a response (libsrt's `SRT_KM_STATE`).
const NO_SECRET: u8 = 3;
const BAD_SECRET: u8 = 4;

/// Values that both ends have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// Latency of packets that arrive at this end.
    pub(crate) receive_latency: Duration,
    /// Latency of packets that arrive at the peer.
    pub(crate) peer_latency: Duration,
    pub(crate) mtu: u32,
    pub(crate) peer_window: u32,
}

impl Agreed {
    /// Combines this end's settings with the peer's handshake: the larger latencies and the smaller
    /// packets.
    ///
    /// # Errors
    /// The peer's version is too old, it asks for a mode that is not spoken here, or its numbers
    /// make no sense.
    pub(crate) fn of(
        settings: &Settings,
        handshake: &Handshake<'_>,
        peer: &HandshakeExtension,
    ) -> Result<Self, Rejection> {
        if peer.srt_version < LEAST_SRT_VERSION {
            return Err(Rejection::Version);
        }
        if peer.capabilities & capabilities::STREAM != 0 {
            return Err(Rejection::MessageApi);
        }
        if handshake.mtu < *MTUS.start() || handshake.flow_window == 0 {
            return Err(Rejection::Rogue);
        }
        Ok(Agreed {
            receive_latency: settings.receive_latency.max(peer.peer_latency),
            peer_latency: settings.peer_latency.max(peer.receive_latency),
            mtu: handshake.mtu.min(settings.mtu).min(*MTUS.end()),
            peer_window: handshake.flow_window,
        })
    }

    pub(crate) fn max_payload_bytes(&self) -> usize {
        self.mtu as usize - IP_AND_UDP_BYTES - HEADER_BYTES
    }
}

/// Parses the extensions of a conclusion.
///
/// # Errors
/// They are malformed or missing, or ask for a mode that is not spoken here.
pub(crate) fn extensions<'a>(
    handshake: &Handshake<'a>,
) -> Result<(HandshakeExtension, Extensions<'a>), Rejection> {
    let found = Extensions::parse(handshake.extensions).ok_or(Rejection::Rogue)?;
    let other_controller = found
        .congestion
        .as_deref()
        .is_some_and(|name| name != "live");
    if other_controller {
        return Err(Rejection::Congestion);
    }
    if found.has_filter {
        return Err(Rejection::Filter);
    }
    if found.has_group {
        return Err(Rejection::Group);
    }
    match found.handshake {
        Some(its) if handshake.extension_field & flags::HANDSHAKE != 0 => Ok((its, found)),
        _ => Err(Rejection::Rogue),
    }
}

/// Writes the extensions of a request, and returns them with their flags.
pub(crate) fn request(
    settings: &Settings,
    key_material: Option<&[u8]>,
    stream_id: Option<&str>,
) -> (u16, Vec<u8>) {
    let ours = HandshakeExtension {
        srt_version: SRT_VERSION,
        capabilities: capabilities::OURS,
        receive_latency: settings.receive_latency,
        peer_latency: settings.peer_latency,
    };
    let mut bytes = Vec::new();
    let mut field = flags::HANDSHAKE;
    extensions::append(&mut bytes, kinds::HANDSHAKE_REQUEST, &ours.to_bytes());
    if let Some(message) = key_material {
        field |= flags::KEY_MATERIAL;
        extensions::append(&mut bytes, kinds::KEY_MATERIAL_REQUEST, message);
    }
    let stream_id = stream_id.filter(|id| !id.is_empty() && id.len() <= MAX_STREAM_ID_BYTES);
    if let Some(id) = stream_id {
        field |= flags::CONFIG;
        extensions::append_text(&mut bytes, kinds::STREAM_ID, id);
    }
    (field, bytes)
}

/// Writes the extensions of a response, and returns them with their flags.
pub(crate) fn response(agreed: &Agreed, key_material: Option<&[u8]>) -> (u16, Vec<u8>) {
    let ours = HandshakeExtension {
        srt_version: SRT_VERSION,
        capabilities: capabilities::OURS,
        receive_latency: agreed.receive_latency,
        peer_latency: agreed.peer_latency,
    };
    let mut bytes = Vec::new();
    let mut field = flags::HANDSHAKE;
    extensions::append(&mut bytes, kinds::HANDSHAKE_RESPONSE, &ours.to_bytes());
    if let Some(message) = key_material {
        field |= flags::KEY_MATERIAL;
        extensions::append(&mut bytes, kinds::KEY_MATERIAL_RESPONSE, message);
    }
    (field, bytes)
}

/// Compares the key material of a response with that of the request.
///
/// # Errors
/// The peer has another passphrase, or one end has none.
pub(crate) fn check_response(
    requested: Option<&[u8]>,
    answered: Option<&[u8]>,
) -> Result<(), Rejection> {
    match (requested, answered) {
        (None, None) => Ok(()),
        (Some(requested), Some(answered)) if requested == answered => Ok(()),
        // A state is one word, which libsrt writes in its machine's byte order.
        (_, Some(&[BAD_SECRET, 0, 0, 0] | &[0, 0, 0, BAD_SECRET])) => Err(Rejection::BadSecret),
        (_, Some(&[NO_SECRET, 0, 0, 0] | &[0, 0, 0, NO_SECRET])) | (None, _) | (_, None) => {
            Err(Rejection::Unsecure)
        }
        _ => Err(Rejection::BadSecret),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::SequenceNumber;
    use crate::wire::handshake::{HandshakeType, VERSION_5};

    fn handshake(field: u16, extensions: &[u8]) -> Handshake<'_> {
        Handshake {
            version: VERSION_5,
            encryption: 0,
            extension_field: field,
            initial_sequence: SequenceNumber::new(0),
            mtu: 1_400,
            flow_window: 8_192,
            kind: HandshakeType::Conclusion,
            socket_id: 1,
            cookie: 2,
            peer_address: [0; 16],
            extensions,
        }
    }

    #[test]
    fn section_4_3_the_larger_latency_and_the_smaller_packet_are_agreed_on() {
        fn settings(receive: u64, peer: u64) -> Settings {
            Settings {
                receive_latency: Duration::from_millis(receive),
                peer_latency: Duration::from_millis(peer),
                ..Settings::default()
            }
        }
        let (field, bytes) = request(&settings(120, 300), None, Some("studio"));
        let caller = handshake(field, &bytes);
        let (peer, found) = extensions(&caller).unwrap();
        assert_eq!(found.stream_id.as_deref(), Some("studio"));
        let agreed = Agreed::of(&settings(200, 0), &caller, &peer).unwrap();
        let millis = Duration::from_millis;
        let latencies = (agreed.receive_latency, agreed.peer_latency);
        assert_eq!(latencies, (millis(300), millis(120)));
        assert_eq!(agreed.max_payload_bytes(), 1_356);
        let (field, bytes) = response(&agreed, Some(&[1; 4]));
        let listener = handshake(field, &bytes);
        let (peer, found) = extensions(&listener).unwrap();
        let agreed = Agreed::of(&settings(120, 300), &listener, &peer).unwrap();
        let latencies = (agreed.receive_latency, agreed.peer_latency);
        assert_eq!(latencies, (millis(120), millis(300)));
        assert_eq!(found.key_material, Some(&[1; 4][..]));
    }

    #[test]
    fn other_modes_are_refused_by_their_reasons() {
        let (field, plain) = request(&Settings::default(), None, None);
        for (kind, body, rejection) in [
            (kinds::CONGESTION, &b"elif"[..], Rejection::Congestion),
            (kinds::FILTER, b"cef,", Rejection::Filter),
            (kinds::GROUP, &[0; 8], Rejection::Group),
        ] {
            let mut bytes = plain.clone();
            extensions::append(&mut bytes, kind, body);
            let refused = extensions(&handshake(field, &bytes));
            assert_eq!(refused.err(), Some(rejection));
        }
        assert!(extensions(&handshake(field, &plain)).is_ok());
        for (field, bytes) in [(0, &plain[..]), (field, &[]), (field, &plain[..7])] {
            let refused = extensions(&handshake(field, bytes));
            assert_eq!(refused.err(), Some(Rejection::Rogue));
        }
    }

    #[test]
    fn versions_streams_and_nonsense_are_refused() {
        let good = HandshakeExtension {
            srt_version: SRT_VERSION,
            capabilities: capabilities::OURS,
            receive_latency: Duration::ZERO,
            peer_latency: Duration::ZERO,
        };
        let old = HandshakeExtension {
            srt_version: 0x01_02_ff,
            ..good
        };
        let stream = HandshakeExtension {
            capabilities: capabilities::STREAM,
            ..good
        };
        let of =
            |handshake: Handshake<'_>, peer| Agreed::of(&Settings::default(), &handshake, &peer);
        assert_eq!(of(handshake(1, &[]), old), Err(Rejection::Version));
        assert_eq!(of(handshake(1, &[]), stream), Err(Rejection::MessageApi));
        let short = Handshake {
            mtu: 50,
            ..handshake(1, &[])
        };
        assert_eq!(of(short, good), Err(Rejection::Rogue));
        let long = Handshake {
            mtu: 70_000,
            ..handshake(1, &[])
        };
        assert_eq!(of(long, good).unwrap().mtu, 1_500);
    }

    #[test]
    fn a_response_must_repeat_the_keys() {
        let message = &[7; 40][..];
        assert_eq!(check_response(None, None), Ok(()));
        assert_eq!(check_response(Some(message), Some(message)), Ok(()));
        for (requested, answered, rejection) in [
            (Some(message), Some(&[4, 0, 0, 0][..]), Rejection::BadSecret),
            (Some(message), Some(&[0, 0, 0, 4]), Rejection::BadSecret),
            (Some(message), Some(&[8; 40]), Rejection::BadSecret),
            (Some(message), Some(&[3, 0, 0, 0]), Rejection::Unsecure),
            (Some(message), None, Rejection::Unsecure),
            (None, Some(&[0, 0, 0, 0]), Rejection::Unsecure),
        ] {
            assert_eq!(check_response(requested, answered), Err(rejection));
        }
    }
}
