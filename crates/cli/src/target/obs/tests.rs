use super::*;

pub(super) const SALT: &str = "c2FsdA==";
pub(super) const CHALLENGE: &str = "Y2hhbGxlbmdl";

#[test]
fn the_proof_is_that_of_the_protocol() {
    // Python's hashlib and base64 give this value, and OBS 29 accepts it.
    let proof = "aRjSsQv+6/2EP4O5w6y0hPfDpXJ0WHgO/2EGfptPFqg=";
    assert_eq!(authentication("secretword", SALT, CHALLENGE), proof);
}

#[test]
fn a_name_has_a_password_file_and_a_profile() {
    let name: ObsName = "127.0.0.1:4455".parse().unwrap();
    assert_eq!((&*name.profile, name.password_file), ("anabranch", None));
    let name: ObsName = "127.0.0.1:4455/?password-file=/a b&profile=Low"
        .parse()
        .unwrap();
    assert_eq!(name.address, "127.0.0.1:4455");
    assert_eq!(&*name.profile, "Low");
    assert_eq!(name.password_file, Some("/a b".into()));
    assert!("127.0.0.1:4455?key=1".parse::<ObsName>().is_err());
}

#[test]
fn video_is_what_audio_and_container_leave() {
    for (target_kbit, expected) in [(2_000, 1_744), (200, MIN_VIDEO_KBIT)] {
        let target = DataRate::from_kilobits_per_second(target_kbit);
        assert_eq!(video_kbit(target, 160), expected);
    }
}

#[test]
fn a_slow_answer_is_no_lost_connection() {
    for kind in [ErrorKind::WouldBlock, ErrorKind::TimedOut] {
        let error = cause(tungstenite::Error::Io(kind.into()));
        assert!(error.is::<Slow>(), "{error:#}");
    }
    for error in [
        tungstenite::Error::Io(ErrorKind::BrokenPipe.into()),
        tungstenite::Error::ConnectionClosed,
    ] {
        let error = cause(error);
        assert!(!error.is::<Slow>() && error.to_string().contains("lost"));
    }
}
