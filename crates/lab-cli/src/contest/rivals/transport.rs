//! The transports of `contest --rivals`: their programs and command lines.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::rows::Row;
use crate::over_link::anabranch::find;

/// Port of the near end's loopback interface at which every transport takes the stream.
pub(super) const INPUT_PORT: u16 = 7_000;
/// Port of the far end's loopback interface to which every transport sends it.
pub(super) const OUTPUT_PORT: u16 = 7_100;
/// Port of the far end at which SRT, SRTLA and Anabranch listen.
const PORT: u16 = 5_000;
/// First port of RIST, which takes two for each path (TR-06-1).
const RIST_PORT: u16 = 8_000;
/// Port of the near end at which SRTLA's sender takes SRT.
const SRT_PORT: u16 = 5_001;
/// Option of TCP with the name of the congestion controller, `TCP_CONGESTION` of Linux, and the
/// controller that Linux has by default.
const CUBIC: &str = "setsockopt-string=6:13:cubic";

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Transport {
    /// `anabranch send` and `recv`, encrypted.
    Anabranch,
    /// `srt-live-transmit` over one path; over several, a broadcast group of `srt-test-live`.
    Srt,
    /// A backup group of `srt-test-live`, where each path alone suffices.
    SrtBackup,
    /// `ristsender` and `ristreceiver`, which share the packets between paths.
    Rist,
    /// `srt-live-transmit`, `srtla_send` and our receiver.
    Srtla,
    /// Kernel MPTCP with CUBIC, by `socat` under `mptcpize`; over one path TCP.
    Mptcp,
}

/// All transports, in the order of their columns.
pub(super) const TRANSPORTS: [Transport; 6] = [
    Transport::Anabranch,
    Transport::Srt,
    Transport::SrtBackup,
    Transport::Rist,
    Transport::Srtla,
    Transport::Mptcp,
];

/// Programs and keys that transports need.
#[derive(Clone, Debug)]
pub(super) struct Equipment {
    /// The program `anabranch`.
    pub(super) anabranch: PathBuf,
    /// Folder of the keys and of lists of addresses.
    pub(super) folder: PathBuf,
    /// Public keys of sender and receiver.
    pub(super) keys: [String; 2],
    /// Whether `srtla_send` is installed. Otherwise our own sender of SRTLA takes its place.
    pub(super) has_srtla_send: bool,
}

/// Command lines of a transport: at the far end, then at the near end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commands {
    pub(super) far: Vec<Vec<OsString>>,
    pub(super) near: Vec<Vec<OsString>>,
}

impl Transport {
    /// Returns the transport's name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Transport::Anabranch => "Anabranch",
            Transport::Srt => "SRT",
            Transport::SrtBackup => "SRT backup",
            Transport::Rist => "RIST",
            Transport::Srtla => "SRTLA",
            Transport::Mptcp => "MPTCP",
        }
    }

    /// Returns the programs that it needs on a row, with the packages or projects that have them.
    fn programs(self, is_multipath: bool) -> &'static [(&'static str, &'static str)] {
        match self {
            Transport::Anabranch => &[],
            Transport::SrtBackup | Transport::Srt if is_multipath => &[(
                "srt-test-live",
                "libsrt's source, built with ENABLE_TESTING and ENABLE_BONDING",
            )],
            Transport::Srt | Transport::SrtBackup | Transport::Srtla => {
                &[("srt-live-transmit", "Debian's srt-tools")]
            }
            Transport::Rist => &[
                ("ristsender", "Debian's rist-tools"),
                ("ristreceiver", "Debian's rist-tools"),
            ],
            Transport::Mptcp => &[
                ("socat", "Debian's socat"),
                ("mptcpize", "Debian's mptcpize"),
            ],
        }
    }

    /// Returns the reason for which the transport cannot run on a row, if there is one.
    pub(super) fn obstacle(self, row: &Row) -> Option<String> {
        let is_multipath = row.routes.len() > 1;
        if self == Transport::SrtBackup && !row.has_spare_paths() {
            return Some("a backup needs paths that each carry the stream".to_owned());
        }
        let programs = self.programs(is_multipath).iter();
        let mut missing = programs.filter(|(program, _)| find(program).is_none());
        let (program, origin) = missing.next()?;
        Some(format!("{program} is not installed ({origin})"))
    }

    /// Returns the command lines for a row.
    pub(super) fn commands(self, row: &Row, equipment: &Equipment) -> Commands {
        let millis = row.latency.as_millis();
        match self {
            Transport::Anabranch => anabranch(row, equipment),
            Transport::Srt if row.routes.len() == 1 => srt(millis),
            Transport::Srt => srt_group(row, "broadcast"),
            Transport::SrtBackup => srt_group(row, "backup"),
            Transport::Rist => rist(row),
            Transport::Srtla => srtla(row, equipment),
            Transport::Mptcp => mptcp(),
        }
    }
}

