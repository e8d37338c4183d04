//! The paths of a session, as options name them.

use std::path::PathBuf;

use anabranch_core::{PathId, PathOptions};
use anabranch_mpegts_io::BondedSender;
use anabranch_net::words::{TcpChoice, ViaArgument, with_port};
use anabranch_net::{
    ClientPath, LinkCap, Network, PathSnapshot, PresentPath, Remote, Roster, Sender, Snapshot,
    TcpFallback,
};
use anabranch_observe::control::PathChange;
use anabranch_units::ByteCount;
use anyhow::{Context, anyhow, bail};

/// Options for the address of the other end, and for the paths to it.
#[derive(Debug, clap::Args)]
pub(crate) struct PathArguments {
    /// Address at which the other end listens: host and port (7000 by default). For `send` it may
    /// be the link of `recv --pair`, which replaces --peer and --key, too, or a receiver of SRTLA
    /// as `srtla://HOST:PORT?streamid=…&passphrase=…&latency=…`, without a key. Give it once, or
    /// once for each --via if the other end has several addresses. A name is resolved again while
    /// the other end does not answer. Each path uses an address that its interface can reach.
    #[arg(long, value_name = "ADDR", required = true)]
    to: Vec<String>,
    /// Network interface or local address of a path; once for each path. By default there is one
    /// path, by the default route. 'wwan*' means every interface with such a name. `send` also adds
    /// those that appear later. `wlan0,weight=2` is preferred. `wwan0,metered` stands by while the
    /// others suffice. `wwan0,max=3Mbit/s` limits the path's rate. `wwan0,cap=10GB` becomes metered
    /// when it has carried 10 GB, counted over restarts.
    #[arg(long, value_name = "INTERFACE|ADDRESS[,OPTION…]")]
    via: Vec<ViaArgument>,
    /// Folder for the counts of bytes on paths with a cap [default: $XDG_STATE_HOME/anabranch, or
    /// ~/.local/state/anabranch; on Windows %LOCALAPPDATA%/anabranch].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// If no path has had an answer by UDP for 3 s, the same datagrams are also sent by TCP. They
    /// go to this port of each --to (the receiver's --listen-tcp). TCP is slower, and is used only
    /// until UDP answers. `off`: never; `only`: always, at the ports of --to [default: 443].
    #[arg(long, value_name = "PORT|off|only")]
    tcp: Option<TcpChoice>,
}

/// A sender whose paths change while it runs.
pub(crate) trait LiveSender: Send + Sync {
    fn snapshot(&self) -> Snapshot;

    /// Adds a path with the next number.
    fn add_path(&self, path: ClientPath) -> anyhow::Result<()>;

    /// Gives a path the number of another. Returns the last state of the old one.
    fn replace_path(&self, path: PathId, by: ClientPath) -> anyhow::Result<PathSnapshot>;

    fn set_metered(&self, path: PathId, is_metered: bool);

    fn set_cap(&self, path: PathId, cap: Option<LinkCap>);
}

/// Implements [`LiveSender`] by methods of the same names.
macro_rules! live_sender {
    ($sender:ty) => {
        #[allow(
            clippy::needless_question_mark,
            reason = "one of the senders has errors of its own"
        )]
        impl LiveSender for $sender {
            fn snapshot(&self) -> Snapshot {
                self.snapshot()
            }

            fn add_path(&self, path: ClientPath) -> anyhow::Result<()> {
                Ok(self.add_path(path)?)
            }

            fn replace_path(&self, path: PathId, by: ClientPath) -> anyhow::Result<PathSnapshot> {
                Ok(self.replace_path(path, by)?)
            }

            fn set_metered(&self, path: PathId, is_metered: bool) {
                self.set_metered(path, is_metered);
            }

            fn set_cap(&self, path: PathId, cap: Option<LinkCap>) {
                self.set_cap(path, cap);
            }
        }
    };
}

live_sender!(Sender);
live_sender!(BondedSender);

/// A path as the user has named it.
#[derive(Clone, Debug)]
pub(crate) struct NamedPath {
    pub(crate) name: String,
    pub(crate) present: PresentPath,
    pub(crate) cap: Option<ByteCount>,
}

/// The values of `--via`. Patterns may match more interfaces later.
#[derive(Debug)]
pub(crate) struct ViaSet {
    roster: Roster,
    /// Caps, by the number of the value.
    caps: Vec<Option<ByteCount>>,
}

