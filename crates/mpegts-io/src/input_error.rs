//! Errors of inputs.

use std::io;

#[cfg(feature = "codec")]
use anabranch_video::encoder::EncodeError;

use super::foreign_error::ForeignError;
use super::remux::RemuxError;
use super::tool_error::ToolError;
use super::udp_error::UdpError;

/// Reasons for which an input was not opened, or ended before its time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A UDP input was not opened.
    #[error(transparent)]
    Udp(#[from] UdpError),
    /// An input by another protocol was not opened.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// A helper program failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A file was not converted.
    #[error(transparent)]
    Remux(#[from] RemuxError),
    /// The name of the built-in camera lacks its colon, and no file has that name.
    #[error("there is no file test: the built-in camera is called test:")]
    NoTestFile(#[source] io::Error),
    /// The input was not opened.
    #[error("cannot open {name}")]
    Open {
        /// Name of the input.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The input cannot be read.
    #[error("cannot read {name}")]
    Read {
        /// Name of the input.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The converted file cannot be read.
    #[error("cannot read from ffmpeg")]
    RemuxedOutput(#[source] io::Error),
    /// `ffmpeg` has no output that can be read.
    #[error("ffmpeg has no standard output")]
    NoRemuxedOutput,
    /// The input is an elementary stream without times.
    #[error(
        "{name} is a stream of HEVC or MPEG video without times: put `ffmpeg -i - \
         -c copy -bsf:v setts=ts=N*DURATION -f mpegts - |` before anabranch"
    )]
    Untimed {
        /// Name of the input.
        name: String,
    },
    /// The input has another format.
    #[error(
        "{name} is neither MPEG-TS nor an H.264 byte stream: put `ffmpeg -i - \
         -c copy -f mpegts - |` before anabranch"
    )]
    OtherFormat {
        /// Name of the input.
        name: String,
    },
    /// The built-in camera is not part of this build.
    #[error(
        "this build is without test:, the built-in camera: it was built without the cargo \
         feature `codec`"
    )]
    NoCamera,
    /// The encoder of the built-in camera was not made.
    #[cfg(feature = "codec")]
    #[error(transparent)]
    Encoder(EncodeError),
    /// A picture of the built-in camera was not encoded.
    #[cfg(feature = "codec")]
    #[error("cannot encode the camera's picture")]
    Picture(#[source] EncodeError),
    /// Units were not converted to MPEG-TS, or the system lacks a descriptor.
    #[error(transparent)]
    System(#[from] io::Error),
}
