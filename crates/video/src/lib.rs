//! Anabranch video.
