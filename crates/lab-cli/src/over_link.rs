//! Real programs over emulated links, with a stream whose bytes can be checked.
//!
//! ```text
//! source ── UDP ─▶ programs of the near end ═ links ═ programs of the far end ── UDP ─▶ sink
//! ```

pub(crate) mod anabranch;
pub(crate) mod links;
pub(crate) mod sink;
pub(crate) mod source;
pub(crate) mod stream;
