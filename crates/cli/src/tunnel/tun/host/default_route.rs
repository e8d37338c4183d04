//! A proxy's routes and name servers, changed when the server has granted the interface's address.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, bail};

use super::super::TunArguments;
use super::super::client::Interface;
use super::super::message::OfEach;
use super::act::find;
use super::record::{Record, clean_up};
use super::{names, routes};
use crate::print;
use crate::stop::Stop;

/// Options for the machine's routes and name servers.
#[derive(Debug, clap::Args)]
pub(crate) struct RouteArguments {
    /// Sends all traffic of this machine through the interface of --tun, once the server has
    /// granted its address. The paths, networks with routes of their own and answers to those that
    /// call this machine keep their ways. All is undone at the end.
    #[arg(long, requires = "tun")]
    default_route: bool,
    /// Name server to use while --default-route holds; may be given several times.
    #[arg(long, value_name = "ADDR", requires = "default_route")]
    dns: Vec<IpAddr>,
    /// Undoes the changes that a --default-route or a --nat has left behind, as after a crash or
    /// SIGKILL, and ends. The next start with the same option does that by itself.
    #[arg(long, exclusive = true)]
    clean_up: bool,
}

/// A proxy's changes of the machine.
pub(crate) struct DefaultRoute {
    record: Record,
    tun: String,
    servers: Vec<IpAddr>,
    addresses: OfEach<Option<IpAddr>>,
    granted: Arc<OnceLock<OfEach<bool>>>,
    made: Option<anyhow::Result<()>>,
}

/// Record of the changes, before there is an interface; none without `--default-route`.
pub(crate) struct Prepared(Option<Record>);

impl RouteArguments {
    /// Returns whether only the changes of an earlier run are to be undone, and undoes them.
    ///
    /// # Errors
    /// They cannot be undone.
    pub(crate) fn has_cleaned_up(&self) -> anyhow::Result<bool> {
        if self.clean_up {
            clean_up()?;
        }
        Ok(self.clean_up)
    }

    /// Undoes the changes of an earlier run, and marks the sockets that paths open from now on.
    ///
    /// # Errors
    /// A program or right is missing, or others use the same rules.
    pub(crate) fn prepare(&self) -> anyhow::Result<Prepared> {
        if !self.default_route {
            return Ok(Prepared(None));
        }
        let prepare = || {
            find("ip")?;
            let record = Record::open("default-route")?;
            routes::Seen::look()?.check()?;
            if !self.dns.is_empty() {
                names::Seen::look()?;
            }
            anyhow::Ok(record)
        };
        let record = prepare().context("--default-route")?;
        anabranch_net::mark_sockets(routes::MARK);
        Ok(Prepared(Some(record)))
    }

    /// Returns the changes that lead all traffic to the interface.
    pub(crate) fn through(
        &self,
        prepared: Prepared,
        interface: Option<&Interface>,
        tun: &TunArguments,
    ) -> Option<DefaultRoute> {
        let (record, interface) = (prepared.0?, interface?);
        Some(DefaultRoute {
            record,
            tun: tun.tun.clone()?,
            servers: self.dns.clone(),
            addresses: interface.addresses(),
            granted: interface.granted(),
            made: None,
        })
    }
}

impl DefaultRoute {
    /// Makes the changes if the server has granted the address. If that fails, the program stops.
    pub(crate) fn look(&mut self, stop: &Stop) {
        let (None, Some(granted)) = (&self.made, self.granted.get()) else {
            return;
        };
        let granted = *granted;
        let made = self.make(granted).context("--default-route");
        if made.is_err() {
            stop.stop();
        }
        self.made = Some(made);
    }

    fn make(&mut self, granted: OfEach<bool>) -> anyhow::Result<()> {
        let granted = [0, 1].map(|index| self.addresses[index].filter(|_| granted[index]));
        let seen = routes::Seen::look()?;
        seen.check()?;
        let mut steps = routes::plan(&seen, &self.tun, granted);
        if !self.servers.is_empty() {
            let seen = names::Seen::look()?;
            steps.extend(names::plan(&seen, &self.tun, &self.servers));
        }
        self.record.apply(&steps)?;
        let kinds = match granted {
            [Some(_), Some(_)] => "IPv4 and IPv6",
            [Some(_), None] => "IPv4 (IPv6 has no route now)",
            _ => "IPv6 (IPv4 has no route now)",
        };
        print::note(format_args!(
            "all traffic goes through {}, {kinds} (--default-route)",
            self.tun
        ));
        Ok(())
    }

    /// Undoes the changes.
    ///
    /// # Errors
    /// The changes could not be made.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        if self.record.undo() {
            print::note("routes and name servers are as they were (--default-route)");
        }
        match self.made.take() {
            Some(Err(error)) => bail!(error),
            _ => Ok(()),
        }
    }
}
