//! Runs that are kept for later studies.
//!
//! An entry's name is a hash of everything except code that determines a run: the scenario's text
//! and files, settings, seed and recording interval. The entry holds these in full, so that runs
//! with equal hashes are not confused. The folder's name is a hash of the code that a run executes,
//! made when this crate is built (`build.rs`). The text of claims, of reports and of the program
//! has no part in it.
//!
//! An entry has three lines of JSON: the key; statistics, trace hash and the length of the rest;
//! the series.

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_lab::metrics::{Series, Statistics};
use serde::{Deserialize, Serialize};

use super::record::{RunRecord, StoredSeries};

/// Hash of the sources of the laboratory and its dependencies, and of the lock file: of all code
/// that a run executes.
pub const RUN_CODE: &str = env!("ANABRANCH_RUN_CODE");
/// Number of code versions whose runs are kept.
const MAX_VERSIONS: usize = 3;

/// A folder of runs of this code.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    /// Removes a temporary folder with the last clone.
    _removal: Option<Arc<Removal>>,
}

#[derive(Debug)]
struct Removal(PathBuf);

impl Drop for Removal {
    fn drop(&mut self) {
        // A folder that cannot be removed stays in the system's folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[derive(Serialize)]
struct WrittenHead<'a> {
    statistics: &'a Statistics,
    expected: &'a [Option<f64>],
    trace_hash: u64,
    series_bytes: usize,
}

#[derive(Deserialize)]
struct Head {
    statistics: Statistics,
    expected: Vec<Option<f64>>,
    trace_hash: u64,
    series_bytes: u64,
}

impl Cache {
    /// Opens the runs of this code below `root`, which is created if necessary. Removes the runs of
    /// all but the last few other versions.
    ///
    /// # Errors
    /// Fails if the folder cannot be made or listed.
    pub fn open(root: &Path) -> io::Result<Cache> {
        let folder = root.join(format!("runs-{RUN_CODE}"));
        fs::create_dir_all(&folder)?;
        let cache = Cache {
            folder,
            _removal: None,
        };
        cache.remove_old_versions(root)?;
        Ok(cache)
    }

    /// Makes a folder for the runs of one study, removed with the last clone of this.
    ///
    /// # Errors
    /// Fails if the folder cannot be made.
    pub fn temporary() -> io::Result<Cache> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("anabranch-runs-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder)?;
        Ok(Cache {
            folder: folder.clone(),
            _removal: Some(Arc::new(Removal(folder))),
        })
    }

    /// Returns the default folder: `anabranch` in the user's cache folder (`XDG_CACHE_HOME`, or
    /// `.cache` at home).
    pub fn usual_root() -> PathBuf {
        fn of(name: &str) -> Option<OsString> {
            std::env::var_os(name).filter(|value| !value.is_empty())
        }
        let folder = of("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| of("HOME").map(|home| PathBuf::from(home).join(".cache")));
        folder.unwrap_or_else(std::env::temp_dir).join("anabranch")
    }

    /// Returns a run, if it is kept and complete. Its series stay in the file until they are
    /// needed.
    pub(super) fn load(&self, key: &str) -> Option<RunRecord> {
        let path = self.path(key);
        let file = fs::File::open(&path).ok()?;
        let length = file.metadata().ok()?.len();
        let mut lines = BufReader::new(file);
        let (mut found, mut head) = (Vec::new(), Vec::new());
        lines.read_until(b'\n', &mut found).ok()?;
        lines.read_until(b'\n', &mut head).ok()?;
        let found_key: String = serde_json::from_slice(&found).ok()?;
        let offset = (found.len() + head.len()) as u64;
        let head: Head = serde_json::from_slice(&head).ok()?;
        let is_whole = found_key == key && offset + head.series_bytes == length;
        let stored = StoredSeries { path, offset };
        is_whole.then(|| RunRecord::stored(head.statistics, head.expected, head.trace_hash, stored))
    }

    /// Keeps a run. An interruption leaves no incomplete entry.
    pub(super) fn store(&self, key: &str, run: &RunRecord) -> io::Result<()> {
        let path = self.path(key);
        let part = path.with_extension(format!("part-{}", std::process::id()));
        let series: &Series = run.series();
        let series = serde_json::to_vec(series)?;
        let head = WrittenHead {
            statistics: &run.statistics,
            expected: &run.expected,
            trace_hash: run.trace_hash,
            series_bytes: series.len(),
        };
        let mut text = serde_json::to_vec(key)?;
        text.push(b'\n');
        serde_json::to_writer(&mut text, &head)?;
        text.push(b'\n');
        text.extend(series);
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

/// Hashes `bytes`. Equal bytes must give equal hashes; entries of one code need nothing else.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: f64) -> RunRecord {
        let statistics = Statistics {
            // This number needs all its digits to be read back unchanged.
            jain_index: Some(0.1 + 0.2 + seed),
            ..Statistics::default()
        };
        let series = Series {
            interval_ms: 7,
            ..Series::default()
        };
        RunRecord::new(statistics, vec![None, Some(seed)], u64::MAX, series)
    }

    fn is_same(loaded: Option<RunRecord>, expected: &RunRecord) -> bool {
        loaded.is_some_and(|loaded| {
            loaded.statistics == expected.statistics
                && loaded.expected == expected.expected
                && loaded.trace_hash == expected.trace_hash
                && loaded.series() == expected.series()
        })
    }

    #[test]
    fn a_run_comes_back_as_it_was_and_a_broken_one_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        assert!(cache.load("a").is_none());
        let written = run(1.0 / 3.0);
        cache.store("a", &written).unwrap();
        let again = Cache::open(root.path()).unwrap();
        assert!(is_same(again.load("a"), &written));
        assert!(again.load("b").is_none());
        let text = fs::read(cache.path("a")).unwrap();
        for length in [text.len() / 2, text.len() - 1, 0] {
            fs::write(cache.path("a"), &text[..length]).unwrap();
            assert!(again.load("a").is_none(), "{length} bytes");
        }
        // Another key's entry under this one's name, as if their hashes were equal.
        fs::write(cache.path("b"), &text).unwrap();
        assert!(again.load("b").is_none());
    }

    #[test]
    fn the_runs_of_few_versions_are_kept() {
        let root = tempfile::tempdir().unwrap();
        for version in 0..5 {
            fs::create_dir(root.path().join(format!("runs-{version}"))).unwrap();
        }
        Cache::open(root.path()).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), MAX_VERSIONS);
    }

    #[test]
    fn a_temporary_folder_goes_with_its_last_user() {
        let cache = Cache::temporary().unwrap();
        let other = cache.clone();
        cache.store("a", &run(1.0)).unwrap();
        let folder = cache.folder.clone();
        drop(cache);
        assert!(other.load("a").is_some() && folder.exists());
        drop(other);
        assert!(!folder.exists());
    }
}
