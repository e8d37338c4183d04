//! `anabranch new`: the first lines of a scheduler of one's own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::print;

/// The registry, and the folder beside it with a file per scheduler.
const REGISTRY: &str = "crates/core/src/scheduler.rs";
const FOLDER: &str = "crates/core/src/scheduler";
const ENTRIES: &str = "pub const SCHEDULERS: &[SchedulerEntry] = &[\n";

/// Begins a packet scheduler of your own, in a checkout of Anabranch.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes a file that compiles and passes the contract, and registers it; what is left is the idea:

  anabranch new scheduler least-loss")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// A packet scheduler: a cost per path.
    Scheduler {
        /// Its name, in lower case: letters, digits and dashes.
        name: String,
    },
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let What::Scheduler { name } = &arguments.what;
    let here = std::env::current_dir().context("there is no current folder")?;
    let root = checkout(&here)?;
    let file = new_scheduler(&root, name)?;
    print::text(format!(
        "{} is written, and registered in {REGISTRY}. Next:\n  \
         1. write its cost, its source and what deviates from it there, and its test\n  \
         2. say what it is in the registry's `summary`\n  \
         3. cargo test -p anabranch-core scheduler\n  \
         4. cargo run --release -p anabranch -- compare --schedulers min-cost,{name} \
         scenarios/two-paths.toml\n",
        file.display()
    ))
}

/// The checkout that `folder` is in.
fn checkout(folder: &Path) -> anyhow::Result<PathBuf> {
    let root = folder
        .ancestors()
        .find(|root| root.join(REGISTRY).is_file());
    let root = root.with_context(|| {
        let folder = folder.display();
        format!("{folder} is not in a checkout of Anabranch: none of its parents has {REGISTRY}")
    })?;
    Ok(root.to_owned())
}

/// Writes and registers it. The file, from the checkout's root.
fn new_scheduler(root: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let module = module_name(name)?;
    let registry_path = root.join(REGISTRY);
    let registry = fs::read_to_string(&registry_path)
        .with_context(|| format!("cannot read {}", registry_path.display()))?;
    ensure!(
        names(&registry).all(|known| known != name),
        "there is a scheduler {name} already"
    );
    let registered = register(&registry, name, &module)
        .with_context(|| format!("{REGISTRY} does not look as it should"))?;
    let file = Path::new(FOLDER).join(format!("{module}.rs"));
    ensure!(
        !root.join(&file).exists(),
        "there is a {} already",
        file.display()
    );
    let cannot_write = |path: &Path| format!("cannot write {}", path.display());
    fs::write(root.join(&file), source(name, &module)).with_context(|| cannot_write(&file))?;
    fs::write(&registry_path, registered).with_context(|| cannot_write(&registry_path))?;
    Ok(file)
}

/// What else is in the folder, what only the simulator has, crates and types that the file uses,
/// and what Rust reserves.
const TAKEN: &str = "binding contract testing frame_wise one_by_one oracle \
    alloc anabranch_units core std bed duration instant packet_view path_cost path_id path_set \
    path_view scheduler as \
    async await break const continue crate dyn else enum extern false fn for gen if impl in \
    let loop match mod move mut pub ref return self static struct super trait true type \
    unsafe use where while abstract become box do final macro override priv try typeof \
    unsized virtual yield";

/// `least-loss` is in `least_loss.rs`.
fn module_name(name: &str) -> anyhow::Result<String> {
    let is_word = |word: &str| {
        let is_allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        !word.is_empty() && word.chars().all(is_allowed)
    };
    let begins_well = name.starts_with(|first: char| first.is_ascii_lowercase());
    if !begins_well || !name.split('-').all(is_word) || name.len() > 30 {
        bail!(
            "{name:?} is no name for a scheduler: write up to 30 lower-case letters and digits, \
             words joined by dashes, a letter first, as in least-loss"
        );
    }
    let module = name.replace('-', "_");
    ensure!(
        !TAKEN.split(' ').any(|taken| taken == module),
        "the name {name} is taken"
    );
    Ok(module)
}

/// The names in the registry, in its order.
fn names(registry: &str) -> impl Iterator<Item = &str> {
    let lines = registry.lines().map(str::trim);
    lines.filter_map(|line| line.strip_prefix("name: \"")?.strip_suffix("\","))
}

/// The registry with one entry and one module more, each where the alphabet has it; `None` if it
/// has no list of either.
fn register(registry: &str, name: &str, module: &str) -> Option<String> {
    let entry = format!(
        "    SchedulerEntry {{\n        name: \"{name}\",\n        \
         summary: \"one line on what {name} is\",\n        build: {module}::build,\n    }},\n"
    );
    let entries_at = registry.find(ENTRIES)? + ENTRIES.len();
    let entries_end = entries_at + registry[entries_at..].find("];\n")?;
    let follows = names(&registry[entries_at..entries_end]).find(|known| *known > name);
    let entry_at = match follows {
        Some(known) => {
            let name_at = registry.find(&format!("name: \"{known}\","))?;
            registry[..name_at].rfind("    SchedulerEntry {")?
        }
        None => entries_end,
    };
    // Where a line begins, and what module it declares.
    let mut line_at = 0;
    let modules = registry[..entries_at].split_inclusive('\n').map(|line| {
        line_at += line.len();
        let module = line
            .trim()
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(';'));
        (line_at - line.len(), line_at, module)
    });
    let modules: Vec<_> = modules.collect();
    let declared = || {
        modules
            .iter()
            .filter_map(|(at, end, name)| Some((*at, *end, (*name)?)))
    };
    let (_, last_end, _) = declared().next_back()?;
    let module_at = match declared().find(|(_, _, known)| *known > module) {
        // Not between a module and its attribute.
        Some((at, ..)) if registry[..at].ends_with("#[cfg(test)]\n") => at - "#[cfg(test)]\n".len(),
        Some((at, ..)) => at,
        None => last_end,
    };
    let mut registered = registry.to_owned();
    // The later place first, so that the earlier one stays where it is.
    registered.insert_str(entry_at, &entry);
    registered.insert_str(module_at, &format!("mod {module};\n"));
    Some(registered)
}

