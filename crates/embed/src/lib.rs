//! Senders and receivers for applications that contain Anabranch: the façade below the C interface
//! and below the bindings of other languages.
//!
//! Everything is a text, a number or bytes. Set-ups are texts with the keys of `anabranch send
//! --config` and `anabranch recv --config`. An application may make and bind the sockets of paths
//! itself. Errors have a code and a text.
//!
//! ```
//! use std::time::Duration;
//!
//! use anabranch_embed::{Importance, Receiver, Sender, generate_key, public_key};
//!
//! # fn main() -> Result<(), anabranch_embed::Error> {
//! let (camera, studio) = (generate_key(), generate_key());
//! let (camera_name, studio_name) = (public_key(&camera)?, public_key(&studio)?);
//! let receiver = Receiver::new(&format!(
//!     "listen = '127.0.0.1:0'\nkey = '{studio}'\nallow = ['{camera_name}']"
//! ))?;
//! receiver.start()?;
//! let address = receiver.local_address()?;
//!
//! let sender = Sender::new(&format!(
//!     "to = '{address}'\nkey = '{camera}'\npeer = '{studio_name}'\nvia = []"
//! ))?;
//! let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
//! sender.add_path("wlan0", Some(socket))?;
//! sender.start()?;
//! let session = receiver.accept(Duration::from_secs(10))?.expect("the camera comes");
//! sender.wait_connected(Duration::from_secs(10))?;
//! sender.send_frame(b"a picture", None, Importance::Key)?;
//! let frame = session.next_frame(Duration::from_secs(10))?.expect("it arrives");
//! assert_eq!(frame.bytes, b"a picture");
//! sender.close(Duration::from_secs(5))?;
//! # Ok(())
//! # }
//! ```
//!
//! # Threads
//!
//! No thread runs before `start`. [`Sender::start`] and [`Receiver::start`] begin one thread each,
//! which ends with the object, and a short one for each name that must be resolved. All methods may
//! be called by any thread. Methods with a time limit block the calling thread until then; all
//! others return at once. Those that block have twins that are `async`, under any runtime.
//!
//! The library handles no signals, prints nothing, and never ends the process.

mod carrier;
mod config;
mod error;
mod event;
mod ingest;
mod keys;
mod path_book;
mod receiver;
mod receiver_event;
mod sender;
mod session;
mod srt_url;
mod srtla;
mod statistics;
#[cfg(test)]
mod tests;
mod timing;
mod transport_stream;
mod wait;

pub use anabranch_units::Importance;
pub use error::{Error, ErrorCode};
pub use event::Event;
pub use keys::{generate_key, public_key};
pub use receiver::Receiver;
pub use receiver_event::ReceiverEvent;
pub use sender::Sender;
pub use session::Session;
pub use statistics::{PathStatistics, Statistics};

pub use anabranch_core::ReceivedFrame;
pub use anabranch_net::Network;
