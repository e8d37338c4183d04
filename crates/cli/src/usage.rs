//! Counts of the bytes that paths with a cap have carried, over restarts.
//!
//! Programs that use the same interface share a file. Each adds the bytes that it has carried since
//! its last update. Removing the file, or an entry, restarts the count, also while programs run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anabranch_core::PathId;
use anabranch_net::{LinkCap, PathSnapshot, Snapshot};
use anabranch_units::{ByteCount, Duration, Instant};
use anyhow::{Context, anyhow};

/// Interval between two updates of the file. After a power failure, the bytes since the last update
/// are not counted.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);
const FILE: &str = "usage.json";

/// A change in the use of a path's cap, with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CapEvent {
    /// Four fifths of the cap are used.
    Near(usize, String),
    /// The cap is used up: the path must stand by.
    Reached(usize, String),
    /// The count has restarted.
    Free(usize, String),
}

/// The caps of a session's paths.
#[derive(Debug)]
pub(crate) struct Caps {
    file: PathBuf,
    entries: Vec<Entry>,
    /// Bytes of paths that have left the session and are not yet in the file, by name.
    owed: BTreeMap<String, u64>,
    save_at: Instant,
}

/// The cap of one path.
#[derive(Debug)]
pub(crate) struct Entry {
    path: usize,
    name: String,
    cap: u64,
    /// Bytes that all sessions had carried at the last update of the file.
    total: u64,
    /// Bytes that this session had carried at the last update of the file.
    counted: u64,
    used: Use,
}

/// Use of a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Little,
    Near,
    All,
}

impl Caps {
    /// Creates the caps of a session without paths.
    ///
    /// # Errors
    /// There is no folder for the file.
    pub(crate) fn new(folder: Option<PathBuf>) -> anyhow::Result<Caps> {
        let folder = folder
            .or_else(usual_folder)
            .ok_or_else(|| anyhow!("name a folder for the counts: --state DIR"))?;
        Ok(Caps {
            file: folder.join(FILE),
            entries: Vec::new(),
            owed: BTreeMap::new(),
            save_at: Instant::ZERO,
        })
    }

    /// Counts a path from now on. Returns whether its cap is already used up.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn add(&mut self, path: usize, name: &str, cap: ByteCount) -> anyhow::Result<bool> {
        let totals = add_to(&self.file, &[(name, 0)])?;
        let total = totals.get(name).copied().unwrap_or(0);
        let used = Use::of(total, cap.0);
        self.entries.push(Entry {
            path,
            name: name.to_owned(),
            cap: cap.0,
            total,
            counted: 0,
            used,
        });
        Ok(used == Use::All)
    }

    /// Stops counting a path. Returns its cap, if it has one.
    pub(crate) fn take(&mut self, path: usize) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.path == path)?;
        Some(self.entries.swap_remove(at))
    }

    /// Sets, changes or removes the cap of a path that has carried bytes already. Returns whether
    /// it is used up.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn set(
        &mut self,
        path: usize,
        name: &str,
        cap: Option<ByteCount>,
        snapshot: &PathSnapshot,
    ) -> anyhow::Result<bool> {
        let Some(ByteCount(bytes)) = cap else {
            if let Some(entry) = self.take(path) {
                self.retire(entry, snapshot);
            }
            return Ok(false);
        };
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.path == path) {
            entry.cap = bytes;
            entry.used = Use::of(entry.total, bytes);
            return Ok(entry.used == Use::All);
        }
        let is_used_up = self.add(path, name, ByteCount(bytes))?;
        if let Some(entry) = self.entries.last_mut() {
            entry.counted = carried_bytes(snapshot);
        }
        Ok(is_used_up)
    }

    /// Returns whether a path has carried its cap.
    pub(crate) fn is_used_up(&self, path: usize) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.path == path && entry.used == Use::All)
    }

    /// Counts a path again after [`take`](Self::take).
    pub(crate) fn put_back(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Adds the bytes of a path that has left the session, at the next [update](Self::update).
    pub(crate) fn retire(&mut self, entry: Entry, snapshot: &PathSnapshot) {
        let bytes = carried_bytes(snapshot).saturating_sub(entry.counted);
        *self.owed.entry(entry.name).or_default() += bytes;
    }

    /// Returns whether it is time to [update](Self::update).
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !(self.entries.is_empty() && self.owed.is_empty()) && now >= self.save_at
    }

    /// Returns the paths' caps and the volumes carried.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = (PathId, LinkCap)> {
        self.entries.iter().map(|entry| {
            let cap = LinkCap {
                used_bytes: entry.total,
                limit_bytes: entry.cap,
            };
            (PathId(entry.path as u8), cap)
        })
    }

    /// Adds the bytes that the paths have carried since the last update.
    ///
    /// # Errors
    /// The file cannot be read or written. The bytes are then added later.
    pub(crate) fn update(
        &mut self,
        now: Instant,
        snapshot: &Snapshot,
    ) -> anyhow::Result<Vec<CapEvent>> {
        self.save_at = now + SAVE_INTERVAL;
        let carried: Vec<u64> = self
            .entries
            .iter()
            .map(|entry| snapshot.paths.get(entry.path).map_or(0, carried_bytes))
            .collect();
        let since = self.entries.iter().zip(&carried).map(|(entry, carried)| {
            let bytes = carried.saturating_sub(entry.counted);
            (entry.name.as_str(), bytes)
        });
        let owed = self
            .owed
            .iter()
            .map(|(name, bytes)| (name.as_str(), *bytes));
        let totals = add_to(&self.file, &since.chain(owed).collect::<Vec<_>>())?;
        self.owed.clear();
        let mut cap_events = Vec::new();
        for (entry, carried) in self.entries.iter_mut().zip(carried) {
            entry.counted = carried;
            let total = totals.get(&entry.name).copied().unwrap_or(0);
            entry.total = total;
            let before = core::mem::replace(&mut entry.used, Use::of(total, entry.cap));
            let (path, name) = (entry.path, entry.name.clone());
            let said = format!(
                "path {path} ({name}) has carried {} of {}",
                ByteCount(total),
                ByteCount(entry.cap)
            );
            match (before, entry.used) {
                (Use::Little, Use::Near) => cap_events.push(CapEvent::Near(path, said)),
                (Use::Little | Use::Near, Use::All) => {
                    cap_events.push(CapEvent::Reached(path, said))
                }
                (Use::All, Use::Little | Use::Near) => cap_events.push(CapEvent::Free(path, said)),
                _ => {}
            }
        }
        Ok(cap_events)
    }
}