impl ViaSet {
    fn new(entries: Vec<(ViaArgument, Remote)>) -> Self {
        let caps = entries.iter().map(|(argument, _)| argument.cap).collect();
        let wanted = entries.into_iter().map(|(argument, remote)| ClientPath {
            via: argument.via,
            remote,
            options: PathOptions {
                is_capped: argument.cap.is_some(),
                ..argument.options
            },
        });
        ViaSet {
            roster: Roster::new(Network::default(), wanted.collect(), PathId::LIMIT),
            caps,
        }
    }

    /// Limits the number of the sender's paths.
    pub(crate) fn limited_to(mut self, limit: usize) -> Self {
        self.roster.set_limit(limit);
        self
    }

    /// Returns the sender's paths, and the rules for others that join.
    pub(crate) fn roster(&mut self) -> &mut Roster {
        &mut self.roster
    }

    /// Returns whether more paths may appear.
    pub(crate) fn may_grow(&self) -> bool {
        self.roster.may_grow()
    }

    /// Returns whether any way has a cap.
    pub(crate) fn has_caps(&self) -> bool {
        self.caps.iter().any(Option::is_some)
    }

    /// Returns the patterns of interfaces, separated by commas.
    pub(crate) fn patterns(&self) -> String {
        self.roster.patterns().collect::<Vec<_>>().join(", ")
    }

    /// Lists the paths that are named singly and those of present interfaces, each once.
    ///
    /// # Errors
    /// The operating system does not list its interfaces.
    pub(crate) fn named_paths(&self) -> anyhow::Result<Vec<NamedPath>> {
        let present = self
            .roster
            .present()
            .context("cannot list the interfaces")?;
        Ok(present
            .into_iter()
            .map(|present| self.named(present))
            .collect())
    }

    /// Returns a present path with its name and cap.
    pub(crate) fn named(&self, present: PresentPath) -> NamedPath {
        NamedPath {
            name: present.path.via.to_string(),
            cap: self.caps[present.wanted],
            present,
        }
    }
}

impl PathArguments {
    /// Returns the present paths, for commands that add none later.
    ///
    /// # Errors
    /// The options contradict each other, a path has a cap, or no interface matches.
    pub(crate) fn resolve(&self) -> anyhow::Result<Vec<ClientPath>> {
        let via_set = self.via_set()?;
        if let Some(argument) = self.via.iter().find(|argument| argument.cap.is_some()) {
            bail!(
                "--via {},cap=…: only `send` counts the bytes of a path",
                argument.via
            );
        }
        let paths: Vec<_> = via_set
            .named_paths()?
            .into_iter()
            .map(|named| named.present.path)
            .collect();
        if paths.is_empty() {
            bail!("no interface matches {} now", via_set.patterns());
        }
        Ok(paths)
    }

    /// Returns the options of all --via as changes of paths, to which they set everything.
    ///
    /// # Errors
    /// An option is wrong.
    pub(crate) fn changes(&self) -> anyhow::Result<Vec<PathChange>> {
        self.via_set()?;
        Ok(self
            .via
            .iter()
            .map(|argument| PathChange {
                path: argument.via.to_string(),
                metered: Some(argument.options.is_metered),
                cap: Some(or_none(
                    argument.cap.map(|ByteCount(bytes)| format!("{bytes}B")),
                )),
                max: Some(or_none(
                    argument.options.max_rate.map(|rate| rate.to_string()),
                )),
                ..PathChange::default()
            })
            .collect())
    }

    /// Returns the values of --to.
    pub(crate) fn destinations(&self) -> &[String] {
        &self.to
    }

    /// Returns the same paths to other destinations, which are not reached by TCP.
    ///
    /// # Errors
    /// --tcp is given.
    pub(crate) fn by_udp_to(&self, destinations: Vec<String>) -> anyhow::Result<Self> {
        if self.tcp.is_some() {
            bail!("--tcp is for `anabranch recv`: other receivers have no such port");
        }
        Ok(PathArguments {
            to: destinations,
            via: self.via.clone(),
            state: self.state.clone(),
            tcp: None,
        })
    }

    /// Returns the use of TCP.
    pub(crate) fn tcp(&self) -> TcpFallback {
        self.tcp.unwrap_or_default().0
    }

