//! Tests of the real program's dashboard, over loopback.
//!
//! Needs a clock: a real program serves pages over a socket.

use crate::bed::{Bed, get};

/// The token is made, printed by nobody, and opens the page and the metrics.
#[test]
fn a_dashboard_with_a_token_opens_by_it_alone() {
    let bed = Bed::new();
    let token = bed.text("token");
    let options = ["--dashboard", "0", "--dashboard-token-file", &token];
    let (recv, _) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &options);
    let (_, address) = recv.said.split_once("dashboard at http://").unwrap();
    let address = address.split_once('/').unwrap().0.to_owned();
    let token_file = std::fs::read_to_string(&token).unwrap();
    let token = token_file.trim();
    assert!(!recv.said.contains(token), "{}", recv.said);
    for path in ["/", "/metrics", "/live", "/status.json"] {
        assert_eq!(get(&address, path).0, 401, "{path}");
    }
    let (code, head, _) = get(&address, &format!("/?token={token}"));
    assert_eq!(code, 303, "{head}");
    let (code, _, text) = get(&address, &format!("/metrics?token={token}"));
    assert_eq!(code, 200);
    assert!(
        text.contains("anabranch_build_info{role=\"recv\""),
        "{text}"
    );
    let (_, _, words) = get(&address, &format!("/words.json?token={token}"));
    assert!(words.contains("round-trip time in milliseconds"), "{words}");
}
