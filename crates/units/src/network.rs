//! Networks that one owner may have, by address prefixes.

use core::net::IpAddr;

/// Addresses with a common prefix. IPv4 addresses mapped into IPv6 are IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    is_ipv4: bool,
    prefix_bits: u8,
    /// First address, shifted to the highest bits.
    first: u128,
}

impl Network {
    /// Returns the host of an address: an IPv4 address, or the first 64 bits of an IPv6 address.
    pub fn host(address: IpAddr) -> Network {
        Network::enclosing(address)[0]
    }

    /// Returns the networks around an address, the smallest first, each with the number of hosts
    /// whose share it has. An IPv6 customer gets 64, 56 or 48 bits (RFC 6177); providers' routers
    /// share IPv4 addresses among customers, and rent out blocks of 24 bits.
    pub fn around(address: IpAddr) -> impl Iterator<Item = (Network, u32)> {
        const IPV4_SHARES: [u32; 3] = [1, 8, 8];
        const IPV6_SHARES: [u32; 3] = [1, 2, 8];
        let networks = Network::enclosing(address);
        let shares = if networks[0].is_ipv4 {
            IPV4_SHARES
        } else {
            IPV6_SHARES
        };
        let count = if networks[0].is_ipv4 { 2 } else { 3 };
        networks.into_iter().zip(shares).take(count)
    }

    fn enclosing(address: IpAddr) -> [Network; 3] {
        let (is_ipv4, bits, prefixes) = match address.to_canonical() {
            IpAddr::V4(address) => (true, u128::from(u32::from(address)) << 96, [32, 24, 24]),
            IpAddr::V6(address) => (false, u128::from(address), [64, 56, 48]),
        };
        prefixes.map(|prefix_bits| Network {
            is_ipv4,
            prefix_bits,
            first: bits & (u128::MAX << (128 - u32::from(prefix_bits))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(Network, u32)> {
        Network::around(text.parse().unwrap()).collect()
    }

    #[test]
    fn hosts_and_networks_of_both_kinds() {
        for (left, right, common) in [
            ("192.0.2.1", "192.0.2.250", vec![8]),
            ("192.0.2.1", "192.0.3.1", vec![]),
            ("192.0.2.1", "::ffff:192.0.2.1", vec![1, 8]),
            ("2001:db8::1", "2001:db8::2", vec![1, 2, 8]),
            ("2001:db8::1", "2001:db8:0:9::1", vec![2, 8]),
            ("2001:db8::1", "2001:db8:0:900::1", vec![8]),
            ("2001:db8::1", "2001:db8:1::1", vec![]),
            ("192.0.2.1", "c000:201::", vec![]),
        ] {
            let others = of(right);
            let shared = of(left).into_iter().filter(|one| others.contains(one));
            let shares: Vec<_> = shared.map(|(_, share)| share).collect();
            assert_eq!(shares, common, "{left} {right}");
        }
    }
}
