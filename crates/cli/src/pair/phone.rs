//! `anabranch pair --phone`: a phone for a running receiver.

use std::path::Path;

use anabranch_mpegts_io::InputName;
use anabranch_net::Clock;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::Duration;
use anyhow::{Context, bail, ensure};

use crate::pairing::host_for_senders;
use crate::pairing::invitation::Invitation;
use crate::pairing::phone_request::{PhoneRequest, ReceivedPhone};
use crate::pairing::running_program::RunningProgram;
use crate::recv::{KeptPhones, Phone, PhoneAddress, PlacedPhone, passphrase_path};
use crate::usage::usual_folder;

/// Interval between two checks for the receiver's answer.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time for the answer: a receiver looks every second, and opens a port.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// Asks the running program to receive a phone, and prints the link of its app.
pub(super) fn invite(phone: &Phone, list: &Path, host: Option<&str>) -> anyhow::Result<()> {
    let program = RunningProgram::of(list)?;
    let command = &program.command;
    ensure!(
        command == "recv",
        "--phone is for a receiver (`anabranch recv`), and the running program is `{command}`"
    );
    let file = PhoneRequest::write(phone.clone(), list)?;
    let answer = wait(&file);
    Invitation::remove(&file);
    let received = answer?;
    let address = address_of(phone, &received, host)?;
    address.context("no app calls this address")?.print()
}

/// Waits until the program has answered.
fn wait(file: &Path) -> anyhow::Result<ReceivedPhone> {
    let stop = Stop::new()?;
    stop.on_signals()?;
    let clock = Clock::start();
    let patience = clock.now() + ANSWERED_WITHIN;
    while !stop.is_stopped() && clock.now() < patience {
        stop.wait_until(&clock, clock.now() + POLL_INTERVAL);
        match PhoneRequest::read(file) {
            Ok(PhoneRequest::Received(received)) => return Ok(received),
            Ok(PhoneRequest::Refused(reason)) => bail!("{reason}"),
            // The answer may be written at this moment.
            Ok(PhoneRequest::Asked(_)) | Err(_) => {}
        }
    }
    bail!("the receiver has not answered: is it of this version?")
}

/// Returns the address that the phone's app calls.
fn address_of(
    phone: &Phone,
    received: &ReceivedPhone,
    host: Option<&str>,
) -> anyhow::Result<Option<PhoneAddress>> {
    let placed = PlacedPhone {
        phone: phone.clone(),
        port: received.port,
    };
    let mut source = placed.source()?;
    if let InputName::Foreign(foreign) = source.input {
        let named = foreign.with_stream_id(phone.name.as_str());
        source.input = InputName::Foreign(match &received.passphrase_file {
            Some(file) => named.with_passphrase_file(file),
            None => named,
        });
    }
    let outside = host.map_or_else(|| received.host.clone(), host_for_senders);
    PhoneAddress::of(&source, &outside, core::slice::from_ref(phone))
}

/// Prints the phones beside a list.
pub(super) fn print_kept(list: &Path) -> anyhow::Result<()> {
    let kept = KeptPhones::beside(list);
    let phones = kept.read()?;
    if !phones.is_empty() {
        let shown = kept.path().display();
        print::note(format_args!("{} phones in {shown}", phones.len()));
    }
    for PlacedPhone { phone, port } in phones {
        let (name, app) = (phone.name.as_str(), phone.app);
        print::line(format_args!("{name} {app} UDP port {port}"))?;
    }
    Ok(())
}

/// Removes a phone and its passphrase. Returns whether there was one. The running receiver ends
/// its stream within a second.
pub(super) fn remove(list: &Path, name: &str) -> anyhow::Result<bool> {
    let kept = KeptPhones::beside(list);
    let phones = kept.read()?;
    let Some(placed) = { phones.iter() }.find(|placed| placed.phone.name.as_str() == name) else {
        return Ok(false);
    };
    kept.remove(name)?;
    let folders = [list.parent().map(Path::to_owned), usual_folder()];
    for folder in folders.into_iter().flatten() {
        // It is in one of them at most.
        let _ = std::fs::remove_file(passphrase_path(&placed.phone.name, &folder));
    }
    print::note(format_args!(
        "{name} is no longer in {}",
        kept.path().display()
    ));
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_has_the_port_and_the_secret_of_the_receiver() {
        let folder = tempfile::tempdir().unwrap();
        let phone: Phone = "van=moblin".parse().unwrap();
        let file = passphrase_path(&phone.name, folder.path());
        std::fs::write(&file, "correcthorse").unwrap();
        let received = ReceivedPhone {
            host: "192.0.2.7".to_owned(),
            port: 5_002,
            passphrase_file: Some(file.display().to_string()),
        };
        for (host, expected) in [
            (None, "192.0.2.7"),
            (Some("studio.example"), "studio.example"),
        ] {
            let address = address_of(&phone, &received, host).unwrap().unwrap();
            let expected = format!(
                "srtla://{expected}:5002, latency 2000 ms, stream ID van, passphrase correcthorse"
            );
            assert_eq!(address.fields(), expected);
        }
    }

    #[test]
    fn a_phone_is_removed_with_its_secret() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("senders");
        std::fs::write(&list, "").unwrap();
        let phone: Phone = "van=moblin".parse().unwrap();
        let file = passphrase_path(&phone.name, folder.path());
        std::fs::write(&file, "correcthorse").unwrap();
        let kept = KeptPhones::beside(&list);
        kept.add(PlacedPhone { phone, port: 5_000 }).unwrap();
        assert!(!remove(&list, "roof").unwrap() && file.exists());
        assert!(remove(&list, "van").unwrap() && !file.exists());
        assert_eq!(kept.read().unwrap(), []);
    }
}
