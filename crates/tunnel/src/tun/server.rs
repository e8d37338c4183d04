//! The server's end: one interface for all sessions.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_net::DatagramChannel;
use anabranch_secure::PublicKey;
use bytes::Bytes;
use tokio::time::Instant;

use super::address::InnerAddress;
use super::device::Device;
use super::message::{self, Message, Verdict};
use super::packet;
use super::routes::{Admission, Routes};
use super::{IN_ORDER, MAX_PACKET_BYTES, TunError, TunOptions};

/// Minimum time between notifications of a session without a claim.
const UNKNOWN_REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// The server's interface, and the session of each address.
pub struct ServerTun {
    device: Device,
    routes: Mutex<Routes<DatagramChannel>>,
}

impl ServerTun {
    /// Creates the interface, if one is requested.
    ///
    /// # Errors
    /// It cannot be created, or its network has no room for peers.
    pub fn open(
        options: &TunOptions,
        keys: &[PublicKey],
    ) -> Result<Option<Arc<ServerTun>>, TunError> {
        let own = options.addresses(InnerAddress::OF_SERVER)?;
        if let Some(lonely) = own.iter().find(|own| own.other_host(0).is_none()) {
            return Err(TunError::NoRoom { address: *lonely });
        }
        let device = Device::open(options, &own)?;
        Ok(device.map(|device| {
            let routes = Mutex::new(Routes::new(own, keys));
            Arc::new(ServerTun { device, routes })
        }))
    }

    /// Carries packets from the interface to sessions, as long as the interface exists.
    pub async fn run(self: Arc<Self>) {
        let mut buffer = vec![0; MAX_PACKET_BYTES];
        loop {
            match self.device.recv(&mut buffer).await {
                Ok(length) => self.forward(&buffer[..length]),
                Err(error) => {
                    log::info!("--tun {}: {error}", self.device.name);
                    return;
                }
            }
        }
    }

    /// Reserves addresses for these keys, and removes those of others.
    pub fn set_allowed(&self, keys: &[PublicKey]) {
        self.routes(|routes| routes.set_keys(keys));
    }

    fn forward(&self, packet: &[u8]) {
        let Some(ends) = packet::ends(packet) else {
            return;
        };
        let channel = self.routes(|routes| routes.route(ends.to).cloned());
        // Without a session of the proxy the packet is lost.
        if let Some(channel) = channel {
            channel.send_with(message::packet(packet), IN_ORDER);
        }
    }

    fn routes<T>(&self, act: impl FnOnce(&mut Routes<DatagramChannel>) -> T) -> T {
        act(&mut self.routes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A session's access to the interface.
pub struct Member {
    tun_server: Option<Arc<ServerTun>>,
    peer: PublicKey,
    channel: DatagramChannel,
    session: u64,
    unknown_reported_at: Option<Instant>,
    is_spoofing_reported: bool,
}

impl Member {
    /// Creates the access of a new session. Without an interface, the proxy is notified that none
    /// exists.
    pub fn new(
        tun_server: Option<Arc<ServerTun>>,
        peer: PublicKey,
        channel: DatagramChannel,
    ) -> Member {
        let session = tun_server
            .as_ref()
            .map_or(0, |tun_server| tun_server.routes(Routes::open));
        Member {
            tun_server,
            peer,
            channel,
            session,
            unknown_reported_at: None,
            is_spoofing_reported: false,
        }
    }

    /// Handles a message of the proxy.
    pub async fn take(&mut self, datagram: Bytes) {
        match Message::read(datagram) {
            Some(Message::Claim(wanted)) => {
                let whose = (self.peer, self.session);
                let verdicts = match &self.tun_server {
                    Some(tun_server) => {
                        tun_server.routes(|routes| routes.claim(whose, &self.channel, wanted))
                    }
                    None => [Verdict::NoNetwork; 2],
                };
                self.channel
                    .send_with(message::verdicts(verdicts), IN_ORDER);
            }
            Some(Message::Packet(packet)) => self.forward(&packet).await,
            // Messages of servers, and unknown ones.
            _ => {}
        }
    }

    async fn forward(&mut self, packet: &[u8]) {
        let (Some(tun_server), Some(ends)) = (&self.tun_server, packet::ends(packet)) else {
            return;
        };
        match tun_server.routes(|routes| routes.admit(self.session, ends.from)) {
            Admission::Admitted => tun_server.device.send(packet).await,
            Admission::Unknown => {
                if self
                    .unknown_reported_at
                    .is_none_or(|at| at.elapsed() >= UNKNOWN_REPORT_INTERVAL)
                {
                    self.unknown_reported_at = Some(Instant::now());
                    self.channel.send_with(message::unknown(), IN_ORDER);
                }
            }
            Admission::Spoofed if !self.is_spoofing_reported => {
                self.is_spoofing_reported = true;
                log::info!(
                    "--tun: dropped a packet of {} from {}, which is not its address; further \
                     ones are not reported",
                    self.peer,
                    ends.from
                );
            }
            Admission::Spoofed => {}
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(tun_server) = &self.tun_server {
            tun_server.routes(|routes| routes.close(self.session));
        }
    }
}
