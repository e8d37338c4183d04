//! Tests of lists of peers.

use anabranch_net::Clock;
use anabranch_secure::SecretKey;
use anabranch_units::{Duration, Instant};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn key() -> PublicKey {
    SecretKey::generate().public_key()
}

#[test]
fn keys_have_names_or_are_their_own() {
    let key = key();
    let named: Allowed = format!("{key}=front").parse().unwrap();
    assert_eq!((named.key, named.name.as_str()), (key, "front"));
    let bare: Allowed = key.to_string().parse().unwrap();
    assert!(key.to_string().contains(bare.name.as_str()));
    for wrong in ["", "a/b", "..", "-a", "a b", "{name}", &"n".repeat(65)] {
        assert!(
            format!("{key}={wrong}").parse::<Allowed>().is_err(),
            "{wrong}"
        );
    }
}

fn list_of(texts: &[String]) -> anyhow::Result<AllowList> {
    let all = texts.iter().map(|text| text.parse().unwrap()).collect();
    AllowList::new(ListenCommand::Recv, all, None)
}

#[test]
fn names_have_limits_and_keys_that_share_them() {
    let keys = [key(), key(), key()];
    let bare: Allowed = format!("{},max=8Mbit/s", keys[0]).parse().unwrap();
    let max = Some(DataRate::from_megabits_per_second(8));
    assert_eq!(bare.limits, Limits { max, streams: None });
    let crew = list_of(&[
        format!("{}=crew,max=8Mbit/s,streams=2", keys[0]),
        format!("{}=crew", keys[1]),
        format!("{}=crew,streams=2", keys[2]),
    ])
    .unwrap();
    let name: StreamName = "crew".parse().unwrap();
    let limits = Limits {
        max,
        streams: Some(2),
    };
    assert_eq!(crew.limits_of(&name), limits);
    let limit = SessionLimit {
        peers: keys.to_vec(),
        max_sessions: 2,
    };
    assert_eq!(crew.session_limits(), [limit]);
    for wrong in [
        "max=0",
        "max=fast",
        "streams=0",
        "streams=x",
        "cap=1GB",
        "connect=x",
    ] {
        let text = format!("{}=crew,{wrong}", keys[0]);
        assert!(text.parse::<Allowed>().is_err(), "{wrong}");
    }
    let [a, b] = [&keys[0], &keys[1]];
    for (texts, part) in [
        ([format!("{a}=crew"), format!("{b}=crew")], "streams=1"),
        (
            [format!("{a}=crew,streams=1"), format!("{b}=crew,streams=2")],
            "two different limits",
        ),
    ] {
        let error = list_of(&texts).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let alone = list_of(&[format!("{a}=crew"), format!("{b}=roof")]).unwrap();
    assert_eq!(alone.session_limits(), []);
    let line = of_line(&format!("{a} crew max=8Mbit/s streams=2")).unwrap();
    assert_eq!(line.limits, limits);
}

/// A simple check would take time in proportion to the third power of the number of keys.
#[test]
fn a_thousand_keys_of_one_name_are_read_at_once() {
    let text: String = (0..1_000)
        .map(|_| format!("{} crew streams=1000\n", key()))
        .collect();
    let clock = Clock::start();
    let all = of_file("file", &text).unwrap();
    check(ListenCommand::Recv, &all).unwrap();
    let took = clock.now().saturating_since(Instant::ZERO);
    assert!(took < Duration::from_secs(1), "{took}");
}

#[test]
fn rules_are_of_a_key_and_each_command_has_its_own_limits() {
    let key = key();
    for (text, rule_count) in [
        ("=van", None),
        ("=van,connect=none", Some(0)),
        (",connect=a.b:22,connect=[fc00::/7]:*,streams=1", Some(2)),
    ] {
        let allowed: Allowed = format!("{key}{text}").parse().unwrap();
        assert_eq!(allowed.connect.map(|rules| rules.len()), rule_count);
    }
    let line = of_line(&format!("{key} van connect=10.0.0.0/8:*")).unwrap();
    assert_eq!(line.connect.map(|rules| rules.len()), Some(1));
    for (command, limit, is_known) in [
        (ListenCommand::Serve, "connect=a.b:22", true),
        (ListenCommand::Recv, "connect=a.b:22", false),
        (ListenCommand::Serve, "max=8Mbit/s", false),
        (ListenCommand::Recv, "max=8Mbit/s", true),
        (ListenCommand::Serve, "streams=1", true),
    ] {
        let allowed = format!("{key}=van,{limit}").parse().unwrap();
        let list = AllowList::new(command, vec![allowed], None);
        assert_eq!(list.is_ok(), is_known, "{command:?} {limit}");
    }
}

/// Writes a file that says to be some seconds old, since 1970.
fn write(path: &Path, text: &str, modified_s: u64) {
    std::fs::write(path, text).unwrap();
    let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(modified_s);
    let file = std::fs::File::options().append(true).open(path).unwrap();
    file.set_modified(at).unwrap();
}

#[test]
fn a_file_is_read_again_when_it_changes_and_kept_when_it_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("senders");
    let keys = [key(), key(), key()];
    let text = format!("# who\n{}  front # the first\n\n", keys[0]);
    write(&path, &text, 1);
    let fixed = vec![format!("{}=roof", keys[1]).parse().unwrap()];
    let mut list = AllowList::new(ListenCommand::Recv, fixed, Some(&path)).unwrap();
    assert_eq!(list.keys(), [keys[1], keys[0]]);
    assert_eq!(list.name_of(&keys[0]).as_str(), "front");
    assert!(!list.refresh().unwrap());
    write(&path, &format!("{} roof", keys[2]), 2);
    let error = list.refresh().unwrap_err().to_string();
    assert!(error.contains("roof"), "{error}");
    assert_eq!(list.keys(), [keys[1], keys[0]]);
    assert!(!list.refresh().unwrap(), "told once");
    write(&path, "front", 3);
    let error = format!("{:#}", list.refresh().unwrap_err());
    assert!(error.contains("line 1"), "{error}");
    write(&path, "# nobody", 4);
    assert!(list.refresh().unwrap());
    assert_eq!(list.keys(), [keys[1]]);
}

