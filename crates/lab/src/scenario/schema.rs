//! JSON Schema of scenario files, for editors, made from the tables by which the readers check
//! keys. It knows shapes, not meaning: only the reader checks that a path names an existing route.

use serde_json::{Map, Value, json};

use super::expect::WINDOW_KEYS;
use super::flow::all_keys;
use super::shape::{Key, Shape};
use crate::metrics::{METRICS, Metric, Scope, Unit};

/// Returns the schema, indented: `docs/scenario.schema.json`.
pub fn schema() -> String {
    let mut root = shape(&Shape::Table(super::KEYS));
    // A key that a file lacks may be in its base.
    let required = root["required"].take();
    let based = json!({ "required": [super::base::KEY] });
    root["anyOf"] = json!([{ "required": required }, based]);
    root.as_object_mut().expect("a table").remove("required");
    root["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    root["title"] = json!("A scenario of Anabranch");
    root["definitions"] = definitions();
    let mut text = serde_json::to_string_pretty(&root).expect("keys are texts");
    text.push('\n');
    text
}

/// Returns the definitions that are used in many places.
fn definitions() -> Value {
    fn quantity(what: &str, example: &str, units: &str) -> Value {
        json!({
            "description": format!("{what}, as in \"{example}\""),
            "anyOf": [
                { "type": "string", "pattern": format!("^\\s*[0-9._]+\\s*({units})\\s*$") },
                { "enum": [0, "0"] },
            ],
        })
    }

    let mut all = Map::new();
    let (times, amounts) = ("ns|us|µs|μs|ms|s|min|h", "B|kB|KiB|MB|MiB|GB");
    let rates = "bit/s|bps|kbit/s|kbps|Mbit/s|Mbps|Gbit/s|Gbps";
    all.insert("duration".to_owned(), quantity("a time", "100 ms", times));
    all.insert("rate".to_owned(), quantity("a rate", "3 Mbit/s", rates));
    all.insert("amount".to_owned(), quantity("an amount", "64 kB", amounts));
    let queue = format!("^\\s*([0-9._]+\\s*({times}|{amounts}|packets)|unlimited)\\s*$");
    all.insert(
        "queue".to_owned(),
        json!({
            "description": "capacity of a queue, as in \"300 ms\", \"64 kB\" or \"75 packets\"",
            "type": "string",
            "pattern": queue,
        }),
    );
    all.insert(
        "share".to_owned(),
        json!({
            "description": "a share, as in \"1.5 %\" or 0.015",
            "anyOf": [
                { "type": "string", "pattern": "^\\s*[0-9.]+\\s*%\\s*$" },
                { "type": "number", "minimum": 0, "maximum": 1 },
            ],
        }),
    );
    let lists = json!({
        "description": "lists of values by key, such as links.bottleneck.rate",
        "type": "object",
        "additionalProperties": {
            "anyOf": [{ "type": "array", "minItems": 1 }, { "$ref": "#/definitions/lists" }],
        },
    });
    let mut sweep = lists.clone();
    sweep["properties"] = json!({ "zip": { "type": "array", "items": reference("lists") } });
    all.insert("lists".to_owned(), lists);
    all.insert("sweep".to_owned(), sweep);
    for (name, value) in UNITS {
        let mut bounds = table(WINDOW_KEYS);
        for end in ["min", "max"] {
            bounds["properties"][end] = shape(&value);
        }
        all.insert(
            format!("bounds-{name}"),
            json!({ "anyOf": [bounds, { "type": "array", "items": bounds }] }),
        );
    }
    Value::Object(all)
}

/// Shape of a bound in each unit.
const UNITS: [(&str, Shape); 5] = [
    ("share", Shape::Share),
    ("duration", Shape::Duration),
    ("rate", Shape::Rate),
    ("amount", Shape::Amount),
    ("number", Shape::Number(0.0, f64::MAX)),
];

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{name}") })
}

fn shape(of: &Shape) -> Value {
    match of {
        Shape::Text => json!({ "type": "string" }),
        Shape::Boolean => json!({ "type": "boolean" }),
        Shape::Duration => reference("duration"),
        Shape::Rate => reference("rate"),
        Shape::Amount => reference("amount"),
        Shape::Queue => reference("queue"),
        Shape::Share => reference("share"),
        Shape::Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Number(min, max) if *max == f64::MAX => json!({ "type": "number", "minimum": min }),
        Shape::Number(min, max) => json!({ "type": "number", "minimum": min, "maximum": max }),
        Shape::Name(names) => json!({ "enum": names() }),
        Shape::NameWithOptions(names) => {
            let names = names();
            let pattern = format!("^({})(:.*)?$", names.join("|"));
            // The names again, for editors to offer.
            json!({ "anyOf": [{ "enum": names }, { "type": "string", "pattern": pattern }] })
        }
        Shape::List(element) => json!({ "type": "array", "items": shape(element) }),
        Shape::Pair(element) => {
            let element = shape(element);
            json!({ "type": "array", "items": element, "minItems": 2, "maxItems": 2 })
        }
        Shape::Table(keys) => table(keys),
        Shape::Named(element) => json!({
            "type": "object",
            "additionalProperties": shape(element),
        }),
        Shape::Any(shapes) => json!({ "anyOf": shapes.iter().map(shape).collect::<Vec<_>>() }),
        Shape::Flow { is_default } => table(&all_keys(*is_default)),
        Shape::Expectations => expectations(),
        Shape::Sweep => reference("sweep"),
    }
}

/// Returns the schema of a table of these keys. A key that several kinds of flows have with
/// different shapes may have any of these.
fn table(keys: &[Key]) -> Value {
    let mut properties = Map::<String, Value>::new();
    for key in keys {
        let mut found = shape(&key.shape);
        let about = json!(key.about);
        if let Some(known) = properties.get(key.name) {
            let known = known["allOf"][0].clone();
            if known != found {
                found = json!({ "anyOf": [known, found] });
            }
        }
        // Beside a reference, draft 7 ignores everything.
        let property = json!({ "description": about, "allOf": [found] });
        properties.insert(key.name.to_owned(), property);
    }
    let required = keys
        .iter()
        .filter(|key| key.is_required)
        .map(|key| key.name);
    json!({
        "type": "object",
        "properties": properties,
        "required": required.collect::<Vec<_>>(),
        "additionalProperties": false,
    })
}

fn expectations() -> Value {
    fn property(metric: &Metric) -> (String, Value) {
        let bounds = reference(match metric.unit {
            Unit::Share => "bounds-share",
            Unit::Milliseconds => "bounds-duration",
            Unit::BitsPerSecond => "bounds-rate",
            Unit::Bytes => "bounds-amount",
            Unit::Number => "bounds-number",
        });
        let named = json!({ "type": "object", "additionalProperties": bounds });
        let value = match metric.scope {
            Scope::Run => bounds,
            Scope::Flow => json!({ "anyOf": [bounds, named] }),
            Scope::EachFlow | Scope::Link => named,
        };
        (metric.name.to_owned(), value)
    }
    json!({
        "type": "object",
        "properties": METRICS.iter().map(property).collect::<Map<_, _>>(),
        "additionalProperties": false,
    })
}
