//! Prints the precision of links between interfaces: release errors and rates of 100 Mbit/s in
//! packets of 1,500 bytes, and TCP over IPv4 and IPv6. Linux alone.
//!
//! `cargo run -p anabranch-emu --example link_figures`, as root for `SCHED_FIFO`.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    figures::print()
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod figures {
    #![allow(clippy::disallowed_methods, reason = "it measures on the wall clock")]

    use std::error::Error;
    use std::io::{self, Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
    use std::thread;
    use std::time::{Duration as StdDuration, Instant as StdInstant};

    use anabranch_emu::namespace::obtain_rights;
    use anabranch_emu::{Damage, Ends, Network, NetworkConfig, PacketLink, Relay};
    use anabranch_link::{LinkConfig, QueueLimit};
    use anabranch_units::{DataRate, Duration, Seed};

    const SPAN: StdDuration = StdDuration::from_secs(8);
    /// Payload of a packet of 1,500 bytes over IPv4 and UDP.
    const PAYLOAD_BYTES: usize = 1_472;
    const PORT: u16 = 9_000;
    const TCP_BYTES: usize = 20_000_000;

    pub(super) fn print() -> Result<(), Box<dyn Error>> {
        let is_user = obtain_rights()?;
        let place = if is_user {
            "in a user namespace"
        } else {
            "as root"
        };
        for (offered, limit) in [(98, 110), (110, 100)] {
            let (network, relay) = start(limit)?;
            let (sent, received) = udp(&network, offered)?;
            let errors = relay.release_errors();
            println!(
                "{:?} {place}, real time {}: link of {limit} Mbit/s, offered {sent:.2}, \
                 received {received:.2} Mbit/s; release error {} median, {} at the 99th \
                 percentile, {} at most",
                network.kind,
                relay.is_real_time(),
                errors.p50,
                errors.p99,
                errors.max,
            );
        }
        let (network, _relay) = start(100)?;
        let addresses = network.addresses;
        for far in [
            SocketAddr::from((addresses.v4(0).far, PORT)),
            SocketAddr::from((addresses.v6(0).far, PORT)),
        ] {
            println!("TCP to {far}: {:.2} Mbit/s of payload", tcp(&network, far)?);
        }
        Ok(())
    }

    fn start(megabits: u64) -> Result<(Network, Relay), Box<dyn Error>> {
        let mut network = Network::new(&NetworkConfig {
            mtus: vec![1_500],
            depth: 0,
            has_mptcp: false,
            mark: None,
        })?;
        let link = LinkConfig {
            rate: Some(DataRate::from_megabits_per_second(megabits)),
            delay: Duration::from_millis(20),
            queue: QueueLimit::Packets(2_000),
            ..LinkConfig::default()
        };
        let interfaces = std::mem::take(&mut network.paths);
        let links = interfaces.into_iter().map(|Ends { near, far }| PacketLink {
            name: "link".to_owned(),
            sender: near,
            receiver: far,
            forward: link.clone(),
            reverse: link.clone(),
            seed: Seed(1),
            reports_mtu: true,
            damage: Damage::default(),
        });
        let relay = Relay::between_interfaces(links.collect(), None)?;
        Ok((network, relay))
    }

    /// Sends datagrams for a while. Returns the rates sent and received, in Mbit/s of packets of
    /// IP.
    fn udp(network: &Network, megabits: u64) -> io::Result<(f64, f64)> {
        let far = SocketAddr::from((network.addresses.v4(0).far, PORT));
        let receiver = network.far.run(|| UdpSocket::bind(far))?;
        receiver.set_read_timeout(Some(StdDuration::from_secs(1)))?;
        let sender = network.near.run(|| UdpSocket::bind(("0.0.0.0", 0)))?;
        thread::scope(|scope| {
            let received = scope.spawn(move || receive(&receiver));
            let gap = 1500.0 * 8.0 / (megabits as f64 * 1e6);
            let began = StdInstant::now();
            let mut count = 0;
            while began.elapsed() < SPAN {
                while f64::from(count) * gap <= began.elapsed().as_secs_f64() {
                    sender.send_to(&[7; PAYLOAD_BYTES], far)?;
                    count += 1;
                }
                thread::park_timeout(StdDuration::from_micros(500));
            }
            let sent = f64::from(count) * 0.012 / began.elapsed().as_secs_f64();
            Ok((sent, received.join().expect("it does not panic")))
        })
    }

    /// Receives until a second is silent. Returns the rate after the first second in Mbit/s.
    fn receive(socket: &UdpSocket) -> f64 {
        let mut buffer = [0; 2_000];
        let mut began: Option<StdInstant> = None;
        let (mut count, mut last) = (0_u32, StdDuration::ZERO);
        while socket.recv(&mut buffer).is_ok() {
            let elapsed = began.get_or_insert_with(StdInstant::now).elapsed();
            if elapsed > StdDuration::from_secs(1) {
                count += 1;
                last = elapsed;
            }
        }
        f64::from(count) * 0.012 / (last.as_secs_f64() - 1.0)
    }

    fn tcp(network: &Network, far: SocketAddr) -> io::Result<f64> {
        let listener = network.far.run(|| TcpListener::bind(far))?;
        let mut client = network.near.run(|| TcpStream::connect(far))?;
        let (mut server, _) = listener.accept()?;
        thread::scope(|scope| {
            scope.spawn(move || client.write_all(&vec![7; TCP_BYTES]));
            let mut buffer = vec![0; 1 << 16];
            let began = StdInstant::now();
            let mut count = 0;
            loop {
                match server.read(&mut buffer)? {
                    0 => break,
                    length => count += length,
                }
            }
            assert_eq!(count, TCP_BYTES);
            Ok(count as f64 * 8e-6 / began.elapsed().as_secs_f64())
        })
    }
}
