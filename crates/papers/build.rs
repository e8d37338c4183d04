//! Hashes the code that a run executes: the sources of the laboratory, of all crates of this
//! workspace that it depends on, and the lock file. Kept runs are valid for this hash, so a change
//! to the program's or the claims' text leaves them valid.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![root.join("Cargo.lock")];
    for name in crates(&root) {
        let folder = root.join("crates").join(name);
        paths.push(folder.join("Cargo.toml"));
        collect(&folder.join("src"), &mut paths);
    }
    paths.sort();
    let mut hash = Fnv::new();
    for path in &paths {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path.strip_prefix(&root).unwrap_or(path);
        hash.write(name.to_string_lossy().as_bytes());
        hash.write(&fs::read(path).expect("a source file can be read"));
    }
    println!("cargo::rustc-env=ANABRANCH_RUN_CODE={:016x}", hash.0);
    // Only in releases: others would be built again after each commit.
    if std::env::var("PROFILE").as_deref() == Ok("release")
        && let Some(commit) = commit(&root.join(".git"))
    {
        println!("cargo::rustc-env=ANABRANCH_COMMIT={commit}");
    }
}

/// Returns the commit that is checked out; `None` outside of a repository.
fn commit(git: &Path) -> Option<String> {
    fn read(path: PathBuf) -> Option<String> {
        println!("cargo::rerun-if-changed={}", path.display());
        fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    }
    // In a second work tree `.git` is a file that names the folder.
    let folder = if git.is_dir() {
        git.to_owned()
    } else {
        PathBuf::from(read(git.to_owned())?.strip_prefix("gitdir: ")?)
    };
    let head = read(folder.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else {
        return Some(head);
    };
    let common = match fs::read_to_string(folder.join("commondir")) {
        Ok(path) => folder.join(path.trim()),
        Err(_) => folder,
    };
    read(common.join(name))
}

/// Returns the laboratory and the crates that it depends on, by the manifests.
pub fn crates(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec!["lab".to_owned()];
    while let Some(name) = open.pop() {
        let manifest = root.join("crates").join(&name).join("Cargo.toml");
        let text = fs::read_to_string(manifest).expect("each crate has a manifest");
        let section = text
            .lines()
            .skip_while(|line| *line != "[dependencies]")
            .skip(1)
            .take_while(|line| !line.starts_with('['));
        let ours = section.filter_map(|line| line.strip_prefix("anabranch-"));
        let names = ours.filter_map(|line| line.split(['.', ' ', '=']).next());
        let new = names.filter(|name| !found.contains(*name));
        open.extend(new.map(str::to_owned));
        found.insert(name);
    }
    found
}

/// Collects all files below `folder`, and `folder` itself to notice new and removed files.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder).expect("a source folder can be read") {
        let path = entry.expect("a source folder can be read").path();
        if path.is_dir() {
            collect(&path, paths)
        } else {
            paths.push(path)
        }
    }
}

/// FNV-1a, 64 bits: the same on every machine and with every compiler.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
