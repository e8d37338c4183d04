//! `scripts/setup.sh` on machines with invented tools: it names missing ones, and one command for
//! the system.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Programs of the script that every system has.
const USUAL: [&str; 7] = ["sh", "sed", "sort", "head", "dirname", "id", "printf"];

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup.sh")
}

/// Oldest compiler by the workspace's manifest.
fn oldest_rust() -> String {
    env!("CARGO_PKG_RUST_VERSION").to_owned()
}

/// A machine whose programs stand in one folder.
struct Machine(TempDir);

impl Machine {
    /// Creates a Linux machine with these programs, none of which do anything.
    fn with(programs: &[&str]) -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        let path = std::env::var_os("PATH").unwrap();
        for name in USUAL {
            let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
            let file = files.find(|file| file.exists()).expect(name);
            std::os::unix::fs::symlink(file, machine.0.path().join(name)).unwrap();
        }
        for name in programs {
            machine.add(name, "exit 0");
        }
        machine.add("uname", "echo Linux");
        machine
    }

    /// Adds a program. Another process writes it: while this one has a file open for writing, a
    /// child of another test could keep it busy.
    fn add(&self, name: &str, text: &str) {
        let file = self.0.path().join(name);
        let written = Command::new("sh")
            .args([
                "-c",
                "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$2\" && chmod +x \"$2\"",
                "sh",
            ])
            .arg(text)
            .arg(file)
            .status();
        assert!(written.unwrap().success());
    }

    fn has_cargo(self, version: &str) -> Machine {
        self.add(
            "cargo",
            &format!("echo 'cargo {version} (0123abcd 2026-01-01)'"),
        );
        self
    }

    /// Returns whether nothing is missing, and the script's words.
    fn check(&self, command: &str) -> (bool, String) {
        let output = Command::new(self.0.path().join("sh"))
            .arg(script())
            .args(["check", command])
            .env_clear()
            .env("PATH", self.0.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let words = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(words).unwrap())
    }
}

#[test]
fn nothing_is_printed_if_all_tools_exist() {
    let versions = [
        format!("{}.0", oldest_rust()),
        "1.100.0".to_owned(),
        "2.0.0".to_owned(),
    ];
    for version in versions {
        let machine = Machine::with(&["cc", "c++"]).has_cargo(&version);
        for command in ["demo", "test"] {
            assert_eq!(machine.check(command), (true, String::new()), "{version}");
        }
    }
}

#[test]
fn debian_with_an_old_compiler_gets_rust_from_rustup() {
    let machine = Machine::with(&["cc", "c++", "apt-get"]).has_cargo("1.63.0");
    let (is_complete, words) = machine.check("demo");
    let missing = format!("Rust {} or later (found: 1.63.0)", oldest_rust());
    assert!(!is_complete && words.contains(&missing), "{words}");
    assert!(!words.contains("a C compiler"), "{words}");
    for part in [
        "apt-get install --yes build-essential",
        "https://sh.rustup.rs",
    ] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn an_existing_rustup_installs_the_toolchain() {
    let machine = Machine::with(&["cc", "c++", "apt-get", "rustup"]).has_cargo("1.63.0");
    let (_, words) = machine.check("demo");
    let is_by_rustup = words.contains("rustup toolchain install stable");
    assert!(is_by_rustup && !words.contains("sh.rustup.rs"), "{words}");
}

#[test]
fn fedora_and_macos_have_packages_of_rust() {
    let fedora = Machine::with(&["dnf"]);
    let (is_complete, words) = fedora.check("test");
    assert!(
        !is_complete && words.contains("a C++ compiler, c++"),
        "{words}"
    );
    assert!(
        words.contains("gcc gcc-c++ curl python3 cargo clippy rustfmt"),
        "{words}"
    );

    let mac = Machine::with(&["brew", "cc", "c++"]);
    mac.add("uname", "echo Darwin");
    let (_, words) = mac.check("test");
    assert!(words.contains("brew install python rust"), "{words}");
}

#[test]
fn only_the_tests_need_clippy() {
    let machine = Machine::with(&["cc", "c++", "apt-get"]);
    machine.add(
        "cargo",
        "test \"$1\" != clippy && echo 'cargo 9.0.0 (0123abcd 2026-01-01)'",
    );
    assert_eq!(machine.check("demo"), (true, String::new()));
    let (is_complete, words) = machine.check("test");
    assert!(!is_complete && words.contains("cargo clippy"), "{words}");
}

#[test]
fn a_compiler_that_makes_no_program_is_missing() {
    let machine = Machine::with(&["c++", "apt-get"]).has_cargo("9.0.0");
    machine.add("cc", "exit 1");
    let (is_complete, words) = machine.check("demo");
    assert!(!is_complete && words.contains("a C compiler"), "{words}");
    assert!(
        !words.contains("a C++ compiler") && !words.contains("rustup"),
        "{words}"
    );
}
