//! Access of proxies while the server runs: their list, ended sessions, and the file of --config.

use std::collections::BTreeMap;

use anabranch_net::StreamServer;
use anabranch_observe::Observation;
use anabranch_observe::control::{
    Asked, Change, ControlState, KeptOut, Order, Refused, Reload as ReloadOrder, SessionEnd,
    StreamControl,
};
use anabranch_secure::PublicKey;
use anabranch_terminal::print;
use anabranch_tunnel::policy::Policy;
use anabranch_tunnel::tun;
use anabranch_units::{Duration, Instant};

use crate::Command;
use crate::allowed::AllowList;
use crate::config::{Reload, unchanged};
use crate::pairing::desk::Desk;
use crate::recv::keep_out;

/// Time between checks of the file of proxies.
pub(super) const FILE_INTERVAL: Duration = Duration::from_secs(1);
/// Changes of a server.
const CHANGES: [&str; 3] = ["session-end", "session-allow", "reload"];
/// Options that can be changed while the program runs.
const LIVE: [&str; 3] = ["allow", "allow_from", "connect"];

/// Access control of proxies.
pub(super) struct Admission<'a> {
    pub(super) server: &'a StreamServer,
    pub(super) policy: &'a Policy,
    pub(super) tun_server: Option<&'a tun::server::ServerTun>,
    pub(super) observation: &'a Observation,
    pub(super) allowed: AllowList,
    /// Codes that wait for their proxies.
    pub(super) desk: Desk,
    /// Time of the next check of the file of proxies.
    pub(super) look_at: Instant,
    /// Proxies whose sessions were ended, until they are let in again.
    pub(super) kept_out: BTreeMap<PublicKey, Instant>,
    pub(super) reload: Reload,
}

impl Admission<'_> {
    /// Admits the peers of the list, and ends the sessions of others.
    fn set_allowed(&self) {
        let list = &self.allowed;
        // The policy is set first, because a session takes a moment to end.
        self.policy.set_allowed(&list.tunnel_peers());
        self.server.set_session_limits(list.session_limits());
        let mut keys = list.keys();
        keys.retain(|key| !self.kept_out.contains_key(key));
        self.server.set_allowed(&keys);
        if let Some(tun_server) = self.tun_server {
            tun_server.set_allowed(&keys);
        }
    }

    /// Adds proxies that have used a link to the list.
    pub(super) fn take_paired(&mut self) {
        if self.desk.take_paired(self.server, &mut self.allowed) {
            self.set_allowed();
        }
    }

    /// Reads the file of proxies again if it has changed.
    pub(super) fn tend(&mut self, now: Instant) {
        self.follow_orders(now);
        if now < self.look_at {
            return;
        }
        self.look_at = now + FILE_INTERVAL;
        self.desk.take_invitations(self.server);
        match self.allowed.refresh() {
            Ok(false) => {}
            Ok(true) => {
                self.set_allowed();
                let count = self.allowed.all().len();
                print::note(format_args!("{count} proxies are let in"));
            }
            Err(error) => print::warn(format_args!("{error:#}; those before stay let in")),
        }
    }

    /// Answers the requests that wait, and lets proxies in again whose time is over.
    fn follow_orders(&mut self, now: Instant) {
        if self.reload.is_due() {
            let order = Order::of_peer(Change::Reload(ReloadOrder {}), "SIGHUP".to_owned());
            let outcome = self.reload();
            order.settle(self.observation, outcome);
        }
        while let Some(order) = self.observation.next_order() {
            let change = match order.asked() {
                Asked::State => {
                    order.show(self.control_state(now));
                    continue;
                }
                Asked::Links => {
                    order.show_links(Err(Refused::no_links()));
                    continue;
                }
                Asked::Change(change) => change.clone(),
            };
            let outcome = match &change {
                Change::SessionEnd(change) => self.end_session(now, change),
                Change::SessionAllow(change) => self.let_in(&change.stream),
                Change::Reload(_) => self.reload(),
                change => Err(Refused::NotNow(format!(
                    "`serve` has no {}: it ends sessions and reads its file again",
                    change.name()
                ))),
            };
            order.settle(self.observation, outcome);
        }
        let before = self.kept_out.len();
        self.kept_out.retain(|_, until| *until > now);
        if self.kept_out.len() != before {
            self.set_allowed();
        }
    }

    fn end_session(&mut self, now: Instant, change: &SessionEnd) -> Result<String, Refused> {
        let name = &change.stream;
        let keep_out = keep_out(change)?;
        let its: Vec<PublicKey> = self.keys_of(name).collect();
        let snapshots = self.server.snapshots();
        if its.is_empty() {
            return Err(Refused::Unknown(format!("no proxy is called {name}")));
        }
        if !its
            .iter()
            .any(|key| snapshots.iter().any(|its| its.peer == Some(*key)))
        {
            return Err(Refused::Unknown(format!("{name} has no session now")));
        }
        let until = now + keep_out;
        self.kept_out
            .extend(its.into_iter().map(|key| (key, until)));
        self.set_allowed();
        Ok(format!(
            "the sessions of {name} end; it is kept out for {keep_out}"
        ))
    }

    fn let_in(&mut self, name: &str) -> Result<String, Refused> {
        let its: Vec<PublicKey> = self.keys_of(name).collect();
        let before = self.kept_out.len();
        self.kept_out.retain(|key, _| !its.contains(key));
        if self.kept_out.len() == before {
            return Err(Refused::Unknown(format!("{name} is not kept out")));
        }
        self.set_allowed();
        Ok(format!("{name} is let in again"))
    }

    /// Returns the keys of a name.
    fn keys_of(&self, name: &str) -> impl Iterator<Item = PublicKey> {
        let all = self.allowed.all().iter();
        let its = all.filter(move |allowed| allowed.name.as_str() == name);
        its.map(|allowed| allowed.key)
    }

    /// Reads the file of --config again.
    fn reload(&mut self) -> Result<String, Refused> {
        let reread = self.reload.reread().map_err(unchanged)?;
        let Command::Serve(arguments) = &reread.command else {
            return Err(Refused::NotNow("the command is another one".to_owned()));
        };
        self.allowed = arguments.allowed().map_err(unchanged)?;
        self.policy.set_connect(arguments.connect.clone());
        self.set_allowed();
        Ok(self.reload.adopt(reread, &LIVE))
    }

    fn control_state(&self, now: Instant) -> ControlState {
        let snapshots = self.server.snapshots();
        let streams = self.allowed.all().iter().map(|allowed| StreamControl {
            stream: allowed.name.as_str().to_owned(),
            connected: snapshots.iter().any(|its| its.peer == Some(allowed.key)),
            ..StreamControl::default()
        });
        let kept_out = self.kept_out.iter().map(|(key, until)| KeptOut {
            stream: self.allowed.name_of(key).as_str().to_owned(),
            for_s: until.saturating_since(now).as_secs_f64(),
        });
        ControlState {
            role: "serve".to_owned(),
            changes: CHANGES.map(str::to_owned).to_vec(),
            streams: streams.collect(),
            kept_out: kept_out.collect(),
            ..ControlState::default()
        }
    }
}
