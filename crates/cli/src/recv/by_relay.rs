//! `recv --via-relay`: senders that reach this receiver by a relay.

use std::net::ToSocketAddrs;

use anabranch_net::{RelayAccess, RelayState};
use anabranch_secure::Refusal;
use anabranch_terminal::print;
use anabranch_units::{Duration, Instant};
use anyhow::Context;

use super::ReceivedStreams;
use crate::link::Link;

/// Time after which a relay that has not answered is worth a warning.
const PATIENCE: Duration = Duration::from_secs(5);

/// The relay of a receiver, and the state that was printed last.
#[derive(Debug)]
pub(super) struct ByRelay {
    /// Host and port of the relay.
    to: String,
    shown: RelayState,
    /// Time of a warning about a relay that has never answered; `None`: it is given.
    warn_at: Option<Instant>,
}

impl ByRelay {
    pub(super) fn new(link: &Link, now: Instant) -> Self {
        ByRelay {
            to: link.to.clone(),
            shown: RelayState::Waiting,
            warn_at: Some(now + PATIENCE),
        }
    }
}

/// Returns the relay of a link, whose name is resolved now.
///
/// # Errors
/// The name has no address.
pub(super) fn access(link: &Link) -> anyhow::Result<RelayAccess> {
    let mut addresses = link
        .to
        .to_socket_addrs()
        .with_context(|| without_address(link))?;
    Ok(RelayAccess {
        address: addresses.next().with_context(|| without_address(link))?,
        key: link.key,
        code: link.code.clone(),
    })
}

fn without_address(link: &Link) -> String {
    format!("--via-relay {}: the name has no address", link.to)
}

impl ReceivedStreams<'_> {
    /// Prints changes of the registration at the relay.
    pub(super) fn watch_relay(&mut self, now: Instant) {
        self.warn_of_silent_relay(now);
        let (Some(by_relay), Some(receiver)) = (&mut self.by_relay, self.receiver) else {
            return;
        };
        let Some(state) = receiver
            .relay_state()
            .filter(|state| *state != by_relay.shown)
        else {
            return;
        };
        by_relay.shown = state;
        let to = &by_relay.to;
        match state {
            RelayState::Registered => print::note(format_args!(
                "registered at the relay {to}: senders reach this receiver by it"
            )),
            RelayState::Refused(Refusal::NotCarried) => print::warn(format_args!(
                "{to} is no relay: it was started without --relay"
            )),
            RelayState::Refused(_) => print::warn(format_args!(
                "the relay {to} has no place for another receiver"
            )),
            _ => print::warn(format_args!(
                "the relay {to} does not answer; it is asked again until it does"
            )),
        }
    }

    /// Warns once if the relay has not answered by now.
    fn warn_of_silent_relay(&mut self, now: Instant) {
        let (Some(by_relay), Some(receiver)) = (&mut self.by_relay, self.receiver) else {
            return;
        };
        let is_due = by_relay.warn_at.take_if(|at| now >= *at).is_some();
        if is_due && receiver.relay_state() == Some(RelayState::Waiting) {
            print::warn(format_args!(
                "the relay {} has not answered yet: does it run (`anabranch serve --relay`), and \
                 is its link new? Each link registers one receiver",
                by_relay.to
            ));
        }
    }
}
