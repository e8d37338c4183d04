//! Programs that outlive `link`: background programs of its command, and those of a `link` that was
//! killed. They keep its network alive.
//!
//! Every program that `link` starts has the run's name in its environment. A file of that name,
//! which is locked while `link` runs, shows the next one whether that run has crashed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anabranch_terminal::files::make_private_folder;
use anabranch_terminal::print;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, geteuid, getpid, kill_process};

/// Variable of the environment with the run's name.
pub(super) const VARIABLE: &str = "ANABRANCH_LINK";
/// Beginning of a record's file name.
const PREFIX: &str = "link-";
/// Number of rounds in which programs are ended: one that forks may have a new child in each.
const MAX_ROUND_COUNT: usize = 10;

/// The record of a run. It is removed when dropped.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    /// Locked for as long as the program lives.
    _file: File,
    /// Name of the run.
    pub(super) name: String,
}

impl Record {
    /// Ends the programs of runs that have crashed, and makes a record of this run.
    ///
    /// # Errors
    /// No folder for records can be written.
    pub(super) fn new() -> anyhow::Result<Record> {
        let folder = folder()?;
        let count = clean(&folder, &end_programs)?;
        if count > 0 {
            print::note(format_args!(
                "ended {count} programs that a killed `link` had left"
            ));
        }
        Record::in_folder(&folder, own_name()?)
    }

    fn in_folder(folder: &Path, name: String) -> anyhow::Result<Record> {
        let path = folder.join(format!("{PREFIX}{name}"));
        let context = || format!("cannot write {}", path.display());
        let file = File::create(&path).with_context(context)?;
        file.try_lock()
            .map_err(io::Error::from)
            .with_context(context)?;
        Ok(Record {
            path,
            _file: file,
            name,
        })
    }

    /// Ends all programs of this run, and returns their number.
    pub(super) fn end_programs(&self) -> usize {
        end_programs(&self.name)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // If it stays, the next run finds no programs of that name, and removes it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the folder of the records: one that a restart of the machine empties.
fn folder() -> anyhow::Result<PathBuf> {
    let user = geteuid();
    let mut candidates = Vec::new();
    if user.is_root() {
        candidates.push(PathBuf::from("/run/anabranch"));
    }
    if let Some(folder) = std::env::var_os("XDG_RUNTIME_DIR") {
        candidates.push(Path::new(&folder).join("anabranch"));
    }
    candidates.push(std::env::temp_dir().join(format!("anabranch-{}", user.as_raw())));
    for candidate in &candidates {
        let is_made = make_private_folder(candidate).is_ok();
        // Another user may have made a folder of this name in a folder of all users.
        let is_own = |found: fs::Metadata| found.is_dir() && found.uid() == user.as_raw();
        if is_made && fs::symlink_metadata(candidate).is_ok_and(is_own) {
            return Ok(candidate.clone());
        }
    }
    bail!(
        "cannot make a folder for the record of this run: {}",
        candidates[0].display()
    )
}

/// Ends the programs of all runs in a folder of records whose `link` has crashed, and removes the
/// records. Returns the number of ended programs.
fn clean(folder: &Path, end: &dyn Fn(&str) -> usize) -> anyhow::Result<usize> {
    let context = || format!("cannot read {}", folder.display());
    let mut count = 0;
    for entry in fs::read_dir(folder).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        // One that is gone, or locked, belongs to a program that runs.
        let Ok(file) = File::open(&path) else {
            continue;
        };
        if file.try_lock().is_ok() {
            count += end(name);
            let _ = fs::remove_file(&path);
        }
    }
    Ok(count)
}

/// Returns a name that no other run on this machine has: the process and the time of its start.
fn own_name() -> anyhow::Result<String> {
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read /proc")?;
    let started = after_name(&stat)
        .nth(19)
        .context("/proc/self/stat has no start")?;
    Ok(format!("{}-{started}", getpid().as_raw_pid()))
}

/// Returns the fields of a process's `stat` behind its name, which may contain spaces (proc(5)).
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace()
}

