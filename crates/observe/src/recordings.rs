//! Recordings of this program: the files that the names of its outputs describe, the newest first.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration as StdDuration, UNIX_EPOCH};

use anabranch_net::system::open_file_itself;
use anabranch_terminal::files::{GAPS_ENDING, gaps_path};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of files in a list. Chosen: more than a person looks through.
const MAX_LISTED: usize = 500;
/// Maximum number of entries of folders that are looked at for one list.
const MAX_VISITED: usize = 20_000;
/// Number of downloads at a time. Chosen: a disk is not kept from recording.
const MAX_DOWNLOADS: usize = 4;
/// A file that was changed within this time is still written.
const GROWS: StdDuration = StdDuration::from_secs(5);

/// Names of the outputs that are files.
#[derive(Debug)]
pub(super) struct Recordings {
    patterns: Mutex<Vec<PathBuf>>,
    places: Arc<Semaphore>,
}

impl Default for Recordings {
    fn default() -> Self {
        Recordings {
            patterns: Mutex::default(),
            places: Arc::new(Semaphore::new(MAX_DOWNLOADS)),
        }
    }
}

/// One recorded file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Recording {
    /// Name below the folder that all files of the output share. It identifies the recording.
    pub(super) name: String,
    /// Its length.
    pub(super) bytes: u64,
    /// Seconds from 1970 to its last change.
    pub(super) changed_at: u64,
    /// Whether it is still written.
    pub(super) is_growing: bool,
    /// Number of gaps that its sidecar file lists.
    pub(super) gaps: usize,
    #[serde(skip)]
    path: PathBuf,
}

