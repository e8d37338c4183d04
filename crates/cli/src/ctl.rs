//! `anabranch ctl`: changes of a running program.

mod client;
mod shown;

use std::path::PathBuf;

use anabranch_observe::control::{
    Change, ControlState, LatencyChange, LinkAddition, Links, OutputChange, PathChange,
    RecordingChange, Reload, SessionAdmission, SessionEnd, TargetChange,
};
use anabranch_observe::http::HttpAddress;
use anabranch_terminal::print;
use anyhow::{Context, anyhow};
use clap::Subcommand;

use crate::allowed::StreamName;
use crate::keygen::read_token;
use crate::recv::Phone;
use client::Client;

/// Changes a running sender, receiver or server, for the owner of its control token.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The other program must run with --dashboard and --control-token FILE. The file holds the token; it
is made if there is none. Copy it to the machine on which you run `ctl`.

Examples:
  anabranch send … --dashboard 8080 --control-token control.token film.ts &
  anabranch ctl --token-file control.token status
  anabranch ctl --token-file control.token path wwan0 off
  anabranch ctl --token-file control.token path wwan0 --metered yes --cap 10GB --max 3Mbit/s
  anabranch ctl --token-file control.token target 500kbit/s..3Mbit/s

  A receiver, and by it the path of a sender that runs with --remote-control:
  anabranch ctl --token-file control.token latency '800 ms'
  anabranch ctl --token-file control.token output add udp://127.0.0.1:6000 --stream front
  anabranch ctl --token-file control.token record start --stream front
  anabranch ctl --token-file control.token session end front --keep-out '10 min'
  anabranch ctl --token-file control.token path wwan0 off --stream front

  A phone for a receiver, and the links of all its phones and senders, with QR codes:
  anabranch ctl --token-file control.token link add --phone van=moblin
  anabranch ctl --token-file control.token link list

  A service, whose file of --config has changed:
  anabranch ctl --token-file control.token reload

A program on another machine: give its address, or forward its port, since HTTP is not encrypted:
  ssh -L 8080:127.0.0.1:8080 studio &

Exit codes: 0 the change was made; 1 it was refused, with the reason, or the token cannot be read;
2 the command line is wrong; 3 the program does not answer.

docs/control.openapi.json describes the HTTP interface, for programs of your own.")]
pub(crate) struct Arguments {
    /// The address of the other program's --dashboard: an address and a port, or a port of this
    /// machine.
    #[arg(
        long,
        global = true,
        value_name = "[ADDR:]PORT",
        default_value = "8080"
    )]
    at: HttpAddress,
    /// File with the token of the other program's --control-token.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print the answer as JSON, also one that refuses.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Shows the possible changes and the present state.
    Status,
    /// Switches a path off or on, or changes its limits.
    Path(PathArguments),
    /// Changes the range of the target for the encoder.
    Target {
        /// The range, within that of the sender's start: 500kbit/s..3Mbit/s, or one end alone, as
        /// ..3Mbit/s.
        #[arg(value_name = "MIN..MAX", value_parser = range)]
        range: (Option<String>, Option<String>),
        #[command(flatten)]
        of: OfStream,
    },
    /// Changes a receiver's latency, of all streams or of one session.
    Latency {
        /// The latency, as "800 ms".
        latency: String,
        #[command(flatten)]
        of: OfStream,
    },
    /// Adds an output to a receiver's stream, or removes one.
    #[command(subcommand)]
    Output(OutputTask),
    /// Starts or stops a recording in the folder of --recordings.
    #[command(subcommand)]
    Record(RecordTask),
    /// Ends the session of a sender or proxy, or lets it in again.
    #[command(subcommand)]
    Session(SessionTask),
    /// Makes a link for another sender or phone of a receiver, or prints those that are good.
    #[command(subcommand)]
    Link(LinkTask),
    /// Makes the program read its file of --config again.
    Reload,
}

/// Choice of a stream.
#[derive(Debug, clap::Args)]
struct OfStream {
    /// The stream of a receiver; may be left out if there is one.
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
}

