//! A server's forwarding and address translation.

use std::fs;
use std::path::{Path, PathBuf};

use super::act::{Act, find};
use super::change::Change;
use super::file_content::FileContent;
use super::record::Record;
use super::step::Step;
use crate::tun::address::InnerAddress;
use crate::tun::{HostError, TunError, TunOptions};

const FORWARD_IPV4: &str = "/proc/sys/net/ipv4/ip_forward";
const FORWARD_IPV6: &str = "/proc/sys/net/ipv6/conf/all/forwarding";
/// Folder of each interface's parameters.
const CONF_IPV6: &str = "/proc/sys/net/ipv6/conf";

/// Parameters of the kernel, with their values.
type Parameters = Vec<(PathBuf, String)>;

/// A server's address translation, until it is dropped.
pub struct Nat {
    _record: Record,
}

impl Nat {
    /// Sets up forwarding and address translation for the networks of the interface.
    ///
    /// # Errors
    /// A program or right is missing, or a command fails.
    pub fn set_up(options: &TunOptions) -> Result<Nat, TunError> {
        let own = options.addresses(InnerAddress::OF_SERVER)?;
        let tun = options.name.as_deref().unwrap_or_default();
        let is_plain = tun
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !is_plain {
            return Err(TunError::NatName {
                name: tun.to_owned(),
            });
        }
        let record = changed(tun, &own).map_err(TunError::Nat)?;
        log::info!("packets of {tun} leave by this machine's addresses (--nat)");
        Ok(Nat { _record: record })
    }
}

/// Makes the changes for the networks of the interface `tun`. Returns their record.
fn changed(tun: &str, own: &[InnerAddress]) -> Result<Record, HostError> {
    find("nft")?;
    let mut record = Record::open(&format!("nat-{tun}"))?;
    let has_ipv6 = own.iter().any(|own| !own.is_ipv4());
    record.apply(&plan(&parameters(has_ipv6)?, tun, own))?;
    Ok(record)
}

/// Reads the parameters that forwarding depends on.
fn parameters(has_ipv6: bool) -> Result<Parameters, HostError> {
    let mut paths = vec![PathBuf::from(FORWARD_IPV4)];
    if has_ipv6 {
        let interfaces = fs::read_dir(CONF_IPV6)
            .map_err(HostError::NoIpv6)?
            .flatten();
        for interface in interfaces.filter(|entry| entry.file_name() != "all") {
            paths.push(interface.path().join("accept_ra"));
        }
        paths.push(PathBuf::from(FORWARD_IPV6));
    }
    paths
        .into_iter()
        .map(|path| match fs::read_to_string(&path) {
            Ok(value) => Ok((path, value.trim().to_owned())),
            Err(source) => Err(HostError::Read { path, source }),
        })
        .collect()
}

/// Returns the changes by which the packets of the interface's networks leave the machine.
/// `parameters` are those of now. A router ignores router advertisements unless `accept_ra` is 2.
fn plan(parameters: &Parameters, tun: &str, networks: &[InnerAddress]) -> Vec<Step> {
    let forward = Path::new(FORWARD_IPV6);
    let was_router = parameters
        .iter()
        .any(|(path, value)| path == forward && value == "1");
    let mut steps = Vec::new();
    for (path, value) in parameters {
        let is_of_advertisements = path.ends_with("accept_ra");
        let wanted = match (is_of_advertisements, value.as_str()) {
            (true, "1") if !was_router => "2",
            (false, "0") => "1",
            _ => continue,
        };
        let [from, to] =
            [value.as_str(), wanted].map(|value| FileContent::Text(format!("{value}\n")));
        steps.push(Step::replace(path, from, to));
    }
    let table = table(tun);
    // A table is made first so that its removal cannot fail.
    let removal = format!("table inet {table}\ndelete table inet {table}\n");
    let mut rules = String::new();
    for network in networks {
        let kind = if network.is_ipv4() { "ip" } else { "ip6" };
        rules.push_str(&format!(
            "    {kind} saddr {network} oifname != {{ \"{tun}\", \"lo\" }} masquerade\n"
        ));
    }
    let nat = format!("type nat hook postrouting priority srcnat;\n{rules}");
    let forward = forward_rules(parameters, tun);
    let chains = format!("  chain nat {{\n    {nat}  }}\n  chain forward {{\n    {forward}  }}\n");
    let whole = format!("{removal}table inet {table} {{\n{chains}}}\n");
    steps.push(Step {
        act: Act::nft(whole),
        change: Some(Change::Filter { table }),
    });
    steps
}

