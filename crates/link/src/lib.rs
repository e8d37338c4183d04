//! Anabranch link.
