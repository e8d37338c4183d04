//! `recv --pair`: files, addresses and codes for senders that join.

use std::path::PathBuf;

use anabranch_units::Instant;
use anyhow::ensure;

use super::destination::{self, Destination};
use super::listen::{Listen, Sources};
use super::native::Native;
use super::{Arguments, ReceivedStreams};
use crate::link::Link;
use crate::open_port::{self, OpenPort};
use crate::pairing::desk::Desk;
use crate::pairing::running_program::RunningProgram;
use crate::pairing::{LISTEN, address_of};
use crate::system::allow_many_files;

impl Native {
    /// Returns the host by which senders reach it: a relay's, or the one for links.
    pub(super) fn outside(&self, host: &str, relay: Option<&Link>) -> String {
        match relay {
            Some(relay) => relay.to.clone(),
            None => address_of(host, self.receiver.local_addr()),
        }
    }

    /// Returns the way in for `anabranch pair`.
    fn program(&self, host: &str, relay: Option<&Link>) -> RunningProgram {
        let is_known = relay.is_some() || !host.is_empty();
        RunningProgram {
            command: "recv".to_owned(),
            key: self.key,
            local: self.receiver.local_addr(),
            outside: if is_known {
                self.outside(host, relay)
            } else {
                String::new()
            },
        }
    }
}

/// Address by which senders come, and the port that the router keeps open for it.
#[derive(Default)]
pub(super) struct WayIn {
    /// `HOST` or `HOST:PORT` of links; empty if it is this machine's own.
    pub(super) host: String,
    /// Open as long as this is held.
    _port: Option<OpenPort>,
}

impl Arguments {
    /// Opens the router's port, if it was asked for, and the desk of this receiver's codes.
    pub(super) fn way_in(&self, native: Option<&Native>) -> (WayIn, Desk) {
        let Some(native) = native else {
            return (WayIn::default(), Desk::default());
        };
        let port = native.receiver.local_addr().port();
        let port = open_port::requested(self.pairing.open_port, port);
        let host = self.pairing.host_by(port.as_ref());
        let program = native.program(&host, self.via_relay.as_ref());
        let desk = Desk::open(self.list().as_deref(), &program);
        (WayIn { host, _port: port }, desk)
    }

    /// Sets the limits and modes of files, checks the outputs, and makes the list of senders if
    /// there is none.
    pub(super) fn prepare(&self) -> anyhow::Result<()> {
        allow_many_files();
        self.set_mode_of_files();
        destination::check(&self.outputs, self.rotate)?;
        let uses_stdout = self.outputs.iter().any(Destination::is_stdout);
        ensure!(
            !(self.pairing.is_asked() && uses_stdout),
            "--pair prints its link on standard output, which carries the video: pair first, with \
             a file as output"
        );
        self.pairing.make_list(self.list().as_deref())
    }

    /// Returns the addresses to listen at, among them our own protocol's with --pair.
    pub(super) fn sources(&self) -> anyhow::Result<Sources> {
        let mut all = self.listen.clone();
        for placed in self.all_phones()?.placed {
            all.push(Listen::Other(placed.source()?));
        }
        let mut sources = Sources::of(all)?;
        if self.pairing.is_asked() {
            sources.native.get_or_insert_with(|| LISTEN.to_owned());
        }
        Ok(sources)
    }

    pub(super) fn key_file(&self) -> Option<PathBuf> {
        self.pairing.or_usual(self.key.as_deref(), "receiver.key")
    }

    /// Returns the file of senders.
    pub(super) fn list(&self) -> Option<PathBuf> {
        self.pairing.or_usual(self.allow_from.as_deref(), "senders")
    }
}

impl ReceivedStreams<'_> {
    /// Takes new invitations of `anabranch pair`.
    pub(super) fn look_for_invitations(&mut self) {
        if let Some(receiver) = self.receiver {
            self.desk.take_invitations(receiver);
            self.look_for_phones();
        }
    }

    /// Adds senders that have used a link to the list, and reports the end of links.
    pub(super) fn take_paired(&mut self, now: Instant) {
        if let Some(receiver) = self.receiver
            && self.desk.take_paired(receiver, &mut self.allowed)
        {
            self.use_list(now);
        }
    }
}
