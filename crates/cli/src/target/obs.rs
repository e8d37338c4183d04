//! `obs://`: OBS Studio, through obs-websocket 5.
//!
//! The bitrate of OBS's simple output mode is a parameter of its profile. OBS reads it when
//! streaming starts and when a profile is chosen. During a stream, another profile is therefore
//! chosen for a moment: a duplicate with another bitrate. The stream is not interrupted.

use core::fmt;
use core::str::FromStr;
use core::time::Duration as StdDuration;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use anabranch_net::Clock;
use anabranch_terminal::clean::one_line;
use anabranch_terminal::print;
use anabranch_units::{DataRate, Duration, Instant};
use anabranch_video::target_filter::TargetFilter;
use anyhow::{Context, anyhow, bail};
use data_encoding::BASE64;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{Message, WebSocket};

use super::Target;
use crate::command_line::socket_addr;

/// Default name of the profile's duplicate.
const PROFILE: &str = "anabranch";
/// Minimum time between two changes of the profile, unless the bitrate falls: OBS saves each time.
const INTERVAL: Duration = Duration::from_secs(2);
/// Time between attempts to reach OBS.
const RETRY_INTERVAL: Duration = Duration::from_secs(3);
/// Longest wait for an answer; OBS answers at once, or not at all.
const PATIENCE: StdDuration = StdDuration::from_secs(3);
/// Maximum overhead of MPEG-TS and RTMP on video and audio, in percent.
const CONTAINER_PERCENT: u64 = 5;
/// Audio bitrate of OBS if it reports none; this is its default.
const AUDIO_KBIT: u64 = 160;
/// Minimum video bitrate for a usable picture.
const MIN_VIDEO_KBIT: u64 = 100;

/// Error for a password in the command line, which everybody on the machine can read.
const NO_PASSWORD: &str = "OBS's password comes by ?password-file=FILE";

/// Text after `obs://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObsName {
    address: String,
    password_file: Option<PathBuf>,
    profile: String,
}

impl FromStr for ObsName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        if address.contains('@') {
            return Err(format!("{NO_PASSWORD}, not before the address"));
        }
        let mut name = ObsName {
            address: address.trim_end_matches('/').to_owned(),
            password_file: None,
            profile: PROFILE.to_owned(),
        };
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("password-file", path)) => name.password_file = Some(path.into()),
                Some(("profile", profile)) => name.profile = profile.to_owned(),
                Some(("password", _)) => {
                    return Err(format!("{NO_PASSWORD}, not by password"));
                }
                // The value may be a secret.
                _ => return Err("expected ?password-file=FILE or ?profile=NAME".to_owned()),
            }
        }
        Ok(name)
    }
}

/// Connection to OBS, which may be down.
pub(super) struct Obs {
    address: SocketAddr,
    password: Option<String>,
    profile: String,
    report_filter: TargetFilter,
    link: Option<Link>,
    retry_at: Instant,
    /// Last error that was printed.
    said: String,
}

impl fmt::Debug for Obs {
    /// Formats without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Obs({})", self.address)
    }
}

impl Obs {
    pub(super) fn open(name: &ObsName) -> anyhow::Result<Obs> {
        let password = name.password_file.as_ref().map(|path| {
            let shown = path.display();
            let text = fs::read_to_string(path)
                .with_context(|| format!("--target-to: cannot read {shown}"))?;
            Ok::<_, anyhow::Error>(text.trim_end_matches(['\r', '\n']).to_owned())
        });
        Ok(Obs {
            address: socket_addr("--target-to obs://", &name.address)?,
            password: password.transpose()?,
            profile: name.profile.clone(),
            report_filter: TargetFilter::every(INTERVAL),
            link: None,
            retry_at: Instant::ZERO,
            said: String::new(),
        })
    }

    /// Reports the target if it has changed enough.
    pub(super) fn report(&mut self, target: Target, clock: &Clock) {
        if target.at >= self.retry_at
            && self.report_filter.should_report(target.at, target.target)
            && let Err(error) = self.send_bitrate(target.target)
        {
            self.say(&format!("{error:#}"));
            if error.downcast_ref::<Slow>().is_none() {
                self.link = None;
            }
            self.report_filter.forget();
            self.retry_at = clock.now() + RETRY_INTERVAL;
        }
    }

