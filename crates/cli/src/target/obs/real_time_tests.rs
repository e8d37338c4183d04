use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use tungstenite::handshake::server::{ErrorResponse, Request, Response};

use super::tests::{CHALLENGE, SALT};
use super::*;

#[allow(clippy::result_large_err, reason = "the library's")]
fn accept(request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    let protocol = request.headers()["Sec-WebSocket-Protocol"].clone();
    assert_eq!(protocol, "obswebsocket.json");
    let headers = response.headers_mut();
    headers.insert("Sec-WebSocket-Protocol", protocol);
    Ok(response)
}

fn say(socket: &mut WebSocket<TcpStream>, op: u8, data: Value) {
    let text = json!({"op": op, "d": data}).to_string();
    socket.send(Message::text(text)).unwrap();
}

fn text(data: &Value, name: &str) -> String {
    data[name].as_str().unwrap().to_owned()
}

/// Simulation of OBS: its encoder takes the bitrate of the chosen profile.
#[derive(Default)]
struct Fake {
    password: Option<&'static str>,
    mode: &'static str,
    is_streaming: bool,
    /// Bitrate of each profile, in kbit/s.
    bitrates: BTreeMap<String, u64>,
    chosen: String,
    /// Bitrates that the running encoder was given, in order.
    encoder: Vec<u64>,
}

impl Fake {
    fn with_profiles(profiles: &[&str]) -> Fake {
        let bitrates = profiles.iter().map(|name| ((*name).to_owned(), 2_500));
        Fake {
            mode: "Simple",
            is_streaming: true,
            bitrates: bitrates.collect(),
            chosen: "Mine".to_owned(),
            ..Fake::default()
        }
    }

    /// Serves one connection; returns its final state.
    fn serve(mut self) -> (SocketAddr, thread::JoinHandle<Fake>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut socket = tungstenite::accept_hdr(stream, accept).unwrap();
            let mut hello = json!({"obsWebSocketVersion": "5.1.0", "rpcVersion": 1});
            if self.password.is_some() {
                hello["authentication"] = json!({"challenge": CHALLENGE, "salt": SALT});
            }
            say(&mut socket, 0, hello);
            while let Ok(Message::Text(text)) = socket.read() {
                let message: Value = serde_json::from_str(&text).unwrap();
                let data = &message["d"];
                if message["op"] == 1 {
                    let expected = self
                        .password
                        .map(|password| authentication(password, SALT, CHALLENGE));
                    if data["authentication"].as_str() != expected.as_deref() {
                        let _ = socket.close(None);
                        break;
                    }
                    // An event that nobody subscribed to.
                    say(&mut socket, 5, json!({"eventType": "ExitStarted"}));
                    say(&mut socket, 2, json!({"negotiatedRpcVersion": 1}));
                    continue;
                }
                assert_eq!(message["op"], 6, "{message}");
                let answer = self.answer(&data["requestType"], &data["requestData"]);
                let status = json!({"result": answer.is_some(), "comment": "no such profile"});
                let answer = json!({
                    "requestId": data["requestId"],
                    "requestStatus": status,
                    "responseData": answer,
                });
                say(&mut socket, 7, answer);
            }
            self
        });
        (address, thread)
    }

    fn answer(&mut self, request: &Value, data: &Value) -> Option<Value> {
        match request.as_str().unwrap() {
            "GetProfileParameter" => match &*text(data, "parameterName") {
                "Mode" => Some(json!({"parameterValue": self.mode})),
                _ => Some(json!({"parameterValue": null, "defaultParameterValue": "160"})),
            },
            "SetProfileParameter" => {
                assert_eq!(text(data, "parameterName"), "VBitrate");
                let kbit = text(data, "parameterValue").parse().unwrap();
                self.bitrates.insert(self.chosen.clone(), kbit);
                Some(json!({}))
            }
            "GetStreamStatus" => Some(json!({"outputActive": self.is_streaming})),
            "GetProfileList" => {
                let profiles: Vec<_> = self.bitrates.keys().collect();
                Some(json!({"currentProfileName": self.chosen, "profiles": profiles}))
            }
            "SetCurrentProfile" => {
                let name = text(data, "profileName");
                let kbit = *self.bitrates.get(&name)?;
                self.chosen = name;
                if self.is_streaming {
                    self.encoder.push(kbit);
                }
                Some(json!({}))
            }
            other => panic!("{other}"),
        }
    }
}

