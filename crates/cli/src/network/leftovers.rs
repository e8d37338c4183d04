//! Programs that outlive `link`: background programs of its command, and those of a `link` that was
//! killed. They keep its network alive.
//!
//! Every program that `link` starts has the run's name in its environment. A file of that name,
//! which is locked while `link` runs, shows the next one whether that run has crashed. The file has
//! the numbers of the run's namespaces, too: a program may clear its environment and lose its
//! parent, but it stays in its namespace. The kernel gives numbers again, so each namespace has a
//! mark: an address of its own, which `/proc` shows.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::net::Ipv4Addr;
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

/// Marks by which the programs of a run are found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Marks {
    /// Name of the run, which is in the programs' environment.
    name: String,
    /// Address in the run's namespaces.
    address: Ipv4Addr,
    /// Numbers of its namespaces.
    namespaces: Vec<u64>,
}

impl Marks {
    /// Returns the marks of a run that has no namespaces yet.
    fn new(name: String) -> Marks {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let [first, second, third, ..] = hasher.finish().to_ne_bytes();
        // Programs use addresses of 127.0.0.0/16.
        let address = Ipv4Addr::new(127, first.max(1), second, third);
        Marks {
            name,
            address,
            namespaces: Vec::new(),
        }
    }

    /// Returns the marks in a record's file.
    fn parse(name: &str, text: &str) -> Marks {
        let numbers = text.lines().map_while(|line| line.parse().ok());
        Marks {
            namespaces: numbers.collect(),
            ..Marks::new(name.to_owned())
        }
    }
}

/// The record of a run. It is removed when dropped.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    /// Locked for as long as the program lives.
    file: File,
    marks: Marks,
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
        let file =
            create_locked(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Record {
            path,
            file,
            marks: Marks::new(name),
        })
    }

    /// Returns the run's name, for the environment of its programs.
    pub(super) fn name(&self) -> &str {
        &self.marks.name
    }

    /// Returns the address that marks the run's namespaces.
    pub(super) fn address(&self) -> Ipv4Addr {
        self.marks.address
    }

    /// Records a namespace of this run.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(super) fn add_namespace(&mut self, number: u64) -> io::Result<()> {
        self.marks.namespaces.push(number);
        writeln!(self.file, "{number}")
    }

    /// Ends all programs of this run, and returns their number.
    pub(super) fn end_programs(&self) -> usize {
        end_programs(&self.marks)
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
    let mut folders = Vec::new();
    if user.is_root() {
        folders.push(PathBuf::from("/run/anabranch"));
    }
    if let Some(folder) = std::env::var_os("XDG_RUNTIME_DIR") {
        folders.push(Path::new(&folder).join("anabranch"));
    }
    folders.push(std::env::temp_dir().join(format!("anabranch-{}", user.as_raw())));
    for folder in &folders {
        let is_made = make_private_folder(folder).is_ok();
        // Another user may have made a folder of this name in a folder of all users.
        if is_made
            && fs::symlink_metadata(folder)
                .is_ok_and(|found| found.is_dir() && found.uid() == user.as_raw())
        {
            return Ok(folder.clone());
        }
    }
    bail!(
        "cannot make a folder for the record of this run: {}",
        folders[0].display()
    )
}

fn create_locked(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    file.try_lock()?;
    Ok(file)
}

fn unreadable(folder: &Path) -> String {
    format!("cannot read {}", folder.display())
}

