//! Anabranch net.
