//! Mistakes get answers that name the remedy, and no request panics.

use anabranch_units::Seed;
use anabranch_wasm::Playground;
use serde_json::{Value, json};

const TEXT: &str = r#"duration = "2 s"
links.up = { rate = "3 Mbit/s", delay = "20 ms" }
routes.only = { forward = ["up"], reverse = ["up"] }
[[flows]]
name = "camera"
paths = ["only"]
source = { kind = "ideal", min = "300 kbit/s", max = "1 Mbit/s" }
"#;

fn error(playground: &mut Playground, request: &Value) -> Value {
    let answer: Value = serde_json::from_str(&playground.call(&request.to_string())).unwrap();
    assert!(answer["ok"].is_null(), "{request}: {}", answer["ok"]);
    answer["error"].clone()
}

fn ok(playground: &mut Playground, request: &Value) -> Value {
    let answer: Value = serde_json::from_str(&playground.call(&request.to_string())).unwrap();
    assert!(answer["error"].is_null(), "{request}: {}", answer["error"]);
    answer["ok"].clone()
}

#[test]
fn mistakes_of_scenarios_have_their_lines() {
    let playground = &mut Playground::default();
    let [syntax, key, value, file] = [
        "duration = \"1 s\"\nlinks = [",
        &TEXT.replace("delay", "dealy"),
        &TEXT.replace("20 ms", "20 m"),
        &format!("base = \"other.toml\"\n{TEXT}"),
    ]
    .map(|text| error(playground, &json!({ "op": "check", "text": text })));
    assert_eq!(syntax["line"], 2, "{syntax}");
    assert_eq!(
        (&key["line"], &key["key"]),
        (&json!(2), &json!("links.up.dealy"))
    );
    assert!(key["message"].as_str().unwrap().contains("delay"), "{key}");
    assert_eq!(value["line"], 2, "{value}");
    assert_eq!(file["line"], 1, "{file}");
    assert!(
        file["message"].as_str().unwrap().contains("other.toml"),
        "{file}"
    );
}

#[test]
fn unknown_names_are_answered_by_the_known_ones() {
    let playground = &mut Playground::default();
    for key in ["controller", "scheduler"] {
        let request = json!({ "op": "check", "text": TEXT, key: "cubik" });
        let message = error(playground, &request)["message"].to_string();
        assert!(
            message.contains(key) && message.contains("known are"),
            "{message}"
        );
    }
    let setting = json!({ "op": "check", "text": TEXT, "settings": ["links.wifi.rate=1"] });
    let message = error(playground, &setting)["message"].to_string();
    assert!(
        message.contains("links.wifi") && message.contains("up"),
        "{message}"
    );
}

#[test]
fn odd_values_change_nothing() {
    let playground = &mut Playground::default();
    let run = ok(playground, &json!({ "op": "start", "text": TEXT }))["run"].clone();
    ok(
        playground,
        &json!({ "op": "advance", "run": run, "until_ms": 500 }),
    );
    for (property, value) in [
        ("rate", json!(-1)),
        ("rate", json!(1e30)),
        ("delay", json!(1e9)),
        ("loss", json!(1.5)),
        ("loss", json!("much")),
        ("colour", json!(1)),
    ] {
        let change = json!({
            "op": "change",
            "run": run,
            "link": "up",
            "property": property,
            "value": value,
        });
        error(playground, &change);
    }
    let link = json!({ "op": "change", "run": run, "link": "no", "property": "loss", "value": 0 });
    assert!(
        error(playground, &link)["message"]
            .to_string()
            .contains("no link is called")
    );
    for until_ms in [json!(-5), json!(100), json!(1e300)] {
        ok(
            playground,
            &json!({ "op": "advance", "run": run, "until_ms": until_ms }),
        );
    }
    let whole = ok(playground, &json!({ "op": "run", "text": TEXT }));
    let last = ok(
        playground,
        &json!({ "op": "advance", "run": run, "until_ms": 9e9 }),
    );
    assert_eq!(last["hash"], whole["runs"][0]["trace_hash"]);
}

#[test]
fn there_are_at_most_four_live_runs() {
    let playground = &mut Playground::default();
    let start = json!({ "op": "start", "text": TEXT });
    for run in 0..4 {
        assert_eq!(ok(playground, &start)["run"], run);
    }
    assert!(
        error(playground, &start)["message"]
            .to_string()
            .contains("stop one")
    );
    ok(playground, &json!({ "op": "stop", "run": 2 }));
    assert_eq!(ok(playground, &start)["run"], 4);
    error(
        playground,
        &json!({ "op": "advance", "run": 2, "until_ms": 1 }),
    );
}

/// Cuts and changes of bytes of valid requests.
#[test]
fn no_request_panics() {
    let mut rng = Seed(1).rng();
    let valid = [
        json!({ "op": "check", "text": TEXT, "settings": ["duration=1 s"], "controller": "bbr3" }),
        json!({ "op": "start", "text": TEXT, "changes": [
            { "at_ms": 5, "link": "up", "property": "rate", "value": 1e6 },
        ] }),
        json!({ "op": "advance", "run": 0, "until_ms": 30 }),
        json!({ "op": "change", "run": 0, "link": "up", "property": "delay", "value": 3 }),
        json!({ "op": "stop", "run": 0 }),
    ];
    let playground = &mut Playground::default();
    for _ in 0..3_000 {
        let mut bytes = valid[rng.below(5) as usize].to_string().into_bytes();
        for _ in 0..rng.below(4) {
            let place = rng.below(bytes.len() as u64) as usize;
            bytes[place] = rng.next_u64() as u8;
        }
        if rng.chance(0.2) {
            bytes.truncate(rng.below(bytes.len() as u64) as usize);
        }
        let answer = playground.call(&String::from_utf8_lossy(&bytes));
        assert!(
            answer.starts_with("{\"error\":") || answer.starts_with("{\"ok\":"),
            "{answer}"
        );
    }
}
