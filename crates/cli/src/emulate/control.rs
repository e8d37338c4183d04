//! Changes of a network that `emulate` or `link` runs: lines on standard input, and HTTP.

use std::fmt;
use std::io::{BufRead, Read};
use std::sync::{Arc, Mutex, PoisonError};

use crate::system;
use anabranch_emu::{LinkDirection, Relay};
use anabranch_link::{LinkChange, LossModel};
use anabranch_observe::http::{Answer, Answerer, text};
use anabranch_terminal::clean::one_line;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::{DataRate, Duration, known_names};
use anyhow::Context;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::ORIGIN;
use hyper::{Method, Request, StatusCode};

pub(crate) const CONTROL_HELP: &str = "
While it runs, lines on standard input change the network:
  wifi rate 2Mbit/s     wifi delay 80ms      wifi loss 3%      wifi down      wifi up
They change the way there; `wifi back delay 20ms` changes the way back. `down` and `up` change both
ways if none is named. A change replaces the scenario's schedule of the same value. With
--control 7180 HTTP takes the same lines: curl -d 'wifi rate 2Mbit/s' http://127.0.0.1:7180/

SRT, RIST and QUIC pass as well. Ctrl-C ends the program, which then prints how many packets passed
and how many were lost.";

/// Maximum length of a request or line. Chosen: room for a thousand changes.
const MAX_BYTES: usize = 64 << 10;

/// A change of a route.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Change {
    route: usize,
    /// `None`: both.
    direction: Option<LinkDirection>,
    kind: LinkChange,
}

/// The routes of a network that runs.
#[derive(Debug)]
pub(crate) struct Changes {
    names: Vec<String>,
    /// `None`: it has ended.
    relay: Mutex<Option<Arc<Relay>>>,
}

impl Changes {
    pub(crate) fn new(names: Vec<String>, relay: Arc<Relay>) -> Self {
        Changes {
            names,
            relay: Mutex::new(Some(relay)),
        }
    }

    /// Ends the relay. Later changes are refused.
    pub(crate) fn end(&self) {
        let relay = self.relay.lock();
        *relay.unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Takes changes from standard input in a thread of its own, until its end, which then is the
    /// program's too if `stop` is given.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn read_standard_input(self: &Arc<Self>, stop: Option<Stop>) -> anyhow::Result<()> {
        let changes = Arc::clone(self);
        let builder = std::thread::Builder::new().name("changes".to_owned());
        // The thread ends with the program: only input can wake it.
        let thread = builder.spawn(move || {
            changes.read_lines();
            if let Some(stop) = stop {
                stop.stop();
            }
        });
        thread.map(|_| ()).context("cannot start a thread")
    }

    fn read_lines(&self) {
        let mut input = std::io::BufReader::new(std::io::stdin());
        while system::wait_for_foreground(&std::io::stdin()) {
            let mut line = Vec::new();
            let read = (&mut input)
                .take(MAX_BYTES as u64)
                .read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                return;
            }
            let line = String::from_utf8_lossy(&line);
            if let Err(error) = self.apply(line.trim()) {
                print::warn(error);
            }
        }
    }

    /// Applies a text's lines, prints each change, and returns the printed lines. If one line is a
    /// mistake, none is applied.
    fn apply(&self, text: &str) -> Result<String, String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let changes: Vec<Change> = lines
            .map(|line| self.parse(line))
            .collect::<Result<_, _>>()?;
        let guard = self.relay.lock().unwrap_or_else(PoisonError::into_inner);
        let relay = guard.as_ref().ok_or("the network has ended")?;
        let mut message = String::new();
        for change in changes {
            let directions = match change.direction {
                Some(direction) => vec![direction],
                None => vec![LinkDirection::Forward, LinkDirection::Reverse],
            };
            for direction in directions {
                let changed = relay.change(change.route, direction, change.kind);
                changed.map_err(|error| error.to_string())?;
            }
            let line = format!("{}{change}", self.names[change.route]);
            print::note(&line);
            message += &(line + "\n");
        }
        Ok(message)
    }

    /// Describes a mistake in a line, and lists the changes that there are.
    fn mistake(&self, line: &str, reason: impl fmt::Display) -> String {
        let route = self.names.first().map_or("wifi", String::as_str);
        format!(
            "{:?}: {reason}; write `{route} rate 2Mbit/s`, `{route} delay 80ms`, \
             `{route} loss 3%`, `{route} down` or `{route} up`, with `back` behind the name for \
             the way back",
            one_line(line)
        )
    }

    fn parse(&self, line: &str) -> Result<Change, String> {
        // A name may contain spaces, and be the beginning of another.
        let names = self.names.iter().enumerate();
        let found = names.filter_map(|(index, name)| {
            let rest = line.strip_prefix(name.as_str())?;
            rest.starts_with([' ', '\t']).then_some((index, name.len()))
        });
        let Some((route, len)) = found.max_by_key(|(_, len)| *len) else {
            let first = line.split_whitespace().next().unwrap_or_default();
            if self.names.iter().any(|name| name == line) {
                return Err(self.mistake(line, "it says no change"));
            }
            let known = known_names(first, self.names.iter().map(String::as_str));
            let first = one_line(first);
            let reason = format_args!("no route is called {first:?}, known are {known}");
            return Err(self.mistake(line, reason));
        };
        let (direction, rest) = match line[len..].trim().split_once([' ', '\t']) {
            Some(("there", rest)) => (Some(LinkDirection::Forward), rest.trim()),
            Some(("back", rest)) => (Some(LinkDirection::Reverse), rest.trim()),
            _ => (None, line[len..].trim()),
        };
        let (what, value) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        let value = value.trim();
        let one_way = direction.or(Some(LinkDirection::Forward));
        let (direction, kind) = match (what, value) {
            ("rate", value) => match value.parse::<DataRate>() {
                Ok(DataRate::ZERO) => return Err(self.mistake(line, "a rate of 0 is `down`")),
                Ok(rate) => (one_way, LinkChange::Rate(rate)),
                Err(error) => return Err(self.mistake(line, error)),
            },
            ("delay", value) => match value.parse::<Duration>() {
                Ok(delay) => (one_way, LinkChange::Delay(delay)),
                Err(error) => return Err(self.mistake(line, error)),
            },
            ("loss", value) => match share(value) {
                Some(0.0) => (one_way, LinkChange::Loss(LossModel::None)),
                Some(probability) => (
                    one_way,
                    LinkChange::Loss(LossModel::Bernoulli { probability }),
                ),
                None => {
                    let reason = "a loss is a share, as in 3% or 0.03";
                    return Err(self.mistake(line, reason));
                }
            },
            ("down", "") => (direction, LinkChange::Down),
            ("up", "") => (direction, LinkChange::Up),
            (other, _) => {
                let known = known_names(other, ["rate", "delay", "loss", "down", "up"]);
                let other = one_line(other);
                let reason = format_args!("{other:?} is no change, known are {known}");
                return Err(self.mistake(line, reason));
            }
        };
        Ok(Change {
            route,
            direction,
            kind,
        })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.direction {
            Some(LinkDirection::Forward) => ", there: ",
            Some(LinkDirection::Reverse) => ", back: ",
            None => ": ",
        })?;
        match self.kind {
            LinkChange::Rate(rate) => write!(f, "rate {rate}"),
            LinkChange::Delay(delay) => write!(f, "delay {delay}"),
            LinkChange::Loss(model) => write!(f, "loss {} %", model.mean_loss_ratio() * 100.0),
            LinkChange::Down => f.write_str("down"),
            LinkChange::Up => f.write_str("up"),
        }
    }
}

