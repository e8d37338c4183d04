//! Tests that judge times.

mod encoder;
#[cfg(feature = "codec")]
mod manners;
#[cfg(feature = "codec")]
mod streaming;
mod structures;
mod studio;
