//! Plan of a proxy's routes: a table of their own, and rules that lead to it.
//!
//! ```text
//! 7090 packets of the paths' sockets, by their mark ──────────────┐
//! 7091 multicast and broadcast (IPv4) ────────────────────────────┤
//! 7092 networks with a route of their own ─▶ table main           │
//! 7093 packets from the interface's address ─▶ table 7099         │
//! 7094 packets without a source as yet (IPv4) ─▶ table 7099       │
//! 7094, 7095 packets with another source (IPv6) ──────────────────┤
//! 7096 all others (IPv6) ─▶ table 7099                            │
//! 7094 instead, without an address: the machine's own (IPv6) ─▶ table 7099
//! 7099 nothing: the machine's own rules follow ◀──────────────────┘
//! ```
//!
//! Packets with another source are answers of services, and those of programs that have chosen
//! their way. For IPv4, the rules for the reverse path filter follow from that: it looks up the
//! route from an address of the machine to the sender.

use std::net::IpAddr;

use super::act::{Act, output_of};
use super::change::{Change, Family};
use super::step::Step;
use crate::tun::HostError;
use crate::tun::message::OfEach;

/// Mark of the paths' sockets: "Anab".
pub(super) const MARK: u32 = 0x416e_6162;
/// Routing table, and priority of the last rule.
const TABLE: u32 = 7_099;
/// Priority of the first rule. Those of the machine have 32,766 or, if they are added without a
/// priority, the ones below it.
const FIRST_PRIORITY: u32 = 7_090;

/// State of the machine's routes.
#[derive(Clone, Debug, Default)]
pub(super) struct RoutingState {
    /// Output of `ip rule show`, for both kinds.
    rules: String,
    /// Output of `ip route show table`, for both kinds.
    table: String,
    has_ipv6: bool,
}

impl RoutingState {
    /// Looks at the machine.
    ///
    /// # Errors
    /// The program `ip` is missing.
    pub(super) fn read() -> Result<RoutingState, HostError> {
        let has_ipv6 = std::path::Path::new("/proc/net/if_inet6").exists();
        Ok(RoutingState {
            rules: of_both_families("rule show")?,
            table: of_both_families(&format!("route show table {TABLE}"))?,
            has_ipv6,
        })
    }

    /// Checks that the table and the priorities of rules are free.
    ///
    /// # Errors
    /// They are not.
    pub(super) fn check(&self) -> Result<(), HostError> {
        if let Some(taken) = self.rules.lines().find(|line| has_our_priority(line)) {
            Err(HostError::RuleTaken {
                first: FIRST_PRIORITY,
                last: TABLE,
                rule: taken.replace('\t', " "),
            })
        } else if !self.table.trim().is_empty() {
            Err(HostError::TableTaken { table: TABLE })
        } else {
            Ok(())
        }
    }
}

/// Returns the output of `ip` for IPv4, and then for IPv6.
fn of_both_families(what: &str) -> Result<String, HostError> {
    let ipv4 = output_of(&format!("ip -4 {what}"))?;
    Ok(ipv4 + &output_of(&format!("ip -6 {what}"))?)
}

/// Returns whether a line of `ip rule show` has one of our priorities.
fn has_our_priority(line: &str) -> bool {
    let priority = line.split(':').next().unwrap_or_default();
    priority
        .parse()
        .is_ok_and(|number: u32| (FIRST_PRIORITY..=TABLE).contains(&number))
}

/// Returns the changes by which packets enter the interface `tun`, by the addresses of it that the
/// server routes. Packets of a kind without an address have no route.
pub(super) fn plan(seen: &RoutingState, tun: &str, addresses: OfEach<Option<IpAddr>>) -> Vec<Step> {
    let [ipv4, ipv6] = addresses;
    let mut steps = routes(Family::V4, tun, ipv4);
    steps.extend(rules(Family::V4, &of_ipv4(ipv4)));
    if seen.has_ipv6 {
        steps.extend(routes(Family::V6, tun, ipv6));
        steps.extend(rules(Family::V6, &of_ipv6(ipv6)));
    }
    steps
}

