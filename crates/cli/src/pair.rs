//! `anabranch pair`: peers of a running program.

mod phone;

use std::path::{Path, PathBuf};

use anabranch_net::Clock;
use anabranch_secure::PublicKey;
use anabranch_terminal::arguments::positive;
use anabranch_terminal::exit::Failure;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, known_names};
use anyhow::{Context, bail, ensure};

use crate::allowed::{Allowed, StreamName, of_file};
use crate::link::Link;
use crate::pairing::invitation::Invitation;
use crate::pairing::running_program::RunningProgram;
use crate::pairing::{address_of, print_link};
use crate::recv::Phone;
use crate::system;
use crate::usage::usual_folder;

/// State folder of the services of `packaging`.
const SERVICES_FOLDER: &str = "/var/lib/anabranch";
/// Interval between two looks for a peer that has used the link.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time in which a program takes an invitation (it looks every second), or drops one.
const TAKEN_WITHIN: Duration = Duration::from_secs(3);
/// Longest validity of a link.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// Adds a sender, phone or proxy to a program that runs: prints a link, and waits until it is used.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  Beside a running `anabranch recv --pair` or service, one more camera with a name:
  anabranch pair --name roof
  The camera then runs: anabranch send INPUT 'LINK'
  (beside `serve` it is a proxy: anabranch proxy 'LINK' --listen 127.0.0.1:8080)

  A phone with Moblin, Larix or IRL Pro; its link and QR code are for that app:
  anabranch pair --phone van=moblin

  Who is let in, and one of them no longer; its session ends within a second:
  anabranch pair --list
  anabranch pair --remove roof

The program needs a list of peers (--allow-from, or --pair). It is found in this user's state folder
or in that of the services, /var/lib/anabranch (as root); --allow-from names another one. Nothing is
restarted. If you stop this command before the link is used, the link is void.")]
pub(crate) struct Arguments {
    /// Name of the new peer, in lists, outputs and statistics [default: the first characters of its
    /// key].
    #[arg(long, value_name = "NAME", conflicts_with_all = ["list", "remove"])]
    name: Option<StreamName>,
    /// This machine's name or address for the peer, if it is not the one in the link.
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with_all = ["list", "remove"])]
    host: Option<String>,
    /// A phone for a running receiver: the name of its stream, and its app (moblin, larix or
    /// irlpro). Prints the app's link, and on a terminal its QR code. The phone is received at
    /// later starts, too.
    #[arg(long, value_name = "NAME=APP")]
    #[arg(conflicts_with_all = ["name", "lasts", "no_wait", "list", "remove"])]
    phone: Option<Phone>,
    /// Validity of the link, up to 24 h.
    #[arg(long, value_name = "TIME", default_value = "10 min", value_parser = positive)]
    lasts: Duration,
    /// Print the link and end; the link stays good.
    #[arg(long)]
    no_wait: bool,
    /// The program's list of peers.
    #[arg(long, value_name = "FILE")]
    allow_from: Option<PathBuf>,
    /// Print the peers of the list: name, key and limits; and the phones.
    #[arg(long, conflicts_with = "remove")]
    list: bool,
    /// Remove a peer from the list, by its name or key, or a phone; its session ends.
    #[arg(long, value_name = "NAME|KEY")]
    remove: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let list = arguments.list_file()?;
    if arguments.list {
        return print_list(&list);
    }
    match &arguments.remove {
        Some(name) if phone::remove(&list, name)? => Ok(()),
        Some(peer) => remove(&list, peer),
        None => match &arguments.phone {
            Some(phone) => phone::invite(phone, &list, arguments.host.as_deref()),
            None => arguments.invite(&list),
        },
    }
}