fn obs(address: SocketAddr, password: Option<&str>) -> Obs {
    Obs {
        address,
        password: password.map(str::to_owned),
        profile: PROFILE.to_owned(),
        report_filter: TargetFilter::every(INTERVAL),
        link: None,
        retry_at: Instant::ZERO,
        said: String::new(),
    }
}

#[test]
fn running_encoder_follows_the_target() {
    let mut fake = Fake::with_profiles(&["Mine", PROFILE]);
    fake.password = Some("secretword");
    let (address, served) = fake.serve();
    let mut obs = obs(address, Some("secretword"));
    for megabits in [4, 2, 1] {
        let target = DataRate::from_megabits_per_second(megabits);
        obs.send_bitrate(target).unwrap();
    }
    drop(obs);
    let fake = served.join().unwrap();
    // Each bitrate is the target minus audio and container, after a moment with the previous one.
    assert_eq!(fake.encoder, [2_500, 3_649, 3_649, 1_744, 1_744, 792]);
    assert_eq!(fake.chosen, "Mine");
    assert_eq!(fake.bitrates["Mine"], 792);
}

#[test]
fn without_a_duplicate_it_counts_from_the_next_start_and_that_is_said() {
    let (address, served) = Fake::with_profiles(&["Mine"]).serve();
    let mut obs = obs(address, None);
    obs.send_bitrate(DataRate::from_megabits_per_second(2))
        .unwrap();
    assert!(obs.said.contains("Profile, Duplicate"), "{}", obs.said);
    drop(obs);
    let fake = served.join().unwrap();
    assert_eq!((fake.encoder, fake.bitrates["Mine"]), (vec![], 1_744));
}

#[test]
fn a_stream_that_does_not_run_needs_no_other_profile() {
    let mut fake = Fake::with_profiles(&["Mine"]);
    fake.is_streaming = false;
    let (address, served) = fake.serve();
    let mut obs = obs(address, None);
    obs.send_bitrate(DataRate::from_megabits_per_second(2))
        .unwrap();
    assert_eq!(obs.said, "");
    drop(obs);
    assert_eq!(served.join().unwrap().bitrates["Mine"], 1_744);
}

/// Returns the error of setting a bitrate.
fn error(fake: Fake, password: Option<&str>) -> String {
    let (address, served) = fake.serve();
    let target = DataRate::from_megabits_per_second(2);
    let error = obs(address, password).send_bitrate(target).unwrap_err();
    served.join().unwrap();
    format!("{error:#}")
}

fn locked() -> Fake {
    let mut fake = Fake::with_profiles(&["Mine"]);
    fake.password = Some("secretword");
    fake
}

#[test]
fn errors_name_the_problem() {
    let mut fake = Fake::with_profiles(&["Mine"]);
    fake.mode = "Advanced";
    assert!(error(fake, None).contains("the simple one"));
    assert!(error(locked(), None).contains("?password-file=FILE"));
    assert!(error(locked(), Some("wrong")).contains("does not let us in"));
    let mut fake = Fake::with_profiles(&["Mine", PROFILE]);
    fake.chosen = PROFILE.to_owned();
    assert!(error(fake, None).contains("choose yours"));
    let target = DataRate::from_megabits_per_second(2);
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let error = obs(nowhere, None).send_bitrate(target).unwrap_err();
    assert!(error.to_string().contains("cannot reach it"), "{error:#}");
}
