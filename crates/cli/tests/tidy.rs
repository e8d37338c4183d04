//! The house rules that a machine can check, over the whole workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arrows::{Crate, arrows_up, circles};
use crate::code_lines::code_lines;
use crate::fields::Fields;

const MAX_LINES: usize = 600;
const MAX_COLUMNS: usize = 100;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns every file with this ending under `folder`, with its text.
fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    let root = workspace();
    let mut found = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().into_string().unwrap();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(ending) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((
                    path.strip_prefix(&root).unwrap().display().to_string(),
                    text,
                ));
            }
        }
    }
    assert!(!found.is_empty(), "no {ending} file under {folder}");
    found.sort();
    found
}

/// Returns our crates that each of our crates depends on; its tests may use more.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in files("crates", "Cargo.toml") {
        let manifest: toml::Table = text.parse().unwrap();
        let name = path.split('/').nth(1).unwrap().to_owned();
        let dependencies = manifest.get("dependencies").and_then(|d| d.as_table());
        let ours = dependencies
            .into_iter()
            .flatten()
            .filter_map(|(name, _)| name.strip_prefix("anabranch-").map(str::to_owned));
        graph.entry(name).or_default().extend(ours);
    }
    graph
}

/// Our crates that a crate may know, for those that may know few.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("core", &["fec", "units"]),
    ("fec", &["units"]),
    ("link", &["units"]),
    ("controllers", &["core", "units"]),
    ("schedulers", &["core", "fec", "units"]),
    ("mux", &[]),
    ("srt", &["units"]),
    ("srtla", &["units"]),
    (
        "terminal",
        &["controllers", "core", "net", "schedulers", "units"],
    ),
    (
        "mpegts-io",
        &[
            "bond", "core", "net", "srt", "srtla", "terminal", "units", "video", "viewers",
        ],
    ),
    (
        "observe",
        &[
            "core", "net", "secure", "terminal", "units", "video", "viewers",
        ],
    ),
    ("viewers", &["net", "units", "video"]),
    ("bond", &["core", "net", "srtla", "units"]),
    ("capi", &["embed"]),
    (
        "embed",
        &[
            "bond",
            "controllers",
            "core",
            "net",
            "schedulers",
            "secure",
            "srt",
            "srtla",
            "units",
            "video",
        ],
    ),
    ("mobile", &["embed"]),
    ("tunnel", &["net", "observe", "secure", "terminal", "units"]),
];

#[test]
fn arrows_between_crates_that_must_never_be() {
    let graph = dependencies();
    for (name, allowed) in ALLOWED_DEPENDENCIES {
        for dependency in &graph[*name] {
            assert!(
                allowed.contains(&dependency.as_str()),
                "{name} needs {dependency}"
            );
        }
    }
    assert!(
        graph["units"].is_empty(),
        "units depends on nothing of ours"
    );
    let worlds = ["sim", "emu", "net"];
    for world in worlds {
        for other in worlds {
            assert!(
                !graph[world].contains(other),
                "{world} must not know {other}"
            );
        }
    }
    for (name, dependencies) in &graph {
        for program in ["cli", "lab-cli"] {
            // Parsers of the command line's files are fuzzed, too.
            let is_fuzzed = name == "fuzzing" && program == "cli";
            assert!(
                is_fuzzed || !dependencies.contains(program),
                "{name} must not know {program}"
            );
        }
        assert!(
            ["lab-cli", "python"].contains(&&**name) || !dependencies.contains("papers"),
            "{name} must not know papers"
        );
    }
}