/// Returns the default route of the table.
fn routes(family: Family, tun: &str, address: Option<IpAddr>) -> Vec<Step> {
    let route = match address {
        Some(address) => format!("default dev {tun} src {address}"),
        None => "unreachable default".to_owned(),
    };
    vec![Step {
        act: Act::run(&format!(
            "ip {} route add {route} table {TABLE}",
            family.option()
        )),
        change: Some(Change::Routes {
            family,
            table: TABLE,
        }),
    }]
}

/// Returns the steps that add the rules. The last rule is added first, since others lead to it, and
/// the one for the paths' sockets second.
fn rules(family: Family, rules: &[(u32, String)]) -> Vec<Step> {
    let end = [(TABLE, "nop".to_owned())];
    let own = [(FIRST_PRIORITY, format!("fwmark {MARK:#x} goto {TABLE}"))];
    let all = end.iter().chain(&own).chain(rules);
    all.map(|(priority, rule)| Step {
        act: Act::run(&format!(
            "ip {} rule add pref {priority} {rule}",
            family.option()
        )),
        change: Some(Change::Rule {
            family,
            priority: *priority,
            rule: rule.clone(),
        }),
    })
    .collect()
}

/// Returns the rules of IPv4 beside those of both kinds.
fn of_ipv4(address: Option<IpAddr>) -> Vec<(u32, String)> {
    let mut rules = vec![
        (7_091, format!("to 224.0.0.0/3 goto {TABLE}")),
        (7_092, "lookup main suppress_prefixlength 0".to_owned()),
    ];
    if let Some(address) = address {
        rules.push((7_093, format!("from {address} lookup {TABLE}")));
    }
    rules.push((7_094, format!("from 0.0.0.0/32 lookup {TABLE}")));
    rules
}