impl Recordings {
    /// Adds the name of an output. Words in braces stand for any text.
    pub(super) fn add(&self, pattern: PathBuf) {
        let numbered = numbered(&pattern);
        let mut patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        for pattern in [Some(pattern), numbered].into_iter().flatten() {
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
    }

    /// Reads the folders. Links, pipes and devices are left out.
    pub(super) fn list(&self) -> Vec<Recording> {
        let patterns = {
            let patterns = self.patterns.lock();
            patterns.unwrap_or_else(PoisonError::into_inner).clone()
        };
        let mut found: Vec<Recording> = Vec::new();
        let mut paths = BTreeSet::new();
        let mut visited = 0;
        for pattern in &patterns {
            for recording in files_of(pattern, &mut visited) {
                if paths.insert(recording.path.clone()) {
                    found.push(recording);
                }
            }
        }
        distinguish(&mut found);
        found.sort_by(|a, b| {
            b.changed_at
                .cmp(&a.changed_at)
                .then_with(|| b.name.cmp(&a.name))
        });
        found.truncate(MAX_LISTED);
        for recording in &mut found {
            recording.gaps = gap_count(&recording.path);
        }
        found
    }

    /// Returns a place among the downloads; `None` if all are taken.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Opens a listed recording, or the list of its gaps.
    ///
    /// # Errors
    /// No list has it, or it cannot be read.
    pub(super) fn open(&self, name: &str) -> io::Result<(File, u64)> {
        let (recording, is_of_gaps) = match name.strip_suffix(GAPS_ENDING) {
            Some(recording) => (recording, true),
            None => (name, false),
        };
        let all = self.list();
        let listed = all.iter().find(|listed| listed.name == recording);
        let mut path = listed.ok_or(io::ErrorKind::NotFound)?.path.clone();
        if is_of_gaps {
            path = gaps_path(&path);
        }
        let mut options = OpenOptions::new();
        let file = open_file_itself(options.read(true)).open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() {
            Ok((file, metadata.len()))
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }
}

/// Returns the names of the files in which an MP4 goes on, if their numbers are not part of a time.
fn numbered(pattern: &Path) -> Option<PathBuf> {
    let stem = pattern.file_stem()?.to_str()?;
    let extension = pattern.extension()?.to_str()?;
    if extension.eq_ignore_ascii_case("mp4") && !stem.contains("{time}") {
        Some(pattern.with_file_name(format!("{stem}-{{number}}.{extension}")))
    } else {
        None
    }
}

/// Gives files of the same name in several folders names of their own, in the order of the outputs.
fn distinguish(found: &mut [Recording]) {
    let mut taken = BTreeSet::new();
    for recording in found {
        let mut number = 2;
        let plain = recording.name.clone();
        while !taken.insert(recording.name.clone()) {
            recording.name = format!("{number}/{plain}");
            number += 1;
        }
    }
}

fn gap_count(recording: &Path) -> usize {
    let path = gaps_path(recording);
    let is_file = path
        .symlink_metadata()
        .is_ok_and(|metadata| metadata.is_file());
    if !is_file {
        return 0;
    }
    // The first line names the columns.
    let text = fs::read(path).unwrap_or_default();
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    lines.saturating_sub(1)
}

fn files_of(pattern: &Path, visited: &mut usize) -> Vec<Recording> {
    let fixed = pattern
        .ancestors()
        .skip(1)
        .find(|path| !path.to_string_lossy().contains('{'))
        .unwrap_or(Path::new(""));
    let parts: Vec<String> = pattern
        .strip_prefix(fixed)
        .unwrap_or(pattern)
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let mut found = Vec::new();
    visit(fixed, &parts, "", visited, &mut found);
    found
}

/// Adds the files below `folder` whose names match `parts`; `name` is the name so far.
fn visit(
    folder: &Path,
    parts: &[String],
    name: &str,
    visited: &mut usize,
    found: &mut Vec<Recording>,
) {
    let Some((part, rest)) = parts.split_first() else {
        return;
    };
    let here = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let entries: Vec<String> = if part.contains('{') {
        let entries = fs::read_dir(here).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .take(MAX_VISITED.saturating_sub(*visited))
            .collect()
    } else {
        vec![part.clone()]
    };
    *visited += entries.len();
    for entry in entries.iter().filter(|entry| matches(part, entry)) {
        let path = folder.join(entry);
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        let name = if name.is_empty() {
            entry.clone()
        } else {
            format!("{name}/{entry}")
        };
        if rest.is_empty() && metadata.is_file() {
            let changed = metadata.modified().unwrap_or(UNIX_EPOCH);
            let age = changed.elapsed();
            found.push(Recording {
                name,
                bytes: metadata.len(),
                changed_at: changed
                    .duration_since(UNIX_EPOCH)
                    .map_or(0, |age| age.as_secs()),
                is_growing: age.is_ok_and(|age| age < GROWS),
                gaps: 0,
                path,
            });
        } else if !rest.is_empty() && metadata.is_dir() {
            visit(&path, rest, &name, visited, found);
        }
    }
}

/// Returns whether a name consists of the pattern's text with any text in place of words in braces.
fn matches(pattern: &str, name: &str) -> bool {
    if name.ends_with(GAPS_ENDING) {
        return false;
    }
    let mut texts = Vec::new();
    let mut rest = pattern;
    while let Some((text, after)) = rest.split_once('{') {
        texts.push(text);
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    let Some((first, others)) = texts.split_first() else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(first) else {
        return false;
    };
    for text in others {
        // The word before it is one character at least.
        let Some((at, _)) = name
            .match_indices(text)
            .find(|(at, _)| *at > 0 && name.is_char_boundary(*at))
        else {
            return false;
        };
        name = &name[at + text.len()..];
    }
    name.len() > rest.len() && name.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(recordings: &Recordings) -> Vec<String> {
        let mut names: Vec<_> = recordings
            .list()
            .into_iter()
            .map(|recording| recording.name)
            .collect();
        names.sort();
        names
    }

    #[test]
    fn names_match_with_any_text_in_place_of_words() {
        for (pattern, name, expected) in [
            ("{name}.ts", "camera.ts", true),
            ("{name}.ts", ".ts", false),
            ("{name}-{time}.ts", "a-b-20260701T000000Z.ts", true),
            ("{name}-{time}.ts", "a.ts", false),
            ("film.ts", "film.ts", true),
            ("film.ts", "film.tsx", false),
            ("a{time}b", "ab", false),
            ("a{time}b", "aéb", true),
            ("a{time", "a", false),
            ("{name}", "a.ts.gaps.csv", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn only_files_of_the_outputs_are_listed_and_opened() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        fs::create_dir_all(folder.join("day/one")).unwrap();
        for name in [
            "day/one/a.ts",
            "day/b.ts",
            "secret.key",
            "film.ts",
            "a.mp4",
            "a-2.mp4",
        ] {
            fs::write(folder.join(name), name).unwrap();
        }
        let gaps = "position_s,cause\n1,lost\n2,lost\n";
        fs::write(folder.join("film.ts.gaps.csv"), gaps).unwrap();
        std::os::unix::fs::symlink(folder.join("secret.key"), folder.join("day/linked.ts"))
            .unwrap();
        let recordings = Recordings::default();
        assert!(recordings.list().is_empty());
        recordings.add(folder.join("day/{name}.ts"));
        recordings.add(folder.join("film.ts"));
        recordings.add(folder.join("a.mp4"));
        recordings.add(folder.join("day/{name}/{time}.ts"));
        assert_eq!(
            names(&recordings),
            ["a-2.mp4", "a.mp4", "b.ts", "film.ts", "one/a.ts"]
        );
        let listed = recordings.list();
        let film = listed
            .iter()
            .find(|listed| listed.name == "film.ts")
            .expect("it is listed");
        assert_eq!((film.bytes, film.gaps, film.is_growing), (7, 2, true));
        for (name, bytes) in [("one/a.ts", 12), ("film.ts.gaps.csv", gaps.len() as u64)] {
            let (_, len) = recordings.open(name).unwrap();
            assert_eq!(len, bytes);
        }
        fs::write(folder.join("day/film.ts"), "another").unwrap();
        recordings.add(folder.join("day/film.ts"));
        let both = names(&recordings);
        assert!(both.contains(&"2/film.ts".to_owned()), "{both:?}");
        for name in [
            "secret.key",
            "../secret.key",
            "linked.ts",
            "",
            "b.ts.gaps.csv",
        ] {
            assert!(recordings.open(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_folder_with_many_files_gives_a_short_list() {
        let folder = tempfile::tempdir().unwrap();
        for index in 0..=MAX_LISTED {
            fs::write(folder.path().join(format!("{index}.ts")), "").unwrap();
        }
        let recordings = Recordings::default();
        recordings.add(folder.path().join("{time}.ts"));
        assert_eq!(recordings.list().len(), MAX_LISTED);
    }
}
