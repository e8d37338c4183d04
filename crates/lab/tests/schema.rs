//! The schema for editors: as shipped, true of every scenario that is shipped, and of the same keys
//! as the reader.

use std::path::{Path, PathBuf};

use anabranch_lab::{Point, schema};
use regex::Regex;
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn parsed() -> Value {
    serde_json::from_str(&schema()).unwrap()
}

/// Returns the parts of `value` that the schema does not allow. It knows the part of JSON Schema
/// that ours uses; another keyword is an error.
fn faults(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let fault = |what: &str| vec![format!("{at}: {what}: {value}")];
    for (keyword, rule) in schema.as_object().unwrap() {
        found.extend(match keyword.as_str() {
            "$schema" | "title" | "description" | "definitions" => Vec::new(),
            "$ref" => {
                let schema = root.pointer(&rule.as_str().unwrap()[1..]).unwrap();
                faults(root, schema, value, at)
            }
            "allOf" => rule
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|all| faults(root, all, value, at))
                .collect(),
            "anyOf" => {
                let each: Vec<Vec<String>> = rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|any| faults(root, any, value, at))
                    .collect();
                let is_met = each.iter().any(Vec::is_empty);
                if is_met { Vec::new() } else { each.concat() }
            }
            "enum" if rule.as_array().unwrap().contains(value) => Vec::new(),
            "enum" => fault("none of the names"),
            "type" if is_of_type(value, rule.as_str().unwrap()) => Vec::new(),
            "type" => fault("wrong type"),
            "pattern" => match value.as_str() {
                Some(text) if !Regex::new(rule.as_str().unwrap()).unwrap().is_match(text) => {
                    fault("wrong text")
                }
                _ => Vec::new(),
            },
            "minimum" if value.as_f64() < rule.as_f64() => fault("too small"),
            "maximum" if value.as_f64() > rule.as_f64() => fault("too large"),
            "minItems" if length(value) < rule.as_u64() => fault("too few"),
            "maxItems" if length(value) > rule.as_u64() => fault("too many"),
            "minimum" | "maximum" | "minItems" | "maxItems" => Vec::new(),
            "items" => elements(value)
                .enumerate()
                .flat_map(|(index, element)| faults(root, rule, element, &format!("{at}[{index}]")))
                .collect(),
            "required" => missing(value, rule).flat_map(fault).collect(),
            "properties" => entries(value)
                .filter_map(|(key, value)| Some((rule.get(key)?, value, format!("{at}.{key}"))))
                .flat_map(|(rule, value, at)| faults(root, rule, value, &at))
                .collect(),
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                let others = entries(value)
                    .filter(|(key, _)| !known.is_some_and(|known| known.contains_key(*key)));
                others
                    .flat_map(|(key, value)| match rule {
                        Value::Bool(false) => vec![format!("{at}: unknown key {key}")],
                        rule => faults(root, rule, value, &format!("{at}.{key}")),
                    })
                    .collect()
            }
            other => panic!("the keyword {other} is not checked"),
        });
    }
    found
}

fn length(value: &Value) -> Option<u64> {
    value.as_array().map(|elements| elements.len() as u64)
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type is called {other}"),
    }
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn missing<'a>(value: &'a Value, keys: &'a Value) -> impl Iterator<Item = &'a str> {
    let keys = keys.as_array().unwrap().iter().filter_map(Value::as_str);
    keys.filter(|key| value.is_object() && value.get(key).is_none())
}

/// Returns a scenario as JSON.
fn document(text: &str) -> Value {
    let table: toml::Table = text.parse().unwrap();
    serde_json::to_value(table).unwrap()
}

/// Returns all scenario files.
fn shipped() -> Vec<PathBuf> {
    let mut folders = vec![root().join("scenarios")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                Some(ending) if ending == "toml" => files.push(path),
                _ if path.is_dir() => folders.push(path),
                _ => {}
            }
        }
    }
    assert!(files.len() >= 12, "{files:?}");
    files
}

#[test]
fn schema_file_is_current() {
    let path = root().join("docs/scenario.schema.json");
    assert!(
        std::fs::read_to_string(path).unwrap() == schema(),
        "anabranch-lab schema > docs/scenario.schema.json"
    );
}

#[test]
fn every_shipped_scenario_names_the_schema_and_keeps_to_it() {
    let schema = parsed();
    for path in shipped() {
        let text = std::fs::read_to_string(&path).unwrap();
        let line = text.lines().next().unwrap();
        let named = line
            .strip_prefix("#:schema ")
            .unwrap_or_else(|| panic!("{path:?}: {line}"));
        let named = path.parent().unwrap().join(named).canonicalize().unwrap();
        assert_eq!(
            named,
            root()
                .join("docs/scenario.schema.json")
                .canonicalize()
                .unwrap()
        );
        let faults = faults(&schema, &schema, &document(&text), "");
        assert!(faults.is_empty(), "{path:?}: {faults:#?}");
    }
}

/// A scenario that has a table of every kind.
const EVERY_TABLE: &str = include_str!("every_table.toml");

