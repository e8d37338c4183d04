//! Tests of the real program's dashboard, over loopback.
//!
//! Needs a clock: a real program serves pages over a socket.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::bed::{Bed, get, run};

/// The token is made, printed by nobody, and opens the page and the metrics.
#[test]
fn a_dashboard_with_a_token_opens_by_it_alone() {
    let bed = Bed::new();
    let token = bed.text("token");
    let options = ["--dashboard", "0", "--dashboard-token-file", &token];
    let (recv, _) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &options);
    let (_, address) = recv.said.split_once("dashboard at http://").unwrap();
    let address = address.split_once('/').unwrap().0.to_owned();
    let token = std::fs::read_to_string(&token).unwrap();
    let token = token.trim();
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

#[test]
fn addresses_and_tokens_that_do_not_fit_are_refused_before_the_work_begins() {
    let bed = Bed::new();
    let short = bed.text("short");
    std::fs::write(&short, "hunter2").unwrap();
    std::fs::set_permissions(&short, Permissions::from_mode(0o600)).unwrap();
    let (key, allow) = (bed.text("receiver.key"), &*bed.sender_public);
    let listen = ["recv", "--listen", "127.0.0.1:0", "--key", &key];
    let output = bed.text("out.ts");
    for (options, code, said) in [
        (
            &["--dashboard", "0.0.0.0:0"][..],
            1,
            "add --dashboard-token-file FILE",
        ),
        (
            &["--dashboard", "0", "--dashboard-token-file", &short],
            1,
            "openssl rand -hex 16",
        ),
        (
            &["--metrics-host", "studio"],
            1,
            "is for --metrics or --dashboard",
        ),
        (&["--dashboard-token-file", &short], 2, "--dashboard <"),
    ] {
        let ended = run(&[&listen[..], &["--allow", allow], options, &[&output]].concat());
        let error = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{options:?}: {error}");
        assert!(error.contains(said), "{options:?}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