    /// Prints an error, once.
    fn say(&mut self, what: &str) {
        // It may contain text from OBS and names of profiles.
        let what = &*one_line(what);
        if self.said != what {
            print::note(format_args!("--target-to obs://{}: {what}", self.address));
            what.clone_into(&mut self.said);
        }
    }

    fn send_bitrate(&mut self, target: DataRate) -> anyhow::Result<()> {
        let link = match &mut self.link {
            Some(link) => link,
            none => {
                let link = Link::open(self.address, self.password.as_deref())?;
                print::note(format_args!("connected to OBS at {}", self.address));
                self.said.clear();
                none.insert(link)
            }
        };
        let video = video_kbit(target, link.audio_kbit);
        let advice = link.set_bitrate(video, &self.profile)?;
        if let Some(advice) = advice {
            self.say(&advice);
        }
        Ok(())
    }
}

/// Returns the bitrate of the video in kbit/s, if `target` includes audio and container.
fn video_kbit(target: DataRate, audio_kbit: u64) -> u64 {
    let payload = target.bits_per_second() / 10 / (100 + CONTAINER_PERCENT);
    payload.saturating_sub(audio_kbit).max(MIN_VIDEO_KBIT)
}

/// A session with obs-websocket.
struct Link {
    socket: WebSocket<TcpStream>,
    request_count: u64,
    audio_kbit: u64,
}