    /// Returns the folder of the state, if one is named.
    pub(crate) fn state(&self) -> Option<PathBuf> {
        self.state.clone()
    }

    /// Returns every `--via` with its own destination, or all with the same one.
    ///
    /// # Errors
    /// An address is invalid, the numbers of --to and --via differ, or two paths are the same.
    pub(crate) fn via_set(&self) -> anyhow::Result<ViaSet> {
        let remotes = self
            .to
            .iter()
            .map(|to| remote(to))
            .collect::<Result<Vec<_>, _>>()?;
        let vias = match self.via.as_slice() {
            [] => vec![ViaArgument::default(); remotes.len()],
            vias => vias.to_vec(),
        };
        let remotes = match remotes.as_slice() {
            [remote] => vec![remote.clone(); vias.len()],
            remotes if remotes.len() == vias.len() => remotes.to_vec(),
            remotes => bail!(
                "{} times --to and {} times --via: give --to once, or once for each --via",
                remotes.len(),
                vias.len()
            ),
        };
        let via_set: Vec<_> = vias.iter().zip(&remotes).collect();
        for (index, (argument, remote)) in via_set.iter().enumerate() {
            let is_repeated = via_set[..index]
                .iter()
                .any(|(other, to)| other.via == argument.via && to == remote);
            if is_repeated {
                bail!(
                    "two paths to {remote} by {}: they would be one; give every --via once, or \
                     each its own --to",
                    argument.via
                );
            }
        }
        let mut via_set: Vec<_> = vias.into_iter().zip(remotes).collect();
        // The options of an interface that is named singly precede those of a pattern.
        via_set.sort_by_key(|(argument, _)| argument.via.pattern().is_some());
        Ok(ViaSet::new(via_set))
    }
}

fn or_none(limit: Option<String>) -> String {
    limit.unwrap_or_else(|| "none".to_owned())
}

/// Reads an address or a name. A name is resolved when it is needed, since a modem may come up
/// later.
fn remote(to: &str) -> anyhow::Result<Remote> {
    if to.starts_with("anabranch://") {
        bail!("--to: links of `--pair` are for `anabranch send` and `anabranch proxy`");
    }
    if let Some((protocol, rest)) = to.split_once("://") {
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        bail!(
            "--to {to}: this is a URL, and {protocol}:// is another protocol. `send` speaks to \
             `anabranch recv`, at a host and port: --to {host}, and to srtla://HOST:PORT"
        );
    }
    with_port(to)
        .parse()
        .map_err(|error| anyhow!("--to {to}: {error} (expected host and port, as 192.0.2.1:7000)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(to: &str, via: &[&str]) -> PathArguments {
        PathArguments {
            to: vec![to.to_owned()],
            via: via.iter().map(|via| via.parse().unwrap()).collect(),
            state: None,
            tcp: None,
        }
    }

    #[test]
    fn unresolved_names_pass_and_malformed_ones_fail() {
        let paths = arguments("studio.invalid:7000", &["lo"]).resolve().unwrap();
        assert_eq!(paths[0].remote.to_string(), "studio.invalid:7000");
        for to in ["studio invalid", "studio.invalid:0", "300.1.1.1:7000"] {
            let error = arguments(to, &["lo"]).via_set().unwrap_err().to_string();
            assert!(error.contains(to), "{error}");
            assert!(error.contains("expected host and port"), "{error}");
        }
    }

    #[test]
    fn a_url_is_no_receiver() {
        let to = "srt://192.0.2.1:7000?streamid=x";
        let error = arguments(to, &["lo"]).via_set().unwrap_err().to_string();
        assert!(error.contains("is a URL"), "{error}");
        assert!(error.contains("--to 192.0.2.1:7000,"), "{error}");
    }

    #[test]
    fn a_path_is_found_once_and_the_one_that_is_named_alone_keeps_its_options() {
        let via_set = arguments("127.0.0.1:9", &["l*", "lo,weight=2"])
            .via_set()
            .unwrap();
        let found = via_set.named_paths().unwrap();
        let loopback: Vec<_> = found.iter().filter(|named| named.name == "lo").collect();
        assert_eq!(loopback.len(), 1);
        assert!(!loopback[0].present.is_of_pattern);
        assert_eq!(loopback[0].present.path.options.weight, 2.0);
    }
}
