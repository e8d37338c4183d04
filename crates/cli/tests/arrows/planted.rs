//! Violations that the guard must find, and uses that are none.

use super::{Crate, arrows_up, circles};

/// Returns the arrows of a crate of these files, as `from -> to`.
fn arrows_of(files: &[(&str, &str)]) -> Vec<String> {
    let arrows = Crate::new(files.iter().copied()).arrows();
    let pairs = arrows
        .iter()
        .flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    pairs.map(|(from, to)| format!("{from} -> {to}")).collect()
}

/// Returns the circles of a crate of these files.
fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let circles = circles(&Crate::new(files.iter().copied()).arrows());
    circles
        .into_iter()
        .map(|circle| circle.into_iter().collect())
        .collect()
}

#[test]
fn a_planted_circle_is_found() {
    let files = [
        ("lib.rs", "mod wire; mod session;"),
        (
            "session.rs",
            "use crate::wire::decode; pub(crate) struct Session;",
        ),
        (
            "wire.rs",
            "pub(crate) fn decode(_: crate::session::Session) {}",
        ),
    ];
    assert_eq!(circles_of(&files), [["session", "wire"]]);
    assert_eq!(circles_of(&files[..2]), [[""; 0]; 0]);
}

#[test]
fn a_circle_through_re_exports_and_folders_is_found() {
    let files = [
        ("lib.rs", "mod config; mod control; mod recovery;"),
        ("config.rs", "use crate::control::Controller;"),
        (
            "control.rs",
            "mod controller; pub use controller::Controller; use crate::recovery;
            fn on(feedback: &recovery::Feedback) {}",
        ),
        (
            "control/controller.rs",
            "use super::on; pub struct Controller;",
        ),
        (
            "recovery.rs",
            "mod mtu; pub use mtu::Search; pub struct Feedback; use self::mtu::Mtu;",
        ),
        (
            "recovery/mtu.rs",
            "use crate::config::Discovery as Found; pub struct Mtu;",
        ),
    ];
    // The controller's file uses its own module, which is no arrow and closes no circle.
    let arrows = arrows_of(&files);
    assert_eq!(
        arrows,
        [
            "config -> control::controller",
            "control -> control::controller",
            "control -> recovery",
            "recovery -> recovery::mtu",
            "recovery::mtu -> config",
        ]
    );
    assert_eq!(circles_of(&files), [[""; 0]; 0]);
    let mut files = files;
    files[1].1 = "use crate::control::on;";
    let circle = ["config", "control", "recovery", "recovery::mtu"];
    assert_eq!(circles_of(&files), [circle]);
}

#[test]
fn a_planted_arrow_up_is_found() {
    let files = [
        ("wire.rs", "use super::media::FrameId;"),
        (
            "media.rs",
            "pub struct FrameId; use crate::wire::{self, varint};",
        ),
        ("wire/varint.rs", "pub fn write() {}"),
    ];
    let arrows = Crate::new(files).arrows();
    let up = ("wire".to_owned(), "media".to_owned());
    assert_eq!(arrows_up(&arrows, &["wire", "media"]), [up]);
    let down = ("media".to_owned(), "wire::varint".to_owned());
    assert!(!arrows_up(&arrows, &["wire", "media"]).contains(&down));
}

#[test]
fn every_form_of_use_is_an_arrow() {
    let forms = [
        "use crate::session::Session;",
        "use super::session::*;",
        "use crate::{session::{Event, Session as Other}};",
        "fn send(_: &crate::session::Session) {}",
        "use crate::session; fn send() { session::send() }",
        "fn send() { assert!(matches!(state(), crate::session::State::Open)) }",
        "impl crate::session::Hooks for Wire {}",
        "mod inner { use crate::session::Session; }",
    ];
    for form in forms {
        let files = [("session.rs", ""), ("wire.rs", form)];
        assert_eq!(arrows_of(&files), ["wire -> session"], "{form}");
    }
}

#[test]
fn uses_in_tests_and_of_other_crates_are_none() {
    let forms = [
        "#[cfg(test)] mod tests { use crate::session::Session; }",
        "#[cfg(test)] use crate::session::Session;",
        "#[cfg(all(test, unix))] fn send() { crate::session::send() }",
        "use other::session::Session;",
        "// crate::session::Session\nconst TEXT: &str = \"crate::session::Session\";",
        "use crate::session;",
    ];
    for form in forms {
        let files = [("session.rs", ""), ("wire.rs", form)];
        assert_eq!(arrows_of(&files), [""; 0], "{form}");
    }
    let files = [
        ("session.rs", ""),
        ("wire.rs", "#[cfg(test)] mod tests;"),
        ("wire/tests.rs", "mod deep;"),
        ("wire/tests/deep.rs", "use crate::session::Session;"),
    ];
    assert_eq!(arrows_of(&files), [""; 0]);
}

#[test]
fn methods_are_counted_wherever_they_stand() {
    let files = [
        (
            "session.rs",
            "impl<C: Content> Session<C> { fn a() {} #[cfg(test)] fn b() {} }",
        ),
        (
            "session/send.rs",
            "impl<C> super::Session<C> { pub const fn c() {} const D: u8 = 0; }",
        ),
        (
            "session/hooks.rs",
            "impl Hooks for Session { fn e() {} } impl Other { fn f() {} }",
        ),
        (
            "session/checks.rs",
            "#[cfg(test)] impl Session { fn g() {} }",
        ),
    ];
    assert_eq!(Crate::new(files).method_count("Session"), 2);
}
