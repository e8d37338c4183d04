//! The integration tests of the crate, in one program: a build links once, and all tests run in
//! parallel.

#[cfg(feature = "codec")]
mod codec;
mod ffmpeg;
mod installed;
