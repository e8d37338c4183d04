//! All targets with their seeds and with the inputs of `fuzz/corpus`, which random runs have found.

use std::fs;
use std::path::{Path, PathBuf};

use anabranch_fuzzing::TARGETS;

/// Most bytes of all corpora in the repository. Longer ones are for the machines that fuzz.
const MAX_BYTES: usize = 300_000;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Returns the names in a folder, sorted; none without the folder.
fn names(folder: &Path) -> Vec<String> {
    if !folder.exists() {
        return Vec::new();
    }
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Returns the inputs that are kept for a target.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = fuzz().join("corpus").join(target);
    let names = names(&folder).into_iter();
    names
        .map(|name| {
            let bytes = fs::read(folder.join(&name)).unwrap();
            (name, bytes)
        })
        .collect()
}

/// One test, since the meter counts for one thread.
#[test]
fn every_target_takes_its_seeds_and_its_corpus() {
    for target in TARGETS {
        (target.prepare)();
        for seed in (target.seeds)() {
            (target.run)(&seed);
        }
        for (name, input) in corpus(target.name) {
            println!("{} {name}", target.name);
            (target.run)(&input);
        }
    }
}

#[test]
fn every_target_has_a_program_and_every_corpus_a_target() {
    let listed = TARGETS.map(|target| target.name.to_owned());
    for name in names(&fuzz().join("corpus")) {
        assert!(listed.contains(&name), "{name}");
    }
    let programs = TARGETS.map(|target| format!("{}.rs", target.name));
    assert_eq!(names(&fuzz().join("fuzz_targets")), programs);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let mut bytes = 0;
    for name in listed {
        let text = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(text.contains(&format!("begin(\"{name}\")")), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        bytes += corpus(&name)
            .iter()
            .map(|(_, input)| input.len())
            .sum::<usize>();
    }
    assert!(bytes <= MAX_BYTES, "{bytes}");
}

/// Returns a number of bytes as documents write it.
fn shown(bytes: usize) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

#[test]
fn the_document_states_each_bound() {
    let text = fs::read_to_string(fuzz().join("../docs/protocol-security.md")).unwrap();
    for target in TARGETS {
        let bound = target.bound;
        let stated = format!("{} and {}", shown(bound.fixed_bytes), bound.bytes_per_byte);
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| `{}` |", target.name)))
            .unwrap_or_else(|| panic!("no row of {}", target.name));
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[3], stated, "{}", target.name);
    }
}