#[derive(Debug, clap::Args)]
struct PathArguments {
    /// Name of the path, or its number.
    path: String,
    /// Whether the path is used at all. The last one that is on stays on.
    #[arg(value_parser = on_or_off, value_name = "on|off")]
    #[arg(required_unless_present_any = ["metered", "cap", "max"])]
    on: Option<bool>,
    /// Whether it is paid for by volume: then it stands by while the others suffice.
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    metered: Option<bool>,
    /// Volume after which it stands by, such as 10GB.
    #[arg(long, value_name = "AMOUNT|none")]
    cap: Option<String>,
    /// Maximum rate, such as 3Mbit/s.
    #[arg(long, value_name = "RATE|none")]
    max: Option<String>,
    #[command(flatten)]
    of: OfStream,
}

#[derive(Debug, Subcommand)]
enum OutputTask {
    /// Adds an output: udp://…, srt://… or rist://….
    Add(OutputArguments),
    /// Removes an output, by its address without parameters.
    Remove(OutputArguments),
}

#[derive(Debug, clap::Args)]
struct OutputArguments {
    /// The output.
    output: String,
    #[command(flatten)]
    of: OfStream,
}

#[derive(Debug, Subcommand)]
enum RecordTask {
    /// Starts a recording at the next key frame.
    Start(OfStream),
    /// Stops the recording.
    Stop(OfStream),
}

#[derive(Debug, Subcommand)]
enum LinkTask {
    /// Makes a link: for a phone, or for a sender of our own protocol, once and for ten minutes.
    Add {
        /// Name of the sender, in lists, outputs and statistics.
        #[arg(long, value_name = "NAME", conflicts_with = "phone")]
        name: Option<StreamName>,
        /// A phone: the name of its stream, and its app (moblin, larix or irlpro).
        #[arg(long, value_name = "NAME=APP")]
        phone: Option<Phone>,
    },
    /// Prints the links, and on a terminal their QR codes. They have secrets in them.
    List,
}

#[derive(Debug, Subcommand)]
enum SessionTask {
    /// Ends the session of a stream, or of a proxy by its name.
    End {
        /// The stream, or the proxy.
        stream: String,
        /// Time for which its key is not let in again; "0 s" lets it return at once.
        #[arg(long, value_name = "TIME", default_value = "60 s")]
        keep_out: String,
    },
    /// Lets a sender or proxy in again before its time.
    Allow {
        /// The stream, or the proxy.
        stream: String,
    },
}

fn on_or_off(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off"),
    }
}

fn yes_or_no(text: &str) -> Result<bool, &'static str> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected yes or no"),
    }
}

/// Splits a range, of which one end may be empty. The other program reads the bitrates.
fn range(text: &str) -> Result<(Option<String>, Option<String>), &'static str> {
    match text.split_once("..") {
        Some((min, max)) if min != max => Ok((unless_empty(min), unless_empty(max))),
        _ => Err("expected two bitrates, as 500kbit/s..3Mbit/s, or one, as ..3Mbit/s"),
    }
}

fn unless_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Task {
    /// Returns the change; `None` for the state and the links.
    fn change(self) -> Option<Change> {
        Some(match self {
            Task::Status | Task::Link(LinkTask::List) => return None,
            Task::Path(its) => Change::Path(PathChange {
                stream: its.of.stream,
                path: its.path,
                on: its.on,
                metered: its.metered,
                cap: its.cap,
                max: its.max,
            }),
            Task::Target { range, of } => Change::Target(TargetChange {
                stream: of.stream,
                min: range.0,
                max: range.1,
            }),
            Task::Latency { latency, of } => Change::Latency(LatencyChange {
                stream: of.stream,
                latency,
            }),
            Task::Output(OutputTask::Add(its)) => Change::OutputAdd(its.change()),
            Task::Output(OutputTask::Remove(its)) => Change::OutputRemove(its.change()),
            Task::Record(RecordTask::Start(OfStream { stream })) => {
                Change::RecordingStart(RecordingChange { stream })
            }
            Task::Record(RecordTask::Stop(OfStream { stream })) => {
                Change::RecordingStop(RecordingChange { stream })
            }
            Task::Session(SessionTask::End { stream, keep_out }) => {
                let keep_out = Some(keep_out);
                Change::SessionEnd(SessionEnd { stream, keep_out })
            }
            Task::Session(SessionTask::Allow { stream }) => {
                Change::SessionAllow(SessionAdmission { stream })
            }
            Task::Link(LinkTask::Add { name, phone }) => Change::Link(match phone {
                Some(Phone { name, app }) => LinkAddition {
                    name: Some(name.as_str().to_owned()),
                    phone: Some(app.word().to_owned()),
                },
                None => LinkAddition {
                    name: name.map(|name| name.as_str().to_owned()),
                    phone: None,
                },
            }),
            Task::Reload => Change::Reload(Reload {}),
        })
    }
}

