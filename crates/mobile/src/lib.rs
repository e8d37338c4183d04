//! Senders and receivers for apps of phones, in Kotlin and Swift.
//!
//! [`anabranch_embed`] does the work; this crate gives its types the attributes from which UniFFI
//! generates bindings. `scripts/mobile.sh` writes them. An app makes and binds the sockets of paths
//! itself where the system asks for that (Android's `Network.bindSocket`), and hands their file
//! descriptors over.
//!
//! Threads: [`Sender::start`] and [`Receiver::start`] begin one each, and each listener of events
//! has one. Methods with a time limit block the caller until then, so an app calls them beside its
//! main thread.

mod error;
mod event;
mod receiver;
mod sender;
mod socket;
mod statistics;

pub use error::AnabranchError;
pub use event::{Event, EventListener, ReceiverEvent, ReceiverListener};
pub use receiver::{Receiver, Session, VideoFrame};
pub use sender::{Importance, Sender};
pub use statistics::{PathStatistics, Statistics};

uniffi::setup_scaffolding!();

/// Makes a secret key. An app keeps it where its system keeps secrets: Android's Keystore encrypts
/// it, iOS has the Keychain.
#[uniffi::export]
pub fn generate_key() -> String {
    anabranch_embed::generate_key()
}

/// Returns the public key of a secret one. The other end must know it.
///
/// # Errors
/// The text is no secret key.
#[uniffi::export]
pub fn public_key(secret: &str) -> Result<String, AnabranchError> {
    Ok(anabranch_embed::public_key(secret)?)
}