impl Arguments {
    /// Returns the list of peers.
    fn list_file(&self) -> anyhow::Result<PathBuf> {
        if let Some(list) = &self.allow_from {
            return Ok(list.clone());
        }
        let mut folders: Vec<PathBuf> = [usual_folder(), Some(PathBuf::from(SERVICES_FOLDER))]
            .into_iter()
            .flatten()
            .collect();
        folders.dedup();
        let lists: Vec<PathBuf> = folders
            .iter()
            .flat_map(|at| RunningProgram::all_in(at))
            .collect();
        match &lists[..] {
            [list] => Ok(list.clone()),
            [] if self.list || self.remove.is_some() => {
                let lists = folders.iter().map(|folder| folder.join("senders"));
                let list = lists.into_iter().find(|list| list.exists());
                list.context("there is no list of peers here: name it with --allow-from FILE")
            }
            [] => bail!(
                "no program with a list of peers runs here: start `anabranch recv --pair` or \
                 `anabranch serve --pair`, or name the list of one (--allow-from FILE)"
            ),
            several => {
                let shown = several.iter().map(|list| list.display().to_string());
                bail!(
                    "several programs run: choose one with --allow-from, of {}",
                    shown.collect::<Vec<_>>().join(", ")
                )
            }
        }
    }

    /// Prints a link, and waits until it is used.
    fn invite(&self, list: &Path) -> anyhow::Result<()> {
        ensure!(
            self.lasts <= LONGEST,
            "--lasts: a link is good for 24 h at most"
        );
        let program = RunningProgram::of(list)?;
        let before = read_list(list)?;
        if let Some(name) = &self.name {
            ensure!(
                before.iter().all(|allowed| allowed.name != *name),
                "--name {}: a peer of {} has this name (`anabranch pair --remove {0}` removes it)",
                name.as_str(),
                list.display()
            );
        }
        let stop = Stop::new()?;
        stop.on_signals()?;
        let invitation = Invitation::new(self.name.clone(), self.lasts);
        let file = invitation.write(list)?;
        let to = match &self.host {
            None if !program.outside.is_empty() => program.outside.clone(),
            host => address_of(host.as_deref().unwrap_or_default(), program.local),
        };
        let command = match program.command.as_str() {
            "recv" => "anabranch send INPUT",
            "serve" => "anabranch proxy",
            _ => "anabranch recv --pair OUTPUT --via-relay",
        };
        print::note(format_args!(
            "the link is good once and for {}: {command} 'LINK'",
            self.lasts
        ));
        print_link(&Link {
            to,
            key: program.key,
            code: Some(invitation.code.clone()),
        })?;
        if self.no_wait {
            return Ok(());
        }
        print::note("waiting until the link is used; Ctrl-C voids it");
        let outcome = wait(&stop, list, &file, &invitation, &before);
        Invitation::remove(&file);
        outcome
    }
}

/// Waits until the program has added a peer to the list.
fn wait(
    stop: &Stop,
    list: &Path,
    file: &Path,
    invitation: &Invitation,
    before: &[Allowed],
) -> anyhow::Result<()> {
    let clock = Clock::start();
    loop {
        let wake_at = clock.now() + POLL_INTERVAL;
        stop.wait_until(&clock, wake_at);
        if stop.is_stopped() {
            print::note("the link is void");
            return Ok(());
        }
        if !file.exists() {
            let now = read_list(list)?;
            return match now.iter().find(|allowed| {
                let known = before.iter().all(|old| old.key != allowed.key);
                known
                    && invitation
                        .name
                        .as_ref()
                        .is_none_or(|name| *name == allowed.name)
            }) {
                Some(Allowed { name, key, .. }) => {
                    let shown = list.display();
                    print::line(format_args!(
                        "paired with {}, {key}: now in {shown}",
                        name.as_str()
                    ))
                }
                None if invitation.remaining().is_none() => expired(),
                None => bail!(
                    "the link was used, and the program could not write {}: its log says why",
                    list.display()
                ),
            };
        }
        if invitation.remaining().is_none() {
            return expired();
        }
        if RunningProgram::of(list).is_err()
            && clock.now() > anabranch_units::Instant::ZERO + TAKEN_WITHIN
        {
            bail!("the program has ended, and the link is void");
        }
    }
}

fn expired() -> anyhow::Result<()> {
    bail!(Failure::PeerLost("the link has expired unused".to_owned()))
}

fn read_list(list: &Path) -> anyhow::Result<Vec<Allowed>> {
    let shown = list.display().to_string();
    let text = std::fs::read_to_string(list).with_context(|| format!("cannot read {shown}"))?;
    of_file(&shown, &text)
}

