//! Live video over several networks at once: Wi-Fi and LTE, two modems, two providers.
//!
//! A [`Sender`] opens an encrypted session with a [`Receiver`] and sends frames over every path.
//! If a network fails, the frames take the others. Lost packets are sent again while they can still
//! arrive in time, and the encoder gets a target bitrate that follows the networks.
//!
//! A frame is the encoder's output for one picture (an access unit), or any other bytes that are
//! useless in part, up to 8 MiB. The library carries frames of any codec. It does not capture,
//! encode, decode or display.
//!
//! ```toml
//! [dependencies]
//! anabranch = "0.1"
//! ```
//!
//! | you want to | use |
//! |---|---|
//! | send and receive frames | [`Sender`], [`Receiver`] |
//! | carry connections, as TCP does | [`streams`] |
//! | carry datagrams, as UDP does | [`datagrams`] |
//! | drive the transport from your own event loop | [`sans_io`] |
//! | write your own algorithm | [`scheduler`], [`controller`] |
//! | predict the behaviour of a network | `laboratory`, with the feature of that name |
//! | test your programs over bad networks | `testing`, with the feature of that name |
//!
//! # Both ends in one program
//!
//! ```
//! use std::thread;
//! use std::time::Duration;
//!
//! use anabranch::{DataRate, Importance, Receiver, SecretKey, Sender};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Each end knows the other's public key.
//!     let (camera, studio) = (SecretKey::generate(), SecretKey::generate());
//!     let (camera_name, studio_name) = (camera.public_key(), studio.public_key());
//!
//!     let (receiver, sessions) = Receiver::builder()
//!         .key(studio)
//!         .allow(camera_name)
//!         .listen("127.0.0.1:0")
//!         .start()?;
//!     let address = receiver.local_addr();
//!     let studio = thread::spawn(move || {
//!         let session = sessions.recv().expect("the camera opens a session");
//!         let mut count = 0;
//!         while let Ok(frame) = session.recv_frame() {
//!             assert_eq!(frame.bytes, [count; 20_000]);
//!             count += 1;
//!         }
//!         count
//!     });
//!
//!     let (sender, _events) = Sender::builder()
//!         .key(camera)
//!         .peer(studio_name)
//!         .to(address)
//!         // Two paths. On a real machine: .via("wlan0").via("wwan0")
//!         .via("127.0.0.1")
//!         .via("127.0.0.2")
//!         .latency(Duration::from_millis(200))
//!         .bitrate(DataRate::from_megabits_per_second(1)..=DataRate::from_megabits_per_second(8))
//!         .connect()?;
//!     for number in 0..5 {
//!         let _for_the_encoder = sender.target_bitrate();
//!         sender.send(vec![number; 20_000], Importance::key_if(number == 0))?;
//!     }
//!     // Waits until the frames have arrived.
//!     println!("{}", sender.finish());
//!     assert_eq!(studio.join().expect("it does not panic"), 5);
//!     Ok(())
//! }
//! ```
//!
//! # Two programs
//!
//! These are `examples/send.rs` and `examples/receive.rs`. Start each without arguments to see its
//! public key, then the receiver, then the sender.
//!
//! ```text
//! cargo run --example receive 0.0.0.0:7000 abpub_…SENDER received.ts
//! cargo run --example send studio.example:7000 abpub_…RECEIVER film.ts wlan0 wwan0
//! ```
//!
//! ## The sender
//!
//! ```no_run
#![doc = include_str!("../examples/send.rs")]
//! ```
//!
//! ## The receiver
//!
//! ```no_run
#![doc = include_str!("../examples/receive.rs")]
//! ```
//!
//! # Keys
//!
//! Each end has a [`SecretKey`] and gives its [`PublicKey`] to the other: the builders' `peer` and
//! `allow`. [`read_or_create_key`] keeps a secret key in a file. An end that has no way to exchange
//! keys pairs once by a [`PairingCode`] ([`Receiver::start_pairing`],
//! [`ClientBuilder::pairing_code`]).
//!
//! # Latency, deadlines and lost frames
//!
//! One wish is enough: `latency` of either builder, of which the larger counts. It is the delay
//! that frames may have beyond the fastest path's delay. Lost packets are sent again while they can
//! arrive within it. A frame that cannot is given up, and [`Event::FrameDropped`] reports it; then
//! the encoder must produce a key frame. Key frames are never given up for their age. Frames arrive
//! in order, as soon as they are whole: a player adds the rest of the latency.
//!
//! # Bytes before their frame's end
//!
//! [`Sender::begin`] sends a frame while its bytes come, and a receiver that hands out parts gets
//! them in order before the frame is whole:
//!
//! ```
//! use anabranch::config::HandOut;
//! use anabranch::{Event, Importance, Receiver, SecretKey, Sender};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (camera, studio) = (SecretKey::generate(), SecretKey::generate());
//! # let (camera_name, studio_name) = (camera.public_key(), studio.public_key());
//! let (receiver, sessions) = Receiver::builder()
//!     .key(studio)
//!     .allow(camera_name)
//!     .listen("127.0.0.1:0")
//!     .configure(|config| config.transport.media.hand_out = HandOut::PartsInOrder)
//!     .start()?;
//! let (sender, _events) = Sender::builder()
//!     .key(camera)
//!     .peer(studio_name)
//!     .to(receiver.local_addr())
//!     .via("127.0.0.1")
//!     .connect()?;
//! let session = sessions.recv()?;
//!
//! let mut picture = sender.begin(Importance::Key);
//! picture.write(&[1; 5_000])?;
//! let part = loop {
//!     if let Event::FramePart(part) = session.events().recv()? {
//!         break part;
//!     }
//! };
//! assert_eq!((part.begin, part.bytes[0]), (0, 1));
//! picture.write(&[2; 700])?;
//! picture.finish()?;
//! assert_eq!(session.recv_frame()?.bytes.len(), 5_700);
//! # Ok(())
//! # }
//! ```
//!
//! # Bitrate
//!
//! [`Sender::target_bitrate`] is cheap enough to be asked for before every frame. State the
//! encoder's limits by [`bitrate`](ClientBuilder::bitrate): without them the source counts as one
//! of constant bitrate, and the sender does not look for more bandwidth.
//!
//! # Threads and tasks
//!
//! Each end runs in a thread of its own; no asynchronous runtime is needed. Sending never waits.
//! Every wait exists twice, for threads and for tasks of any runtime:
//!
//! | thread | task |
//! |---|---|
//! | [`ClientBuilder::connect`] | [`ClientBuilder::connect_async`] |
//! | [`Sender::finish`] | [`Sender::finish_async`] |
//! | [`Receptions::recv`] | [`Receptions::recv_async`] |
//! | [`Reception::recv_frame`] | [`Reception::recv_frame_async`] |
//! | [`Events::recv`] | [`Events::recv_async`] |
//!
//! # The transport without sockets
//!
//! A session is a state machine with five verbs: `handle_datagram`, `handle_timeout`,
//! `poll_transmit`, `poll_event` and `poll_timeout`. It owns no clock, socket or thread. The module
//! [`sans_io`] shows the loop.
//!
//! # Spans of time
//!
//! Builders take `std::time::Duration`. Inside, time is [`units::Instant`] and [`units::Duration`],
//! in integer nanoseconds since the origin of the end's [`Clock`]. They convert:
//! `std::time::Duration::from(ended_after)`, [`Clock::at`].
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `net` | yes | sockets: [`Sender`], [`Receiver`], [`streams`], [`datagrams`] |
//! | `laboratory` | no | `laboratory`: scenarios, simulated networks, measurements |
//!
//! # Platforms
//!
//! `net` needs a Unix system. Tests run on Linux; elsewhere, paths are bound to addresses instead
//! of interfaces. Without `net` the library needs only `std`. The minimum Rust version is 1.89.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod controller;
pub mod sans_io;
pub mod scheduler;

