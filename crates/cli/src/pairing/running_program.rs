//! The file by which `anabranch pair` finds a running program: `senders.program` beside `senders`.
//!
//! The program holds a lock on it as long as it runs. The file that a killed program leaves behind
//! therefore invites nobody.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anabranch_net::system::allow_owner_alone;
use anabranch_secure::PublicKey;
use anyhow::{Context, anyhow, ensure};

use super::private_file::{beside, value_of};
use crate::system::{self, Hold};

/// End of the file's name, behind that of the list.
const ENDING: &str = ".program";
/// Upper bound on the length of a file.
const MAX_BYTES: u64 = 4_096;

/// The way into a running program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningProgram {
    /// The command: `recv`, `serve` or `serve --relay`.
    pub(crate) command: String,
    /// Public key of the program.
    pub(crate) key: PublicKey,
    /// Local address at which it listens.
    pub(crate) local: SocketAddr,
    /// Host and port by which its user or a router has it reached; empty if that is not known.
    pub(crate) outside: String,
}

/// The file of this program, which is locked.
#[derive(Debug)]
pub(crate) struct Announcement {
    file: File,
    path: PathBuf,
    _hold: Hold,
}

impl RunningProgram {
    /// Writes the file beside a list, and locks it until the program ends. `None` if another
    /// program has it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn open(&self, list: &Path) -> io::Result<Option<Announcement>> {
        let path = beside(list, ENDING);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = allow_owner_alone(&mut options).open(&path)?;
        let Some(hold) = system::hold(&file, &path) else {
            return Ok(None);
        };
        let mut open = Announcement {
            file,
            path,
            _hold: hold,
        };
        open.write(self)?;
        Ok(Some(open))
    }

    /// Reads the file of the running program that has this list.
    ///
    /// # Errors
    /// No program runs that has it, or the file cannot be read.
    pub(crate) fn of(list: &Path) -> anyhow::Result<RunningProgram> {
        let path = beside(list, ENDING);
        let shown = list.display();
        let absent = format!(
            "no running program has the list {shown}: start `anabranch recv --pair`, or one with \
             --allow-from {shown}"
        );
        let file = File::open(&path).with_context(|| absent.clone())?;
        let is_held = system::is_held(&file, &path);
        ensure!(is_held, "{absent}");
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text)?;
        RunningProgram::read(&text)
            .with_context(|| format!("{} cannot be understood", path.display()))
    }

    /// Returns the lists of a folder whose programs run.
    pub(crate) fn all_in(folder: &Path) -> Vec<PathBuf> {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        let mut lists: Vec<PathBuf> = entries
            .filter_map(|entry| {
                let path = entry.path();
                let name = path.file_name()?.to_str()?.strip_suffix(ENDING)?;
                Some(path.with_file_name(name))
            })
            .collect();
        lists.retain(|list| RunningProgram::of(list).is_ok());
        lists.sort();
        lists
    }

    fn read(text: &str) -> anyhow::Result<RunningProgram> {
        Ok(RunningProgram {
            command: line(text, "command")?.to_owned(),
            key: line(text, "key")?.parse()?,
            local: line(text, "local")?.parse()?,
            outside: line(text, "outside")?.to_owned(),
        })
    }

    fn to_text(&self) -> String {
        let RunningProgram {
            command,
            key,
            local,
            outside,
        } = self;
        format!("command = {command}\nkey = {key}\nlocal = {local}\noutside = {outside}\n")
    }
}

/// Returns the value of a line of the file.
fn line<'a>(text: &'a str, name: &str) -> anyhow::Result<&'a str> {
    value_of(text, name).ok_or_else(|| anyhow!("`{name}` is missing"))
}

impl Announcement {
    /// Writes the text of the file.
    fn write(&mut self, program: &RunningProgram) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(program.to_text().as_bytes())
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // Without the file, nobody is invited either.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    #[test]
    fn a_program_is_found_while_it_runs() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("senders");
        let error = RunningProgram::of(&list).unwrap_err().to_string();
        assert!(error.contains("recv --pair"), "{error}");
        let program = RunningProgram {
            command: "recv".to_owned(),
            key: SecretKey::generate().public_key(),
            local: "0.0.0.0:7000".parse().unwrap(),
            outside: String::new(),
        };
        let mut open = program.open(&list).unwrap().expect("nobody has it");
        assert_eq!(RunningProgram::of(&list).unwrap(), program);
        assert!(program.open(&list).unwrap().is_none(), "another program");
        let moved = RunningProgram {
            outside: "studio.example:7000".to_owned(),
            ..program.clone()
        };
        open.write(&moved).unwrap();
        assert_eq!(RunningProgram::of(&list).unwrap(), moved);
        assert_eq!(
            RunningProgram::all_in(folder.path()),
            std::slice::from_ref(&list)
        );
        drop(open);
        assert!(RunningProgram::of(&list).is_err());
        // A killed program leaves its file behind.
        std::fs::write(beside(&list, ENDING), program.to_text()).unwrap();
        assert!(RunningProgram::of(&list).is_err());
        assert!(RunningProgram::all_in(folder.path()).is_empty());
    }
}
