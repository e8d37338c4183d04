//! Anabranch core.
