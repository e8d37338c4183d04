use super::*;

#[test]
fn the_advice_names_the_port_and_the_machine() {
    let message = advice(Some(Ipv4Addr::new(192, 168, 1, 5)), 7_000);
    assert!(
        message.contains("UDP port 7000 to 192.168.1.5, port 7000"),
        "{message}"
    );
    assert!(message.contains("--via-relay"), "{message}");
}

/// Returns an address as the kernel writes it.
fn number(text: &str) -> String {
    let octets = text.parse::<Ipv4Addr>().unwrap().octets();
    format!("{:08X}", u32::from_ne_bytes(octets))
}

#[test]
fn the_router_is_that_of_the_default_route() {
    let head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n";
    let (modem, home) = (number("192.168.8.1"), number("192.168.1.1"));
    let routes = format!(
        "{head}wwan0 00000000 {modem} 0003 0 0 600 00000000 0 0 0\n\
         wlan0 00000000 {home} 0003 0 0 100 00000000 0 0 0\n\
         wlan0 0001A8C0 00000000 0001 0 0 10 00FFFFFF 0 0 0\n"
    );
    assert_eq!(
        default_gateway(&routes),
        Some(Ipv4Addr::new(192, 168, 1, 1))
    );
    assert_eq!(default_gateway(head), None);
}

#[test]
fn addresses_that_providers_share_are_none_of_the_internet() {
    for (text, expected) in [
        ("100.64.0.1", true),
        ("100.127.255.255", true),
        ("192.168.1.1", true),
        ("10.1.2.3", true),
        ("100.128.0.1", false),
        ("203.0.113.9", false),
    ] {
        assert_eq!(is_inner(text.parse().unwrap()), expected, "{text}");
    }
}
