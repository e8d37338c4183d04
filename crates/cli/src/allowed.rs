//! Peers that are let in, their names, and the rules of each.

use core::str::FromStr;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anabranch_net::SessionLimit;
use anabranch_secure::PublicKey;
use anabranch_terminal::files::check_unshared;
use anabranch_tunnel::{Destination, Peer};
use anabranch_units::DataRate;
use anyhow::{Context, anyhow, bail, ensure};

/// The longest name of a stream.
const MAX_NAME_BYTES: usize = 64;
/// Number of characters of its key by which a sender without a name is called. Chosen: they hold
/// 48 bits, which keys do not share by chance.
const KEY_CHARACTERS: usize = 8;

/// The name of a stream, in names of outputs, in messages and in statistics.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamName(String);

impl StreamName {
    /// Returns the name of a sender that was given none.
    fn of_key(key: &PublicKey) -> Self {
        let text = key.to_string();
        let digits = text
            .split_once('_')
            .map_or(text.as_str(), |(_, digits)| digits);
        StreamName(digits.chars().take(KEY_CHARACTERS).collect())
    }

    /// Splits `NAME=` off a text, if it begins so. An address or a path may also hold a '=', but
    /// only behind characters that no name has.
    pub(crate) fn before(text: &str) -> (Option<Self>, &str) {
        let named = text
            .split_once('=')
            .and_then(|(name, rest)| Some((name.parse().ok()?, rest)));
        named.map_or((None, text), |(name, rest)| (Some(name), rest))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the stream of a name's session in its place `number`, from 1.
    pub(crate) fn in_place(&self, number: usize) -> Self {
        match number {
            1 => self.clone(),
            number => StreamName(format!("{}-{number}", self.0)),
        }
    }
}

/// Limits of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum average bitrate of media.
    pub(crate) max: Option<DataRate>,
    /// Maximum number of its keys that have a session at a time; `None`: the name has one key.
    pub(crate) streams: Option<usize>,
}

impl Limits {
    /// Adds one `max=RATE` or `streams=N`.
    fn add(&mut self, option: &str) -> Result<(), String> {
        match option.split_once('=') {
            Some(("max", rate)) => {
                let rate: DataRate = rate.parse().map_err(|error| format!("max={error}"))?;
                if rate == DataRate::ZERO {
                    return Err("max=0: it must be above zero".to_owned());
                }
                self.max = Some(rate);
            }
            Some(("streams", count)) => {
                let count = count.parse().ok().filter(|count| *count > 0);
                self.streams =
                    Some(count.ok_or_else(|| "streams=N: N is a number above zero".to_owned())?);
            }
            _ => return Err("known are max=RATE, streams=N and connect=HOST:PORT".to_owned()),
        }
        Ok(())
    }

    /// Returns the limits of both, or `None` if they contradict each other.
    fn with(self, other: Limits) -> Option<Limits> {
        fn one<T: PartialEq>(this: Option<T>, other: Option<T>) -> Option<Option<T>> {
            match (this, other) {
                (Some(this), Some(other)) => (this == other).then_some(Some(this)),
                (this, other) => Some(this.or(other)),
            }
        }
        Some(Limits {
            max: one(self.max, other.max)?,
            streams: one(self.streams, other.streams)?,
        })
    }
}

impl FromStr for StreamName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = !text.is_empty()
            && text.len() <= MAX_NAME_BYTES
            && !text.starts_with(['.', '-'])
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if is_name {
            Ok(StreamName(text.to_owned()))
        } else {
            Err(format!(
                "a stream's name has 1 to {MAX_NAME_BYTES} letters, digits, '-', '_' and '.', and \
                 begins with a letter, a digit or '_'"
            ))
        }
    }
}

/// The command that lets peers in. Each has limits that the other does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListenCommand {
    #[default]
    Recv,
    Serve,
}

/// A peer that is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) key: PublicKey,
    pub(crate) name: StreamName,
    limits: Limits,
    /// Rules of this key alone, instead of those of --connect.
    pub(crate) connect: Option<Vec<Destination>>,
}

impl Allowed {
    /// Checks that the command knows all limits of the peer.
    ///
    /// # Errors
    /// It has a limit of the other command.
    fn check(&self, command: ListenCommand) -> anyhow::Result<()> {
        let name = self.name.as_str();
        match command {
            ListenCommand::Recv => {
                ensure!(self.connect.is_none(), "{name}: connect= is for `serve`")
            }
            ListenCommand::Serve => {
                ensure!(self.limits.max.is_none(), "{name}: max= is for `recv`")
            }
        }
        Ok(())
    }

    /// Adds a rule of `connect=`; `none` adds no rule and leaves --connect out.
    fn add_rule(&mut self, rule: &str) -> Result<(), String> {
        let rules = self.connect.get_or_insert_default();
        if rule != "none" {
            rules.push(rule.parse().map_err(|error| format!("connect={error}"))?);
        }
        Ok(())
    }
}

impl FromStr for Allowed {
    type Err = String;

