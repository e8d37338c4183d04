//! What is sent, and where what is received goes.

mod adaptive;
mod input;
mod muxer;
mod output;
mod pace;
mod source;

pub(crate) use input::{Input, InputName, Unit};
pub(crate) use output::{Output, OutputName};
