//! Inputs and outputs of MPEG-TS: files, pipes, UDP, RTP, SRT, SRTLA, cameras, and helper programs
//! for other protocols and containers.
//!
//! An [`InputName`] opens an [`Input`], which returns a [`Unit`] at a time, or a
//! [`Part`] of one. An [`OutputName`] opens
//! an [`Output`], which is written until a [`Stop`](anabranch_terminal::stop::Stop) ends it.

#[cfg(feature = "codec")]
mod adaptive;
#[cfg(not(feature = "codec"))]
#[path = "no_camera.rs"]
mod adaptive;
mod address_error;
mod arrival_log;
mod blocking_file;
mod bonding;
mod causes;
mod claimed;
mod cutter;
mod encoded;
mod foreign;
mod foreign_error;
mod foreign_name;
mod growth;
mod handover;
mod input;
mod input_error;
mod limited_lines;
mod links;
mod loopback_pair;
mod muxer;
mod output;
mod output_error;
mod pace;
mod part;
mod picture_end;
mod pictures;
mod pipes;
mod playout;
mod recording;
mod recording_film;
mod recording_gaps;
mod remux;
mod retried;
pub mod rtp;
pub mod rtp_order;
mod same_user;
mod senders;
mod source;
mod spread;
mod srt;
mod srtla;
mod stream;
mod supervised;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timed_units;
mod tool_error;
mod udp_error;
mod udp_input;
mod udp_output;
mod udp_socket;
mod udp_url;
mod unit;
mod units;
mod watch;
#[cfg(test)]
mod world;

pub use address_error::{AddressError, ParameterError};
pub use bonding::{BondedSender, BondingError, Callers};
pub use encoded::{CaptureName, Encoder, sound_source, video_source};
pub use foreign_error::ForeignError;
pub use foreign_name::ForeignName;
pub use input::{Input, InputName};
pub use input_error::InputError;
pub use links::{Link, LinkQuality, Links};
pub use output::{Output, OutputName};
pub use output_error::OutputError;
pub use part::{GrowingFrame, Part};
pub use pictures::{CodedPicture, PictureReader};
pub use playout::{Piece, Playout};
pub use recording::{Rotation, check_container};
pub use remux::{RemuxError, remux};
pub use retried::{OutputEvent, RetriedOutput};
pub use srt::{ForCallers, SrtError, SrtReceiver, SrtReceivers};
pub use timed_units::TimedUnits;
pub use tool_error::ToolError;
pub use udp_error::{SocketError, UdpError};
pub use udp_url::PARAMETERS;
pub use unit::{Unit, Wanted};
pub use units::{FilmUnit, Reading, UnitSplitter};