impl Use {
    fn of(bytes: u64, cap: u64) -> Use {
        match () {
            () if bytes >= cap => Use::All,
            () if bytes >= cap / 5 * 4 => Use::Near,
            () => Use::Little,
        }
    }
}

/// Returns all bytes in both directions, as network operators charge for them.
fn carried_bytes(path: &PathSnapshot) -> u64 {
    let counted = &path.counters;
    counted.sent_bytes + counted.control_bytes + counted.received_bytes
}

/// Returns the folder of this program's state, by the XDG Base Directory Specification. On Windows
/// it is in the user's local data.
pub(crate) fn usual_folder() -> Option<PathBuf> {
    let state = folder_of("XDG_STATE_HOME").or_else(state_of_system);
    Some(state?.join("anabranch"))
}

/// Returns the folder of all programs' states.
fn state_of_system() -> Option<PathBuf> {
    if cfg!(windows) {
        folder_of("LOCALAPPDATA")
    } else {
        Some(folder_of("HOME")?.join(".local/state"))
    }
}

fn folder_of(variable: &str) -> Option<PathBuf> {
    let value = std::env::var_os(variable).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// Adds to the counts of a file, and returns all counts.
///
/// # Errors
/// The file or its folder cannot be read or written.
fn add_to(file: &Path, counted: &[(&str, u64)]) -> anyhow::Result<BTreeMap<String, u64>> {
    rewrite(file, counted).with_context(|| {
        format!(
            "cannot keep the counts of paths with a cap in {}",
            file.display()
        )
    })
}

fn rewrite(file: &Path, counted: &[(&str, u64)]) -> anyhow::Result<BTreeMap<String, u64>> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Programs take turns. Closing the file releases the lock.
    let lock = File::create(file.with_extension("lock"))?;
    lock.lock()?;
    let mut totals: BTreeMap<String, u64> = match fs::read(file) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => return Err(error.into()),
    };
    for (name, bytes) in counted {
        *totals.entry((*name).to_owned()).or_default() += bytes;
    }
    // A partly written file could not be read.
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(&serde_json::to_vec(&totals)?)?;
    new.persist(file)?;
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot_of(bytes: u64) -> Snapshot {
        let mut path = PathSnapshot::default();
        path.counters.sent_bytes = bytes;
        Snapshot {
            paths: vec![path],
            ..Snapshot::default()
        }
    }

    fn open(folder: &tempfile::TempDir) -> Caps {
        Caps::new(Some(folder.path().to_owned())).unwrap()
    }

    #[test]
    fn a_cap_is_near_then_reached_and_stays_so_over_restarts_until_it_is_reset() {
        let folder = tempfile::tempdir().unwrap();
        let at = Instant::from_secs;
        let cap = ByteCount(1_000);
        let mut first = open(&folder);
        assert!(!first.add(0, "wwan0", cap).unwrap());
        assert!(first.is_due(at(1)));
        assert_eq!(first.update(at(1), &snapshot_of(700)).unwrap(), []);
        assert!(!first.is_due(at(2)));
        let cap_events = first.update(at(6), &snapshot_of(850)).unwrap();
        assert!(
            matches!(&cap_events[..], [CapEvent::Near(0, said)] if said.contains("850 B of 1000 B"))
        );
        assert_eq!(first.update(at(11), &snapshot_of(860)).unwrap(), []);
        // Another program, at the same time or later.
        let mut second = open(&folder);
        assert!(!second.add(0, "wwan0", cap).unwrap());
        let cap_events = second.update(at(1), &snapshot_of(140)).unwrap();
        assert!(
            matches!(&cap_events[..], [CapEvent::Reached(0, _)]),
            "{cap_events:?}"
        );
        let cap_events = first.update(at(16), &snapshot_of(860)).unwrap();
        assert!(
            matches!(&cap_events[..], [CapEvent::Reached(0, _)]),
            "{cap_events:?}"
        );
        let is_used_up = open(&folder).add(0, "wwan0", cap).unwrap();
        assert!(is_used_up, "at the start");
        assert!(!open(&folder).add(0, "wwan1", cap).unwrap());
        fs::remove_file(folder.path().join(FILE)).unwrap();
        let cap_events = first.update(at(21), &snapshot_of(900)).unwrap();
        assert!(
            matches!(&cap_events[..], [CapEvent::Free(0, said)] if said.contains("40 B")),
            "{cap_events:?}"
        );
    }

    #[test]
    fn bytes_of_a_path_that_left_count_for_its_name_and_not_for_the_next_of_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let mut caps = Caps::new(Some(folder.path().to_owned())).unwrap();
        let cap = ByteCount(1_000);
        caps.add(1, "enx1", cap).unwrap();
        let mut two = snapshot_of(0);
        two.paths.push(snapshot_of(700).paths.remove(0));
        caps.update(Instant::from_secs(1), &two).unwrap();
        let left = snapshot_of(950).paths.remove(0);
        let old = caps.take(1).expect("it has a cap");
        caps.retire(old, &left);
        assert!(!caps.add(1, "enx2", cap).unwrap());
        two.paths[1] = snapshot_of(100).paths.remove(0);
        assert_eq!(caps.update(Instant::from_secs(6), &two).unwrap(), []);
        let totals = add_to(&folder.path().join(FILE), &[]).unwrap();
        assert_eq!((totals["enx1"], totals["enx2"]), (950, 100));
        // The modem is plugged in again.
        assert!(!caps.add(2, "enx1", ByteCount(951)).unwrap());
        assert!(caps.add(3, "enx1", ByteCount(950)).unwrap());
    }

    fn path(bytes: u64) -> PathSnapshot {
        snapshot_of(bytes).paths.remove(0)
    }

    #[test]
    fn a_cap_that_comes_later_counts_from_then_on_and_may_be_raised() {
        let folder = tempfile::tempdir().unwrap();
        let mut caps = Caps::new(Some(folder.path().to_owned())).unwrap();
        let cap = Some(ByteCount(1_000));
        assert!(!caps.set(0, "wwan0", cap, &path(5_000)).unwrap());
        caps.update(Instant::from_secs(1), &snapshot_of(5_900))
            .unwrap();
        let used_up = Some(ByteCount(900));
        assert!(caps.set(0, "wwan0", used_up, &path(5_900)).unwrap());
        assert!(caps.is_used_up(0));
        let raised = Some(ByteCount(901));
        assert!(!caps.set(0, "wwan0", raised, &path(5_900)).unwrap());
        assert!(!caps.set(0, "wwan0", None, &path(5_950)).unwrap());
        assert_eq!(caps.volumes().count(), 0);
        caps.update(Instant::from_secs(9), &snapshot_of(7_000))
            .unwrap();
        let totals = add_to(&folder.path().join(FILE), &[]).unwrap();
        assert_eq!(totals["wwan0"], 950, "the rest of the cap's time is kept");
    }

    #[test]
    fn broken_file_is_reported_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "{").unwrap();
        let mut caps = Caps::new(Some(folder.path().to_owned())).unwrap();
        let error = caps.add(0, "wwan0", ByteCount(1)).unwrap_err().to_string();
        assert!(error.contains(FILE), "{error}");
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), "{");
    }
}
