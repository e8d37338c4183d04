//! Anabranch secure.