/// Ends all programs of a run, and returns their number.
fn end_programs(name: &str) -> usize {
    let mut ended = BTreeSet::new();
    for _ in 0..MAX_ROUND_COUNT {
        let found = programs(&processes(name));
        let new: Vec<i32> = found.into_iter().filter(|id| !ended.contains(id)).collect();
        if new.is_empty() {
            break;
        }
        for id in new {
            let killed = Pid::from_raw(id).map(|id| kill_process(id, Signal::KILL));
            if killed.is_some_and(|killed| killed.is_ok()) {
                ended.insert(id);
            }
        }
    }
    ended.len()
}

/// A process and its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: i32,
    parent: i32,
    /// Whether its environment has the run's name.
    is_marked: bool,
}

fn processes(name: &str) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mark = format!("{VARIABLE}={name}").into_bytes();
    let mut processes = Vec::new();
    for entry in entries.flatten() {
        let id = entry.file_name().to_str().and_then(|id| id.parse().ok());
        let stat = fs::read_to_string(entry.path().join("stat"));
        let (Some(id), Ok(stat)) = (id, stat) else {
            continue;
        };
        // A process that has ended, and whose parent has not asked for its code, keeps nothing.
        let mut fields = after_name(&stat);
        if fields.next() == Some("Z") {
            continue;
        }
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        processes.push(Process {
            id,
            parent: fields.next().and_then(|id| id.parse().ok()).unwrap_or(0),
            is_marked: environment
                .split(|byte| *byte == 0)
                .any(|part| part == mark),
        });
    }
    processes
}

/// Returns the marked processes and their descendants, which may have cleared their environment.
fn programs(processes: &[Process]) -> BTreeSet<i32> {
    let marked = processes.iter().filter(|process| process.is_marked);
    let mut found: BTreeSet<i32> = marked.map(|process| process.id).collect();
    loop {
        let count = found.len();
        for process in processes {
            if found.contains(&process.parent) {
                found.insert(process.id);
            }
        }
        if found.len() == count {
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_record_is_cleaned_after_its_program_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let ended = RefCell::new(Vec::new());
        let end = |name: &str| {
            ended.borrow_mut().push(name.to_owned());
            2
        };
        let record = Record::in_folder(folder.path(), "7-100".to_owned()).unwrap();
        fs::write(folder.path().join("other"), "").unwrap();
        assert_eq!(clean(folder.path(), &end).unwrap(), 0);
        drop(record);
        assert_eq!(clean(folder.path(), &end).unwrap(), 0, "it ended in order");
        // A crash releases the lock and leaves the file.
        fs::write(folder.path().join("link-8-200"), "").unwrap();
        assert_eq!(clean(folder.path(), &end).unwrap(), 2);
        assert_eq!(clean(folder.path(), &end).unwrap(), 0);
        assert_eq!(*ended.borrow(), ["8-200"]);
        assert!(folder.path().join("other").exists());
    }

    #[test]
    fn descendants_of_a_runs_programs_are_its_programs() {
        let process = |id, parent, is_marked| Process {
            id,
            parent,
            is_marked,
        };
        let processes = [
            process(5, 4, false),
            process(4, 3, false),
            process(3, 2, true),
            process(2, 1, false),
            process(6, 1, true),
            process(7, 2, false),
        ];
        assert_eq!(programs(&processes), BTreeSet::from([3, 4, 5, 6]));
    }

    #[test]
    fn fields_are_read_behind_a_name_with_spaces() {
        let stat = "77 (a (b) c) S 12 77 0";
        assert_eq!(after_name(stat).collect::<Vec<_>>(), ["S", "12", "77", "0"]);
        assert!(
            own_name()
                .unwrap()
                .starts_with(&std::process::id().to_string())
        );
    }
}
