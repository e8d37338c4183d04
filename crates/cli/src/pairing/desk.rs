//! The codes of a running program: of its own link, and of those that `anabranch pair` prints.

use std::path::{Path, PathBuf};

use anabranch_net::{PairingOutcome, Receiver, StreamServer};
use anabranch_secure::{PairingCode, PublicKey};
use anabranch_terminal::print;
use anabranch_units::Duration;

use super::LASTS;
use super::invitation::Invitation;
use super::phone_request::PhoneRequest;
use super::running_program::{Announcement, RunningProgram};
use crate::allowed::{AllowList, StreamName};

/// A running end that lets peers in by codes.
pub(crate) trait Pairs {
    /// Lets in the first peer with a code, for a while.
    fn start_pairing(&self, code: PairingCode, lasts: Duration);
    /// Takes a code back.
    fn stop_pairing(&self, code: &PairingCode);
    /// Takes the outcomes of codes.
    fn take_pairing_outcomes(&self) -> Vec<PairingOutcome>;
}

impl Pairs for Receiver {
    fn start_pairing(&self, code: PairingCode, lasts: Duration) {
        Receiver::start_pairing(self, code, lasts);
    }

    fn stop_pairing(&self, code: &PairingCode) {
        Receiver::stop_pairing(self, code);
    }

    fn take_pairing_outcomes(&self) -> Vec<PairingOutcome> {
        Receiver::take_pairing_outcomes(self)
    }
}

impl Pairs for StreamServer {
    fn start_pairing(&self, code: PairingCode, lasts: Duration) {
        StreamServer::start_pairing(self, code, lasts);
    }

    fn stop_pairing(&self, code: &PairingCode) {
        StreamServer::stop_pairing(self, code);
    }

    fn take_pairing_outcomes(&self) -> Vec<PairingOutcome> {
        StreamServer::take_pairing_outcomes(self)
    }
}

/// A code that waits for its peer.
#[derive(Debug)]
struct Offered {
    code: PairingCode,
    name: Option<StreamName>,
    /// File of the invitation; `None` for the program's own link.
    file: Option<PathBuf>,
}

/// The codes that wait for their peers.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    list: Option<PathBuf>,
    program: Option<Announcement>,
    offered: Vec<Offered>,
    /// Files that could not be read, which are reported once.
    unread: Vec<PathBuf>,
}

impl Desk {
    /// Opens the desk of a program with this list of peers, if it has one.
    pub(crate) fn open(list: Option<&Path>, program: &RunningProgram) -> Desk {
        let opened = list.map(|list| program.open(list));
        let program = match opened {
            Some(Ok(Some(program))) => Some(program),
            Some(Ok(None)) => {
                print::note("another program with this list adds the senders of `anabranch pair`");
                None
            }
            // A list that this program may only read stays as its owner writes it.
            Some(Err(_)) | None => None,
        };
        Desk {
            list: list.map(Path::to_owned),
            program,
            ..Desk::default()
        }
    }

    /// Makes the code of a link of the program's own. The peer that uses it gets the name.
    pub(crate) fn invite(&mut self, end: &dyn Pairs, name: Option<StreamName>) -> PairingCode {
        let code = PairingCode::generate();
        end.start_pairing(code.clone(), LASTS);
        self.offered.push(Offered {
            code: code.clone(),
            name,
            file: None,
        });
        code
    }

    /// Returns the codes of the program's own links that nobody has used.
    pub(crate) fn own_codes(&self) -> impl Iterator<Item = &PairingCode> {
        let own = self.offered.iter().filter(|offered| offered.file.is_none());
        own.map(|offered| &offered.code)
    }

    /// Returns the files by which `anabranch pair` asks for phones.
    pub(crate) fn phone_requests(&self) -> Vec<PathBuf> {
        match (&self.list, &self.program) {
            (Some(list), Some(_)) => PhoneRequest::files(list),
            _ => Vec::new(),
        }
    }

    /// Takes new invitations, and the codes back whose files are gone.
    pub(crate) fn take_invitations(&mut self, end: &dyn Pairs) {
        let (Some(list), Some(_)) = (&self.list, &self.program) else {
            return;
        };
        let files = Invitation::files(list);
        self.offered.retain(|offered| {
            let is_kept = offered
                .file
                .as_ref()
                .is_none_or(|file| files.contains(file));
            if !is_kept {
                end.stop_pairing(&offered.code);
            }
            is_kept
        });
        self.unread.retain(|file| files.contains(file));
        for file in files {
            if self
                .offered
                .iter()
                .any(|offered| offered.file.as_ref() == Some(&file))
                || self.unread.contains(&file)
            {
                continue;
            }
            match Invitation::read(&file) {
                Ok(invitation) => match invitation.remaining() {
                    Some(remaining) => {
                        end.start_pairing(invitation.code.clone(), remaining);
                        self.offered.push(Offered {
                            code: invitation.code,
                            name: invitation.name,
                            file: Some(file),
                        });
                    }
                    None => Invitation::remove(&file),
                },
                Err(error) => {
                    print::warn(format_args!("{}: {error:#}", file.display()));
                    self.unread.push(file);
                }
            }
        }
    }

