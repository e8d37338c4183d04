//! Anabranch lab.
