//! The header in the repository is the one that cbindgen makes.

use std::fs;
use std::path::Path;

fn made(folder: &Path) -> String {
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("it is read");
    // Its modules are read, too.
    let builder = cbindgen::Builder::new()
        .with_config(config)
        .with_src(folder.join("src/lib.rs"));
    let mut text = Vec::new();
    builder.generate().expect("it can be made").write(&mut text);
    let text = String::from_utf8(text).expect("it is a text");
    // Sections for callers in Rust are no part of a header.
    without_safety(&text)
}

/// Leaves out the sections about Rust's `unsafe`.
fn without_safety(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut is_safety = false;
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix("//");
        is_safety = match comment {
            Some(comment) => is_safety || comment.trim() == "# Safety",
            None => false,
        };
        if is_safety {
            continue;
        }
        let is_end = comment.is_none() && lines.last() == Some(&"//");
        if is_end {
            lines.pop();
        }
        lines.push(line);
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_header_is_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = folder.join("include/anabranch.h");
    let made = made(folder);
    if std::env::var("ANABRANCH_HEADER").as_deref() == Ok("write") {
        fs::write(&path, &made).expect("it is written");
    }
    let present = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        present == made,
        "{} is old: ANABRANCH_HEADER=write cargo test -p anabranch-capi header",
        path.display()
    );
}

/// The list of exported symbols is that of the header's functions.
#[test]
fn the_linkers_script_exports_the_functions_of_the_header() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = fs::read_to_string(folder.join("include/anabranch.h")).expect("it is there");
    let script = fs::read_to_string(folder.join("libanabranch.map")).expect("it is there");
    let mut of_header: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with("//") && !line.starts_with("typedef"))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("ab_"))
        .collect();
    let mut of_script: Vec<&str> = script
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'))
        .filter(|name| name.starts_with("ab_"))
        .collect();
    of_header.sort_unstable();
    of_script.sort_unstable();
    // Comments name functions, too.
    of_header.dedup();
    assert!(of_header.len() > 20, "{of_header:?}");
    assert_eq!(of_header, of_script);
}