/// Returns a scenario with an unknown key, by the place at which it is put.
fn with_unknown_key(pointer: &str) -> String {
    let mut document = document(EVERY_TABLE);
    let table = document
        .pointer_mut(pointer)
        .unwrap()
        .as_object_mut()
        .unwrap();
    table.insert("no-such-key".to_owned(), json!(1));
    toml::to_string(&document).unwrap()
}

/// Collects all tables of a document, by the pointers to them.
fn tables(value: &Value, pointer: &str, found: &mut Vec<String>) {
    if value.is_object() {
        found.push(pointer.to_owned());
    }
    for (key, value) in entries(value) {
        tables(value, &format!("{pointer}/{key}"), found);
    }
    for (index, element) in elements(value).enumerate() {
        tables(element, &format!("{pointer}/{index}"), found);
    }
}

/// Returns the keys that the schema allows beside `no-such-key` at a place, of every table that it
/// may be and, by its own kind, is.
fn allowed(root: &Value, schema: &Value, path: &[&str], value: &Value, keys: &mut Vec<String>) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return allowed(
            root,
            root.pointer(&reference[1..]).unwrap(),
            path,
            value,
            keys,
        );
    }
    for any in ["anyOf", "allOf"] {
        for schema in schema.get(any).into_iter().flat_map(elements) {
            allowed(root, schema, path, value, keys);
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let Some((first, rest)) = path.split_first() else {
        keys.extend(
            properties
                .filter(|properties| match properties.get("kind") {
                    Some(kind) if !properties.contains_key("paths") => {
                        faults(root, kind, &value["kind"], "").is_empty()
                    }
                    _ => true,
                })
                .into_iter()
                .flat_map(|known| known.keys().cloned()),
        );
        return;
    };
    let next = match first.parse::<usize>() {
        Ok(_) => schema.get("items"),
        Err(_) => properties.and_then(|known| known.get(*first)).or_else(|| {
            schema
                .get("additionalProperties")
                .filter(|rule| rule.is_object())
        }),
    };
    if let Some(next) = next {
        allowed(root, next, rest, value, keys);
    }
}

#[test]
fn the_reader_and_the_schema_know_the_same_keys_of_every_table() {
    let schema = parsed();
    let example = document(EVERY_TABLE);
    assert!(faults(&schema, &schema, &example, "").is_empty());
    Point::parse("every.toml", EVERY_TABLE, &[]).unwrap_or_else(|error| panic!("{error}"));
    let mut pointers = Vec::new();
    tables(&example, "", &mut pointers);
    let mut compared = 0;
    for pointer in pointers {
        let error = Point::parse("every.toml", &with_unknown_key(&pointer), &[])
            .map(|_| pointer.clone())
            .expect_err("an unknown key is read")
            .to_string();
        // In a table whose keys are names, the reader rejects the value instead.
        let Some((_, known)) = error.split_once("unknown key; known are ") else {
            continue;
        };
        let mut known: Vec<String> = known.split(", ").map(str::to_owned).collect();
        let path: Vec<&str> = pointer.split('/').skip(1).collect();
        let mut keys = Vec::new();
        let value = example.pointer(&pointer).unwrap();
        allowed(&schema, &schema, &path, value, &mut keys);
        for keys in [&mut keys, &mut known] {
            keys.sort();
            keys.dedup();
        }
        if pointer.starts_with("/flows/") && path.len() == 2 {
            // A flow's kind is not known to the schema: it may come from the defaults.
            assert!(
                known.iter().all(|key| keys.contains(key)),
                "{pointer}: {known:?}"
            );
        } else {
            assert_eq!(keys, known, "{pointer}");
        }
        compared += 1;
    }
    assert!(compared >= 25, "{compared}");
}

#[test]
fn schema_refuses_invalid_values_of_the_reader() {
    let schema = parsed();
    for (pointer, wrong) in [
        ("/duration", json!("60")),
        ("/duration", json!(60)),
        ("/links/up/rate", json!("3 MB")),
        ("/links/up/queue", json!("much")),
        ("/links/up/loss", json!(1.5)),
        ("/links/up/loss", json!("5")),
        ("/flows/0/count", json!(0)),
        ("/flows/0/controller", json!("bbrr")),
        ("/flows/0/ecn", json!("yes")),
        ("/flows/0/source", json!("webcam")),
        (
            "/flows/0/source",
            json!({ "kind": "cbr", "min": "1 Mbit/s" }),
        ),
        ("/flows/0/paths", json!("there")),
        ("/expect/loss/max", json!("1 ms")),
        ("/expect/jain/0/outside", json!(["1 s"])),
    ] {
        let mut document = document(EVERY_TABLE);
        *document
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("{pointer}")) = wrong;
        assert!(
            !faults(&schema, &schema, &document, "").is_empty(),
            "{document}"
        );
        let text = toml::to_string(&document).unwrap();
        assert!(Point::parse("every.toml", &text, &[]).is_err(), "{pointer}");
    }
}
