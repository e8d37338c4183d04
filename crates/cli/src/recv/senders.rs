//! The receiver's address for senders, changes of their list, and senders that are not let in.

use std::sync::PoisonError;

use anabranch_net::Receiver;
use anabranch_terminal::print;
use anabranch_units::Instant;

use super::ReceivedStreams;
use super::native::Native;
use crate::command_line::describe_tcp;

impl Native {
    /// Prints the address at which it listens.
    pub(super) fn announce(&self) {
        let address = self.receiver.local_addr();
        let by_tcp = describe_tcp(self.receiver.local_tcp_addr());
        print::note(format_args!(
            "listening at {address}{by_tcp} as {}",
            self.key
        ));
    }
}

impl ReceivedStreams<'_> {
    /// Reads the file of senders again if it has changed.
    pub(super) fn refresh_list(&mut self, now: Instant) {
        match self.allowed.refresh() {
            Ok(false) => {}
            Ok(true) => {
                let count = self.allowed.all().len();
                print::note(format_args!("{count} senders are let in"));
                self.use_list(now);
            }
            Err(error) => print::warn(format_args!("{error:#}; those before stay let in")),
        }
    }

    /// Lets in the senders of the list.
    pub(super) fn use_list(&mut self, now: Instant) {
        if let Some(receiver) = self.receiver {
            receiver.set_session_limits(self.allowed.session_limits());
            let mut keys = self.allowed.keys();
            keys.retain(|key| !self.controlled.is_kept_out(key));
            receiver.set_allowed(&keys);
        }
        self.allowances.update(&self.allowed, now);
        self.publish_names();
    }

    /// Gives the names of senders to observers.
    pub(super) fn publish_names(&self) {
        let mut all = self.allowed.all().to_vec();
        self.streams_in_use.rename(&mut all);
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Prints which senders requested a session and got none.
    pub(super) fn print_refused_senders(&mut self, now: Instant) {
        let refused_senders = self.receiver.map(Receiver::take_refused_senders);
        for refused_sender in refused_senders.unwrap_or_default() {
            let allowed = &self.allowed;
            let line = self.refusal_lines.line(now, &refused_sender, |peer| {
                let name = allowed.name_of(peer);
                match allowed.limits_of(&name).streams {
                    Some(count) => format!("{} has its {count} streams already", name.as_str()),
                    None => "another sender has the output until it ends".to_owned(),
                }
            });
            line.into_iter().for_each(print::warn);
        }
    }
}