    /// Adds the peers that have used a code to the list. Returns whether there were any.
    pub(crate) fn take_paired(&mut self, end: &dyn Pairs, allowed: &mut AllowList) -> bool {
        if self.offered.is_empty() {
            return false;
        }
        let mut has_changed = false;
        for outcome in end.take_pairing_outcomes() {
            match outcome {
                PairingOutcome::Paired { peer, code } => {
                    let name = self.take(&code).and_then(|offered| offered.name);
                    add(allowed, peer, name);
                    has_changed = true;
                }
                PairingOutcome::Expired { code } => {
                    self.take(&code);
                    print::warn(
                        "a link has expired unused: `anabranch pair` prints another for this \
                         program",
                    );
                }
                _ => {}
            }
        }
        has_changed
    }

    /// Forgets a code, and removes its file.
    fn take(&mut self, code: &PairingCode) -> Option<Offered> {
        let at = self.offered.iter().position(|held| held.code == *code)?;
        let offered = self.offered.remove(at);
        if let Some(file) = &offered.file {
            Invitation::remove(file);
        }
        Some(offered)
    }
}

/// Adds a peer to the list, and prints its name.
fn add(allowed: &mut AllowList, peer: PublicKey, name: Option<StreamName>) {
    let kept = allowed.add(peer, name);
    let name = allowed.name_of(&peer);
    let paired = format!("paired with {}, {peer}", name.as_str());
    match kept {
        Ok(path) => print::note(format_args!("{paired}: now in {}", path.display())),
        Err(error) => print::warn(format_args!(
            "{paired}; it is let in until this program ends: {error:#}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;

    use anabranch_secure::SecretKey;

    use super::*;
    use crate::allowed::ListenCommand as Side;

    /// An end that keeps its codes, and whose outcomes the test sets.
    #[derive(Default)]
    struct End {
        codes: RefCell<Vec<PairingCode>>,
        outcomes: RefCell<Vec<PairingOutcome>>,
    }

    impl Pairs for End {
        fn start_pairing(&self, code: PairingCode, _: Duration) {
            self.codes.borrow_mut().push(code);
        }

        fn stop_pairing(&self, code: &PairingCode) {
            self.codes.borrow_mut().retain(|held| held != code);
        }

        fn take_pairing_outcomes(&self) -> Vec<PairingOutcome> {
            self.outcomes.take()
        }
    }

    #[test]
    fn invitations_come_are_used_by_name_and_are_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("senders");
        fs::write(&list, "# the list\n").unwrap();
        let mut allowed = AllowList::new(Side::Recv, Vec::new(), Some(&list)).unwrap();
        let program = RunningProgram {
            command: "recv".to_owned(),
            key: SecretKey::generate().public_key(),
            local: "127.0.0.1:7000".parse().unwrap(),
            outside: String::new(),
        };
        let mut desk = Desk::open(Some(&list), &program);
        let end = End::default();
        let lasts = Duration::from_secs(60);
        let roof = Invitation::new(Some("roof".parse().unwrap()), lasts);
        let nameless = Invitation::new(None, lasts);
        let files = [&roof, &nameless].map(|made| made.write(&list).unwrap());
        Invitation::new(None, Duration::ZERO).write(&list).unwrap();
        desk.take_invitations(&end);
        desk.take_invitations(&end);
        assert_eq!(end.codes.borrow().len(), 2, "the third is over");
        assert_eq!(Invitation::files(&list).len(), 2);
        let peer = SecretKey::generate().public_key();
        let code = roof.code.clone();
        end.outcomes
            .replace(vec![PairingOutcome::Paired { peer, code }]);
        assert!(desk.take_paired(&end, &mut allowed));
        assert!(!desk.take_paired(&end, &mut allowed));
        assert_eq!(allowed.name_of(&peer).as_str(), "roof");
        let text = fs::read_to_string(&list).unwrap();
        assert_eq!(text, format!("# the list\n{peer} roof\n"));
        assert!(!files[0].exists() && files[1].exists());
        // Somebody who does not wait any longer removes the other.
        Invitation::remove(&files[1]);
        desk.take_invitations(&end);
        assert!(!end.codes.borrow().contains(&nameless.code));
        assert!(desk.offered.is_empty());
        let code = desk.invite(&end, None);
        assert_eq!(desk.own_codes().collect::<Vec<_>>(), [&code]);
        let outcome = PairingOutcome::Expired { code };
        end.outcomes.replace(vec![outcome]);
        desk.take_paired(&end, &mut allowed);
        assert_eq!(desk.own_codes().count(), 0, "links that are good alone");
    }
}
