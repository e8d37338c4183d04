//! `anabranch keygen`, and reading the key files that it writes.

use core::fmt::Display;
use core::marker::PhantomData;
use core::str::FromStr;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind as IoErrorKind, Write};
use std::path::{Path, PathBuf};

use anabranch_net::system::open_without_waiting;
use anabranch_observe::Token;
use anabranch_secure::{PublicKey, SecretKey};
use anabranch_terminal::files::make_private_folder;
use anabranch_terminal::print;
use anyhow::{Context, anyhow, bail, ensure};
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use data_encoding::HEXLOWER;
use ring::rand::{SecureRandom, SystemRandom};

use crate::secret_kind::{STDIN, SecretKind};
use crate::system;

/// Makes a key pair. Writes the secret key to a file, and prints the public key.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The other side needs the public key (abpub_…): `--peer` for send, `--allow` for recv. The file
holds the secret key (absec_…), which stays on its machine.

  anabranch keygen --output camera.key         makes camera.key
  anabranch keygen --show camera.key           prints its public key again")]
pub(crate) struct Arguments {
    /// File to write the secret key to.
    #[arg(long, value_name = "FILE", default_value = "anabranch.key")]
    output: PathBuf,
    /// Overwrite an existing file. Its key is lost.
    #[arg(long)]
    force: bool,
    /// Print the public key of this file, and make no key.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "force"])]
    show: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let key = match &arguments.show {
        Some(path) => read_key(path)?,
        None => {
            let key = SecretKey::generate();
            write_key(&arguments.output, &key, arguments.force)?;
            key
        }
    };
    print::line(key.public_key())
}

fn write_key(path: &Path, key: &SecretKey, is_forced: bool) -> anyhow::Result<()> {
    write_secret(path, &key.to_text(), is_forced, &KEY)
}

/// Writes a secret into a file that its owner alone may read.
///
/// # Errors
/// The file cannot be made, or it exists and the user does not force it.
fn write_secret(path: &Path, text: &str, is_forced: bool, of: &SecretKind) -> anyhow::Result<()> {
    let (shown, noun) = (path.display(), of.noun);
    // The secret is whole before the file gets its name. If the program ends in between, it leaves
    // no half secret, and no file that blocks the next try. An old file may be open to others, and
    // is not written to. A temporary file is its owner's alone.
    let folder = path.parent().filter(|folder| folder != &Path::new(""));
    let mut file = tempfile::Builder::new()
        .prefix(".anabranch-key-")
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .with_context(|| format!("cannot make {noun} {shown}"))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.write_all(b"\n"))
        .and_then(|()| file.as_file().sync_all())
        .with_context(|| format!("cannot write {noun} {shown}"))?;
    let kept = if is_forced {
        file.persist(path)
    } else {
        file.persist_noclobber(path)
    };
    match kept {
        Ok(_) => Ok(()),
        Err(refused) if refused.error.kind() == IoErrorKind::AlreadyExists => {
            bail!("{noun} {shown} exists: --force overwrites it, --show prints its public key")
        }
        Err(refused) => Err(anyhow!(refused.error).context(format!("cannot make {noun} {shown}"))),
    }
}

/// Reads a secret key file. If there is none, makes it and its folder.
///
/// # Errors
/// As [`read_key`], or the file cannot be made.
pub(crate) fn read_or_make_key(path: &Path) -> anyhow::Result<SecretKey> {
    if path.exists() {
        return read_key(path);
    }
    let key = SecretKey::generate();
    make_secret(path, &key.to_text(), &KEY)?;
    Ok(key)
}

/// Reads the dashboard's token. If there is no file, makes one with a random token.
///
/// # Errors
/// The file cannot be read or made, others may read it, or it holds no token. No message repeats
/// a part of it.
pub(crate) fn read_or_make_token(path: &Path) -> anyhow::Result<Token> {
    let text = if path.exists() {
        read_secret(path, &TOKEN)?
    } else {
        let mut bytes = [0; TOKEN_BYTES];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| anyhow!("the operating system gives no random numbers"))?;
        let text = HEXLOWER.encode(&bytes);
        make_secret(path, &text, &TOKEN)?;
        text
    };
    parse_token(path, &text)
}

/// Reads a token that another program has made.
///
/// # Errors
/// As [`read_or_make_token`].
pub(crate) fn read_token(path: &Path) -> anyhow::Result<Token> {
    let text = read_secret(path, &TOKEN)?;
    parse_token(path, &text)
}