/// Returns the version that a program prints about itself; `None` if it prints none.
pub(super) fn version(program: &Path, option: &str) -> Option<String> {
    let output = Command::new(program)
        .arg(option)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = [output.stdout, output.stderr].concat();
    version_in(&String::from_utf8_lossy(&text))
}

/// Returns the first word that consists of numbers with points between them.
fn version_in(text: &str) -> Option<String> {
    text.split_whitespace()
        .find(|word| {
            let mut numbers = word.split('.');
            let are_numbers = numbers.all(|number| number.parse::<u32>().is_ok());
            are_numbers && word.contains('.')
        })
        .map(str::to_owned)
}

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn far_address(index: usize) -> String {
    format!("10.27.{index}.1")
}

fn near_address(index: usize) -> String {
    format!("10.27.{index}.2")
}

fn input() -> String {
    format!("udp://127.0.0.1:{INPUT_PORT}")
}

fn output() -> String {
    format!("udp://127.0.0.1:{OUTPUT_PORT}")
}

fn anabranch(row: &Row, equipment: &Equipment) -> Commands {
    fn key(name: &str, folder: &Path) -> OsString {
        folder.join(name).into_os_string()
    }

    let millis = row.latency.as_millis();
    let [sender, receiver] = &equipment.keys;
    let mut far = vec![equipment.anabranch.clone().into_os_string()];
    far.extend(words(&format!(
        "recv --listen 0.0.0.0:{PORT} --allow {sender} --keep-listening"
    )));
    far.extend([
        "--latency".into(),
        format!("{millis} ms").into(),
        "--key".into(),
    ]);
    far.extend([key("receiver.key", &equipment.folder), output().into()]);
    let mut near = vec![equipment.anabranch.clone().into_os_string()];
    near.extend(words(&format!("send --peer {receiver}")));
    for index in 0..row.routes.len() {
        let to = far_address(index);
        near.extend(words(&format!("--to {to}:{PORT} --via path{index}")));
    }
    near.extend([
        "--latency".into(),
        format!("{millis} ms").into(),
        "--key".into(),
    ]);
    near.extend([key("sender.key", &equipment.folder), input().into()]);
    Commands {
        far: vec![far],
        near: vec![near],
    }
}

fn srt(millis: u64) -> Commands {
    let (input, output, to) = (input(), output(), far_address(0));
    let far = format!("srt-live-transmit -q srt://:{PORT}?mode=listener&latency={millis} {output}");
    let near =
        format!("srt-live-transmit -q {input} srt://{to}:{PORT}?mode=caller&latency={millis}");
    Commands {
        far: vec![words(&far)],
        near: vec![words(&near)],
    }
}

fn srt_group(row: &Row, kind: &str) -> Commands {
    let millis = row.latency.as_millis();
    let (input, output) = (input(), output());
    let far = format!(
        "srt-test-live -q srt://:{PORT}?mode=listener&groupconnect=1&latency={millis} {output}"
    );
    let mut near = format!("srt-test-live -q {input} -g");
    for index in 0..row.routes.len() {
        let to = far_address(index);
        // The parameters of the first one are the group's.
        let parameters = if index == 0 {
            format!("?type={kind}&latency={millis}")
        } else {
            String::new()
        };
        near.push_str(&format!(" srt://{to}:{PORT}{parameters}"));
    }
    Commands {
        far: vec![words(&far)],
        near: vec![words(&near)],
    }
}

fn rist(row: &Row) -> Commands {
    let millis = row.latency.as_millis();
    let weights = row.weights();
    let (mut listen, mut send) = (Vec::new(), Vec::new());
    for (index, weight) in weights.iter().enumerate() {
        let (to, port) = (far_address(index), RIST_PORT + 2 * index as u16);
        listen.push(format!("rist://@{to}:{port}?buffer={millis}"));
        // A weight makes paths share the packets; without, each one carries all of them.
        let weight = if weights.len() > 1 {
            format!("&weight={weight}")
        } else {
            String::new()
        };
        send.push(format!("rist://{to}:{port}?buffer={millis}{weight}"));
    }
    let (listen, send) = (listen.join(","), send.join(","));
    let far = format!("ristreceiver -v 4 -i {listen} -o {}", output());
    let near = format!("ristsender -v 4 -i udp://@127.0.0.1:{INPUT_PORT} -o {send}");
    Commands {
        far: vec![words(&far)],
        near: vec![words(&near)],
    }
}

/// Returns the file of the near end's addresses for `srtla_send`.
pub(super) fn address_file(folder: &Path, path_count: usize) -> PathBuf {
    folder.join(format!("addresses-{path_count}"))
}

