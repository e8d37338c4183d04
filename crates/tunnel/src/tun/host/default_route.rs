//! A proxy's routes and name servers, changed when the server has granted the interface's address.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use anabranch_terminal::stop::Stop;

use super::act::find;
use super::change::Change;
use super::record::Record;
use super::{names, routes};
use crate::tun::client::Interface;
use crate::tun::message::OfEach;
use crate::tun::{HostError, TunError, TunOptions};

/// Options for the machine's routes and name servers.
#[derive(Clone, Debug, Default)]
pub struct RouteOptions {
    /// Whether all traffic of the machine goes through the interface.
    pub is_default_route: bool,
    /// Name servers to use in that time. Empty: the machine's own.
    pub name_servers: Vec<IpAddr>,
}

/// A proxy's changes of the machine.
pub struct DefaultRoute {
    record: Record,
    tun: String,
    servers: Vec<IpAddr>,
    addresses: OfEach<Option<IpAddr>>,
    granted: Arc<OnceLock<OfEach<bool>>>,
    made: Option<Result<(), TunError>>,
}

/// Record of the changes, before there is an interface; none without `--default-route`.
pub struct Prepared(Option<Record>);

impl RouteOptions {
    /// Undoes the changes of an earlier run, and marks the sockets that paths open from now on.
    ///
    /// # Errors
    /// A program or right is missing, or others use the same rules.
    pub fn prepare(&self) -> Result<Prepared, TunError> {
        if !self.is_default_route {
            return Ok(Prepared(None));
        }
        let record = self.checked_record().map_err(TunError::DefaultRoute)?;
        anabranch_net::mark_sockets(routes::MARK);
        Ok(Prepared(Some(record)))
    }

    /// Opens the record, and checks that the machine can be changed.
    fn checked_record(&self) -> Result<Record, HostError> {
        find("ip")?;
        let record = Record::open("default-route")?;
        routes::RoutingState::read()?.check()?;
        if !self.name_servers.is_empty() {
            names::ResolverState::read()?;
        }
        Ok(record)
    }

    /// Returns the changes that lead all traffic to the interface, which outlives a crash: with it,
    /// its routes would vanish, and packets would go around the tunnel.
    ///
    /// # Errors
    /// The interface cannot be made to stay.
    pub fn through(
        &self,
        prepared: Prepared,
        interface: Option<&Interface>,
        tun: &TunOptions,
    ) -> Result<Option<DefaultRoute>, TunError> {
        let (Some(mut record), Some(interface), Some(name)) = (prepared.0, interface, &tun.name)
        else {
            return Ok(None);
        };
        record
            .expect(Change::Interface { name: name.clone() })
            .map_err(TunError::DefaultRoute)?;
        interface
            .persist()
            .map_err(|error| TunError::DefaultRoute(error.into()))?;
        Ok(Some(DefaultRoute {
            record,
            tun: name.clone(),
            servers: self.name_servers.clone(),
            addresses: interface.addresses(),
            granted: interface.granted(),
            made: None,
        }))
    }
}

impl DefaultRoute {
    /// Makes the changes if the server has granted the address. If that fails, the program stops.
    pub fn tend(&mut self, stop: &Stop) {
        let (None, Some(granted)) = (&self.made, self.granted.get()) else {
            return;
        };
        let granted = *granted;
        let made = self.make(granted).map_err(TunError::DefaultRoute);
        if made.is_err() {
            stop.stop();
        }
        self.made = Some(made);
    }

    fn make(&mut self, is_granted: OfEach<bool>) -> Result<(), HostError> {
        let mut granted = self.addresses;
        for (address, is_granted) in granted.iter_mut().zip(is_granted) {
            if !is_granted {
                *address = None;
            }
        }
        let seen = routes::RoutingState::read()?;
        seen.check()?;
        let mut steps = routes::plan(&seen, &self.tun, granted);
        if !self.servers.is_empty() {
            let seen = names::ResolverState::read()?;
            steps.extend(names::plan(&seen, &self.tun, &self.servers));
        }
        self.record.apply(&steps)?;
        let kinds = match granted {
            [Some(_), Some(_)] => "IPv4 and IPv6",
            [Some(_), None] => "IPv4 (IPv6 has no route now)",
            _ => "IPv6 (IPv4 has no route now)",
        };
        let tun = &self.tun;
        log::info!("all traffic goes through {tun}, {kinds} (--default-route)");
        Ok(())
    }

    /// Undoes the changes.
    ///
    /// # Errors
    /// The changes could not be made.
    pub fn end(mut self) -> Result<(), TunError> {
        let is_changed = matches!(self.made, Some(Ok(())));
        if self.record.undo() && is_changed {
            log::info!("routes and name servers are as they were (--default-route)");
        }
        self.made.take().unwrap_or(Ok(()))
    }
}