/// Ends the programs of all runs in a folder of records whose `link` has crashed, and removes the
/// records. Returns the number of ended programs.
fn clean(folder: &Path, end: &dyn Fn(&Marks) -> usize) -> anyhow::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder).with_context(|| unreadable(folder))? {
        let path = entry.with_context(|| unreadable(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        // One that is gone, or locked, belongs to a program that runs.
        let Ok(file) = File::open(&path) else {
            continue;
        };
        if file.try_lock().is_ok() {
            let text = fs::read_to_string(&path).unwrap_or_default();
            count += end(&Marks::parse(name, &text));
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
fn end_programs(marks: &Marks) -> usize {
    let mut ended = BTreeSet::new();
    for _ in 0..MAX_ROUND_COUNT {
        let found = programs(&processes(marks));
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
    /// Whether its environment or its namespace has the run's mark.
    is_marked: bool,
}

fn processes(marks: &Marks) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let variable = format!("{VARIABLE}={}", marks.name).into_bytes();
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
        let mut variables = environment.split(|byte| *byte == 0);
        let is_marked =
            variables.any(|found| found == variable) || is_in_a_namespace(&entry.path(), marks);
        processes.push(Process {
            id,
            parent: fields.next().and_then(|id| id.parse().ok()).unwrap_or(0),
            is_marked,
        });
    }
    processes
}

/// Returns whether a process with this folder of `/proc` is in one of the run's namespaces.
fn is_in_a_namespace(process: &Path, marks: &Marks) -> bool {
    let namespace = fs::metadata(process.join("ns/net"));
    if !namespace.is_ok_and(|found| marks.namespaces.contains(&found.ino())) {
        return false;
    }
    let addresses = fs::read_to_string(process.join("net/fib_trie"));
    addresses.is_ok_and(|addresses| has_address(&addresses, marks.address))
}

/// Returns whether a text of `/proc/PID/net/fib_trie` has an address.
fn has_address(addresses: &str, address: Ipv4Addr) -> bool {
    let leaf = format!("|-- {address}");
    addresses.lines().any(|line| line.trim() == leaf)
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

    use anabranch_emu::namespace::Namespace;

    use super::*;

    /// Cleans a folder as if each run had two programs, and adds the ended ones.
    fn clean_into(ended: &RefCell<Vec<Marks>>, folder: &Path) -> usize {
        let count = clean(folder, &|marks| {
            ended.borrow_mut().push(marks.clone());
            2
        });
        count.unwrap()
    }

    #[test]
    fn a_record_is_cleaned_after_its_program_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let ended = RefCell::new(Vec::new());
        let record = Record::in_folder(folder.path(), "7-100".to_owned()).unwrap();
        fs::write(folder.path().join("other"), "").unwrap();
        assert_eq!(clean_into(&ended, folder.path()), 0);
        drop(record);
        assert_eq!(clean_into(&ended, folder.path()), 0, "it ended in order");
        // A crash releases the lock and leaves the file.
        let mut record = Record::in_folder(folder.path(), "8-200".to_owned()).unwrap();
        for number in [4_026_531_999, 4_026_532_001] {
            record.add_namespace(number).unwrap();
        }
        let marks = record.marks.clone();
        fs::rename(&record.path, folder.path().join("kept")).unwrap();
        drop(record);
        fs::rename(folder.path().join("kept"), folder.path().join("link-8-200")).unwrap();
        assert_eq!(clean_into(&ended, folder.path()), 2);
        assert_eq!(clean_into(&ended, folder.path()), 0);
        assert_eq!(marks.namespaces.len(), 2);
        assert_eq!(*ended.borrow(), [marks]);
        assert!(folder.path().join("other").exists());
    }

    #[test]
    fn descendants_of_a_runs_programs_are_its_programs() {
        let processes = [
            (5, 4, false),
            (4, 3, false),
            (3, 2, true),
            (2, 1, false),
            (6, 1, true),
            (7, 2, false),
        ]
        .map(|(id, parent, is_marked)| Process {
            id,
            parent,
            is_marked,
        });
        assert_eq!(programs(&processes), BTreeSet::from([3, 4, 5, 6]));
    }

    /// Returns the kernel's list of addresses with one of them.
    fn trie(address: Ipv4Addr) -> String {
        format!("Local:\n     |-- {address}\n        /32 host LOCAL\n")
    }

    #[test]
    fn a_number_that_another_namespace_has_now_is_no_mark() {
        let marks = Marks::new("8-200".to_owned());
        let [first, second, third, fourth] = marks.address.octets();
        assert!(first == 127 && second > 0, "{}", marks.address);
        assert!(has_address(&trie(marks.address), marks.address));
        let other = Ipv4Addr::new(first, second, third, fourth.wrapping_add(1));
        assert!(!has_address(&trie(other), marks.address));
        let own = Marks {
            namespaces: vec![Namespace::current().unwrap().number().unwrap()],
            ..marks
        };
        assert!(!is_in_a_namespace(Path::new("/proc/self"), &own));
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
