//! Plan of a proxy's name servers: by systemd-resolved if it is in charge, else in
//! `/etc/resolv.conf`.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use super::act::{Act, find};
use super::file_content::FileContent;
use super::step::Step;
use crate::tun::HostError;

/// The resolver's file.
const FILE: &str = "/etc/resolv.conf";
/// Addresses at which systemd-resolved answers.
const OF_RESOLVED: [&str; 2] = ["127.0.0.53", "127.0.0.54"];

/// State of the machine's resolver.
#[derive(Clone, Debug)]
pub(super) struct ResolverState {
    /// The file itself, which may be a link.
    face: FileContent,
    /// Its content, through links.
    text: String,
}

impl ResolverState {
    /// Looks at the machine.
    ///
    /// # Errors
    /// The file cannot be read, or belongs to systemd-resolved, whose program is missing.
    pub(super) fn read() -> Result<ResolverState, HostError> {
        let face = FileContent::read(Path::new(FILE))?;
        // A link that leads nowhere is a file without servers.
        let text = fs::read_to_string(FILE).unwrap_or_default();
        let seen = ResolverState { face, text };
        if seen.is_of_resolved() {
            find("resolvectl")?;
        }
        Ok(seen)
    }

    fn is_of_resolved(&self) -> bool {
        let servers = self.text.lines().filter_map(server);
        servers
            .into_iter()
            .any(|server| OF_RESOLVED.contains(&server))
    }
}

/// Returns the name server of a line.
fn server(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    (words.next()? == "nameserver").then(|| words.next())?
}

/// Returns the changes by which names are resolved by these servers. Those of systemd-resolved
/// belong to the interface and vanish with it.
pub(super) fn plan(seen: &ResolverState, tun: &str, servers: &[IpAddr]) -> Vec<Step> {
    if servers.is_empty() {
        return Vec::new();
    }
    let servers: Vec<String> = servers.iter().map(IpAddr::to_string).collect();
    if seen.is_of_resolved() {
        let lines = [
            format!("resolvectl dns {tun} {}", servers.join(" ")),
            format!("resolvectl domain {tun} ~."),
        ];
        return lines
            .iter()
            .map(|line| Step {
                act: Act::run(line),
                change: None,
            })
            .collect();
    }
    let mut text = "# By `anabranch proxy --dns`, until it ends.\n".to_owned();
    for server in servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    // Domains and options are kept.
    for line in seen.text.lines().filter(|line| server(line).is_none()) {
        text.push_str(line);
        text.push('\n');
    }
    let (path, from) = (Path::new(FILE), seen.face.clone());
    vec![Step::replace(path, from, FileContent::Text(text))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const SERVERS: [IpAddr; 2] = [
        IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 53)),
        IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53)),
    ];

    #[test]
    fn servers_are_replaced_and_domains_kept() {
        let text = "search example.org\nnameserver 192.168.1.1\noptions edns0\n";
        let files = [
            FileContent::Text(text.to_owned()),
            FileContent::Link(PathBuf::from("/run/NetworkManager/resolv.conf")),
        ];
        for face in files {
            let seen = ResolverState {
                face: face.clone(),
                text: text.to_owned(),
            };
            let new = "# By `anabranch proxy --dns`, until it ends.\nnameserver 192.0.2.53\n\
                       nameserver 2001:db8::53\nsearch example.org\noptions edns0\n";
            let to = FileContent::Text(new.to_owned());
            let expected = [Step::replace(Path::new(FILE), face, to)];
            assert_eq!(plan(&seen, "ab0", &SERVERS), expected);
            assert_eq!(plan(&seen, "ab0", &[]), []);
        }
    }

    #[test]
    fn resolved_has_servers_of_the_interface() {
        let seen = ResolverState {
            face: FileContent::Link(PathBuf::from("../run/systemd/resolve/stub-resolv.conf")),
            text: "nameserver 127.0.0.53\noptions edns0 trust-ad\n".to_owned(),
        };
        let planned = plan(&seen, "ab0", &SERVERS);
        let acts: Vec<_> = planned.iter().map(|step| step.act.clone()).collect();
        let expected = [
            Act::run("resolvectl dns ab0 192.0.2.53 2001:db8::53"),
            Act::run("resolvectl domain ab0 ~."),
        ];
        assert_eq!(acts, expected);
        assert!(planned.iter().all(|step| step.change.is_none()));
    }
}