/// Returns the rules for forwarded packets. Where this program switches forwarding on, the machine
/// is no router for others: packets that are neither from nor to a tunnel are dropped. Nobody calls
/// a proxy's machine through its tunnel. Connections get segments that fit both ways, since servers
/// drop the reports of longer ones.
fn forward_rules(parameters: &Parameters, tun: &str) -> String {
    let mut rules = vec![
        "type filter hook forward priority filter;".to_owned(),
        format!("iifname \"{tun}\" oifname \"{tun}\" drop"),
        format!("iifname \"{tun}\" tcp flags syn tcp option maxseg size set rt mtu"),
        format!("oifname \"{tun}\" tcp flags syn tcp option maxseg size set rt mtu"),
        format!("oifname \"{tun}\" ct state != {{ established, related }} drop"),
    ];
    for (path, kind) in [(FORWARD_IPV4, "ipv4"), (FORWARD_IPV6, "ipv6")] {
        if parameters
            .iter()
            .any(|(its, value)| its == Path::new(path) && value == "0")
        {
            // Tunnels of other instances are interfaces of the same kind.
            rules.push(format!(
                "meta nfproto {kind} meta iifkind != \"tun\" meta oifkind != \"tun\" drop"
            ));
        }
    }
    rules.join("\n    ") + "\n"
}

/// Returns the name of the interface's table.
fn table(tun: &str) -> String {
    format!(
        "anabranch_{}",
        tun.chars()
            .map(|character| {
                if character.is_ascii_alphanumeric() {
                    character
                } else {
                    '_'
                }
            })
            .collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(values: &[(&str, &str)]) -> Parameters {
        values
            .iter()
            .map(|(path, value)| (PathBuf::from(*path), (*value).to_owned()))
            .collect()
    }

    fn paths(steps: &[Step]) -> Vec<String> {
        steps
            .iter()
            .filter_map(|step| match &step.act {
                Act::Replace { path, .. } => Some(path.display().to_string()),
                Act::Run { .. } => None,
            })
            .collect()
    }

    #[test]
    fn networks_are_masqueraded_and_proxies_kept_apart() {
        let own = ["10.99.0.1/24", "fd99::1/64"].map(|own| own.parse().unwrap());
        let steps = plan(&parameters(&[(FORWARD_IPV4, "1")]), "ab-0", &own);
        let [step] = &steps[..] else {
            panic!("{steps:?}")
        };
        let expected = "table inet anabranch_ab_0\ndelete table inet anabranch_ab_0\n";
        let undo = step.change.as_ref().unwrap().undoing();
        let (Act::Run { input, .. }, Act::Run { input: undo, .. }) = (&step.act, &undo) else {
            panic!("{step:?}")
        };
        assert_eq!(undo, expected);
        assert!(input.starts_with(expected));
        for part in [
            "ip saddr 10.99.0.1/24 oifname != { \"ab-0\", \"lo\" } masquerade",
            "ip6 saddr fd99::1/64 oifname != { \"ab-0\", \"lo\" } masquerade",
            "iifname \"ab-0\" oifname \"ab-0\" drop",
        ] {
            assert!(input.contains(part), "{part}: {input}");
        }
    }

    #[test]
    fn a_machine_that_was_no_router_becomes_none_for_others() {
        for (ipv4, ipv6) in [("0", "0"), ("1", "0"), ("0", "1"), ("1", "1")] {
            let rules = forward_rules(
                &parameters(&[(FORWARD_IPV4, ipv4), (FORWARD_IPV6, ipv6)]),
                "ab0",
            );
            for (kind, value) in [("ipv4", ipv4), ("ipv6", ipv6)] {
                let drop =
                    format!("nfproto {kind} meta iifkind != \"tun\" meta oifkind != \"tun\" drop");
                assert_eq!(rules.contains(&drop), value == "0", "{kind}");
            }
            for part in [
                "oifname \"ab0\" ct state != { established, related } drop",
                "iifname \"ab0\" tcp flags syn tcp option maxseg size set rt mtu",
                "oifname \"ab0\" tcp flags syn tcp option maxseg size set rt mtu",
            ] {
                assert!(rules.contains(part), "{part}");
            }
        }
    }

    #[test]
    fn forwarding_is_switched_on_where_it_is_off_and_advertisements_stay_accepted() {
        let eth0 = "/proc/sys/net/ipv6/conf/eth0/accept_ra";
        let wlan0 = "/proc/sys/net/ipv6/conf/wlan0/accept_ra";
        let found = [
            (FORWARD_IPV4, "0"),
            (eth0, "1"),
            (wlan0, "0"),
            (FORWARD_IPV6, "0"),
        ];
        let steps = plan(&parameters(&found), "ab0", &[]);
        assert_eq!(paths(&steps), [FORWARD_IPV4, eth0, FORWARD_IPV6]);
        let [old, new] = ["1\n", "2\n"].map(|value| FileContent::Text(value.to_owned()));
        assert_eq!(steps[1], Step::replace(Path::new(eth0), old, new));
        let found = [(FORWARD_IPV4, "1"), (eth0, "1"), (FORWARD_IPV6, "1")];
        let steps = plan(&parameters(&found), "ab0", &[]);
        assert_eq!(paths(&steps), [""; 0], "it is a router already");
    }
}