/// Returns the rules of IPv6 beside those of both kinds. A rule with a source there does not apply
/// to packets without one.
///
/// After a look-up without a source has failed, Linux chooses an address and looks up again
/// (`ip6_dst_lookup_tail`). So a rule by the source excepts packets only while the first succeeds.
fn of_ipv6(address: Option<IpAddr>) -> Vec<(u32, String)> {
    let mut rules = vec![(7_092, "lookup main suppress_prefixlength 0".to_owned())];
    let Some(address) = address else {
        rules.push((7_094, format!("iif lo lookup {TABLE}")));
        return rules;
    };
    rules.push((7_093, format!("from {address} lookup {TABLE}")));
    rules.push((7_094, format!("from ::/1 goto {TABLE}")));
    rules.push((7_095, format!("from 8000::/1 goto {TABLE}")));
    rules.push((7_096, format!("lookup {TABLE}")));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(steps: &[Step]) -> Vec<(String, String)> {
        steps
            .iter()
            .map(|step| {
                let undoing = step.change.as_ref().unwrap().undoing();
                (line(&step.act), line(&undoing))
            })
            .collect()
    }

    fn line(act: &Act) -> String {
        match act {
            Act::Run {
                program, arguments, ..
            } => format!("{program} {}", arguments.join(" ")),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the place of the first command that begins with `line`.
    fn place(planned: &[(String, String)], line: &str) -> Option<usize> {
        planned.iter().position(|(act, _)| act.starts_with(line))
    }

    fn seen(has_ipv6: bool) -> RoutingState {
        RoutingState {
            has_ipv6,
            ..RoutingState::default()
        }
    }

    fn with_rules(rules: &str) -> RoutingState {
        RoutingState {
            rules: rules.to_owned(),
            ..RoutingState::default()
        }
    }

    #[test]
    fn a_plan_has_a_route_and_rules_with_their_undoing() {
        let addresses = [Some([10, 99, 0, 2].into()), None];
        let planned = lines(&plan(&seen(false), "ab0", addresses));
        let expected = [
            (
                "ip -4 route add default dev ab0 src 10.99.0.2 table 7099",
                "ip -4 route flush table 7099",
            ),
            (
                "ip -4 rule add pref 7099 nop",
                "ip -4 rule del pref 7099 nop",
            ),
            (
                "ip -4 rule add pref 7090 fwmark 0x416e6162 goto 7099",
                "ip -4 rule del pref 7090 fwmark 0x416e6162 goto 7099",
            ),
            (
                "ip -4 rule add pref 7091 to 224.0.0.0/3 goto 7099",
                "ip -4 rule del pref 7091 to 224.0.0.0/3 goto 7099",
            ),
            (
                "ip -4 rule add pref 7092 lookup main suppress_prefixlength 0",
                "ip -4 rule del pref 7092 lookup main suppress_prefixlength 0",
            ),
            (
                "ip -4 rule add pref 7093 from 10.99.0.2 lookup 7099",
                "ip -4 rule del pref 7093 from 10.99.0.2 lookup 7099",
            ),
            (
                "ip -4 rule add pref 7094 from 0.0.0.0/32 lookup 7099",
                "ip -4 rule del pref 7094 from 0.0.0.0/32 lookup 7099",
            ),
        ]
        .map(|(act, undo)| (act.to_owned(), undo.to_owned()));
        assert_eq!(planned, expected);
    }

    #[test]
    fn packets_of_a_kind_without_an_address_have_no_route() {
        let v6 = [None, Some("fd99::2".parse().unwrap())];
        for (addresses, lost, carried) in [
            ([Some([10, 99, 0, 2].into()), None], "-6", "-4"),
            (v6, "-4", "-6"),
        ] {
            let planned = lines(&plan(&seen(true), "ab0", addresses));
            for (line, is_planned) in [
                (
                    format!("ip {lost} route add unreachable default table"),
                    true,
                ),
                (format!("ip {carried} route add default dev ab0 src"), true),
                (format!("ip {lost} rule add pref 7093"), false),
                (format!("ip {carried} rule add pref 7093"), true),
            ] {
                assert_eq!(place(&planned, &line).is_some(), is_planned, "{line}");
            }
        }
    }

    #[test]
    fn no_source_leads_around_a_tunnel_that_carries_no_ipv6() {
        let planned = lines(&plan(
            &seen(true),
            "ab0",
            [Some([10, 99, 0, 2].into()), None],
        ));
        let mut rules: Vec<_> = planned
            .iter()
            .map(|(act, _)| act.as_str())
            .filter(|act| act.contains("-6 rule add"))
            .collect();
        rules.sort_unstable();
        let expected = [
            "ip -6 rule add pref 7090 fwmark 0x416e6162 goto 7099",
            "ip -6 rule add pref 7092 lookup main suppress_prefixlength 0",
            "ip -6 rule add pref 7094 iif lo lookup 7099",
            "ip -6 rule add pref 7099 nop",
        ];
        assert_eq!(rules, expected);
    }

    #[test]
    fn the_paths_sockets_are_excepted_before_packets_enter_the_tunnel() {
        let v6 = Some("fd99::2".parse().unwrap());
        let planned = lines(&plan(&seen(true), "ab0", [Some([10, 99, 0, 2].into()), v6]));
        for kind in ["-4", "-6"] {
            let [end, own, main, from_ours, without_source] =
                ["7099 nop", "7090 fwmark", "7092", "7093", "7094"].map(|part| {
                    place(&planned, &format!("ip {kind} rule add pref {part}")).unwrap()
                });
            assert!(end < own && own < main);
            assert!(own < from_ours && own < without_source);
        }
    }

    #[test]
    fn tables_and_priorities_of_others_are_respected() {
        let usual = "0:\tfrom all lookup local\n32766:\tfrom all lookup main\n";
        with_rules(usual).check().unwrap();
        with_rules("7089:\tfrom all lookup 5\n7100:\tfrom all lookup 5\n")
            .check()
            .unwrap();
        let taken = with_rules("7092:\tfrom all lookup 5\n");
        let error = taken.check().unwrap_err();
        assert!(
            error.to_string().contains("7092: from all lookup 5"),
            "{error}"
        );
        let table = "default via 192.0.2.1 dev eth0\n".to_owned();
        let seen = RoutingState {
            table,
            ..RoutingState::default()
        };
        assert!(seen.check().is_err());
    }
}
