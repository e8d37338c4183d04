//! Parameters of a session, as the handshake carries them.

/// Length of a [`ParameterBlock`]. It is fixed, so that the length of a datagram reveals nothing
/// and a response stays shorter than its initiation.
pub const PARAMETERS_BYTES: usize = 32;

/// Parameters of a session, authenticated and sealed by the handshake, which does not read them:
/// QUIC hands TLS its transport parameters likewise (RFC 9001 §8.2). The default has only zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParameterBlock([u8; PARAMETERS_BYTES]);

impl ParameterBlock {
    /// Returns the block of these bytes.
    pub const fn new(bytes: [u8; PARAMETERS_BYTES]) -> Self {
        ParameterBlock(bytes)
    }

    /// Returns the bytes. Those of a peer may have any value.
    pub const fn as_bytes(&self) -> &[u8; PARAMETERS_BYTES] {
        &self.0
    }

    /// Returns the block at the start of `bytes`, which are at least as long.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let block = bytes.first_chunk().expect("the payload has its length");
        ParameterBlock(*block)
    }
}