/// Returns the text of that file.
pub(super) fn addresses(path_count: usize) -> String {
    (0..path_count)
        .map(|index| near_address(index) + "\n")
        .collect()
}

fn srtla(row: &Row, equipment: &Equipment) -> Commands {
    let millis = row.latency.as_millis();
    let program = equipment.anabranch.clone().into_os_string();
    let (output, to) = (output(), far_address(0));
    let mut far = vec![program.clone()];
    far.extend(words(&format!(
        "recv --listen srtla://0.0.0.0:{PORT}?latency={millis} {output}"
    )));
    let near = if equipment.has_srtla_send {
        let addresses = address_file(&equipment.folder, row.routes.len());
        let mut sender = words(&format!("srtla_send {SRT_PORT} {to} {PORT}"));
        sender.push(addresses.into_os_string());
        let caller = format!(
            "srt-live-transmit -q {} srt://127.0.0.1:{SRT_PORT}?mode=caller&latency={millis}",
            input()
        );
        vec![sender, words(&caller)]
    } else {
        let mut sender = vec![program];
        sender.extend(words(&format!(
            "send --to srtla://{to}:{PORT}?latency={millis}"
        )));
        for index in 0..row.routes.len() {
            sender.extend(words(&format!("--via path{index}")));
        }
        sender.push(input().into());
        vec![sender]
    };
    Commands {
        far: vec![far],
        near,
    }
}

fn mptcp() -> Commands {
    let to = far_address(0);
    let far = format!(
        "mptcpize run socat -u -b 1316 TCP-LISTEN:{PORT},reuseaddr \
         UDP-SENDTO:127.0.0.1:{OUTPUT_PORT}"
    );
    let near = format!(
        "mptcpize run socat -u -b 1316 UDP-RECV:{INPUT_PORT},bind=127.0.0.1 \
         TCP:{to}:{PORT},nodelay,{CUBIC}"
    );
    Commands {
        far: vec![words(&far)],
        near: vec![words(&near)],
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows;
    use super::*;

    fn line(transport: Transport, row: &str, has_srtla_send: bool) -> [String; 2] {
        fn join(commands: Vec<Vec<OsString>>) -> String {
            let lines: Vec<String> = commands
                .iter()
                .map(|words| words.join(&OsString::from(" ")))
                .map(|line| line.into_string().unwrap())
                .collect();
            lines.join("; ")
        }

        let rows = rows::all().unwrap();
        let row = rows.iter().find(|known| known.name == row).unwrap();
        let equipment = Equipment {
            anabranch: "anabranch".into(),
            folder: "keys".into(),
            keys: ["abpub_A".to_owned(), "abpub_B".to_owned()],
            has_srtla_send,
        };
        let Commands { far, near } = transport.commands(row, &equipment);
        [join(far), join(near)]
    }

    #[test]
    fn paths_have_their_addresses_and_shares() {
        let [far, near] = line(Transport::Rist, "5", true);
        assert!(far.contains("@10.27.0.1:8000?buffer=1000,rist://@10.27.1.1:8002?buffer=1000"));
        assert!(
            near.contains("10.27.0.1:8000?buffer=1000&weight=2,"),
            "{near}"
        );
        let [_, near] = line(Transport::Anabranch, "5", true);
        let paths = "--to 10.27.0.1:5000 --via path0 --to 10.27.1.1:5000 --via path1";
        assert!(
            near.contains(paths) && near.contains("--latency 1000 ms"),
            "{near}"
        );
        let [_, near] = line(Transport::SrtBackup, "7", true);
        assert!(
            near.ends_with("srt://10.27.0.1:5000?type=backup&latency=500 srt://10.27.1.1:5000")
        );
        let [_, near] = line(Transport::Rist, "1", true);
        assert!(!near.contains("weight"), "{near}");
    }

    #[test]
    fn a_version_is_found_among_other_words() {
        let line = "1795973676.085364|0.0|[INFO] Starting ristsender version: 0.2.7 libRIST";
        assert_eq!(version_in(line).as_deref(), Some("0.2.7"));
        let lines = "socat by Gerhard Rieger\nsocat version 1.7.4.4 on 06 Nov 2022";
        assert_eq!(version_in(lines).as_deref(), Some("1.7.4.4"));
        assert_eq!(version_in("usage: -t <seconds> 5"), None);
    }

    #[test]
    fn a_missing_sender_of_srtla_is_replaced_by_ours() {
        let [_, near] = line(Transport::Srtla, "4", true);
        assert!(near.starts_with("srtla_send 5001 10.27.0.1 5000 keys/addresses-2; srt-live"));
        let [_, near] = line(Transport::Srtla, "4", false);
        assert!(near.starts_with("anabranch send --to srtla://10.27.0.1:5000?latency=200 --via"));
    }
}
