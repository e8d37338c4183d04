//! The paths of a sender by their numbers.
//!
//! A path that is removed keeps its number until another one is added, which takes it over.

use std::net::UdpSocket;

use anabranch_core::PathId;
use anabranch_net::words::{ParseViaError, ViaArgument};
use anabranch_net::{ClientPath, OwnSocket, Remote, Via};

use crate::error::{Error, ErrorCode};

#[derive(Debug, Default)]
pub(crate) struct PathBook(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    path: ClientPath,
    is_removed: bool,
}

/// Number for a path that joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The next number.
    Next,
    /// The number of a path that was removed.
    Of(PathId),
}

impl PathBook {
    /// Returns the paths.
    pub(crate) fn paths(&self) -> Vec<ClientPath> {
        self.0.iter().map(|entry| entry.path.clone()).collect()
    }

    /// Returns the name of a path, and whether it was removed.
    pub(crate) fn name(&self, index: usize) -> Option<(String, bool)> {
        let entry = self.0.get(index)?;
        Some((entry.path.via.to_string(), entry.is_removed))
    }

    /// Returns the number for a path that joins.
    pub(crate) fn place(&self) -> Place {
        let removed = self.0.iter().position(|entry| entry.is_removed);
        removed.map_or(Place::Next, |index| Place::Of(PathId(index as u8)))
    }

    /// Returns whether a path is in use that leaves by the same way.
    pub(crate) fn has(&self, path: &ClientPath) -> bool {
        let mut used = self.0.iter().filter(|entry| !entry.is_removed);
        used.any(|entry| entry.path.via == path.via && entry.path.remote == path.remote)
    }

    /// Records a path at its place. Returns its number.
    pub(crate) fn settle(&mut self, place: Place, path: ClientPath) -> PathId {
        let entry = Entry {
            path,
            is_removed: false,
        };
        match place {
            Place::Of(id) => {
                self.0[id.index()] = entry;
                id
            }
            Place::Next => {
                self.0.push(entry);
                PathId((self.0.len() - 1) as u8)
            }
        }
    }

    /// Records that a path is removed, and closes the application's socket.
    pub(crate) fn remove(&mut self, path: u32) -> Result<PathId, Error> {
        let known = self.0.get_mut(path as usize);
        let Some(entry) = known.filter(|entry| !entry.is_removed) else {
            let text = format!("there is no path {path}");
            return Err(Error::new(ErrorCode::Path, text));
        };
        entry.is_removed = true;
        if let Via::Socket(socket) = &entry.path.via {
            socket.close();
        }
        Ok(PathId(path as u8))
    }
}

fn wrong(text: &str, reason: &str) -> Error {
    Error::new(ErrorCode::Path, format!("path {text:?}: {reason}"))
}

/// Returns a path as its text says: `wlan0`, `192.0.2.7` or `wwan0,metered,max=3Mbit/s`. With a
/// socket, the text before the first comma is its name.
pub(crate) fn path(
    text: &str,
    socket: Option<UdpSocket>,
    remote: &Remote,
) -> Result<ClientPath, Error> {
    let argument: ViaArgument = text
        .parse()
        .map_err(|error: ParseViaError| wrong(text, &error.to_string()))?;
    if argument.cap.is_some() {
        return Err(wrong(text, "only programs count volumes: leave cap out"));
    }
    if argument.via.pattern().is_some() {
        let reason = "a pattern stands for interfaces that come and go: add each when it comes";
        return Err(wrong(text, reason));
    }
    let is_unnamed = text.split(',').next().is_none_or(str::is_empty);
    let via = match socket {
        None if is_unnamed => Via::DefaultRoute,
        None => argument.via,
        Some(socket) => Via::Socket(OwnSocket::new(argument.via.to_string(), socket)),
    };
    Ok(ClientPath {
        via,
        remote: remote.clone(),
        options: argument.options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote() -> Remote {
        "192.0.2.1:7000".parse().expect("an address")
    }

    #[test]
    fn a_removed_path_gives_its_number_to_the_next() {
        let mut book = PathBook::default();
        for name in ["wlan0", "wwan0"] {
            let path = path(name, None, &remote()).expect("it is a path");
            assert!(!book.has(&path));
            book.settle(book.place(), path.clone());
            assert!(book.has(&path));
        }
        assert_eq!(book.place(), Place::Next);
        book.remove(0).expect("it is there");
        assert_eq!(book.remove(0).unwrap_err().code, ErrorCode::Path);
        assert_eq!(book.remove(7).unwrap_err().code, ErrorCode::Path);
        assert_eq!(book.name(0), Some(("wlan0".to_owned(), true)));
        let again = path("wlan0", None, &remote()).expect("it is a path");
        assert!(!book.has(&again), "the removed one does not count");
        assert_eq!(book.place(), Place::Of(PathId(0)));
        assert_eq!(book.settle(book.place(), again), PathId(0));
        assert_eq!(book.place(), Place::Next);
    }

    #[test]
    fn a_socket_is_named_and_has_options() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let made = path("wwan0,metered", Some(socket), &remote()).expect("it is a path");
        assert!(matches!(&made.via, Via::Socket(socket) if socket.name() == "wwan0"));
        assert!(made.options.is_metered);
        let plain = path("", None, &remote()).expect("it is a path");
        assert_eq!(plain.via, Via::DefaultRoute);
        for wrong in ["wwan*", "wwan0,cap=1GB", "wlan0,weight=0"] {
            let error = path(wrong, None, &remote()).expect_err("a mistake");
            assert_eq!(error.code, ErrorCode::Path);
            assert!(error.text.contains(wrong), "{error}");
        }
    }
}
