//! The wire codec reads any bytes without panicking, and what it reads of a report is consistent.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| anabranch_core::fuzzing::decode_datagram(bytes));