#[test]
fn a_key_that_is_added_is_in_the_file_and_let_in_even_if_it_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("senders");
    let keys = [key(), key(), key()];
    std::fs::write(&path, format!("{} front", keys[0])).unwrap();
    let mut list = AllowList::new(ListenCommand::Recv, Vec::new(), Some(&path)).unwrap();
    assert_eq!(list.add(keys[1], None).unwrap(), path);
    assert_eq!(list.keys(), keys[..2]);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, format!("{} front\n{}\n", keys[0], keys[1]));
    assert!(!list.refresh().unwrap(), "it knows its own change");
    std::fs::remove_file(&path).unwrap();
    assert!(list.add(keys[2], None).is_err());
    assert_eq!(list.keys(), keys);
}

#[test]
fn a_file_that_is_being_written_lets_go_of_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("senders");
    let keys = [key(), key()];
    // All writes are within one tick of the file system's clock.
    write(&path, "", 0);
    let mut list = AllowList::new(ListenCommand::Recv, Vec::new(), Some(&path)).unwrap();
    assert_eq!(list.keys(), [], "one may begin without senders");
    write(&path, &format!("{} front", keys[0]), 0);
    assert!(list.refresh().unwrap());
    for nothing in ["", "\n \n"] {
        write(&path, nothing, 0);
        let error = list.refresh().unwrap_err().to_string();
        assert!(error.contains("empty"), "{error}");
        assert_eq!(list.keys(), [keys[0]]);
    }
    let both = format!("{} front\n{} roof", keys[0], keys[1]);
    write(&path, &both, 0);
    assert!(list.refresh().unwrap());
    assert_eq!(list.keys(), keys);
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_that_others_may_write_lets_nobody_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("senders");
    let keys = [key(), key()];
    std::fs::write(&path, format!("{} front", keys[0])).unwrap();
    set_mode(&path, 0o666);
    let error = AllowList::new(ListenCommand::Recv, Vec::new(), Some(&path)).unwrap_err();
    assert!(format!("{error:#}").contains("chmod go-w"), "{error:#}");
    set_mode(&path, 0o600);
    let mut list = AllowList::new(ListenCommand::Recv, Vec::new(), Some(&path)).unwrap();
    std::fs::write(&path, format!("{} front\n{} roof", keys[0], keys[1])).unwrap();
    set_mode(&path, 0o622);
    assert!(list.refresh().is_err());
    assert_eq!(list.keys(), [keys[0]]);
}