fn parse_token(path: &Path, text: &str) -> anyhow::Result<Token> {
    let shown = path.display();
    let token = text.parse::<Token>().map_err(anyhow::Error::msg);
    token.with_context(|| format!("token file {shown}"))
}

/// Writes a new secret file, and makes its folder.
fn make_secret(path: &Path, text: &str, of: &SecretKind) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        let shown = folder.display();
        make_private_folder(folder).with_context(|| format!("cannot make {shown}"))?;
    }
    write_secret(path, text, false, of)?;
    print::note(format_args!("made the {} {}", of.noun, path.display()));
    Ok(())
}

/// Checks that the receiver's key is not this end's own.
///
/// # Errors
/// The keys are the same.
pub(crate) fn ensure_other(peer: &PublicKey, own: PublicKey) -> anyhow::Result<()> {
    ensure!(
        *peer != own,
        "--peer {own} is this machine's own key: name the receiver's key, which it prints at \
         its start"
    );
    Ok(())
}

const KEY: SecretKind = SecretKind {
    noun: "key file",
    option: "--key",
};
const TOKEN: SecretKind = SecretKind {
    noun: "token file",
    option: "--dashboard-token-file or --control-token",
};
/// Random bytes of a token.
const TOKEN_BYTES: usize = 16;

/// Upper bound on the length of a key file.
const MAX_BYTES: usize = 1_000;

/// Reads a secret key file, or standard input as `/dev/stdin`.
///
/// # Errors
/// Others may read the file, or it holds no secret key. No message repeats a part of it.
pub(crate) fn read_key(path: &Path) -> anyhow::Result<SecretKey> {
    let text = read_secret(path, &KEY)?;
    let shown = path.display();
    SecretKey::from_text(&text).with_context(|| format!("key file {shown} holds no secret key"))
}

/// Reads a secret file, or standard input as `/dev/stdin`.
///
/// # Errors
/// The file cannot be read, or others may read it.
fn read_secret(path: &Path, of: &SecretKind) -> anyhow::Result<String> {
    let text = if path == Path::new(STDIN) {
        // The starter has opened it, and is responsible for it, like a shell that reads a mounted
        // file.
        system::read_input(MAX_BYTES).and_then(utf8)
    } else {
        // Opening a named pipe without a writer must not block: no signal would end the wait.
        let opened = open_without_waiting(File::options().read(true)).open(path);
        let file = opened.with_context(|| unreadable(path, of))?;
        let metadata = file.metadata().with_context(|| unreadable(path, of))?;
        let folder = std::env::var_os("CREDENTIALS_DIRECTORY");
        let is_credential = folder.is_some_and(|folder| path.starts_with(folder));
        system::check_secret(path, &metadata, is_credential, of)?;
        system::read_file(&file, MAX_BYTES).and_then(utf8)
    };
    text.with_context(|| unreadable(path, of))
}

fn unreadable(path: &Path, of: &SecretKind) -> String {
    format!("cannot read {} {}", of.noun, path.display())
}

/// Returns the text. An error of UTF-8 would hold the bytes.
fn utf8(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| IoErrorKind::InvalidData.into())
}

/// Parser of arguments that may contain a secret, whole or in part: its messages do not repeat the
/// text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Discreet<T>(PhantomData<fn() -> T>);

/// Returns a parser of `T`.
pub(crate) const fn discreet<T>() -> Discreet<T> {
    Discreet(PhantomData)
}

