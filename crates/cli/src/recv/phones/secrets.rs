//! The stream ID and the passphrase that belong to one phone.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anabranch_mpegts_io::ForeignName;
use anabranch_net::system::allow_owner_alone;
use anabranch_secure::PairingCode;
use anabranch_terminal::files::make_private_folder;
use anabranch_terminal::print;
use anyhow::Context;

use crate::allowed::StreamName;

/// Returns a listener of SRT or SRTLA that lets in one phone: by its stream's name as stream ID,
/// and by a passphrase of its own, which is made and kept in `folder`. An ID or a passphrase that
/// the address has stays.
///
/// # Errors
/// The file cannot be made, or a parameter is wrong.
pub(in crate::recv) fn for_one_phone(
    name: ForeignName,
    stream: &StreamName,
    folder: Option<&Path>,
) -> anyhow::Result<ForeignName> {
    let Some(fields) = name.for_callers()? else {
        return Ok(name);
    };
    let name = if fields.stream_id.is_none() {
        name.with_stream_id(stream.as_str())
    } else {
        name
    };
    match folder {
        Some(folder) if fields.passphrase.is_none() => {
            let file = passphrase_file(stream, folder)?;
            Ok(name.with_passphrase_file(&file))
        }
        _ => Ok(name),
    }
}

/// Returns the path of a stream's passphrase.
pub(crate) fn passphrase_path(stream: &StreamName, folder: &Path) -> PathBuf {
    folder.join(format!("{}.passphrase", stream.as_str()))
}

fn make_passphrase(file: &Path) -> io::Result<()> {
    let mut private = OpenOptions::new();
    private.write(true).create_new(true);
    let mut made = allow_owner_alone(&mut private).open(file)?;
    made.write_all(PairingCode::generate().to_text().as_bytes())
}

/// Returns the path of a stream's passphrase, which is made if there is none.
fn passphrase_file(stream: &StreamName, folder: &Path) -> anyhow::Result<String> {
    let file = passphrase_path(stream, folder);
    make_private_folder(folder).with_context(|| format!("cannot make {}", file.display()))?;
    if !file.exists() {
        make_passphrase(&file).with_context(|| format!("cannot make {}", file.display()))?;
        print::note(format_args!(
            "{}: its passphrase is in {}. Without --pair and --phone, add \
             streamid={0}&passphrase_file={1} to its address",
            stream.as_str(),
            file.display()
        ));
    }
    let file = file.to_str().context("the folder's name is not UTF-8")?;
    Ok(file.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use anabranch_mpegts_io::{ForCallers, InputName};

    use super::*;
    use crate::recv::listen::{Listen, OtherSource};

    fn secrets(listen: &str, folder: Option<&Path>) -> ForCallers {
        let Ok(Listen::Other(OtherSource { name, input })) = listen.parse() else {
            unreachable!("another protocol")
        };
        let InputName::Foreign(foreign) = input else {
            unreachable!("a foreign name")
        };
        let made = for_one_phone(foreign, &name, folder).unwrap();
        made.for_callers().unwrap().unwrap()
    }

    fn passphrase(listen: &str, folder: &Path) -> String {
        secrets(listen, Some(folder)).passphrase.unwrap()
    }

    #[test]
    fn secrets_are_made_once_and_are_their_owners_alone() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("anabranch");
        let made = passphrase("phone=srtla://:5000", &folder);
        assert_eq!(made.len(), 22);
        let again = passphrase("phone=srtla://:5000", &folder);
        assert_eq!(again, made, "phones know it");
        assert_ne!(passphrase("other=srt://:5001", &folder), made);
        let own = passphrase("own=srt://:5002?passphrase=0123456789", &folder);
        assert_eq!(own, "0123456789");
        let mode = std::fs::metadata(folder.join("phone.passphrase"))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        assert!(!folder.join("own.passphrase").exists());
    }

    #[test]
    fn the_stream_id_is_the_streams_name_unless_there_is_one() {
        for (listen, stream_id) in [
            ("phone=srtla://:5000", "phone"),
            ("phone=srt://:5000?streamid=cam", "cam"),
        ] {
            assert_eq!(secrets(listen, None).stream_id.as_deref(), Some(stream_id));
        }
        assert_eq!(secrets("phone=srt://:5000", None).passphrase, None);
    }
}
