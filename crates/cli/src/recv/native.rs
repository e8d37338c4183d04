//! The receiver of our own protocol, as the arguments describe it.

use std::sync::Arc;

use anabranch_net::{Clock, Receiver, Receptions, ServerConfig};
use anabranch_observe::Opened;
use anabranch_secure::PublicKey;
use anabranch_video::player::JitterBuffer;
use anyhow::{bail, ensure};

use super::plan::Plan;
use super::{Arguments, by_relay};
use crate::allowed::AllowList;
use crate::command_line::{listen_addr, tcp_addr};
use crate::keygen::{read_key, read_or_make_key};
use crate::latency::Latency;

/// Maximum number of sessions at a time (chosen).
const MAX_SESSIONS: usize = 10_000;

/// The receiver of our own protocol.
pub(super) struct Native {
    pub(super) receiver: Arc<Receiver>,
    pub(super) receptions: Receptions,
    pub(super) key: PublicKey,
}

impl Arguments {
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
    pub(super) fn config(&self, listen: &str, allowed: &AllowList) -> anyhow::Result<ServerConfig> {
        let listen = listen_addr(listen)?;
        let Some(key) = self.key_file() else {
            bail!(
                "--listen {listen} needs --key FILE, from `anabranch keygen`; --pair makes one and \
                 prints a link for the sender"
            );
        };
        let key = if self.pairing.is_asked() {
            read_or_make_key(&key)?
        } else {
            read_key(&key)?
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
        config.session_limits = allowed.session_limits();
        config.latency = self.latency.and_then(Latency::requested);
        config.reassembly_wait = self.reassembly_wait;
        if self.buffer() == Some(JitterBuffer::Off) {
            config.transport.media.hand_out = anabranch_core::HandOut::PartsInOrder;
        }
        Ok(config)
    }
}
