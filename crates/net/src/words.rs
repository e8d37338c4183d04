//! Texts by which users name the parts of a set-up. Command lines, files of options and programs
//! that contain the library read the same ones.

mod bitrate_range;
mod host_and_port;
mod link;
mod tcp_choice;
mod via_argument;

pub use bitrate_range::{BitrateRange, ParseBitrateRangeError};
pub use host_and_port::with_port;
pub use link::{Link, ParseLinkError};
pub use tcp_choice::{ParseTcpChoiceError, TcpChoice};
pub use via_argument::{ParseViaError, ViaArgument};
