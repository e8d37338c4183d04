//! A caller's conclusion and its answer (draft-sharabayko-srt-01, §4.3.1.2).

use core::net::SocketAddr;

use anabranch_units::Instant;

use super::{Admit, Request};
use crate::connection::{Agreement, Cipher, Connection};
use crate::crypto::Keys;
use crate::entropy::Entropy;
use crate::negotiation::{self, Agreed};
use crate::rejection::Rejection;
use crate::sending_keys::SendingKeys;
use crate::settings::Settings;
use crate::wire::extensions::HandshakeExtension;
use crate::wire::handshake::{Handshake, HandshakeType, VERSION_5, address_field};
use crate::wire::key_material::KeyMaterial;

/// A conclusion that has been read.
#[derive(Debug)]
pub(super) struct Conclusion<'a> {
    pub(super) request: Request,
    caller: SocketAddr,
    /// Extensions, or the reason for which they are refused.
    handshake: Result<HandshakeExtension, Rejection>,
    key_material: Option<&'a [u8]>,
}

impl<'a> Conclusion<'a> {
    pub(super) fn parse(caller: SocketAddr, handshake: &Handshake<'a>) -> Self {
        let read = match handshake.version {
            VERSION_5 => negotiation::extensions(handshake),
            _ => Err(Rejection::Version),
        };
        let (handshake, stream_id, key_material) = match read {
            Ok((its, found)) => (Ok(its), found.stream_id, found.key_material),
            Err(rejection) => (Err(rejection), None, None),
        };
        Conclusion {
            request: Request {
                caller,
                stream_id,
                is_encrypted: key_material.is_some(),
            },
            caller,
            handshake,
            key_material,
        }
    }

    /// Asks for the settings of the connection.
    ///
    /// # Errors
    /// The caller is refused, or only one end has a passphrase: all that costs no key to find out.
    pub(super) fn settings(&self, admit: &mut Admit<'_>) -> Result<Settings, Rejection> {
        self.handshake?;
        let settings = admit(&self.request)?;
        if settings.passphrase.is_some() != self.key_material.is_some() {
            return Err(Rejection::Unsecure);
        }
        Ok(settings)
    }

    /// Returns the keys.
    ///
    /// # Errors
    /// One end has no passphrase, the passphrases differ, or the cipher is unknown.
    fn cipher(&self, settings: &Settings, entropy: Entropy) -> Result<Option<Cipher>, Rejection> {
        match (&settings.passphrase, self.key_material) {
            (None, None) => Ok(None),
            (Some(passphrase), Some(message)) => {
                let message = KeyMaterial::parse(message).ok_or(Rejection::Crypto)?;
                let keys = Keys::unwrap(passphrase, &message).map_err(|_| Rejection::BadSecret)?;
                // Both directions begin with the caller's key, as libsrt's do.
                let sending = SendingKeys::new(keys.clone(), settings.key_refresh, entropy);
                Ok(Some(Cipher {
                    sending,
                    receiving: keys,
                }))
            }
            _ => Err(Rejection::Unsecure),
        }
    }
}

/// The listener's part of an answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) now: Instant,
    pub(super) began_at: Instant,
    pub(super) local_id: u32,
    /// Timestamp of the conclusion.
    pub(super) timestamp: u32,
    pub(super) settings: Settings,
}

impl Answer {
    /// Returns the body of the answer, and the connection.
    ///
    /// # Errors
    /// Something cannot be agreed on.
    pub(super) fn connect(
        self,
        conclusion: &Conclusion<'_>,
        handshake: &Handshake<'_>,
        entropy: Entropy,
    ) -> Result<(Vec<u8>, Connection), Rejection> {
        let agreed = Agreed::of(&self.settings, handshake, &conclusion.handshake?)?;
        let cipher = conclusion.cipher(&self.settings, entropy)?;
        let key_material = conclusion.key_material;
        let (field, extensions) = negotiation::response(&agreed, key_material);
        let answer = Handshake {
            version: VERSION_5,
            encryption: handshake.encryption,
            extension_field: field,
            // Both directions begin with the caller's number, as libsrt's do.
            initial_sequence: handshake.initial_sequence,
            mtu: agreed.mtu,
            flow_window: self.settings.flow_window,
            kind: HandshakeType::Conclusion,
            socket_id: self.local_id,
            cookie: handshake.cookie,
            peer_address: address_field(conclusion.caller.ip()),
            extensions: &extensions,
        };
        let agreement = Agreement {
            began_at: self.began_at,
            local_id: self.local_id,
            peer_id: handshake.socket_id,
            initial_sequence: handshake.initial_sequence,
            peer_initial_sequence: handshake.initial_sequence,
            peer_timestamp: self.timestamp,
            agreed,
            cipher,
        };
        let connection = Connection::new(self.now, agreement, self.settings);
        Ok((answer.to_bytes(), connection))
    }
}

/// Returns the body of a refusal.
pub(super) fn refusal(handshake: &Handshake<'_>, rejection: Rejection) -> Vec<u8> {
    let refusal = Handshake {
        version: VERSION_5,
        encryption: 0,
        extension_field: 0,
        kind: HandshakeType::Rejected(rejection),
        extensions: &[],
        ..*handshake
    };
    refusal.to_bytes()
}