#[cfg(feature = "net")]
pub mod config;
#[cfg(feature = "net")]
pub mod datagrams;
#[cfg(feature = "laboratory")]
pub mod laboratory;
#[cfg(feature = "net")]
pub mod streams;

#[cfg(feature = "testing")]
pub use anabranch_net::testing;

/// Time, data rates and seeds, which all parts share.
pub use anabranch_units as units;

/// Handshake and packet protection, without sockets: for drivers of one's own.
pub use anabranch_secure as secure;

pub use anabranch_core::media::{DropReason, SendFrameError};
pub use anabranch_core::{
    ClockOffset, Frame, FrameId, FramePart, PathId, PathOptions, PathState, PathView, ReceivedFrame,
};
pub use anabranch_secure::{PairingCode, ParseKeyError, PublicKey, SecretKey};
pub use anabranch_units::{DataRate, Importance};

#[cfg(feature = "net")]
pub use anabranch_net::{
    ClientBuilder, ClientPath, Clock, ConnectError, EdgeCounters, Ended, Event, Events,
    FrameWriter, HostName, KeyFileError, Network, PathPlace, PathSnapshot, PresentPath, Reading,
    Receiver, Reception, Receptions, Refused, Remote, RemoteError, ReturnPath, Roster, SendError,
    Sender, ServerBuilder, SessionKind, SessionOver, Snapshot, StartError, Vacancy, Via, ViaError,
    interfaces, read_or_create_key,
};
