//! Anabranch emu.
