//! Anabranch sim.
