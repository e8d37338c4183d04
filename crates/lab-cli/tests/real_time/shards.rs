//! Tests of sweeps in shards: `run --shard`, `run --output` and `merge`.
//!
//! Needs a clock: real processes are ended while they write.

#![allow(
    clippy::disallowed_methods,
    reason = "these are users, who wait by the clock on the wall"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A sweep of four points, the last of which is impossible.
const GRID: &str = r#"duration = "1 s"
[links.up]
rate = "1 Mbit/s"
loss = 0.1
[links.down]
[routes.only]
forward = ["up"]
reverse = ["down"]
[[flows]]
kind = "cbr"
rate = "500 kbit/s"
paths = ["only"]
[expect]
loss = { max = 0.1 }
[sweep]
"links.up.loss" = [0.01, 0.1, 0.5, 3]
"#;

/// Time in which anything that is tested here happens.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder with a sweep and its shards.
struct Study(tempfile::TempDir);

impl Study {
    fn new(scenario: &str) -> Study {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("grid.toml"), scenario).unwrap();
        Study(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-lab"));
        command.args(arguments).current_dir(self.0.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs the program, and returns its exit code and messages.
    fn call(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output: Output = self.command(arguments).output().unwrap();
        let notes = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), notes)
    }

    /// Runs the program, which must succeed, and returns its messages.
    fn done(&self, arguments: &[&str]) -> String {
        let (code, notes) = self.call(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {notes}");
        notes
    }

    /// Runs the program, which must refuse, and returns its messages.
    fn refused(&self, arguments: &[&str]) -> String {
        let (code, notes) = self.call(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {notes}");
        notes
    }

    fn run(&self, options: &[&str], output: &str) -> String {
        let fixed = ["run", "grid.toml", "--output", output];
        self.done(&[&fixed[..], options].concat())
    }

    /// Makes all shards of five seeds, as `part-K.jsonl`, and returns their names.
    fn shards(&self, count: usize) -> Vec<String> {
        (1..=count)
            .map(|number| {
                let name = format!("part-{number}.jsonl");
                let shard = format!("{number}/{count}");
                self.run(&["--seeds", "5", "--shard", &shard], &name);
                name
            })
            .collect()
    }

    fn merge(&self, parts: &[&str], output: &str) -> Vec<u8> {
        self.done(&[&["merge", "--output", output], parts].concat());
        self.bytes(output)
    }

    /// Merges all parts, which must be refused, and returns the message.
    fn unmerged(&self, parts: &[String]) -> String {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let notes = self.refused(&[&["merge", "--output", "all.jsonl"], &parts[..]].concat());
        let mut left = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(
            left.all(|name| !name.starts_with("all.")),
            "nothing is written"
        );
        notes
    }
}

#[test]
fn seven_shards_in_any_order_are_the_whole() {
    let study = Study::new(GRID);
    let notes = study.run(&["--seeds", "5"], "whole.jsonl");
    assert!(notes.contains("1 of 4 points are impossible"), "{notes}");
    assert!(
        notes.contains("whole.jsonl: 20 runs, 5 failed, 7 did not meet"),
        "{notes}"
    );
    let whole = study.bytes("whole.jsonl");
    let files = study.shards(7);
    let mut parts: Vec<&str> = files.iter().map(String::as_str).collect();
    assert!(study.merge(&parts, "ascending.jsonl") == whole);
    parts.reverse();
    parts.swap(1, 4);
    assert!(study.merge(&parts, "mixed.jsonl") == whole);
    assert!(study.merge(&["whole.jsonl"], "alone.jsonl") == whole);
    study.run(&["--seeds", "5", "--threads", "1"], "serial.jsonl");
    assert!(study.bytes("serial.jsonl") == whole);

    // 25 shards: five of them have no run.
    fs::remove_file(study.path("part-1.jsonl")).unwrap();
    for part in 2..=7 {
        fs::remove_file(study.path(&format!("part-{part}.jsonl"))).unwrap();
    }
    let files = study.shards(25);
    let parts: Vec<&str> = files.iter().map(String::as_str).collect();
    assert!(study.merge(&parts, "many.jsonl") == whole);
}

#[test]
fn rows_have_settings_measurements_and_errors() {
    let study = Study::new(GRID);
    study.run(&["--first-seed", "8", "--seeds", "2"], "rows.jsonl");
    let text = study.text("rows.jsonl");
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 9);
    assert_eq!(lines[0]["schema"], "anabranch-runs/1");
    assert_eq!(
        (lines[0]["shard"].as_str(), lines[0]["seed_count"].as_u64()),
        (Some("1/1"), Some(2))
    );
    let row = &lines[4];
    assert_eq!(
        (
            row["run"].as_u64(),
            row["point"].as_u64(),
            row["seed"].as_u64()
        ),
        (Some(3), Some(1), Some(9))
    );
    assert_eq!(row["settings"][0]["key"], "links.up.loss");
    assert_eq!(row["settings"][0]["number"], 0.1);
    let traffic = &row["report"]["statistics"]["total"]["traffic"];
    assert!(traffic["packets_sent"].as_u64().unwrap() > 10, "{row}");
    assert_eq!(row["expectations"][0]["metric"], "loss");
    let error = lines[8]["error"].as_str().unwrap();
    assert!(
        error.contains("links.up.loss") && lines[8]["report"].is_null(),
        "{error}"
    );

    // The same run as that of a report.
    let settings = ["--set", "sweep={}", "--set", "links.up.loss=0.1"];
    let options = ["run", "grid.toml", "--first-seed", "9", "--format", "json"];
    let output = study
        .command(&[&options[..], &settings].concat())
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["runs"][0], row["report"]);
}