impl Link {
    fn open(address: SocketAddr, password: Option<&str>) -> anyhow::Result<Link> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)
            .context("cannot reach it; is its WebSocket server on (Tools)?")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = format!("ws://{address}/").into_client_request()?;
        let protocol = HeaderValue::from_static("obswebsocket.json");
        let headers = request.headers_mut();
        headers.insert("Sec-WebSocket-Protocol", protocol);
        let shaken = tungstenite::client(request, stream);
        let (socket, _) = shaken.map_err(|error| anyhow!("it speaks no WebSocket: {error}"))?;
        let mut link = Link {
            socket,
            request_count: 0,
            audio_kbit: AUDIO_KBIT,
        };
        link.identify(password)?;
        let mode = link.parameter("Output", "Mode")?;
        if mode == "Advanced" {
            bail!(
                "it is in the advanced output mode, whose encoders obs-websocket does not \
                 reach: choose the simple one (Settings, Output)"
            );
        }
        let audio = link.parameter("SimpleOutput", "ABitrate")?;
        link.audio_kbit = audio.parse().unwrap_or(AUDIO_KBIT);
        Ok(link)
    }

    fn identify(&mut self, password: Option<&str>) -> anyhow::Result<()> {
        let hello = self.read(0)?;
        // Events are not subscribed to.
        let mut identify = json!({"rpcVersion": 1, "eventSubscriptions": 0});
        if let Some(asked) = hello.get("authentication") {
            let password = password.context("it asks for a password: ?password-file=FILE")?;
            let salt = asked["salt"].as_str().unwrap_or_default();
            let challenge = asked["challenge"].as_str().unwrap_or_default();
            let answer = authentication(password, salt, challenge);
            identify["authentication"] = answer.into();
        }
        self.write(1, identify)?;
        let identified = self.read(2);
        identified.map(|_| ()).context("it does not let us in")
    }

    /// Sets the bitrate. Returns advice to the user if it cannot have its full effect.
    fn set_bitrate(&mut self, kbit: u64, duplicate: &str) -> anyhow::Result<Option<String>> {
        self.set_parameter(kbit)?;
        // A stream that has not started yet begins with it.
        let status = self.ask("GetStreamStatus", json!({}))?;
        if status["outputActive"] != true {
            return Ok(None);
        }
        let known = self.ask("GetProfileList", json!({}))?;
        let current = known["currentProfileName"].as_str().unwrap_or_default();
        let mut others = known["profiles"].as_array().into_iter().flatten();
        if current == duplicate {
            bail!("its profile {duplicate} is chosen, which is for a moment only: choose yours");
        }
        if !others.any(|name| name == duplicate) {
            return Ok(Some(format!(
                "it takes bitrates while it streams once its profile has a duplicate \
                 named {duplicate} (Profile, Duplicate); until then they count from the next \
                 start of the stream"
            )));
        }
        let current = current.to_owned();
        let chosen = self.choose(duplicate);
        let set = chosen.and_then(|()| self.set_parameter(kbit));
        // The user's profile is restored even if the change failed, or its answer is slow.
        self.choose(&current)?;
        set?;
        Ok(None)
    }

    fn choose(&mut self, profile: &str) -> anyhow::Result<()> {
        let chosen = self.ask("SetCurrentProfile", json!({"profileName": profile}));
        chosen.map(|_| ())
    }

    fn set_parameter(&mut self, kbit: u64) -> anyhow::Result<()> {
        let parameter = json!({
            "parameterCategory": "SimpleOutput",
            "parameterName": "VBitrate",
            "parameterValue": kbit.to_string(),
        });
        self.ask("SetProfileParameter", parameter).map(|_| ())
    }

    fn parameter(&mut self, category: &str, name: &str) -> anyhow::Result<String> {
        let wanted = json!({"parameterCategory": category, "parameterName": name});
        let answer = self.ask("GetProfileParameter", wanted)?;
        let value = answer["parameterValue"]
            .as_str()
            .or(answer["defaultParameterValue"].as_str());
        Ok(value.unwrap_or_default().to_owned())
    }

    /// Sends a request, and returns its answer.
    fn ask(&mut self, request: &str, data: Value) -> anyhow::Result<Value> {
        self.request_count += 1;
        let id = self.request_count.to_string();
        let message = json!({"requestType": request, "requestId": id, "requestData": data});
        self.write(6, message)?;
        loop {
            let mut answer = self.read(7)?;
            if answer["requestId"] != *id {
                continue;
            }
            if answer["requestStatus"]["result"] != true {
                let comment = answer["requestStatus"]["comment"].as_str();
                bail!("{request}: {}", comment.unwrap_or("refused"));
            }
            return Ok(answer["responseData"].take());
        }
    }

    fn write(&mut self, op: u8, data: Value) -> anyhow::Result<()> {
        let text = json!({"op": op, "d": data}).to_string();
        self.socket.send(Message::text(text)).map_err(cause)
    }

    /// Returns the next message of this kind.
    fn read(&mut self, op: u8) -> anyhow::Result<Value> {
        loop {
            let message = self.socket.read().map_err(cause)?;
            match message {
                Message::Text(text) => {
                    let mut message: Value = serde_json::from_str(&text)?;
                    if message["op"] == op {
                        return Ok(message["d"].take());
                    }
                }
                Message::Close(Some(frame)) => bail!("it closed: {}", frame.reason),
                Message::Close(None) => bail!("it closed"),
                _ => {}
            }
        }
    }
}

/// Absence of an answer within [`PATIENCE`]. The connection stays, and a late answer is left out.
#[derive(Debug)]
struct Slow;

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = PATIENCE.as_secs();
        write!(
            f,
            "it has not answered within {seconds} s, and is asked again"
        )
    }
}

impl core::error::Error for Slow {}

/// Returns the cause of a failed exchange.
fn cause(error: tungstenite::Error) -> anyhow::Error {
    match error {
        tungstenite::Error::Io(error)
            if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
        {
            Slow.into()
        }
        error => anyhow::Error::new(error).context("the connection is lost"),
    }
}

/// Returns the proof that the password is known (obs-websocket 5, "Creating an authentication
/// string").
fn authentication(password: &str, salt: &str, challenge: &str) -> String {
    let secret = hash(&format!("{password}{salt}"));
    hash(&format!("{secret}{challenge}"))
}

fn hash(text: &str) -> String {
    BASE64.encode(digest(&SHA256, text.as_bytes()).as_ref())
}

// Needs a clock: OBS is a real server here.
#[cfg(test)]
mod real_time_tests;

#[cfg(test)]
mod tests;
