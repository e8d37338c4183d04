//! Sources, senders and outputs that the arguments request.

use std::path::PathBuf;
use std::sync::Arc;

use anabranch_net::{Clock, Receiver, Receptions, ServerConfig};
use anabranch_observe::Opened;
use anabranch_secure::PublicKey;
use anabranch_video::player::JitterBuffer;
use anyhow::{bail, ensure};

use super::by_relay;
use super::destination::{self, Destinations};
use super::listen::{OtherSource, Sources};
use super::{Arguments, MAX_SESSIONS};
use crate::allowed::{AllowList, Door};
use crate::command_line::{listen_addr, tcp_addr};
use crate::keygen::{read_key, read_or_make_key};
use crate::latency::Latency;

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

/// The receiver of our own protocol.
pub(super) struct Native {
    pub(super) receiver: Arc<Receiver>,
    pub(super) receptions: Receptions,
    pub(super) key: PublicKey,
}

impl Arguments {
    /// Checks whether the arguments can be used, as far as possible without a session.
    ///
    /// # Errors
    /// An argument, or a file that it names, cannot be used.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        destination::check(&self.outputs, self.rotate)?;
        let is_made = |file: Option<PathBuf>| file.is_some_and(|file| file.exists());
        if self.pairing.is_asked() && !(is_made(self.key_file()) && is_made(self.list())) {
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
            Some(_) => AllowList::new(Door::Recv, self.allow.clone(), list.as_deref())?,
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

    /// Listens for senders of our own protocol.
    pub(super) fn listen_at(
        &self,
        listen: &str,
        plan: &Plan,
        clock: Clock,
        observed: &Opened,
    ) -> anyhow::Result<Native> {
        let mut config = self.config(listen, &plan.allowed)?;
        config.clock = clock;
        config.observer = observed.packet_observer();
        if plan.destinations.are_shared() {
            config.max_sessions = 1;
        }
        let key = config.local_key.public_key();
        let (receiver, receptions) = Receiver::start(config)?;
        Ok(Native {
            receiver: Arc::new(receiver),
            receptions,
            key,
        })
    }

    /// Returns this end's own choice of the delay before output; `None`: both ends agree on it.
    pub(super) fn buffer(&self) -> Option<JitterBuffer> {
        self.playout
            .or_else(|| self.latency.and_then(Latency::buffer))
    }

    /// Returns the configuration of the receiver of our own protocol.
    fn config(&self, listen: &str, allowed: &AllowList) -> anyhow::Result<ServerConfig> {
        let listen = listen_addr(listen)?;
        let Some(key) = self.key_file() else {
            bail!(
                "--listen {listen} needs --key FILE, from `anabranch keygen`; --pair makes one and \
                 prints a link for the sender"
            );
        };
        let key = match self.pairing.is_asked() {
            true => read_or_make_key(&key)?,
            false => read_key(&key)?,
        };
        let own = key.public_key();
        ensure!(
            !allowed.keys().contains(&own),
            "{own} is this receiver's own key: let in the sender's, which its `anabranch keygen \
             --show` prints"
        );
        let mut config = ServerConfig::new(listen, key, allowed.keys());
        config.relay = self.via_relay.as_ref().map(by_relay::access).transpose()?;
        config.listen_tcp = tcp_addr(self.listen_tcp.as_deref())?;
        config.silence_timeout = self.timeout;
        config.max_sessions = MAX_SESSIONS;
        config.places = allowed.places();
        config.latency = self.latency.and_then(Latency::requested);
        config.reassembly_wait = self.reassembly_wait;
        if self.buffer() == Some(JitterBuffer::Off) {
            config.transport.media.hand_out = anabranch_core::HandOut::PartsInOrder;
        }
        Ok(config)
    }
}
