//! What is sent, and where what is received goes.

mod adaptive;
mod input;
mod muxer;
mod output;
mod pace;
mod playout;
mod source;

pub(crate) use input::{Input, InputName, Unit};
pub(crate) use output::{Output, OutputName};
pub(crate) use playout::Playout;
pub(crate) use source::{Bytes, READ_BYTES, Source};
