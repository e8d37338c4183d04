//! The proxy's end: from its interface to the session and back.

use core::time::Duration;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anabranch_net::DatagramChannel;
use bytes::Bytes;

use super::address::InnerAddress;
use super::device::{Device, is_deleted};
use super::message::{self, Message, OfEach, Verdict, index_of};
use super::packet;
use super::{IN_ORDER, MAX_PACKET_BYTES, TunError, TunOptions};

/// Time between repetitions of a claim that was not granted.
const CLAIMED_EVERY: Duration = Duration::from_millis(500);
/// Time between repetitions of a granted claim. A restarted server sends nothing before it gets
/// one.
const REPEATED_EVERY: Duration = Duration::from_secs(5);

/// The proxy's interface.
pub struct Interface {
    device: Device,
    addresses: OfEach<Option<IpAddr>>,
    /// Set once the server has granted an address: whether it has granted each.
    granted: Arc<OnceLock<OfEach<bool>>>,
}

impl Interface {
    /// Creates the interface, if one is requested.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn open(options: &TunOptions) -> Result<Option<Interface>, TunError> {
        let own = options.addresses(InnerAddress::OF_PROXY)?;
        let device = Device::open(options, &own)?;
        Ok(device.map(|device| {
            let mut addresses = [None; 2];
            for inner in own {
                addresses[index_of(inner.address())] = Some(inner.address());
            }
            Interface {
                device,
                addresses,
                granted: Arc::default(),
            }
        }))
    }

    /// Keeps the interface when the program ends, until it is deleted by name.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn persist(&self) -> io::Result<()> {
        self.device.persist()
    }

    /// Returns the addresses.
    pub(super) fn addresses(&self) -> OfEach<Option<IpAddr>> {
        self.addresses
    }

    /// Returns the addresses that the server has granted, as soon as it has.
    pub(super) fn granted(&self) -> Arc<OnceLock<OfEach<bool>>> {
        Arc::clone(&self.granted)
    }
}

/// State that the tasks share.
pub struct ClientEnd {
    interface: Interface,
    channel: DatagramChannel,
    standing: Mutex<Standing>,
}

/// State of the claim.
#[derive(Debug, Default)]
struct Standing {
    verdicts: OfEach<Verdict>,
    /// Whether a dropped packet with another source was reported.
    is_foreign_reported: bool,
}

impl Standing {
    fn is_granted(&self) -> bool {
        self.verdicts.contains(&Verdict::Granted)
    }

    /// Records the server's verdicts. Returns those that are new.
    fn changes(&mut self, verdicts: OfEach<Verdict>) -> OfEach<Option<Verdict>> {
        let before = core::mem::replace(&mut self.verdicts, verdicts);
        [0, 1].map(|index| (before[index] != verdicts[index]).then_some(verdicts[index]))
    }
}

impl ClientEnd {
    /// Starts the tasks: one repeats the claim, one forwards packets until the interface fails.
    pub fn start(interface: Interface, channel: DatagramChannel) -> Arc<ClientEnd> {
        let client = Arc::new(ClientEnd {
            interface,
            channel,
            standing: Mutex::default(),
        });
        let claims = Arc::clone(&client);
        tokio::spawn(async move { claims.claim_always().await });
        let packets = Arc::clone(&client);
        tokio::spawn(async move { packets.forward_all().await });
        client
    }

