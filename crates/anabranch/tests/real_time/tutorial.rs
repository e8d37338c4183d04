//! The tutorial's page about schedulers shows the example `thrifty` and its output.
//!
//! Needs a clock: the page runs a real program, and waits for its end.

use std::process::Command;

const PAGE: &str = include_str!("../../../../docs/tutorial/scheduler.md");
const EXAMPLE: &str = include_str!("../../examples/thrifty.rs");

/// Returns the page's code blocks of this kind.
fn blocks(kind: &str) -> Vec<&'static str> {
    let start = format!("```{kind}\n");
    let blocks = PAGE.split(&start).skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

#[test]
fn the_blocks_of_the_page_are_the_program() {
    let (_documentation, program) = EXAMPLE.split_once("\n\n").unwrap();
    assert_eq!(blocks("rust").join("\n"), program);
}

#[test]
fn the_program_prints_the_lines_on_the_page() {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).expect("a test is in target/…/deps");
    let program = folder.join("examples/thrifty");
    let output = Command::new(&program)
        .output()
        .expect("run `cargo test -p anabranch` without --test");
    let printed = String::from_utf8(output.stdout).unwrap();
    let console = blocks("console").join("");
    let shown = console.strip_prefix("$ cargo run --release\n");
    assert_eq!(shown, Some(printed.as_str()));
}

#[test]
fn the_last_block_is_a_call_of_the_library() {
    use anabranch::scheduler::default_scheduler as thrifty;
    use anabranch::{SecretKey, Sender};

    let call = blocks("text").join("");
    let words = ".scheduler(thrifty()).to(\"studio.example:7000\").via(\"wlan0\").via(\"wwan0\")";
    assert_eq!(call.trim(), format!("Sender::builder(){words}"));
    let builder = Sender::builder()
        .key(SecretKey::generate())
        .peer(SecretKey::generate().public_key());
    let config = builder
        .scheduler(thrifty())
        .to("studio.example:7000")
        .via("wlan0")
        .via("wwan0");
    assert!(config.build().is_ok());
}
