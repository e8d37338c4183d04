//! Inputs and outputs of video, and the conversions between them.

#[cfg(feature = "codec")]
mod adaptive;
#[cfg(not(feature = "codec"))]
#[path = "io/no_camera.rs"]
mod adaptive;
mod arrival_log;
mod cutter;
mod encoded;
mod foreign;
mod input;
mod links;
mod muxer;
mod output;
mod pace;
mod patient;
mod picture_end;
mod pictures;
mod playout;
mod recording;
mod remux;
mod retried;
pub(crate) mod rtp;
pub(crate) mod rtp_order;
mod same_user;
mod senders;
mod source;
mod spread;
mod srtla;
mod stream;
mod supervised;
#[cfg(all(test, feature = "codec"))]
pub(crate) mod testing;
mod timed_units;
mod udp_input;
mod udp_output;
mod udp_socket;
mod udp_url;
mod units;
mod watch;

pub(crate) use encoded::{CaptureName, Encoder, sound_source, video_source};
pub(crate) use foreign::ForeignName;
pub(crate) use input::{Input, InputName, Unit, Wanted};
pub(crate) use links::{Link, Links};
pub(crate) use output::{Output, OutputName};
pub(crate) use pictures::{CodedPicture, PictureReader};
pub(crate) use playout::{Piece, Playout};
pub(crate) use recording::{Rotation, check_container};
pub(crate) use retried::{OutputNews, RetriedOutput};
pub(crate) use supervised::installed;
pub(crate) use udp_url::PARAMETERS;