impl OutputArguments {
    fn change(self) -> OutputChange {
        OutputChange {
            stream: self.of.stream,
            output: self.output,
        }
    }
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let file = arguments.token_file.ok_or_else(|| {
        anyhow!("--token-file FILE is missing: the file of the other program's --control-token")
    })?;
    let client = Client::new(arguments.at.address, read_token(&file)?)?;
    let wants_links = matches!(arguments.task, Task::Link(LinkTask::List));
    let change = arguments.task.change();
    let answer = match &change {
        Some(change) => client.change(change)?,
        None if wants_links => client.read("/control/links")?,
        None => client.read("/control")?,
    };
    if arguments.json {
        print::line(answer.text())?;
        return answer.outcome().map(drop);
    }
    match change {
        Some(_) => print::line(answer.done()?),
        None if wants_links => {
            let links: Links = serde_json::from_slice(answer.outcome()?)
                .context("its answer is not one of this version")?;
            links.links.iter().try_for_each(shown::link)
        }
        None => {
            let state: ControlState = serde_json::from_slice(answer.outcome()?)
                .context("its answer is not one of this version")?;
            print::text(shown::state(&state))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn change(words: &[&str]) -> Result<Option<Change>, String> {
        let line = [&["anabranch", "ctl"], words].concat();
        let parsed = crate::Arguments::try_parse_from(line);
        match parsed.map_err(|error| error.to_string())?.command {
            crate::Command::Ctl(arguments) => Ok(arguments.task.change()),
            _ => panic!("another command"),
        }
    }

    fn json(words: &[&str]) -> String {
        serde_json::to_string(&change(words).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn words_become_requests() {
        assert_eq!(change(&["status"]), Ok(None));
        let off = json(&["path", "wwan0", "off"]);
        assert_eq!(off, r#"{"path":{"path":"wwan0","on":false}}"#);
        let words = [
            "path",
            "1",
            "--metered",
            "yes",
            "--cap",
            "10GB",
            "--stream",
            "a",
        ];
        let expected = r#"{"path":{"stream":"a","path":"1","metered":true,"cap":"10GB"}}"#;
        assert_eq!(json(&words), expected);
        assert_eq!(
            json(&["target", "..3Mbit/s"]),
            r#"{"target":{"max":"3Mbit/s"}}"#
        );
        let words = ["session", "end", "front"];
        let expected = r#"{"session-end":{"stream":"front","keep_out":"60 s"}}"#;
        assert_eq!(json(&words), expected);
        let added = json(&["--at", "9", "output", "add", "udp://127.0.0.1:6000"]);
        assert_eq!(added, r#"{"output-add":{"output":"udp://127.0.0.1:6000"}}"#);
        let link = json(&["link", "add", "--phone", "van=moblin"]);
        assert_eq!(link, r#"{"link":{"name":"van","phone":"moblin"}}"#);
        assert_eq!(json(&["link", "add"]), r#"{"link":{}}"#);
        assert_eq!(change(&["link", "list"]), Ok(None));
        assert_eq!(json(&["reload"]), r#"{"reload":{}}"#);
    }

    #[test]
    fn bad_commands_fail_before_any_request() {
        for (words, part) in [
            (&["path", "wwan0"][..], "on|off"),
            (&["path", "wwan0", "down"], "expected on or off"),
            (&["path", "wwan0", "--metered", "1"], "expected yes or no"),
            (&["target", "3Mbit/s"], "two bitrates"),
            (&["target", ".."], "two bitrates"),
            (&["record"], "start"),
            (&["link", "add", "--phone", "van=obs"], "obs is not known"),
        ] {
            let error = change(words).unwrap_err();
            assert!(error.contains(part), "{words:?}: {error}");
        }
    }
}
