//! One act on the machine: a command, or a file's new content.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anabranch_terminal::files::installed;

use super::file_content::FileContent;
use crate::tun::HostError;

/// An act on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Runs a program with its arguments and standard input.
    Run {
        program: String,
        arguments: Vec<String>,
        input: String,
    },
    /// Replaces a file, if it is as expected.
    Replace {
        path: PathBuf,
        from: FileContent,
        to: FileContent,
    },
}

impl Act {
    /// Returns a command without input. The words are those of `line`.
    pub(super) fn run(line: &str) -> Act {
        let mut words = line.split_whitespace().map(str::to_owned);
        Act::Run {
            program: words.next().unwrap_or_default(),
            arguments: words.collect(),
            input: String::new(),
        }
    }

    /// Returns the commands of nftables in `input`.
    pub(super) fn nft(input: String) -> Act {
        Act::Run {
            program: "nft".to_owned(),
            arguments: vec!["-f".to_owned(), "-".to_owned()],
            input,
        }
    }

    /// Makes the change.
    ///
    /// # Errors
    /// The program fails, or the file is another one than expected.
    pub(super) fn perform(&self) -> Result<(), HostError> {
        match self {
            Act::Run {
                program,
                arguments,
                input,
            } => {
                let complaint = match run(program, arguments, input) {
                    Ok(complaint) => complaint,
                    Err(error) => {
                        return Err(HostError::NotRun {
                            command: command_line(program, arguments),
                            source: Box::new(error),
                        });
                    }
                };
                match complaint {
                    None => Ok(()),
                    Some(complaint) => Err(HostError::Failed {
                        command: command_line(program, arguments),
                        complaint,
                    }),
                }
            }
            Act::Replace { path, from, to } => {
                let current = FileContent::read(path)?;
                if current != *from {
                    return Err(HostError::Changed { path: path.clone() });
                }
                to.write(path, &current).map_err(|source| HostError::Write {
                    path: path.clone(),
                    source,
                })
            }
        }
    }

    /// Makes the change as the undoing of another one, which may not have been made.
    ///
    /// # Errors
    /// As of [`Act::perform`], if the other change was made.
    pub(super) fn perform_as_undo(&self) -> Result<(), HostError> {
        if let Act::Replace { path, to, .. } = self {
            // The parameters of an interface vanish with it.
            let is_gone = path.parent().is_some_and(|folder| !folder.exists());
            if is_gone || FileContent::read(path)? == *to {
                return Ok(());
            }
        }
        match self.perform() {
            Err(error) if is_absence(&error.with_causes()) => Ok(()),
            performed => performed,
        }
    }
}

/// Returns whether a complaint of `ip` is about a rule, route or interface that does not exist.
fn is_absence(complaint: &str) -> bool {
    const OF_ABSENCE: [&str; 4] = [
        "No such file or directory",
        "No such process",
        "Cannot find device",
        "FIB table does not exist",
    ];
    OF_ABSENCE.iter().any(|part| complaint.contains(part))
}

/// Returns a program with its arguments, for an error.
fn command_line(program: &str, arguments: &[String]) -> String {
    format!("{program} {}", arguments.join(" "))
}

/// Runs a program. Returns its complaint if it fails. A group of its own keeps Ctrl-C from it.
fn run(program: &str, arguments: &[String], input: &str) -> Result<Option<String>, HostError> {
    let path = find(program)?;
    let mut child = Command::new(path)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that fails early does not read it.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    Ok((!output.status.success()).then(|| match complaint.trim() {
        "" => output.status.to_string(),
        complaint => complaint.replace('\n', "; "),
    }))
}

/// Returns the output of a program.
///
/// # Errors
/// The program is missing.
pub(super) fn output_of(line: &str) -> Result<String, HostError> {
    let mut words = line.split_whitespace();
    let path = find(words.next().unwrap_or_default())?;
    let output = Command::new(path).args(words).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the path of a program, which users' search paths need not include.
///
/// # Errors
/// The program is missing.
pub(super) fn find(program: &str) -> Result<PathBuf, HostError> {
    let mut usual = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(program));
    let found = installed(program).or_else(|| usual.find(|path| path.is_file()));
    found.ok_or_else(|| HostError::ProgramMissing {
        program: program.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use rustix::fs::Mode;
    use rustix::process::umask;

    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::tun::host::step::Step;

    #[test]
    fn a_replaced_file_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolv.conf");
        let new = FileContent::Text("nameserver 192.0.2.53\n".to_owned());
        let link = FileContent::Link(PathBuf::from("../run/resolv.conf"));
        for old in [
            FileContent::Absent,
            FileContent::Text("old\n".to_owned()),
            link,
        ] {
            if old != FileContent::Absent {
                old.write(&path, &FileContent::Absent).unwrap();
            }
            let step = Step::replace(&path, old.clone(), new.clone());
            let undo = step.change.unwrap().undoing();
            undo.perform_as_undo().unwrap();
            assert_eq!(
                FileContent::read(&path).unwrap(),
                old,
                "the change was not made"
            );
            step.act.perform().unwrap();
            assert_eq!(FileContent::read(&path).unwrap(), new);
            undo.perform_as_undo().unwrap();
            assert_eq!(FileContent::read(&path).unwrap(), old);
            let _ = fs::remove_file(&path);
        }
    }

    #[test]
    fn a_new_file_can_be_read_by_all_in_spite_of_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolv.conf");
        let text = FileContent::Text("nameserver 192.0.2.53\n".to_owned());
        let earlier = umask(Mode::from_raw_mode(0o077));
        let written = text.write(&path, &FileContent::Absent);
        umask(earlier);
        written.unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }

    #[test]
    fn a_file_that_another_program_has_changed_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolv.conf");
        let [old, new, other] =
            ["old", "new", "other"].map(|text| FileContent::Text(text.to_owned()));
        other.write(&path, &FileContent::Absent).unwrap();
        let step = Step::replace(&path, old, new);
        for act in [step.act, step.change.unwrap().undoing()] {
            let error = act.perform_as_undo().unwrap_err().to_string();
            assert!(error.contains("changed by another program"), "{error}");
        }
        assert_eq!(FileContent::read(&path).unwrap(), other);
        let gone = folder.path().join("gone/accept_ra");
        let step = Step::replace(&gone, FileContent::Absent, other);
        let undo = step.change.unwrap().undoing();
        undo.perform_as_undo().unwrap();
    }

    #[test]
    fn failures_show_the_command_and_its_complaint() {
        let error = Act::run("ls /nowhere/at/all").perform().unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("ls /nowhere/at/all: "), "{text}");
        Act::run("ls /nowhere/at/all").perform_as_undo().unwrap();
        let error = Act::run("no-such-program-9 x").perform().unwrap_err();
        let text = error.with_causes();
        assert!(text.contains("no-such-program-9 is missing"), "{text}");
    }
}
