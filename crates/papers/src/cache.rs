//! Runs that need not be run again.
//!
//! An entry is named by a hash of all that a run depends on, and holds these things in full, so
//! that two runs whose hashes agree by chance are not taken for one another. The code is among
//! them as a hash of the program: whatever is rebuilt otherwise runs anew.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::evidence::RunRecord;

/// How many programs' runs are kept.
const MAX_VERSIONS: usize = 3;

/// A folder of runs of this program.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

#[derive(Serialize)]
struct Written<'a> {
    key: &'a str,
    run: &'a RunRecord,
}

#[derive(Deserialize)]
struct Read {
    key: String,
    run: RunRecord,
}

impl Cache {
    /// The runs of this program below `root`, which is made if need be. Those of all but the last
    /// few other programs are removed.
    ///
    /// # Errors
    /// The folder cannot be made, or the program cannot read itself.
    pub fn open(root: &Path) -> io::Result<Cache> {
        let program = fs::read(std::env::current_exe()?)?;
        let cache = Cache {
            folder: root.join(format!("runs-{:016x}", hash(&program))),
        };
        fs::create_dir_all(&cache.folder)?;
        cache.remove_old_versions(root)?;
        Ok(cache)
    }

    /// Where runs are kept unless somebody says otherwise: `anabranch` in the user's folder for
    /// such things (`XDG_CACHE_HOME`, or `.cache` at home).
    pub fn usual_root() -> PathBuf {
        let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = || of("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let folder = of("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
        folder.unwrap_or_else(std::env::temp_dir).join("anabranch")
    }

    /// A run, if it is here and whole.
    pub(super) fn load(&self, key: &str) -> Option<RunRecord> {
        let text = fs::read(self.path(key)).ok()?;
        let entry: Read = serde_json::from_slice(&text).ok()?;
        (entry.key == key).then_some(entry.run)
    }

    /// Keeps a run. Whoever interrupts this leaves no half of one.
    pub(super) fn store(&self, key: &str, run: &RunRecord) -> io::Result<()> {
        let path = self.path(key);
        let part = path.with_extension(format!("part-{}", std::process::id()));
        let text = serde_json::to_vec(&Written { key, run })?;
        fs::write(&part, text)?;
        fs::rename(&part, &path)
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder
            .join(format!("{:016x}.json", hash(key.as_bytes())))
    }

    fn remove_old_versions(&self, root: &Path) -> io::Result<()> {
        let mut others = Vec::new();
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            let is_version = entry.file_name().to_string_lossy().starts_with("runs-");
            if is_version && entry.path() != self.folder {
                others.push((entry.metadata()?.modified()?, entry.path()));
            }
        }
        others.sort();
        let excess = (others.len() + 1).saturating_sub(MAX_VERSIONS);
        others
            .iter()
            .take(excess)
            .try_for_each(|(_, folder)| fs::remove_dir_all(folder))
    }
}

/// The same for the same bytes, which is all that one program needs of it.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_lab::metrics::{Series, Statistics};

    fn run(seed: f64) -> RunRecord {
        RunRecord {
            statistics: Statistics {
                // Needs all its digits to come back as the same number.
                jain_index: Some(0.1 + 0.2 + seed),
                ..Statistics::default()
            },
            expected: vec![None, Some(seed)],
            series: Series::default(),
        }
    }

    #[test]
    fn a_run_comes_back_as_it_was_and_a_broken_one_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        assert_eq!(cache.load("a"), None);
        cache.store("a", &run(1.0 / 3.0)).unwrap();
        let again = Cache::open(root.path()).unwrap();
        assert_eq!(again.load("a"), Some(run(1.0 / 3.0)));
        assert_eq!(again.load("b"), None);
        let text = fs::read(cache.path("a")).unwrap();
        fs::write(cache.path("a"), &text[..text.len() / 2]).unwrap();
        assert_eq!(again.load("a"), None);
        // Another key's entry under this one's name, as if their hashes were the same.
        fs::write(cache.path("b"), &text).unwrap();
        assert_eq!(again.load("b"), None);
    }

    #[test]
    fn the_runs_of_few_programs_are_kept() {
        let root = tempfile::tempdir().unwrap();
        for version in 0..5 {
            fs::create_dir(root.path().join(format!("runs-{version}"))).unwrap();
        }
        Cache::open(root.path()).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), MAX_VERSIONS);
    }
}
