//! A router on loopback, by each protocol. Needs a clock: the libraries have sockets of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::*;

const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

/// A router that answers datagrams at port 5351 of a loopback address, and keeps what it was asked.
struct Requests {
    is_over: Arc<AtomicBool>,
    /// Lifetimes that were asked for, of mappings.
    lifetimes: Arc<Mutex<Vec<u32>>>,
    thread: Option<JoinHandle<()>>,
}

impl Requests {
    fn answer(address: Ipv4Addr, speaks_pcp: bool) -> Requests {
        let socket = UdpSocket::bind((address, 5_351)).unwrap();
        socket
            .set_read_timeout(Some(StdDuration::from_millis(50)))
            .unwrap();
        let (is_over, lifetimes) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<u32>>>::default(),
        );
        let (over, seen) = (Arc::clone(&is_over), Arc::clone(&lifetimes));
        let thread = thread::spawn(move || {
            let mut buffer = [0; 1_100];
            while !over.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                let request = &buffer[..length];
                let answer = match (request[0], speaks_pcp) {
                    (2, true) => Some(pcp_answer(request, &seen)),
                    // RFC 6886, §3.5: version 0, unsupported.
                    (2, false) => Some(vec![0, 128, 0, 1, 0, 0, 0, 9]),
                    (0, false) => Some(natpmp_answer(request, &seen)),
                    _ => None,
                };
                if let Some(answer) = answer {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        Requests {
            is_over,
            lifetimes,
            thread: Some(thread),
        }
    }

    fn lifetimes(&self) -> Vec<u32> {
        self.lifetimes.lock().unwrap().clone()
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Answers a MAP request of PCP (RFC 6887, §7.2 and §11.1).
fn pcp_answer(request: &[u8], seen: &Mutex<Vec<u32>>) -> Vec<u8> {
    let lifetime = u32::from_be_bytes(*request[4..].first_chunk().unwrap());
    seen.lock().unwrap().push(lifetime);
    let mut answer = request[..60].to_vec();
    answer[1] |= 0x80;
    answer[2..4].fill(0);
    answer[8..12].copy_from_slice(&7_u32.to_be_bytes());
    answer[12..24].fill(0);
    answer[42..44].copy_from_slice(&7_777_u16.to_be_bytes());
    answer[44..60].copy_from_slice(&OUTSIDE.to_ipv6_mapped().octets());
    answer
}

/// Answers a request of NAT-PMP (RFC 6886, §3.2 and §3.3).
fn natpmp_answer(request: &[u8], seen: &Mutex<Vec<u32>>) -> Vec<u8> {
    let mut answer = vec![0, 128 + request[1], 0, 0, 0, 0, 0, 7];
    if request[1] == 0 {
        answer.extend_from_slice(&OUTSIDE.octets());
    } else {
        let lifetime = u32::from_be_bytes(*request[8..].first_chunk().unwrap());
        seen.lock().unwrap().push(lifetime);
        answer.extend_from_slice(&request[4..6]);
        let outside: u16 = if lifetime == 0 { 0 } else { 6_666 };
        answer.extend_from_slice(&outside.to_be_bytes());
        answer.extend_from_slice(&lifetime.to_be_bytes());
    }
    answer
}

fn router(last: u8) -> Router {
    Router {
        address: Ipv4Addr::new(127, 0, 53, last),
        local: Ipv4Addr::LOCALHOST,
        // Nobody listens there.
        ssdp: SocketAddr::new(Ipv4Addr::new(127, 0, 53, last).into(), 1_901),
    }
}

#[test]
fn a_router_opens_a_port_by_either_request_and_closes_it_again() {
    for (last, speaks_pcp, port) in [(1, true, 7_777), (2, false, 6_666)] {
        let router = router(last);
        let requests = Requests::answer(router.address, speaks_pcp);
        let open = OpenPort::of(router, 7_000).unwrap();
        assert_eq!(open.outside(), SocketAddr::new(OUTSIDE.into(), port));
        assert_eq!(requests.lifetimes(), [LIFETIME_SECONDS]);
        drop(open);
        assert_eq!(
            requests.lifetimes(),
            [LIFETIME_SECONDS, 0],
            "it is given back"
        );
    }
}

#[test]
fn a_silent_router_costs_a_few_seconds_and_the_advice_names_the_port() {
    let router = router(3);
    let began = std::time::Instant::now();
    let error = OpenPort::of(router, 7_000).unwrap_err();
    assert!(began.elapsed() < StdDuration::from_secs(20));
    let error = error.context(advice(Some(router.local), 7_000));
    let message = format!("{error:#}");
    assert!(
        message.contains("UDP port 7000 to 127.0.0.1, port 7000"),
        "{message}"
    );
    assert!(message.contains("--via-relay"), "{message}");
}

/// Answers a search and the requests of UPnP as a router does, and returns the actions.
fn answer_upnp(address: Ipv4Addr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let ssdp = UdpSocket::bind((address, 0)).unwrap();
    let http = TcpListener::bind((address, 0)).unwrap();
    let (search_at, control_at) = (ssdp.local_addr().unwrap(), http.local_addr().unwrap());
    thread::spawn(move || {
        let mut buffer = [0; 2_000];
        while let Ok((_, from)) = ssdp.recv_from(&mut buffer) {
            let answer = format!(
                "HTTP/1.1 200 OK\r\nLOCATION: http://{control_at}/root.xml\r\nST: \
                 urn:schemas-upnp-org:device:InternetGatewayDevice:1\r\n\r\n"
            );
            let _ = ssdp.send_to(answer.as_bytes(), from);
        }
    });
    let actions = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&actions);
    thread::spawn(move || {
        for connection in http.incoming().flatten() {
            serve(connection, &seen);
        }
    });
    (search_at, actions)
}

/// Answers one request of HTTP.
fn serve(mut connection: std::net::TcpStream, seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
        head.push_str(&line.to_lowercase());
        line.clear();
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    let service = "urn:schemas-upnp-org:service:WANIPConnection:1";
    let action = [
        "AddPortMapping",
        "DeletePortMapping",
        "GetExternalIPAddress",
    ];
    let action = action.into_iter().find(|action| body.contains(action));
    let text = match action {
        Some(action) => {
            let about = if body.contains("<NewExternalPort>7000<") {
                " 7000"
            } else {
                ""
            };
            seen.lock().unwrap().push(format!("{action}{about}"));
            format!(
                "<?xml version=\"1.0\"?><s:Envelope \
                 xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body><u:{action}Response \
                 xmlns:u=\"{service}\"><NewExternalIPAddress>{OUTSIDE}</NewExternalIPAddress>\
                 </u:{action}Response></s:Body></s:Envelope>"
            )
        }
        None if head.contains("scpd.xml") => {
            let action = |name: &str| {
                let argument = |name: &str| {
                    format!("<argument><name>{name}</name><direction>in</direction></argument>")
                };
                let all = [
                    "NewRemoteHost",
                    "NewExternalPort",
                    "NewProtocol",
                    "NewInternalPort",
                    "NewInternalClient",
                    "NewEnabled",
                    "NewPortMappingDescription",
                    "NewLeaseDuration",
                ];
                let count = match name {
                    "AddPortMapping" => 8,
                    "DeletePortMapping" => 3,
                    _ => 0,
                };
                let arguments: String = all[..count].iter().map(|name| argument(name)).collect();
                format!(
                    "<action><name>{name}</name><argumentList>{arguments}</argumentList></action>"
                )
            };
            let actions = [
                "AddPortMapping",
                "DeletePortMapping",
                "GetExternalIPAddress",
            ];
            let actions: String = actions.map(action).concat();
            format!("<?xml version=\"1.0\"?><scpd><actionList>{actions}</actionList></scpd>")
        }
        None => format!(
            "<?xml version=\"1.0\"?><root><device><deviceList><device><deviceList><device>\
             <serviceList><service><serviceType>{service}</serviceType><controlURL>/control\
             </controlURL><SCPDURL>/scpd.xml</SCPDURL></service></serviceList></device>\
             </deviceList></device></deviceList></device></root>"
        ),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close",
        text.len()
    );
    let _ = connection.write_all(format!("{head}\r\n\r\n{text}").as_bytes());
}

#[test]
fn a_router_opens_a_port_by_upnp_and_closes_it_again() {
    let address = Ipv4Addr::new(127, 0, 53, 4);
    let (ssdp, actions) = answer_upnp(address);
    let router = Router {
        address,
        local: Ipv4Addr::LOCALHOST,
        ssdp,
    };
    let open = OpenPort::of(router, 7_000).unwrap();
    assert_eq!(open.outside(), SocketAddr::new(OUTSIDE.into(), 7_000));
    drop(open);
    let expected = [
        "AddPortMapping 7000",
        "GetExternalIPAddress",
        "DeletePortMapping 7000",
    ];
    assert_eq!(*actions.lock().unwrap(), expected);
}

#[test]
fn the_router_is_that_of_the_default_route() {
    let head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n";
    let number = |text: &str| {
        let octets = text.parse::<Ipv4Addr>().unwrap().octets();
        format!("{:08X}", u32::from_ne_bytes(octets))
    };
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
