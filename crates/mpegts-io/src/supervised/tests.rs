use super::*;
use crate::loopback_pair::loopback_pair;

pub(super) fn shell(script: String) -> Tool {
    Tool {
        program: "sh",
        label: None,
        package: "dash",
        arguments: vec!["-c".into(), script.into()],
        output: None,
        input: None,
        hopeless: None,
        secrets: vec!["correct horse".to_owned()],
        boring: &["Media path"],
        instead: &[("Input/output error", "the publisher has gone")],
    }
}

#[test]
fn a_tool_that_is_missing_is_an_error_with_its_package() {
    let tool = Tool {
        program: "no-such-program",
        package: "no-such-package",
        ..shell(String::new())
    };
    let error = Supervised::start(tool, "srt://").unwrap_err().to_string();
    for part in ["srt://", "no-such-program", "Debian: no-such-package"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_tool_without_hope_ends_its_input_and_is_not_started_again() {
    let [ours, theirs] = loopback_pair().unwrap();
    let tool = Tool {
        output: Some(theirs),
        hopeless: Some(3),
        ..shell("printf media; exit 3".to_owned())
    };
    let supervised = Supervised::start(tool, "a test").unwrap();
    let mut buffer = [0; 16];
    for expected in [&b"media"[..], b""] {
        let len = ours.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], expected);
    }
    assert!(supervised.has_given_up());
}

#[test]
fn lines_are_shown_once_in_a_while_and_not_too_many() {
    let mut shown = Shown::default();
    let at = Instant::from_secs;
    assert!(shown.should_show(at(0), "caller 7 was refused"));
    assert!(!shown.should_show(at(29), "caller 8 was refused"));
    assert!(shown.should_show(at(30), "caller 9 was refused"));
    // A stream key, which the publisher chooses.
    let keys = (0..10_000).map(|number| {
        let key =
            [number / 676, number / 26, number].map(|digit| char::from(b'a' + (digit % 26) as u8));
        format!("no such key: {}", String::from_iter(key))
    });
    let shown_count = keys.filter(|line| shown.should_show(at(31), line)).count();
    assert_eq!(shown_count, MAX_SHOWN - 1);
    assert!(shown.should_show(at(61), "caller 9 was refused"));
}

#[test]
fn secrets_and_noise_are_hidden() {
    let tool = shell(String::new());
    assert_eq!(tool.shown("Media path: 'srt://'"), None);
    assert_eq!(tool.shown(""), None);
    // FFmpeg prints this at the end of each publisher.
    let gone = tool.shown("rtmp://127.0.0.1/live: Input/output error");
    assert_eq!(gone.as_deref(), Some("the publisher has gone"));
    let shown = tool.shown("cannot use 'correct horse' as key");
    assert_eq!(shown.unwrap(), "cannot use '…' as key");
}
