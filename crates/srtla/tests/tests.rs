//! The integration tests of the crate, in one program: a build links once, and all tests run in
//! parallel.

mod bed;
mod judge;
mod limits;
mod sender;