#[test]
fn a_killed_shard_continues_and_is_the_same() {
    let study = Study::new(&GRID.replace("\"1 s\"", "\"20 s\""));
    let shard = ["--seeds", "40", "--shard", "1/2"];
    study.run(&shard, "whole.jsonl");
    let whole = study.bytes("whole.jsonl");
    let partial = study.path("part.jsonl.partial");

    // Killed after the first rows.
    let arguments = [&["run", "grid.toml", "--output", "part.jsonl"], &shard[..]].concat();
    let mut command = study.command(&arguments);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let began_at = Instant::now();
    while fs::metadata(&partial).map_or(0, |file| file.len()) < 10_000 {
        assert!(began_at.elapsed() < PATIENCE, "no row is written");
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    if !study.path("part.jsonl").exists() {
        let notes = study.run(&shard, "part.jsonl");
        assert!(
            notes.contains("part.jsonl.partial is continued after"),
            "{notes}"
        );
    }
    assert!(study.bytes("part.jsonl") == whole && !partial.exists());

    // Killed anywhere: within a row, before the end of a line, before the last rename.
    let first_line = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for length in [
        0,
        10,
        first_line,
        first_line + 1,
        whole.len() / 2,
        whole.len() - 1,
        whole.len(),
    ] {
        fs::remove_file(study.path("part.jsonl")).unwrap();
        fs::write(&partial, &whole[..length]).unwrap();
        study.run(&shard, "part.jsonl");
        assert!(
            study.bytes("part.jsonl") == whole && !partial.exists(),
            "{length}"
        );
    }

    // A damaged row, and the beginning of another sweep, are made again.
    for (old, new) in [
        ("\"point\":1,", "\"point\":2,"),
        ("\"seed_count\":40", "\"seed_count\":41"),
    ] {
        let damaged = study.text("part.jsonl").replace(old, new);
        assert_ne!(damaged.as_bytes(), whole, "{old}");
        fs::remove_file(study.path("part.jsonl")).unwrap();
        fs::write(&partial, damaged).unwrap();
        study.run(&shard, "part.jsonl");
        assert!(study.bytes("part.jsonl") == whole, "{old}");
    }
}

#[test]
fn an_output_that_exists_is_kept_if_it_is_complete_and_else_refused() {
    let study = Study::new(GRID);
    let command = [
        "run",
        "grid.toml",
        "--output",
        "part.jsonl",
        "--shard",
        "1/2",
        "--seeds",
    ];
    let with = |seeds: &'static str| [&command[..], &[seeds]].concat();
    study.done(&with("5"));
    let part = study.bytes("part.jsonl");
    let notes = study.done(&with("5"));
    assert!(
        notes.contains("part.jsonl is complete already: 10 runs"),
        "{notes}"
    );
    let notes = study.refused(&with("6"));
    assert!(
        notes.contains("seeds 1 to 5, not seeds 1 to 6; remove it"),
        "{notes}"
    );
    let notes = study.refused(&[
        "run",
        "grid.toml",
        "--output",
        "part.jsonl",
        "--seeds",
        "5",
        "--shard",
        "2/2",
    ]);
    assert!(notes.contains("is shard 1/2, not 2/2"), "{notes}");
    assert!(study.bytes("part.jsonl") == part);

    let truncated = &part[..part.len() - 100];
    for other in [truncated, b"my notes\n", b""] {
        fs::write(study.path("part.jsonl"), other).unwrap();
        let notes = study.refused(&with("5"));
        assert!(notes.contains("part.jsonl exists: remove it"), "{notes}");
        assert!(study.bytes("part.jsonl") == other);
    }
    fs::write(study.path("all.jsonl"), "mine").unwrap();
    fs::write(study.path("part.jsonl"), &part).unwrap();
    let notes = study.refused(&["merge", "part.jsonl", "--output", "all.jsonl"]);
    assert!(notes.contains("all.jsonl exists: remove it"), "{notes}");
    assert_eq!(study.text("all.jsonl"), "mine");
}

#[test]
fn parts_of_several_sweeps_are_refused_by_name() {
    let study = Study::new(GRID);
    let parts = study.shards(7);
    let changed = ["--seeds", "5", "--set", "links.up.rate=2 Mbit/s"];
    let longer = ["--seeds", "5", "--set", "sweep.links.up.loss=[0.01, 0.1]"];
    let of_grid = "is of scenario \"grid\" with hash";
    for (name, options, reason) in [
        (
            "seeds.jsonl",
            &["--seeds", "6"][..],
            "seeds 1 to 6, not seeds 1 to 5",
        ),
        ("scenario.jsonl", &changed, of_grid),
        ("points.jsonl", &longer, of_grid),
    ] {
        study.run(&[&["--shard", "3/7"], options].concat(), name);
        let mut mixed = parts.clone();
        mixed[2] = name.to_owned();
        let notes = study.unmerged(&mixed);
        assert!(notes.contains(reason) && notes.contains(name), "{notes}");
    }

    let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let other = study
        .text("part-3.jsonl")
        .replace(&version, "\"version\":\"0.0.9\"");
    fs::write(study.path("version.jsonl"), other).unwrap();
    let mut mixed = parts.clone();
    mixed[2] = "version.jsonl".to_owned();
    let notes = study.unmerged(&mixed);
    assert!(
        notes.contains("version.jsonl is of version 0.0.9"),
        "{notes}"
    );

    study.run(&["--seeds", "5", "--shard", "3/8"], "count.jsonl");
    mixed[2] = "count.jsonl".to_owned();
    assert!(study.unmerged(&mixed).contains("8 shards, not 7 shards"));
}

#[test]
fn missing_doubled_and_damaged_parts_are_refused_by_name() {
    let study = Study::new(GRID);
    let mut parts = study.shards(7);
    fs::copy(study.path("part-3.jsonl"), study.path("copy.jsonl")).unwrap();
    let twice = [&parts[..], &["copy.jsonl".to_owned()]].concat();
    let notes = study.unmerged(&twice);
    assert!(
        notes.contains("shard 3/7 is given twice: part-3.jsonl and copy.jsonl"),
        "{notes}"
    );

    let few = [1, 3, 5].map(|at| parts[at].clone());
    let notes = study.unmerged(&few);
    assert!(
        notes.contains("shards 1, 3, 5, 7 of 7 are missing"),
        "{notes}"
    );

    let part = study.bytes("part-3.jsonl");
    for length in [part.len() - 1, part.len() / 2, part.len() * 9 / 10] {
        fs::write(study.path("part-3.jsonl"), &part[..length]).unwrap();
        let notes = study.unmerged(&parts);
        assert!(notes.contains("shard 3/7 is damaged"), "{notes}");
        assert!(notes.contains("part-3.jsonl:"), "{notes}");
    }
    let doubled = [&part[..], b"{}\n"].concat();
    fs::write(study.path("part-3.jsonl"), doubled).unwrap();
    assert!(
        study
            .unmerged(&parts)
            .contains("more lines than the shard has runs")
    );
    fs::write(study.path("part-3.jsonl"), "").unwrap();
    assert!(
        study
            .unmerged(&parts)
            .contains("part-3.jsonl: its first line is no header")
    );
    parts[2] = "none.jsonl".to_owned();
    assert!(
        study
            .unmerged(&parts)
            .contains("none.jsonl:1: cannot be read")
    );
}

#[test]
fn impossible_shards_and_outputs_are_refused() {
    let study = Study::new(GRID);
    for (shard, answer) in [
        ("0/4", "1/4 to 4/4"),
        ("5/4", "1/4 to 4/4"),
        ("x", "as in 3/40"),
        ("1/0", "at least one shard"),
    ] {
        let options = [
            "run",
            "grid.toml",
            "--output",
            "part.jsonl",
            "--shard",
            shard,
        ];
        let (code, notes) = study.call(&options);
        assert_eq!(code, Some(2), "{notes}");
        assert!(notes.contains(answer), "{shard}: {notes}");
    }
    let (code, notes) = study.call(&["run", "grid.toml", "--shard", "1/4"]);
    assert!(code == Some(2) && notes.contains("--output"), "{notes}");
    let with_trace = [
        "run",
        "grid.toml",
        "--output",
        "part.jsonl",
        "--trace",
        "out",
    ];
    assert_eq!(study.call(&with_trace).0, Some(2));
    for output in ["none/part.jsonl", "grid.toml/part.jsonl"] {
        let notes = study.refused(&["run", "grid.toml", "--output", output]);
        assert!(
            notes.contains(&format!("cannot write {output}.partial")),
            "{notes}"
        );
    }
    let impossible = [
        "--output",
        "part.jsonl",
        "--set",
        "sweep={}",
        "--set",
        "links.up.loss=3",
    ];
    let notes = study.refused(&[&["run", "grid.toml"], &impossible[..]].concat());
    assert!(notes.contains("--set links.up.loss=3"), "{notes}");
    assert!(!study.path("part.jsonl").exists() && !study.path("part.jsonl.partial").exists());
}

#[test]
fn a_full_disk_ends_the_shard_and_room_continues_it() {
    let study = Study::new(GRID);
    study.run(&["--seeds", "20"], "whole.jsonl");
    // A limit of 8 blocks of 512 bytes, or of 1,024 in some shells, in the place of a full disk.
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    let program = env!("CARGO_BIN_EXE_anabranch-lab");
    let arguments = [
        "run",
        "grid.toml",
        "--seeds",
        "20",
        "--output",
        "part.jsonl",
    ];
    let mut command = Command::new("sh");
    command
        .args(["-c", script, program])
        .args(arguments)
        .current_dir(study.0.path());
    let output = command.output().unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{notes}");
    assert!(
        notes.contains("cannot write part.jsonl.partial: File too large"),
        "{notes}"
    );
    assert!(!study.path("part.jsonl").exists());
    study.run(&["--seeds", "20"], "part.jsonl");
    assert!(study.bytes("part.jsonl") == study.bytes("whole.jsonl"));
}

/// Returns the first block of a language on a page that holds `part`.
fn block(page: &str, language: &str, part: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    let text = fs::read_to_string(path).unwrap();
    let mut blocks = text
        .split("```")
        .filter_map(|block| block.strip_prefix(language));
    blocks
        .find(|block| block.contains(part))
        .expect(part)
        .trim_start()
        .to_owned()
}

#[test]
fn the_script_of_the_page_is_an_array_of_jobs() {
    let study = Study::new(GRID);
    fs::write(
        study.path("array.sh"),
        block("cluster.md", "sh\n", "#SBATCH --array=1-40"),
    )
    .unwrap();
    let merging = block("cluster.md", "sh\n", "anabranch-lab merge");
    assert!(merging.contains("sbatch --wait array.sh\n"), "{merging}");
    let program = Path::new(env!("CARGO_BIN_EXE_anabranch-lab"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let script = "sbatch() {\n\
          for id in $(seq 40); do\n\
            SLURM_CPUS_PER_TASK=1 SLURM_ARRAY_TASK_ID=$id sh array.sh || exit 1\n\
          done\n\
        }\n";
    let mut command = Command::new("sh");
    command
        .args(["-euc", &format!("{script}{merging}")])
        .env("PATH", path);
    let output = command.current_dir(study.0.path()).output().unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains("all.jsonl: 400 runs"), "{notes}");
    study.run(&["--seeds", "100"], "whole.jsonl");
    assert!(study.bytes("all.jsonl") == study.bytes("whole.jsonl"));
}