    fn standing<T>(&self, act: impl FnOnce(&mut Standing) -> T) -> T {
        act(&mut self.standing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn claim_always(&self) {
        loop {
            self.claim();
            let pause = if self.standing(|standing| standing.is_granted()) {
                REPEATED_EVERY
            } else {
                CLAIMED_EVERY
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn claim(&self) {
        self.channel
            .send_with(message::claim(self.interface.addresses), IN_ORDER);
    }

    async fn forward_all(&self) {
        let mut buffer = vec![0; MAX_PACKET_BYTES];
        loop {
            match self.interface.device.recv(&mut buffer).await {
                Ok(length) => self.forward(&buffer[..length]),
                // It was deleted at the end of `--default-route`.
                Err(error) if is_deleted(&error) => return,
                Err(error) => {
                    let name = &self.interface.device.name;
                    log::info!("--tun {name}: {error}");
                    return;
                }
            }
        }
    }

    fn forward(&self, packet: &[u8]) {
        let Some(ends) = packet::ends(packet) else {
            return;
        };
        if self.interface.addresses.contains(&Some(ends.from)) {
            // Without a session the packet is lost, as on a network that is down.
            self.channel.send_with(message::packet(packet), IN_ORDER);
        } else if is_routed(ends.from)
            && self
                .standing(|standing| !core::mem::replace(&mut standing.is_foreign_reported, true))
        {
            log::info!(
                "--tun {}: dropped a packet from {}, which is not the interface's address (others \
                 need masquerading); further ones are not reported",
                self.interface.device.name,
                ends.from
            );
        }
    }

    /// Handles a message of the server.
    pub async fn take(&self, datagram: Bytes) {
        match Message::read(datagram) {
            Some(Message::Packet(packet)) => {
                let ends = packet::ends(&packet);
                if ends.is_some_and(|ends| {
                    let addresses = &self.interface.addresses;
                    addresses.contains(&Some(ends.to))
                }) {
                    self.interface.device.send(&packet).await;
                }
            }
            Some(Message::Verdict(verdicts)) => self.report(verdicts),
            Some(Message::Unknown) => {
                self.standing(|standing| standing.verdicts = OfEach::default());
                self.claim();
            }
            // Messages of proxies, and unknown ones.
            _ => {}
        }
    }

    fn report(&self, verdicts: OfEach<Verdict>) {
        let changes = self.standing(|standing| standing.changes(verdicts));
        let granted = verdicts.map(|verdict| verdict == Verdict::Granted);
        if granted.contains(&true) {
            let _ = self.interface.granted.set(granted);
        }
        for (address, verdict) in self.interface.addresses.into_iter().zip(changes) {
            if let (Some(address), Some(verdict)) = (address, verdict)
                && let Some(description) = description(address, verdict)
            {
                log::info!("--tun: {description}");
            }
        }
    }
}

/// Returns whether an address is routed. Kernels use link-local and unspecified ones by themselves.
fn is_routed(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_unspecified() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_unspecified() && !address.is_unicast_link_local(),
    }
}

/// Returns the message for the user about a verdict.
fn description(address: IpAddr, verdict: Verdict) -> Option<String> {
    let kind = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    match verdict {
        Verdict::NotClaimed => None,
        Verdict::Granted => Some(format!("the server routes {address} here")),
        Verdict::NoNetwork => Some(format!(
            "the server carries no {kind} packets: it has no --tun with an {kind} address"
        )),
        Verdict::NotYours(Some(offered)) => Some(format!(
            "the server does not let this key have {address}: --tun-address {offered}/… is its own"
        )),
        Verdict::NotYours(None) => Some(format!(
            "the server does not let this key have {address}: it is another's, or outside of the \
             network of the server's --tun-address"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_verdicts_are_reported_once() {
        let mut standing = Standing::default();
        let verdicts = [Verdict::Granted, Verdict::NoNetwork];
        assert_eq!(standing.changes(verdicts), verdicts.map(Some));
        assert!(standing.is_granted());
        assert_eq!(standing.changes(verdicts), [None, None]);
        let refused = Verdict::NotYours(None);
        let later = [refused, Verdict::NoNetwork];
        assert_eq!(standing.changes(later), [Some(refused), None]);
        assert!(!standing.is_granted());
    }

    #[test]
    fn verdicts_name_the_remedy() {
        let v4 = IpAddr::from([10, 99, 0, 2]);
        let offered = Verdict::NotYours(Some([10, 99, 0, 3].into()));
        for (verdict, expected) in [
            (Verdict::NotClaimed, None),
            (Verdict::Granted, Some("routes 10.99.0.2 here")),
            (Verdict::NoNetwork, Some("no --tun with an IPv4 address")),
            (offered, Some("--tun-address 10.99.0.3/… is its own")),
            (Verdict::NotYours(None), Some("another's")),
        ] {
            let description = description(v4, verdict);
            let is_expected =
                |description: &str| expected.is_some_and(|part| description.contains(part));
            assert_eq!(description.is_some(), expected.is_some(), "{verdict:?}");
            assert!(
                description.is_none_or(|description| is_expected(&description)),
                "{verdict:?}"
            );
        }
    }

    #[test]
    fn link_local_sources_are_not_reported() {
        for (address, expected) in [
            ("192.168.1.2", true),
            ("169.254.1.2", false),
            ("0.0.0.0", false),
            ("fd00::2", true),
            ("fe80::2", false),
            ("::", false),
        ] {
            assert_eq!(is_routed(address.parse().unwrap()), expected, "{address}");
        }
    }
}