    /// Reads `KEY` or `KEY=NAME`, with `,max=RATE`, `,streams=N` and `,connect=HOST:PORT`. Errors
    /// about a key do not repeat it.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let who = parts.next().unwrap_or_default();
        let (key, name) = match who.split_once('=') {
            Some((key, name)) => (key, Some(name.parse()?)),
            None => (who, None),
        };
        let key: PublicKey = key.parse().map_err(|error| format!("{error}"))?;
        let name = name.unwrap_or_else(|| StreamName::of_key(&key));
        let mut allowed = Allowed {
            key,
            name,
            limits: Limits::default(),
            connect: None,
        };
        for part in parts.map(str::trim) {
            match part.strip_prefix("connect=") {
                Some(rule) => allowed.add_rule(rule)?,
                None => allowed.limits.add(part)?,
            }
        }
        Ok(allowed)
    }
}

/// All peers that are let in, by the command line and by a file that may change.
#[derive(Debug, Default)]
pub(crate) struct AllowList {
    command: ListenCommand,
    fixed: Vec<Allowed>,
    file: Option<(PathBuf, Option<Version>)>,
    all: Vec<Allowed>,
}

impl AllowList {
    /// Reads the file, and joins its peers to the `fixed` ones of the command line.
    ///
    /// # Errors
    /// The file cannot be read, a name or key occurs twice, a limit is for the other command, or
    /// there is no peer.
    pub(crate) fn new(
        command: ListenCommand,
        fixed: Vec<Allowed>,
        file: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let mut list = AllowList {
            command,
            fixed,
            file: file.map(|path| (path.to_owned(), None)),
            all: Vec::new(),
        };
        list.read()?;
        if list.file.is_none() {
            ensure!(
                !list.all.is_empty(),
                "no peer is let in: name one with --allow KEY"
            );
        }
        Ok(list)
    }

    pub(crate) fn all(&self) -> &[Allowed] {
        &self.all
    }

    pub(crate) fn keys(&self) -> Vec<PublicKey> {
        self.all.iter().map(|allowed| allowed.key).collect()
    }

    /// Returns the peers with their rules, for a tunnel.
    pub(crate) fn tunnel_peers(&self) -> Vec<Peer> {
        self.all
            .iter()
            .map(|allowed| Peer {
                key: allowed.key,
                name: allowed.name.as_str().to_owned(),
                connect: allowed.connect.clone(),
            })
            .collect()
    }

    /// Returns whether a peer may connect to anything, by its own rules or by those of --connect.
    pub(crate) fn may_connect(&self, connect: &[Destination]) -> bool {
        self.all.iter().any(|allowed| match &allowed.connect {
            Some(own) => !own.is_empty(),
            None => !connect.is_empty(),
        })
    }

    /// Returns the name of a key's owner.
    pub(crate) fn name_of(&self, key: &PublicKey) -> StreamName {
        name_of(&self.all, key)
    }

    /// Returns the limits of a name.
    pub(crate) fn limits_of(&self, name: &StreamName) -> Limits {
        let its = self.all.iter().filter(|allowed| allowed.name == *name);
        limits_of(its).unwrap_or_default()
    }

    /// Returns the maximum number of sessions that a name has at a time.
    pub(crate) fn place_count(&self, name: &StreamName) -> usize {
        let keys = self.all.iter().filter(|allowed| allowed.name == *name);
        self.limits_of(name).streams.unwrap_or(1).min(keys.count())
    }

    /// Returns the groups of keys that share a name, if not all of a group may have a session at a
    /// time.
    pub(crate) fn session_limits(&self) -> Vec<SessionLimit> {
        let mut names: Vec<&StreamName> = self.all.iter().map(|allowed| &allowed.name).collect();
        names.sort();
        names.dedup();
        let limits = names.into_iter().map(|name| {
            let its = self.all.iter().filter(|allowed| allowed.name == *name);
            SessionLimit {
                peers: its.map(|allowed| allowed.key).collect(),
                max_sessions: self.place_count(name),
            }
        });
        limits
            .filter(|limit| limit.peers.len() > limit.max_sessions)
            .collect()
    }

    /// Adds the owner of a key to the file, and returns the file. Without a name, or with one that
    /// is taken, it is named by the first characters of its key.
    ///
    /// # Errors
    /// The file cannot be written; the owner is let in until the program ends.
    pub(crate) fn add(
        &mut self,
        key: PublicKey,
        name: Option<StreamName>,
    ) -> anyhow::Result<PathBuf> {
        let name = name.filter(|name| self.all.iter().all(|allowed| allowed.name != *name));
        let line = match &name {
            Some(name) => format!("{key} {}", name.as_str()),
            None => key.to_string(),
        };
        let appended = match &self.file {
            Some((path, _)) => append(path, &line)
                .map(|()| path.clone())
                .with_context(|| format!("cannot write {}", path.display())),
            None => Err(anyhow!("there is no --allow-from FILE to add it to")),
        };
        let written = appended.and_then(|path| self.read().map(|()| path));
        if !self.keys().contains(&key) {
            let added = Allowed {
                key,
                name: name.unwrap_or_else(|| StreamName::of_key(&key)),
                limits: Limits::default(),
                connect: None,
            };
            self.fixed.push(added.clone());
            self.all.push(added);
        }
        written
    }

