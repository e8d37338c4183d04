//! Changes, which a file keeps for the case that this program cannot undo them.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anabranch_terminal::files::make_private_folder;
use rustix::fs::OFlags;
use rustix::process::geteuid;

use super::change::Change;
use super::step::Step;
use crate::tun::{HostError, TunError};

/// Folder of the records. A restart of the machine empties it, and undoes all changes.
const FOLDER: &str = "/run/anabranch";

/// Changes that this program has made. Undoes them when dropped.
pub(super) struct Record {
    path: PathBuf,
    /// Locked for as long as the program lives.
    file: File,
    changes: Vec<Change>,
}

impl Record {
    /// Opens the record of this name in the program's network namespace, and undoes the changes of
    /// a program that has crashed.
    ///
    /// # Errors
    /// A running program has it, or the folder cannot be written.
    pub(super) fn open(name: &str) -> Result<Record, HostError> {
        let file_name = format!("{}-{name}.json", namespace()?);
        Record::open_in(Path::new(FOLDER), &file_name)
    }

    fn open_in(folder: &Path, file_name: &str) -> Result<Record, HostError> {
        let path = folder.join(file_name);
        make_private_folder(folder).map_err(|error| cannot_open(&path, error))?;
        check_owner(folder, &fs::symlink_metadata(folder)?)?;
        let mut file = locked(&path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)
            .map_err(|error| cannot_open(&path, error))?;
        let changes = if text.is_empty() {
            Vec::new()
        } else {
            serde_json::from_str(&text).map_err(|source| HostError::RecordDamaged {
                path: path.clone(),
                source,
            })?
        };
        let mut record = Record {
            path,
            file,
            changes,
        };
        if record.undo() {
            log::warn!("undid the changes of routes, names and forwarding of an earlier run");
        }
        Ok(record)
    }

