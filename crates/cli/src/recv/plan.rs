//! Sources, senders and outputs that the arguments request.

use std::sync::{Arc, Mutex};

use anabranch_net::Clock;
use anabranch_observe::Observation;
use anabranch_terminal::stop::Stop;
use anyhow::{bail, ensure};

use super::Arguments;
use super::destination::{self, Destinations};
use super::listen::{OtherSource, Sources};
use super::stream_settings::StreamSettings;
use crate::allowed::{AllowList, ListenCommand};

/// Sources, senders and outputs that the arguments request.
pub(super) struct Plan {
    /// Address at which to listen for our own protocol.
    pub(super) native: Option<String>,
    pub(super) others: Vec<OtherSource>,
    pub(super) allowed: AllowList,
    pub(super) destinations: Destinations,
    /// Whether there may be more than one stream.
    pub(super) has_several: bool,
}

impl Arguments {
    /// Checks whether the arguments can be used, as far as possible without a session.
    ///
    /// # Errors
    /// An argument, or a file that it names, cannot be used.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        destination::check(&self.outputs, self.rotate)?;
        let has_key = self.key_file().is_some_and(|file| file.exists());
        let has_list = self.list().is_some_and(|file| file.exists());
        if self.pairing.is_asked() && !(has_key && has_list) {
            // Missing files are made at the start.
            return self.sources().map(|_| ());
        }
        let plan = self.plan()?;
        if let Some(listen) = &plan.native {
            self.config(listen, &plan.allowed)?;
        }
        Ok(())
    }

    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        let Sources { native, others } = self.sources()?;
        let list = self.list();
        let allowed = match &native {
            Some(_) => AllowList::new(ListenCommand::Recv, self.allow.clone(), list.as_deref())?,
            None if !self.allow.is_empty() || self.allow_from.is_some() => {
                bail!("senders of --allow need an address without a protocol: --listen ADDR:PORT")
            }
            None if self.listen_tcp.is_some() => {
                bail!("--listen-tcp needs an address without a protocol, too: --listen ADDR:PORT")
            }
            None => AllowList::default(),
        };
        let stream_count = allowed.all().len() + others.len();
        let has_several = list.is_some() || stream_count > 1;
        let destinations = Destinations::new(self.outputs.clone(), has_several)?;
        ensure!(
            others.is_empty() || !destinations.are_shared(),
            "several streams cannot share an output: say whose it is, as NAME=OUTPUT or with \
             {{name}} in the file's name"
        );
        Ok(Plan {
            native,
            others,
            allowed,
            destinations,
            has_several,
        })
    }

    /// Returns the settings that all streams share.
    pub(super) fn settings(
        &self,
        has_several: bool,
        clock: Clock,
        stop: Stop,
        observation: Observation,
    ) -> StreamSettings {
        StreamSettings {
            buffer: Arc::new(Mutex::new(self.buffer())),
            report: self.report,
            keeps_listening: self.keep_listening,
            shows_names: has_several,
            clock,
            stop,
            observation: Arc::new(observation),
            slowness: Arc::default(),
        }
    }
}