    /// Reads the file again if it has changed, and returns whether it has.
    ///
    /// # Errors
    /// As [`new`](Self::new); the list stays as it was.
    pub(crate) fn refresh(&mut self) -> anyhow::Result<bool> {
        let Some((path, read_at)) = &self.file else {
            return Ok(false);
        };
        if version(path) == *read_at {
            return Ok(false);
        }
        self.read()?;
        Ok(true)
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let mut all = self.fixed.clone();
        if let Some((path, read_at)) = &mut self.file {
            let shown = path.display();
            // The version is set first, so that an unreadable file is reported once.
            let is_first = read_at.is_none();
            *read_at = version(path);
            check_unshared(path).context("--allow-from")?;
            let text = std::fs::read_to_string(&*path)
                .with_context(|| format!("cannot read --allow-from {shown}"))?;
            // Many editors empty a file before they write it.
            ensure!(
                is_first || !text.trim().is_empty(),
                "--allow-from {shown} is empty (to let no peer in, write only a comment)"
            );
            all.extend(of_file(&shown.to_string(), &text)?);
        }
        check(self.command, &all)?;
        self.all = all;
        Ok(())
    }
}

/// Appends a line to a file.
fn append(path: &Path, line: &str) -> std::io::Result<()> {
    let text = std::fs::read_to_string(path)?;
    let mut file = std::fs::File::options().append(true).open(path)?;
    let end = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    file.write_all(format!("{end}{line}\n").as_bytes())?;
    file.sync_all()
}

/// Reads the lines of a file, which errors call `shown`.
pub(crate) fn of_file(shown: &str, text: &str) -> anyhow::Result<Vec<Allowed>> {
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let parsed = of_line(line).map_err(anyhow::Error::msg);
            all.push(parsed.with_context(|| format!("{shown}, line {}", index + 1))?);
        }
    }
    Ok(all)
}

/// Checks a list of peers.
///
/// # Errors
/// A name or key occurs twice, or a limit is for the other command.
pub(crate) fn check(command: ListenCommand, all: &[Allowed]) -> anyhow::Result<()> {
    let mut keys = BTreeSet::new();
    let mut keys_by_name = BTreeMap::<_, Vec<_>>::new();
    for allowed in all {
        allowed.check(command)?;
        ensure!(keys.insert(allowed.key), "{} occurs twice", allowed.key);
        keys_by_name.entry(&allowed.name).or_default().push(allowed);
    }
    for (name, its) in &keys_by_name {
        check_name(name, its, &|place| keys_by_name.contains_key(place))?;
    }
    Ok(())
}

/// Reads a line of a file: key, name and limits, separated by blanks.
fn of_line(line: &str) -> Result<Allowed, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (who, limits) = words.split_at(words.len().min(2));
    let parts = core::iter::once(who.join("=")).chain(limits.iter().map(|&limit| limit.to_owned()));
    parts.collect::<Vec<_>>().join(",").parse()
}

/// Returns the limits of peers with one name. Each may stand at any of the peers; `None` if they
/// differ.
fn limits_of<'a>(mut its: impl Iterator<Item = &'a Allowed>) -> Option<Limits> {
    its.try_fold(Limits::default(), |limits, allowed| {
        limits.with(allowed.limits)
    })
}

/// Checks the peers that have one name.
///
/// # Errors
/// Their limits differ, several peers have no `streams=`, or the name of one of their places is
/// taken.
fn check_name(
    name: &StreamName,
    its: &[&Allowed],
    is_taken: &dyn Fn(&StreamName) -> bool,
) -> anyhow::Result<()> {
    let shown = name.as_str();
    let Some(limits) = limits_of(its.iter().copied()) else {
        bail!("{shown} has two different limits");
    };
    ensure!(
        its.len() == 1 || limits.streams.is_some(),
        "two senders have the name {shown}; to share it, limit their number at a time, as in \
         KEY={shown},streams=1"
    );
    for number in 2..=limits.streams.unwrap_or(1).min(its.len()) {
        let place = name.in_place(number);
        ensure!(
            !is_taken(&place),
            "two streams are called {}: a sender, and the second of {shown}",
            place.as_str()
        );
    }
    Ok(())
}

/// Returns the name of a key's owner in a list.
pub(crate) fn name_of(all: &[Allowed], key: &PublicKey) -> StreamName {
    let allowed = all.iter().find(|allowed| allowed.key == *key);
    allowed.map_or_else(|| StreamName::of_key(key), |allowed| allowed.name.clone())
}

/// Identifies a version of a file by the time of its change, which may be as coarse as a clock
/// tick, and its length.
type Version = (SystemTime, u64);

fn version(path: &Path) -> Option<Version> {
    let metadata = path.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests;