impl<T> TypedValueParser for Discreet<T>
where
    T: FromStr<Err: Display> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        value.to_string_lossy().parse().map_err(|error| {
            let argument = argument.map_or_else(|| "key".to_owned(), clap::Arg::to_string);
            clap::Error::raw(ErrorKind::ValueValidation, format!("{argument}: {error}\n"))
                .with_cmd(command)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    use rustix::process::geteuid;

    use super::*;
    use crate::system::{check_mode, check_owner};

    #[test]
    fn a_written_key_reads_back_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        let key = SecretKey::generate();
        write_key(&path, &key, false).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_key(&path).unwrap().public_key(), key.public_key());
    }

    #[test]
    fn a_key_is_overwritten_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        let (first, second) = (SecretKey::generate(), SecretKey::generate());
        write_key(&path, &first, false).unwrap();
        let error = write_key(&path, &second, false).unwrap_err();
        assert!(format!("{error:#}").contains("--force"), "{error:#}");
        assert_eq!(read_key(&path).unwrap().public_key(), first.public_key());
        write_key(&path, &second, true).unwrap();
        assert_eq!(read_key(&path).unwrap().public_key(), second.public_key());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn leftovers_of_a_crash_block_no_key() {
        let folder = tempfile::tempdir().unwrap();
        for (name, is_forced) in [("a.new-key", false), ("b.new-key", true)] {
            let leftover = folder.path().join(name);
            std::fs::write(&leftover, "half a k").unwrap();
            let path = leftover.with_extension("key");
            write_key(&path, &SecretKey::generate(), is_forced).unwrap();
            let key = SecretKey::generate();
            write_key(&path, &key, true).unwrap();
            assert_eq!(read_key(&path).unwrap().public_key(), key.public_key());
        }
    }

    #[test]
    fn a_key_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        write_key(&path, &SecretKey::generate(), false).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let error = format!("{:#}", read_key(&path).unwrap_err());
        assert!(
            error.contains("chmod 600") && error.contains("640"),
            "{error}"
        );
    }

    #[test]
    fn a_key_file_of_another_user_is_refused() {
        let path = Path::new("/home/eve/studio.key");
        assert!(check_owner(path, 1_000, 1_000, &KEY).is_ok());
        assert!(check_owner(path, 0, 1_000, &KEY).is_ok(), "root's");
        let error = check_owner(path, 1_001, 1_000, &KEY)
            .unwrap_err()
            .to_string();
        for part in [
            "another user (1001",
            "chown 1000 /home/eve/studio.key",
            STDIN,
        ] {
            assert!(error.contains(part), "{error}");
        }
        assert!(
            check_owner(path, 1_001, 0, &KEY).is_err(),
            "root has nothing of others"
        );
        if geteuid().is_root() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.key");
            write_key(&path, &SecretKey::generate(), false).unwrap();
            std::os::unix::fs::chown(&path, Some(1_001), None).unwrap();
            let error = read_key(&path).unwrap_err().to_string();
            assert!(error.contains("another user"), "{error}");
        }
    }

    #[test]
    fn a_token_is_made_once_and_read_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/token");
        let token = read_or_make_token(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_or_make_token(&path).unwrap(), token);
        let other = read_or_make_token(&folder.path().join("other")).unwrap();
        assert_ne!(other, token);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let error = format!("{:#}", read_or_make_token(&path).unwrap_err());
        assert!(error.contains("token file") && error.contains("chmod 600"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::write(&path, "hunter2").unwrap();
        let error = format!("{:#}", read_or_make_token(&path).unwrap_err());
        assert!(error.contains("openssl rand") && !error.contains("hunter2"));
    }

    #[test]
    fn a_key_may_come_by_a_pipe_in_parts() {
        let key = SecretKey::generate();
        let text = key.to_text();
        let (reads, mut writes) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", reads.as_raw_fd()));
        let (first, rest) = text.split_at(10);
        std::thread::scope(|scope| {
            let read = scope.spawn(|| read_key(&path));
            writes.write_all(first.as_bytes()).unwrap();
            while rustix::io::ioctl_fionread(&reads).unwrap() > 0 {
                std::thread::yield_now();
            }
            writes.write_all(rest.as_bytes()).unwrap();
            drop(writes);
            let read = read.join().unwrap().unwrap();
            assert_eq!(read.public_key(), key.public_key());
        });
    }

    #[test]
    fn a_credential_may_have_an_access_list_and_a_mounted_secret_is_refused_with_the_way_out() {
        let path = Path::new("/run/secrets/studio.key");
        assert!(check_mode(path, 0o100_440, true, &KEY).is_ok());
        assert!(check_mode(path, 0o100_400, false, &KEY).is_ok());
        assert!(check_mode(path, 0o100_444, true, &KEY).is_err());
        let error = check_mode(path, 0o100_444, false, &KEY)
            .unwrap_err()
            .to_string();
        for part in [
            "mode 444",
            "mode 0400",
            "--key /dev/stdin </run/secrets/studio.key",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn bad_key_error_hides_the_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .unwrap();
        file.write_all(b"absec_hunter2").unwrap();
        let error = format!("{:#}", read_key(&path).unwrap_err());
        assert!(
            error.contains("a.key") && !error.contains("hunter2"),
            "{error}"
        );
    }
}
