//! Ports at which programs listen in a namespace.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use crate::namespace::Namespace;

impl Namespace {
    /// Returns the ports of TCP and UDP at which programs listen; none if this program may not
    /// enter the namespace.
    pub fn listeners(&self) -> BTreeSet<u16> {
        let read = self.run(|| {
            let mut ports = BTreeSet::new();
            for (name, state) in [("tcp", "0A"), ("udp", "07")] {
                for version in ["", "6"] {
                    let path = format!("/proc/thread-self/net/{name}{version}");
                    match fs::read_to_string(path) {
                        Ok(text) => ports.extend(ports_in(&text, state)),
                        // A system without IPv6 has no file.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(ports)
        });
        read.unwrap_or_default()
    }
}

/// Returns the local ports of sockets without a peer, in a text of `/proc/net/tcp` or `udp`, whose
/// state is this one (proc(5)).
fn ports_in(text: &str, state: &str) -> Vec<u16> {
    fn port(address: &str) -> Option<u16> {
        let (_, port) = address.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok()
    }

    let mut ports = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, peer, found, ..] = fields[..] else {
            continue;
        };
        if found == state && port(peer) == Some(0) {
            ports.extend(port(local));
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_sockets_without_a_peer() {
        let tcp = "\
  sl  local_address rem_address   st tx_queue rx_queue
   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000
   1: 0100007F:1F41 0100007F:9C40 01 00000000:00000000 00:00000000 00000000
   2: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0:0
";
        assert_eq!(ports_in(tcp, "0A"), [8_000, 80]);
        let udp = "\
   sl  local_address rem_address   st tx_queue rx_queue
 1: 0100007F:1B58 00000000:0000 07 00000000:00000000
 2: 0100007F:1B59 0100007F:0035 01 00000000:00000000
";
        assert_eq!(ports_in(udp, "07"), [7_000]);
    }
}