fn print_list(list: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(list)?;
    let all = of_file(&list.display().to_string(), &text)?;
    print::note(format_args!("{} peers in {}", all.len(), list.display()));
    for Allowed { name, key, .. } in &all {
        // Limits are shown as the file has them.
        let line = text
            .lines()
            .find(|line| line.split_whitespace().next() == Some(&key.to_string()))
            .unwrap_or_default()
            .split('#')
            .next()
            .unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().skip(2).collect();
        let limits = words.join(" ");
        print::line(
            format_args!("{} {key} {limits}", name.as_str())
                .to_string()
                .trim_end(),
        )?;
    }
    phone::print_kept(list)
}

/// Removes a peer from a list. The running program reads the list again within a second.
fn remove(list: &Path, peer: &str) -> anyhow::Result<()> {
    let text =
        std::fs::read_to_string(list).with_context(|| format!("cannot read {}", list.display()))?;
    let (kept, removed) = without(&list.display().to_string(), &text, peer)?;
    rewrite(list, &kept).with_context(|| format!("cannot write {}", list.display()))?;
    for key in removed {
        print::note(format_args!("{key} is no longer in {}", list.display()));
    }
    Ok(())
}

/// Returns the text of a list without a peer, and the peer's keys.
fn without(shown: &str, text: &str, peer: &str) -> anyhow::Result<(String, Vec<PublicKey>)> {
    let all = of_file(shown, text)?;
    let removed: Vec<PublicKey> = all
        .iter()
        .filter(|one| one.name.as_str() == peer || one.key.to_string() == peer)
        .map(|one| one.key)
        .collect();
    ensure!(
        !removed.is_empty(),
        "{shown} has no peer {peer}: it has {}",
        known_names(peer, all.iter().map(|allowed| allowed.name.as_str()))
    );
    let mut kept = String::new();
    for line in text.lines() {
        let first = line
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .next()
            .unwrap_or_default();
        if removed.iter().all(|key| key.to_string() != first) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    if kept.trim().is_empty() {
        // An empty file is taken for one that is being written.
        kept = "# nobody is let in\n".to_owned();
    }
    Ok((kept, removed))
}

/// Writes a list again under its name. It stays its owner's.
fn rewrite(list: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let real = list.canonicalize()?;
    let metadata = real.metadata()?;
    let folder = real.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".anabranch-list-")
        .permissions(metadata.permissions())
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    system::give_to_owner_of(&metadata, file.as_file(), file.path())?;
    file.persist(&real).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    #[test]
    fn a_peer_is_removed_by_name_or_key_and_comments_stay() {
        let keys = [(); 3].map(|()| SecretKey::generate().public_key());
        let text = format!(
            "# cameras\n{} roof max=3Mbit/s # the big one\n{} van streams=1\n{} van\n",
            keys[0], keys[1], keys[2]
        );
        let (kept, removed) = without("senders", &text, "roof").unwrap();
        assert_eq!(removed, keys[..1]);
        assert_eq!(
            kept,
            format!("# cameras\n{} van streams=1\n{} van\n", keys[1], keys[2])
        );
        let (kept, removed) = without("senders", &text, "van").unwrap();
        assert_eq!(removed, keys[1..], "all keys of the name");
        assert!(kept.ends_with("# the big one\n"), "{kept}");
        let (_, removed) = without("senders", &text, &keys[2].to_string()).unwrap();
        assert_eq!(removed, keys[2..]);
        let error = without("senders", &text, "rof").unwrap_err().to_string();
        assert!(error.contains("roof"), "{error}");
        let alone = format!("{} roof\n", keys[0]);
        let (kept, _) = without("senders", &alone, "roof").unwrap();
        assert!(kept.starts_with('#'), "{kept}");
    }

    #[test]
    fn a_list_that_is_written_again_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("senders");
        std::fs::write(&list, "old").unwrap();
        let mode = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(&list, mode).unwrap();
        rewrite(&list, "new\n").unwrap();
        assert_eq!(std::fs::read_to_string(&list).unwrap(), "new\n");
        assert_eq!(list.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }
}