/// A program over sockets contains no simulated network: `link` is an optional dependency of the
/// runtime, which only the feature for tests turns on.
#[test]
fn the_runtime_knows_links_in_tests_alone() {
    let manifest: toml::Table = fs::read_to_string(workspace().join("crates/net/Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    let is_optional = manifest["dependencies"]["anabranch-link"]["optional"].as_bool();
    assert_eq!(is_optional, Some(true));
    let features = manifest["features"].as_table().unwrap();
    let names: Vec<&str> = features.keys().map(String::as_str).collect();
    assert_eq!(names, ["testing"], "no default");
}

#[test]
fn pure_crates_know_no_clock_socket_thread_or_file() {
    let forbidden = [
        ("std::net", "sockets are the drivers'"),
        ("std::time", "time is handed in"),
        ("std::thread", "threads are the drivers'"),
        ("std::fs", "files are the program's"),
        ("tokio", "no runtime"),
        ("rand::", "chance is derived from the seed"),
        ("log::", "events and counters report changes"),
        ("println!", "events and counters report changes"),
    ];
    for name in [
        "units",
        "core",
        "controllers",
        "fec",
        "schedulers",
        "link",
        "mux",
        "secure",
        "sim",
        "srt",
        "srtla",
    ] {
        for (path, text) in files(&format!("crates/{name}/src"), ".rs") {
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            for (line, number) in code.zip(1..) {
                // Keys and cookies must come from the system's randomness. Threads that move a
                // simulation's flows do not change its results.
                for (token, reason) in forbidden {
                    let is_exempt = match token {
                        "rand::" => name == "secure" && line.contains("ring::rand::"),
                        "std::thread" => path == "crates/sim/src/world/threads.rs",
                        _ => false,
                    };
                    assert!(
                        !line.contains(token) || is_exempt,
                        "{path}, code line {number}: {token}: {reason}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_programs_speak_in_one_place() {
    let folders = [
        "cli",
        "lab-cli",
        "mpegts-io",
        "observe",
        "terminal",
        "tunnel",
    ];
    let sources = folders.map(|name| files(&format!("crates/{name}/src"), ".rs"));
    for (path, text) in sources.into_iter().flatten() {
        let is_reported = ["println!", "print!("]
            .iter()
            .any(|token| text.contains(token));
        assert!(
            !is_reported,
            "{path} prints by itself, and panics when its reader goes away"
        );
    }
}

/// Modules in the root of the core. Each uses only those above it in this list.
const LAYERS_OF_CORE: [&str; 26] = [
    "factory",
    "questions",
    "send_reason",
    "sender_rules",
    "copies",
    "fragment",
    "invariants",
    "counters",
    "pacer",
    "forecast",
    "path_view",
    "reinjection",
    "session_view",
    "wire",
    "recovery",
    "control",
    "scheduler",
    "fec",
    "config",
    "liveness",
    "standby",
    "media",
    "stream",
    "path",
    "session",
    "fuzzing",
];

/// Returns the files of a crate: their paths from `src/` on, and their texts.
fn files_of_crate(name: &str) -> Vec<(String, String)> {
    let src = format!("crates/{name}/src/");
    files(&src, ".rs")
        .into_iter()
        .map(|(path, text)| (path.trim_start_matches(&src).to_owned(), text))
        .collect()
}

/// Returns a crate's files, read for arrows between them.
fn crate_of(name: &str) -> Crate {
    let sources = files_of_crate(name);
    Crate::new(
        sources
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str())),
    )
}

#[test]
fn files_of_no_crate_use_one_another_in_a_circle() {
    for name in dependencies().keys() {
        let arrows = crate_of(name).arrows();
        if let Some(circle) = circles(&arrows).first() {
            let uses: Vec<(&String, Vec<&String>)> = circle
                .iter()
                .map(|from| (from, arrows[from].intersection(circle).collect()))
                .collect();
            panic!("{name}: files that use one another, and the uses: {uses:#?}");
        }
    }
}

/// A field without readers is dead, and one without a second value is a constant or a fault.
#[test]
fn every_field_is_read_and_set_somewhere() {
    let mut fields = Fields::default();
    for (_, text) in files("crates", ".rs") {
        fields.add(&text);
    }
    assert_eq!(fields.unread(), [""; 0], "no code reads them");
    assert_eq!(fields.unset(), [""; 0], "they keep one constant");
}

#[test]
fn files_of_the_core_have_no_arrows_up() {
    let core = crate_of("core");
    let listed: BTreeSet<String> = LAYERS_OF_CORE.map(str::to_owned).into();
    assert_eq!(
        core.top_modules(),
        listed,
        "LAYERS_OF_CORE lists each module"
    );
    let arrows = core.arrows();
    let up = arrows_up(&arrows, &LAYERS_OF_CORE);
    assert!(
        up.is_empty(),
        "uses of modules that are further up: {up:#?}"
    );
}

fn is_in(module: &str, top: &str) -> bool {
    module.split("::").next() == Some(top)
}

#[test]
fn arrows_inside_the_core_that_must_never_be() {
    let core = crate_of("core");
    let arrows = core.arrows();
    for (user, forbidden) in [
        ("scheduler", ["control", "session"].as_slice()),
        ("fec", &["control", "session"]),
        ("control", &["media", "session", "scheduler"]),
        // Dependencies run from control to recovery to wire, never back.
        ("recovery", &["control", "session", "scheduler"]),
        ("wire", &["control", "recovery", "session", "scheduler"]),
    ] {
        for module in forbidden.iter().chain([&user]) {
            let is_known = core.top_modules().contains(*module);
            assert!(is_known, "the core has no module {module}: was it renamed?");
        }
        for (from, to) in arrows.iter().filter(|(from, _)| is_in(from, user)) {
            for used in to {
                let is_forbidden = forbidden.iter().any(|top| is_in(used, top));
                assert!(!is_forbidden, "{from} uses {used}");
            }
        }
    }
}

/// Most methods on sessions, whose every method sees every field. The number only falls: state and
/// its rules belong to parts of a session, which get other state as parameters.
const MAX_SESSION_METHODS: usize = 74;

#[test]
fn sessions_have_few_methods() {
    let core = crate_of("core");
    let of = ["Session", "MediaSession", "StreamSession"];
    let counts = of.map(|name| core.method_count(name));
    let count: usize = counts.iter().sum();
    assert!(
        counts.iter().all(|count| *count > 0),
        "{counts:?}: was one renamed?"
    );
    assert!(
        count <= MAX_SESSION_METHODS,
        "{of:?} have {counts:?} methods, more than {MAX_SESSION_METHODS}"
    );
}

/// Most lines of code of the core. The number falls with its parts; a new one has to be worth it.
const MAX_CODE_LINES_OF_CORE: usize = 15_996;

#[test]
fn the_core_is_small() {
    let files = files_of_crate("core");
    let sources = files.iter().map(|(path, text)| (path.clone(), text));
    let lines = code_lines(&sources.collect::<Vec<_>>());
    println!("lines of code of the core, without tests: {lines}");
    assert!(lines > 10_000, "{lines}: are the files read?");
    assert!(lines <= MAX_CODE_LINES_OF_CORE, "{lines}");
}

#[test]
fn files_are_short_and_lines_narrow() {
    for (path, text) in files("crates", ".rs")
        .into_iter()
        .chain(files("fuzz/fuzz_targets", ".rs"))
    {
        let lines = text.lines().count();
        assert!(
            lines <= MAX_LINES,
            "{path} has {lines} lines; split it by its ideas"
        );
        for (line, number) in text.lines().zip(1..) {
            let columns = line.chars().count();
            assert!(
                columns <= MAX_COLUMNS,
                "{path}:{number} has {columns} columns"
            );
        }
    }
}

#[test]
fn unsafe_stands_only_in_the_reviewed_modules() {
    let reviewed = [
        "crates/capi/src/",
        "crates/mobile/src/socket.rs",
        "crates/net/src/system/windows/calls.rs",
        "crates/video/src/openh264_options.rs",
    ];
    for (path, text) in files("crates", ".rs") {
        let is_used = text.lines().any(|line| {
            let code = line.trim_start();
            !code.starts_with("//") && (code.contains("unsafe {") || code.contains("unsafe fn"))
        });
        let is_this_file = path.ends_with("tidy.rs");
        assert!(
            !is_used || is_this_file || reviewed.iter().any(|part| path.starts_with(part)),
            "{path} uses unsafe code"
        );
    }
}

#[test]
fn a_registry_line_and_a_file_make_a_scheduler_or_controller() {
    for (registry, folder) in [
        ("controllers/src/lib.rs", "controllers/src"),
        ("schedulers/src/lib.rs", "schedulers/src"),
    ] {
        let root = workspace().join("crates");
        let text = fs::read_to_string(root.join(registry)).unwrap();
        for module in text.lines().filter_map(|line| line.strip_prefix("mod ")) {
            let file = root.join(folder).join(module.replace(';', ".rs"));
            assert!(
                file.exists(),
                "{registry} names {module} and {} is missing",
                file.display()
            );
        }
    }
}

/// Returns the crates that the streaming program is built from, with these options.
fn built_from(options: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(workspace())
        .args([
            "tree",
            "--offline",
            "--locked",
            "--package",
            "anabranch-cli",
        ])
        .args(["--edges", "normal,build", "--prefix", "none"])
        .args(options)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let names = lines.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

#[test]
fn a_sender_and_receiver_is_built_without_laboratory_and_codec() {
    let optional = [
        "anabranch-emu",
        "anabranch-lab",
        "anabranch-link",
        "anabranch-sim",
        "openh264",
        "openh264-sys2",
    ];
    let (usual, whole) = (built_from(&[]), built_from(&["--all-features"]));
    for name in optional {
        assert!(!usual.contains(name), "the default build needs {name}");
        assert!(whole.contains(name), "nothing needs {name}");
    }
    for name in ["anabranch-papers", "indicatif"] {
        assert!(!whole.contains(name), "the streaming program needs {name}");
    }
    assert!(usual.contains("anabranch-net") && usual.contains("ratatui"));
    assert!(!built_from(&["--no-default-features"]).contains("ratatui"));
}

fn package(manifest: &toml::Table) -> &toml::Table {
    manifest["package"].as_table().unwrap()
}

fn is_published(manifest: &toml::Table) -> bool {
    !package(manifest).contains_key("publish")
}

#[test]
fn published_crates_are_described_and_need_only_published_ones() {
    let manifests: Vec<(String, toml::Table)> = files("crates", "Cargo.toml")
        .into_iter()
        .map(|(path, text)| (path, text.parse().unwrap()))
        .collect();
    let published: BTreeSet<String> = manifests
        .iter()
        .filter(|(_, manifest)| is_published(manifest))
        .map(|(_, manifest)| package(manifest)["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(published.contains("anabranch"), "{published:?}");
    for (path, manifest) in manifests.iter().filter(|(_, m)| is_published(m)) {
        let package = package(manifest);
        for key in [
            "description",
            "license",
            "readme",
            "keywords",
            "categories",
            "rust-version",
        ] {
            assert!(package.contains_key(key), "{path} has no {key}");
        }
        let dependencies = manifest.get("dependencies").and_then(|d| d.as_table());
        for name in dependencies.into_iter().flat_map(toml::Table::keys) {
            assert!(
                !name.starts_with("anabranch") || published.contains(name),
                "{path} needs {name}, which is not published"
            );
        }
    }
}
