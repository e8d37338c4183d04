//! Fingerprint of the runs that claims are judged by, for the page of results.

use std::fmt::Write;

use super::claims;

/// Trace hashes of record, which a change of any packet on the wire changes.
const TRACES: &str = include_str!("../../lab/tests/hashes.txt");

/// Returns the FNV-1a hash of the traces of record, and of the identity, scenarios and settings of
/// every claim's runs. A page that shows another one is of other runs.
pub fn fingerprint() -> String {
    let mut text = TRACES.to_owned();
    for claim in claims() {
        let _ = writeln!(text, "{} {}", claim.id, claim.criterion);
        for case in (claim.cases)(claim.subject.name()) {
            let _ = writeln!(text, "{} {}", case.name, case.key());
        }
    }
    format!("{:016x}", fnv1a(text.as_bytes()))
}

/// Returns the 64-bit FNV-1a hash.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