/// Returns a share of 0 to 1, written as such or in per cent.
fn share(text: &str) -> Option<f64> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (0.0..=1.0).contains(&share).then_some(share)
}

/// The source of answers of `--control`.
pub(crate) struct Control(Arc<Changes>);

impl Control {
    pub(crate) fn new(changes: Arc<Changes>) -> Self {
        Control(changes)
    }

    async fn change(&self, request: Request<Incoming>) -> Answer {
        // A page of another site may post a text, but browsers then name the site.
        if request.headers().contains_key(ORIGIN) {
            return text(StatusCode::FORBIDDEN, "not for web pages\n");
        }
        let body = Limited::new(request.into_body(), MAX_BYTES).collect().await;
        let Ok(body) = body else {
            return text(StatusCode::PAYLOAD_TOO_LARGE, "at most 64 KiB of lines\n");
        };
        let lines = body.to_bytes();
        match self.0.apply(&String::from_utf8_lossy(&lines)) {
            Ok(message) => text(StatusCode::OK, message),
            Err(error) => text(StatusCode::BAD_REQUEST, error + "\n"),
        }
    }
}

impl Answerer for Control {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/") => self.change(request).await,
            (&Method::GET | &Method::HEAD, "/") => {
                let names = self.0.names.join("\n");
                text(StatusCode::OK, format!("{names}\n{CONTROL_HELP}\n"))
            }
            (_, "/") => text(StatusCode::METHOD_NOT_ALLOWED, "POST a line, or GET help\n"),
            _ => text(StatusCode::NOT_FOUND, "POST lines to /\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> Changes {
        let names = ["wifi", "wifi 2", "lte"].map(str::to_owned).to_vec();
        Changes {
            names,
            relay: Mutex::new(None),
        }
    }

    #[test]
    fn lines_name_a_route_a_way_and_a_value() {
        let changes = changes();
        for (line, expected) in [
            ("wifi rate 2Mbit/s", "wifi, there: rate 2 Mbit/s"),
            ("wifi\tback  rate  2 Mbit/s", "wifi, back: rate 2 Mbit/s"),
            ("wifi 2 delay 80ms", "wifi 2, there: delay 80 ms"),
            ("lte there loss 3%", "lte, there: loss 3 %"),
            ("lte loss 0.5", "lte, there: loss 50 %"),
            ("lte loss 0", "lte, there: loss 0 %"),
            ("lte down", "lte: down"),
            ("lte back up", "lte, back: up"),
        ] {
            let change = changes.parse(line).unwrap();
            let message = format!("{}{change}", changes.names[change.route]);
            assert_eq!(message, expected, "{line}");
        }
    }

    #[test]
    fn errors_show_valid_syntax() {
        let changes = changes();
        for (line, reason) in [
            ("wlan rate 2Mbit/s", "no route is called \"wlan\""),
            ("wifi", "it says no change"),
            ("wifi rate 2", "write a number and one of the units"),
            ("wifi rate 0", "is `down`"),
            ("wifi delay", "is not a duration"),
            ("wifi loss 300%", "as in 3% or 0.03"),
            ("wifi loss nan", "as in 3% or 0.03"),
            ("wifi down 3", "\"down\" is no change"),
            ("wifi jitter 3", "\"jitter\" is no change"),
        ] {
            let error = changes.parse(line).unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
            assert!(error.contains("write `wifi rate 2Mbit/s`"), "{error}");
        }
        assert!(changes.apply("wifi up").unwrap_err().contains("has ended"));
    }
}