/// A scheduler that compiles and does what `min-cost` does.
fn source(name: &str, module: &str) -> String {
    let words = module.split('_');
    let type_name: String = words
        .map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_ascii_uppercase() + rest
        })
        .collect();
    TEMPLATE
        .replace("{name}", name)
        .replace("{type_name}", &type_name)
}

const TEMPLATE: &str = r#"//! `{name}`: what it does, in a line.
//!
//! Source: authors, "title", where and when, with section and equation. The idea in a paragraph.
//!
//! *Deviations*: where this differs from the source and why, or none.

use anabranch_units::{Duration, Instant};

use super::{OneByOne, PacketView, PathCost, Scheduler, transfer_cost};
use crate::path_view::PathView;

#[derive(Debug)]
struct {type_name};

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new({type_name}))
}

impl PathCost for {type_name} {
    fn cost(&mut self, _now: Instant, packet: &PacketView, path: &PathView) -> Duration {
        transfer_cost(path, u64::from(packet.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_view::{PathId, PathSet};
    use crate::scheduler::testing::{Bed, path};

    #[test]
    fn a_packet_takes_the_cheapest_path() {
        let mut bed = Bed::new(build(), vec![path(0, 100, 4), path(1, 40, 4)]);
        let bound = bed.schedule(&Bed::frame(1, 1000));
        assert_eq!(bound[0].1, PathSet::only(PathId(1)));
    }
}
"#;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A copy of what the command reads and writes.
    fn copy() -> tempfile::TempDir {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir_all(copy.path().join(REGISTRY).parent().unwrap()).unwrap();
        fs::copy(workspace.join(REGISTRY), copy.path().join(REGISTRY)).unwrap();
        copy_folder(&workspace.join(FOLDER), &copy.path().join(FOLDER));
        copy
    }

    fn copy_folder(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let to = to.join(entry.file_name());
            match entry.path().is_dir() {
                true => copy_folder(&entry.path(), &to),
                false => drop(fs::copy(entry.path(), to).unwrap()),
            }
        }
    }

    fn registry(root: &Path) -> String {
        fs::read_to_string(root.join(REGISTRY)).unwrap()
    }

    #[test]
    fn a_scheduler_is_written_formatted_and_registered_in_order() {
        let copy = copy();
        // Before all, in the middle, and behind all; a path deep in the checkout will do.
        let root = checkout(&copy.path().join(FOLDER)).unwrap();
        assert_eq!(root, copy.path());
        for name in ["aaa", "cheapest", "least-loss-2", "zzz"] {
            let file = new_scheduler(&root, name).unwrap();
            let module = name.replace('-', "_");
            assert_eq!(file, Path::new(FOLDER).join(format!("{module}.rs")));
            let text = fs::read_to_string(root.join(&file)).unwrap();
            assert!(text.starts_with(&format!("//! `{name}`: ")), "{text}");
            assert!(!text.contains("{type_name}"));
            let registry = registry(&root);
            assert!(registry.contains(&format!("build: {module}::build,")));
        }
        let registry = registry(&root);
        let names: Vec<_> = names(&registry).collect();
        assert!(
            names.is_sorted() && names.contains(&"least-loss-2"),
            "{names:?}"
        );
        let modules = registry
            .lines()
            .filter_map(|line| line.strip_prefix("mod "));
        let modules: Vec<_> = modules.collect();
        assert!(
            modules.is_sorted() && modules.contains(&"least_loss_2;"),
            "{modules:?}"
        );
        // It reads every module too: what does not parse, it refuses.
        let formatted = Command::new("rustfmt")
            .args(["--check", "--edition", "2024"])
            .arg(root.join(REGISTRY))
            .output()
            .unwrap();
        assert!(formatted.status.success(), "{formatted:?}");
    }

    #[test]
    fn known_and_impossible_names_change_nothing() {
        let copy = copy();
        let before = registry(copy.path());
        for name in [
            "min-cost",
            "oracle",
            "one-by-one",
            "duration",
            "core",
            "match",
            "",
            "-a",
            "a-",
            "a--b",
            "2fast",
            "Fast",
            "fast lane",
            "../fast",
            "schnellstraße",
            "a-name-much-longer-than-anyone-types",
        ] {
            assert!(new_scheduler(copy.path(), name).is_err(), "{name}");
        }
        let written = copy.path().join(FOLDER).join("cheapest.rs");
        fs::write(&written, "mine").unwrap();
        assert!(new_scheduler(copy.path(), "cheapest").is_err());
        assert_eq!(fs::read_to_string(written).unwrap(), "mine");
        assert_eq!(registry(copy.path()), before);
    }

    #[test]
    fn elsewhere_than_in_a_checkout_it_says_so() {
        let elsewhere = tempfile::tempdir().unwrap();
        let error = checkout(elsewhere.path()).unwrap_err().to_string();
        assert!(error.contains(REGISTRY), "{error}");
    }
}
