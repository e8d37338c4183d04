//! The interface's description and the program, held together.

use std::collections::BTreeSet;

use hyper::Request;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::*;

const FILE: &str = include_str!("../../../../docs/control.openapi.json");

fn file() -> Value {
    serde_json::from_str(FILE).unwrap()
}

fn schema(name: &str) -> Value {
    file()["components"]["schemas"][name].clone()
}

fn keys(object: &Value) -> BTreeSet<String> {
    let keys = object.as_object().unwrap().keys();
    keys.cloned().collect()
}

fn required(schema: &Value) -> BTreeSet<String> {
    let names = schema["required"].as_array().unwrap().iter();
    names
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

/// Returns the name behind `$ref`.
fn referred(schema: &Value) -> &str {
    let reference = schema["$ref"].as_str().unwrap();
    reference.strip_prefix("#/components/schemas/").unwrap()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Returns a change of each kind with all fields.
fn all_changes() -> Vec<Change> {
    let (stream, output) = (some("camera"), "udp://127.0.0.1:6000".to_owned());
    let with_output = OutputChange {
        stream: stream.clone(),
        output,
    };
    let recording = RecordingChange {
        stream: stream.clone(),
    };
    vec![
        Change::Path(PathChange {
            stream: stream.clone(),
            path: "wwan0".to_owned(),
            on: Some(true),
            metered: Some(false),
            cap: some("10GB"),
            max: some("none"),
        }),
        Change::Target(TargetChange {
            stream: stream.clone(),
            min: some("500kbit/s"),
            max: some("6Mbit/s"),
        }),
        Change::Latency(LatencyChange {
            stream,
            latency: "800 ms".to_owned(),
        }),
        Change::OutputAdd(with_output.clone()),
        Change::OutputRemove(with_output),
        Change::RecordingStart(recording.clone()),
        Change::RecordingStop(recording),
        Change::SessionEnd(SessionEnd {
            stream: "camera".to_owned(),
            keep_out: some("10 min"),
        }),
        Change::SessionAllow(SessionAdmission {
            stream: "camera".to_owned(),
        }),
        Change::Link(LinkAddition {
            name: some("van"),
            phone: some("moblin"),
        }),
        Change::Reload(Reload {}),
    ]
}

/// Returns the content of a change without its name.
fn content(change: &Change) -> Value {
    let named = serde_json::to_value(change).unwrap();
    named[change.name()].clone()
}

/// Checks that a value has the type that a schema states.
fn check_type(schema: &Value, value: &Value, at: &str) {
    let of = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let stated = &schema["type"];
    let names = match stated {
        Value::Array(names) => names.as_slice(),
        name => core::slice::from_ref(name),
    };
    let is_right = names
        .iter()
        .any(|name| *name == of || (*name == "number" && of == "integer"));
    assert!(is_right, "{at} is {of}, and stated as {stated}");
}

#[test]
fn each_path_and_method_of_the_file_is_answered_and_none_else() {
    let file = file();
    let of_file = keys(&file["paths"]);
    let changes = Change::PATHS
        .iter()
        .map(|(path, _)| format!("/control/{path}"));
    let of_program: BTreeSet<String> = changes.chain([ROOT, LINKS].map(str::to_owned)).collect();
    assert_eq!(of_file, of_program);
    let (desk, _orders) = desk();
    let token: Token = "0123456789abcdef".parse().unwrap();
    let controls = Controls::new(token, desk);
    for (path, methods) in file["paths"].as_object().unwrap() {
        for method in ["get", "post", "put", "patch", "delete", "options"] {
            let request = Request::builder()
                .method(&*method.to_uppercase())
                .uri(path)
                .header("authorization", "Bearer 0123456789abcdef")
                .header("content-type", "application/json");
            let (head, ()) = request.body(()).unwrap().into_parts();
            let checked = controls.check(&head, [127, 0, 0, 1].into(), None);
            let is_stated = methods.get(method).is_some();
            assert_eq!(checked.is_ok(), is_stated, "{method} {path}: {checked:?}");
        }
    }
}

/// Reads the body of a request for a change.
fn read(path: &str, body: &Value) -> Result<Change, String> {
    let below = path.strip_prefix("/control/").unwrap();
    Change::read(below, &serde_json::to_vec(body).unwrap())
}

#[test]
fn each_field_of_a_change_is_in_the_file_and_is_read() {
    let file = file();
    let changes = all_changes();
    assert_eq!(changes.len(), Change::PATHS.len());
    for change in changes {
        let path = change.path();
        let operation = &file["paths"][&path]["post"];
        assert_eq!(operation["operationId"], change.name());
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let schema = schema(referred(body));
        let whole = content(&change);
        assert_eq!(keys(&whole), keys(&schema["properties"]), "{path}");
        assert_eq!(schema["additionalProperties"], false, "{path}");
        assert_eq!(read(&path, &whole), Ok(change.clone()));
        for (name, value) in whole.as_object().unwrap() {
            check_type(
                &schema["properties"][name],
                value,
                &format!("{path}: {name}"),
            );
            let mut less = whole.clone();
            less.as_object_mut().unwrap().remove(name);
            let is_required = required(&schema).contains(name);
            assert_eq!(
                read(&path, &less).is_err(),
                is_required,
                "{path} without {name}"
            );
        }
        let mut more = whole.clone();
        more["colour"] = "red".into();
        let error = read(&path, &more).unwrap_err();
        assert!(error.contains("colour"), "{error}");
        assert!(read(&path, &Value::Null).is_err());
        assert!(read(&path, &"path".into()).is_err());
    }
}

#[test]
fn each_field_of_an_answer_is_in_the_file() {
    let path = PathControl {
        cap_bytes: Some(1),
        max_bps: Some(1),
        ..PathControl::default()
    };
    let stream = StreamControl {
        latency_s: Some(0.5),
        outputs: vec![OutputState::default()],
        ..StreamControl::default()
    };
    let kept_out = KeptOut {
        for_s: 1.5,
        ..KeptOut::default()
    };
    let state = ControlState {
        target: Some(TargetControl::default()),
        streams: vec![stream],
        kept_out: vec![kept_out],
        paths: vec![path],
        ..ControlState::default()
    };
    let value = serde_json::to_value(&state).unwrap();
    let links = Links {
        links: vec![JoinLink {
            stream: some("van"),
            fields: some("srt://studio.example:5001"),
            qr_code: vec!["1".to_owned()],
            ..JoinLink::default()
        }],
    };
    let links = serde_json::to_value(&links).unwrap();
    for (name, value) in [
        ("Links", &links),
        ("JoinLink", &links["links"][0]),
        ("ControlState", &value),
        ("PathControl", &value["paths"][0]),
        ("TargetControl", &value["target"]),
        ("StreamControl", &value["streams"][0]),
        ("OutputState", &value["streams"][0]["outputs"][0]),
        ("KeptOut", &value["kept_out"][0]),
        ("Done", &serde_json::to_value(Done { done: "x" }).unwrap()),
        (
            "Mistake",
            &serde_json::to_value(Mistake { error: "x" }).unwrap(),
        ),
    ] {
        let schema = schema(name);
        assert_eq!(keys(value), keys(&schema["properties"]), "{name}");
        assert_eq!(keys(value), required(&schema), "{name}");
        for (field, value) in value.as_object().unwrap() {
            if field != "target" {
                check_type(&schema["properties"][field], value, field);
            }
        }
    }
    assert_eq!(read_back::<ControlState>(&value), state);
}

fn read_back<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn each_status_of_an_answer_is_in_the_file() {
    let refused = [
        Refusal::NotHere,
        Refusal::TooMany,
        Refusal::ForeignPage,
        Refusal::TokenInAddress,
        Refusal::NoToken,
        Refusal::WrongToken,
        Refusal::ReadingToken,
        Refusal::NoJson,
        Refusal::TooLong,
        Refusal::Malformed(String::new()),
        Refusal::Busy,
        Refusal::Ending,
        Refusal::Silent,
    ];
    let of_door = refused.iter().map(|refused| refused.status());
    let text = String::new;
    let of_program = [
        desk::Refused::Wrong(text()),
        desk::Refused::Unknown(text()),
        desk::Refused::NotNow(text()),
        desk::Refused::Silent(text()),
    ];
    let of_program = of_program.iter().map(Refused::status);
    let all: BTreeSet<String> = of_door
        .chain(of_program)
        .chain([StatusCode::OK])
        .map(|status| status.as_str().to_owned())
        .collect();
    let file = file();
    for (path, methods) in file["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let stated = keys(&operation["responses"]);
            match method.as_str() {
                "post" => assert_eq!(stated, all, "{path}"),
                _ => assert!(stated.is_subset(&all), "{path}"),
            }
        }
    }
    let names = &file["components"]["schemas"]["ControlState"]["properties"]["changes"];
    let names: Vec<&str> = { names["items"]["enum"].as_array().unwrap() }
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    assert_eq!(names, Change::PATHS.map(|(_, name)| name));
}