    /// Makes changes. After a failure none of them remains.
    ///
    /// # Errors
    /// One of them fails, or the record cannot be written.
    pub(super) fn apply(&mut self, steps: &[Step]) -> Result<(), HostError> {
        // The last change is undone first.
        let changes = steps.iter().rev().filter_map(|step| step.change.clone());
        self.changes = changes.chain(self.changes.drain(..)).collect();
        self.write()?;
        for step in steps {
            if let Err(error) = step.act.perform() {
                self.undo();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Records a change that the caller makes next.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(super) fn expect(&mut self, change: Change) -> Result<(), HostError> {
        self.changes.insert(0, change);
        self.write()
    }

    fn write(&mut self) -> Result<(), HostError> {
        self.write_all().map_err(|source| HostError::Write {
            path: self.path.clone(),
            source,
        })
    }

    fn write_all(&mut self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.changes)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&text)
    }

    /// Undoes all changes. Returns whether there were any.
    pub(super) fn undo(&mut self) -> bool {
        let changes = core::mem::take(&mut self.changes);
        for change in &changes {
            if let Err(error) = change.undoing().perform_as_undo() {
                log::warn!("not undone: {}", error.with_causes());
            }
        }
        if let Err(error) = self.file.set_len(0) {
            log::warn!("{}: {error}", self.path.display());
        }
        !changes.is_empty()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.undo();
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens the file of a record, and locks it.
///
/// # Errors
/// A running program has it, or this user may not open it.
fn locked(path: &Path) -> Result<File, HostError> {
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let opened = options.mode(0o600).open(path);
        let file = opened.map_err(|error| cannot_open(path, error))?;
        check_owner(path, &file.metadata()?)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(HostError::RecordInUse),
            Err(TryLockError::Error(error)) => return Err(cannot_open(path, error)),
        }
        // Its last owner may have removed it before it was locked.
        let inode = file.metadata()?.ino();
        if fs::metadata(path).is_ok_and(|found| found.ino() == inode) {
            return Ok(file);
        }
    }
}

fn cannot_open(path: &Path, source: io::Error) -> HostError {
    HostError::OpenRecord {
        path: path.to_owned(),
        source,
    }
}

/// Checks that a record, or the folder of records, is this user's alone.
///
/// # Errors
/// Another user owns it, or may write it.
fn check_owner(path: &Path, found: &Metadata) -> Result<(), HostError> {
    let (own, owner) = (geteuid().as_raw(), found.uid());
    let path = path.to_owned();
    if owner != own {
        Err(HostError::RecordOwner { path, owner, own })
    } else if found.mode() & 0o022 != 0 {
        Err(HostError::RecordShared { path })
    } else {
        Ok(())
    }
}

/// Returns the number of the program's network namespace: changes belong to it alone.
fn namespace() -> Result<u64, HostError> {
    let found = fs::metadata("/proc/self/ns/net").map_err(HostError::Namespace)?;
    Ok(found.ino())
}

/// Undoes the changes of programs that have crashed, in this network namespace.
///
/// # Errors
/// The changes are those of a running program, or cannot be read.
pub fn clean_up() -> Result<(), TunError> {
    let namespace = namespace().map_err(TunError::CleanUp)?;
    clean_up_in(Path::new(FOLDER), &format!("{namespace}-"))
}

fn clean_up_in(folder: &Path, prefix: &str) -> Result<(), TunError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries.flatten().collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => {
            return Err(TunError::CleanUp(HostError::ReadRecords {
                path: folder.to_owned(),
                source,
            }));
        }
    };
    let names: Vec<_> = entries
        .iter()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect();
    if names.is_empty() {
        log::info!("nothing is left to undo");
    }
    for name in names {
        if let Err(source) = Record::open_in(folder, &name) {
            let record = name;
            return Err(TunError::CleanUpOf { record, source });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::tun::host::act::Act;
    use crate::tun::host::file_content::FileContent;

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    /// Returns the replacement of `old` by `new` in a file.
    fn step(path: &Path) -> Step {
        let [old, new] = ["old", "new"].map(|text| FileContent::Text(text.to_owned()));
        Step::replace(path, old, new)
    }

    #[test]
    fn changes_are_undone_at_the_end_and_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let (state, file) = (folder.path().join("state"), folder.path().join("file"));
        fs::write(&file, "old").unwrap();
        let mut record = Record::open_in(&state, "1-a.json").unwrap();
        record.apply(&[step(&file)]).unwrap();
        assert_eq!(text(&file), "new");
        let other = Record::open_in(&state, "1-a.json").err().unwrap();
        assert!(other.to_string().contains("a running program"), "{other}");
        assert!(clean_up_in(&state, "1-").is_err(), "it is in use");
        let left = text(&state.join("1-a.json"));
        drop(record);
        assert_eq!(text(&file), "old");
        assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
        // A program that was killed leaves the change and the record.
        for of_next_start in [true, false] {
            fs::write(&file, "new").unwrap();
            fs::write(state.join("1-a.json"), &left).unwrap();
            clean_up_in(&state, "2-").unwrap();
            assert_eq!(text(&file), "new", "of another namespace");
            if of_next_start {
                drop(Record::open_in(&state, "1-a.json").unwrap())
            } else {
                clean_up_in(&state, "1-").unwrap()
            }
            assert_eq!(text(&file), "old");
            assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_failure_undoes_the_changes_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "old").unwrap();
        let mut record = Record::open_in(folder.path(), "1-a.json").unwrap();
        let failing = Step {
            act: Act::run("false"),
            change: None,
        };
        assert!(record.apply(&[step(&file), failing]).is_err());
        assert_eq!(text(&file), "old");
    }

    #[test]
    fn a_damaged_record_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("1-a.json"), "[{").unwrap();
        let error = Record::open_in(folder.path(), "1-a.json").err().unwrap();
        assert!(error.to_string().contains("1-a.json is damaged"), "{error}");
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Returns the reason why the record in a folder is left alone.
    fn refusal(folder: &Path) -> HostError {
        match clean_up_in(folder, "1-") {
            Err(TunError::CleanUpOf { source, .. }) => source,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn records_that_others_may_write_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (state, file) = (folder.path().join("state"), folder.path().join("file"));
        let record = state.join("1-a.json");
        fs::create_dir(&state).unwrap();
        fs::write(&file, "new").unwrap();
        let change = step(&file).change.unwrap();
        fs::write(&record, serde_json::to_vec(&[change]).unwrap()).unwrap();
        for (folder_mode, record_mode) in [(0o777, 0o600), (0o700, 0o666)] {
            set_mode(&state, folder_mode);
            set_mode(&record, record_mode);
            let refusal = refusal(&state);
            assert!(
                matches!(refusal, HostError::RecordShared { .. }),
                "{refusal}"
            );
            assert_eq!(text(&file), "new");
        }
        set_mode(&record, 0o600);
        // Only the superuser can give files away.
        if geteuid().is_root() {
            for path in [&record, &state] {
                std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
                let refusal = refusal(&state).to_string();
                assert!(refusal.contains("belongs to user 65534"), "{refusal}");
                assert_eq!(text(&file), "new");
                std::os::unix::fs::chown(path, Some(0), None).unwrap();
            }
        }
        let link = state.join("1-b.json");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(Record::open_in(&state, "1-b.json").is_err());
        fs::remove_file(link).unwrap();
        clean_up_in(&state, "1-").unwrap();
        assert_eq!(text(&file), "old");
    }
}
