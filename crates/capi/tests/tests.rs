//! All tests of this crate that are programs of their own, in one.

mod header;
