//! Files of the repository, for tests of its texts.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the repository's root.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns all files of the repository with this ending: paths from its root, and texts.
pub fn files(ending: &str) -> Vec<(PathBuf, String)> {
    let root = workspace();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_dir() {
                let is_built = name == "target" && !folder.ends_with("src");
                if !name.starts_with('.') && !is_built && name != "node_modules" {
                    folders.push(path);
                }
            } else if name.ends_with(ending) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(&root).unwrap().to_owned(), text));
            }
        }
    }
    found.sort();
    found
}
