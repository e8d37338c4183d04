//! The search finds planted fields, and leaves those in use.

use super::Fields;

fn fields_of(text: &str) -> Fields {
    let mut fields = Fields::default();
    fields.add(text);
    fields
}

const STRUCT: &str = "struct Path { reported_at: u64, id: u64 }
    impl Path { fn new(id: u64) -> Path { Path { reported_at: 0, id } } }";

#[test]
fn a_time_that_is_compared_and_never_set_is_found() {
    let read = "fn is_due(path: &Path) -> bool { path.reported_at + path.id < 9 }";
    let fields = fields_of(&format!("{STRUCT} {read}"));
    assert_eq!(fields.unset(), ["Path::reported_at"]);
    assert!(fields.unread().is_empty());
}

#[test]
fn a_time_that_is_set_and_never_read_is_found() {
    for set in [
        "path.reported_at = 5",
        "path.reported_at += path.id",
        "(path.reported_at, _) = (path.id, 1)",
    ] {
        let fields = fields_of(&format!("{STRUCT} fn set(path: &mut Path) {{ {set}; }}"));
        assert!(fields.unset().is_empty(), "{set}");
        let found = "Path::reported_at".to_owned();
        assert!(fields.unread().contains(&found), "{set}");
    }
}

#[test]
fn uses_that_may_be_of_both_kinds_count_as_both() {
    for both in [
        "path.reported_at.clone_from(&path.id)",
        "core::mem::swap(&mut path.reported_at, &mut path.id)",
        "let Path { reported_at, id } = path",
        "tend!(path.reported_at, path.id)",
        "path.reported_at[3] = path.id",
    ] {
        let fields = fields_of(&format!("{STRUCT} fn tend(path: &mut Path) {{ {both}; }}"));
        assert!(fields.unset().is_empty(), "{both}");
        assert!(fields.unread().is_empty(), "{both}");
    }
}

#[test]
fn two_constants_are_two_values() {
    let other = "const FIRST: Path = Path { reported_at: 7, id: 0 };
        fn is_due(path: &Path) -> bool { path.reported_at < path.id }";
    assert!(fields_of(&format!("{STRUCT} {other}")).unset().is_empty());
    let derived = STRUCT.replace("struct", "#[derive(Default)] struct");
    let first = "const FIRST: Path = Path { reported_at: 7, id: 0 };";
    assert!(fields_of(&format!("{derived} {first}")).unset().is_empty());
}
