//! `anabranch-lab new`: the first lines of a new controller or scheduler.

mod registration;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anabranch_terminal::print;
use anyhow::{Context, bail, ensure};

use registration::{declared, entered, names};

/// Begin a congestion controller or packet scheduler of your own, in a checkout of Anabranch.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes a file that compiles and passes the contract, and registers it. The idea is yours:

  anabranch-lab new controller least-delay
  anabranch-lab new scheduler least-loss")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// A congestion controller: a window of AIMD.
    Controller {
        /// Name in lower case: letters, digits and dashes.
        name: String,
    },
    /// A packet scheduler: a cost per path.
    Scheduler {
        /// Name in lower case: letters, digits and dashes.
        name: String,
    },
}

/// A kind of algorithm that consists of a file and a registry entry. Paths are relative to the
/// checkout's root.
#[derive(Debug)]
struct Kind {
    noun: &'static str,
    /// Folder with a file for each algorithm.
    folder: &'static str,
    /// File that declares the modules.
    modules: &'static str,
    /// File that lists the algorithms.
    registry: &'static str,
    /// Text in the registry before the list.
    list: &'static str,
    /// Beginning of an entry.
    entry_start: &'static str,
    /// Entry, with the placeholders `{name}` and `{module}`.
    entry: &'static str,
    /// Names that are taken: other modules in the folder, and crates, types and names that the file
    /// or the registry uses.
    taken: &'static str,
    /// Content of the file, with placeholders for its name and type.
    template: &'static str,
    /// Text about the next steps, with `{name}` for the name.
    next: &'static str,
}

const CONTROLLER: Kind = Kind {
    noun: "controller",
    folder: "crates/controllers/src",
    modules: "crates/controllers/src/lib.rs",
    registry: "crates/controllers/src/registry.rs",
    list: "pub const CONTROLLERS: &[ControllerEntry] = &[\n",
    entry_start: "    ControllerEntry {",
    entry: r#"    ControllerEntry {
        name: "{name}",
        summary: "one line on what {name} is",
        options: &[],
        rate: RateKind::Bandwidth,
        build: {module}::build,
    },
"#,
    taken: "backlog_share contract one_way_delay rate_meter rate_use registry scenarios template \
        testing window linux quic v3 webrtc \
        alloc anabranch_core anabranch_units core libm std thiserror proptest bool str u64 usize \
        congestion_controller control_parameters controller_config timeout feedback path_view \
        session_view data_rate duration instant rig",
    template: anabranch_controllers::TEMPLATE,
    next: "  \
         1. write its reaction to a report, its source with the deviations from it, and its \
         tests\n  \
         2. describe it in the registry's `summary`\n  \
         3. cargo test -p anabranch-controllers -- contract {module}\n  \
         4. cargo run --release -p anabranch-lab-cli -- compare --controllers \
         live-bbr,{name},fixed scenarios/two-paths.toml\n",
};

const SCHEDULER: Kind = Kind {
    noun: "scheduler",
    folder: "crates/schedulers/src",
    modules: "crates/schedulers/src/lib.rs",
    registry: "crates/schedulers/src/registry.rs",
    list: "pub const SCHEDULERS: &[SchedulerEntry] = &[\n",
    entry_start: "    SchedulerEntry {",
    entry: r#"    SchedulerEntry {
        name: "{name}",
        summary: "one line on what {name} is",
        build: {module}::build,
    },
"#,
    // `oracle` belongs to the simulator.
    taken: "binding contract frame_wise one_by_one oracle registry template testing \
        alloc anabranch_core anabranch_units core libm std thiserror proptest bool str u64 usize \
        bed duration instant packet_view path_cost path_id path_set path_view scheduler",
    template: anabranch_schedulers::TEMPLATE,
    next: "  \
         1. write its cost, its source with the deviations from it, and its test\n  \
         2. describe it in the registry's `summary`\n  \
         3. cargo test -p anabranch-schedulers -- contract {module}\n  \
         4. cargo run --release -p anabranch-lab-cli -- compare --schedulers min-cost,{name} \
         scenarios/two-paths.toml\n",
};

/// Reserved words of Rust.
const RESERVED: &str = "as async await break const continue crate dyn else enum extern false fn \
    for gen if impl in let loop match mod move mut pub ref return self static struct super trait \
    true type unsafe use where while abstract become box do final macro override priv try typeof \
    unsized virtual yield";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (kind, name) = match &arguments.what {
        What::Controller { name } => (&CONTROLLER, name),
        What::Scheduler { name } => (&SCHEDULER, name),
    };
    let here = std::env::current_dir().context("there is no current folder")?;
    let root = checkout(&here)?;
    let file = begin(kind, &root, name)?;
    let next = kind.next.replace("{name}", name);
    print::text(format!(
        "{} is written, and registered in {}. Next:\n{}",
        file.display(),
        kind.registry,
        next.replace("{module}", &name.replace('-', "_"))
    ))
}

/// Returns the root of the checkout that contains `folder`.
fn checkout(folder: &Path) -> anyhow::Result<PathBuf> {
    let mut parents = folder.ancestors();
    let found = parents.find(|root| root.join(SCHEDULER.registry).is_file());
    let root = found.with_context(|| {
        let (folder, registry) = (folder.display(), SCHEDULER.registry);
        format!("{folder} is not in a checkout of Anabranch: none of its parents has {registry}")
    })?;
    Ok(root.to_owned())
}

/// Writes and registers the algorithm. Returns its file, relative to the checkout's root.
fn begin(kind: &Kind, root: &Path, name: &str) -> anyhow::Result<PathBuf> {
    fn cannot_write(path: &Path) -> String {
        format!("cannot write {}", path.display())
    }

    fn strange(file: &str) -> String {
        format!("{file} does not look as it should")
    }

    let (noun, registry) = (kind.noun, kind.registry);
    let module = module_name(kind, name)?;
    let mut texts = BTreeMap::new();
    for file in [kind.modules, registry] {
        let path = root.join(file);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        texts.insert(file, text);
    }
    ensure!(
        names(&texts[registry]).all(|known| known != name),
        "there is a {noun} {name} already"
    );
    let text = declared(&texts[kind.modules], &module).with_context(|| strange(kind.modules))?;
    texts.insert(kind.modules, text);
    let entry = kind
        .entry
        .replace("{name}", name)
        .replace("{module}", &module);
    let text = entered(kind, &texts[registry], name, &entry).with_context(|| strange(registry))?;
    texts.insert(registry, text);
    let file = Path::new(kind.folder).join(format!("{module}.rs"));
    ensure!(
        !root.join(&file).exists(),
        "there is a {} already",
        file.display()
    );
    let source = kind
        .template
        .replace("`template`", &format!("`{name}`"))
        .replace("Template", &type_name(&module));
    fs::write(root.join(&file), source).with_context(|| cannot_write(&file))?;
    for (path, text) in texts {
        fs::write(root.join(path), text).with_context(|| cannot_write(Path::new(path)))?;
    }
    Ok(file)
}

/// Returns the module's name: `least-loss` is in `least_loss.rs`.
fn module_name(kind: &Kind, name: &str) -> anyhow::Result<String> {
    fn is_allowed(letter: char) -> bool {
        letter.is_ascii_lowercase() || letter.is_ascii_digit()
    }

    let begins_well = name.starts_with(|first: char| first.is_ascii_lowercase());
    if !begins_well
        || !name
            .split('-')
            .all(|word| !word.is_empty() && word.chars().all(is_allowed))
        || name.len() > 30
    {
        bail!(
            "{name:?} is no name for a {}: write up to 30 lower-case letters and digits, words \
             joined by dashes, a letter first, as in least-loss",
            kind.noun
        );
    }
    let module = name.replace('-', "_");
    let mut taken = kind.taken.split(' ').chain(RESERVED.split(' '));
    ensure!(
        taken.all(|taken| taken != module),
        "the name {name} is taken"
    );
    Ok(module)
}

/// Returns the type's name: `least_loss` is `LeastLoss`.
fn type_name(module: &str) -> String {
    let words = module.split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use tempfile::TempDir;

    use super::*;

    const KINDS: [Kind; 2] = [CONTROLLER, SCHEDULER];

    /// Copies the files that the command reads and writes.
    fn copy() -> tempfile::TempDir {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let copy = tempfile::tempdir().unwrap();
        for kind in KINDS {
            copy_folder(&workspace.join(kind.folder), &copy.path().join(kind.folder));
            for file in [kind.modules, kind.registry] {
                fs::copy(workspace.join(file), copy.path().join(file)).unwrap();
            }
        }
        copy
    }

    fn copy_folder(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let to = to.join(entry.file_name());
            if entry.path().is_dir() {
                copy_folder(&entry.path(), &to)
            } else {
                fs::copy(entry.path(), to).unwrap();
            }
        }
    }

    fn read(root: &Path, file: &str) -> String {
        fs::read_to_string(root.join(file)).unwrap()
    }

    #[test]
    fn it_is_written_formatted_and_registered_in_order() {
        let copy = copy();
        for kind in KINDS {
            // Names before all others, in the middle, and after all others. The command also works
            // deep in the checkout.
            let root = checkout(&copy.path().join(kind.folder)).unwrap();
            assert_eq!(root, copy.path());
            for name in ["aaa", "cheapest", "least-loss-2", "zzz"] {
                let file = begin(&kind, &root, name).unwrap();
                let module = name.replace('-', "_");
                assert_eq!(file, Path::new(kind.folder).join(format!("{module}.rs")));
                let text = fs::read_to_string(root.join(&file)).unwrap();
                assert!(text.starts_with(&format!("//! `{name}`: ")), "{text}");
                assert!(!text.contains("{type_name}") && !text.contains("Template"));
                let registry = read(&root, kind.registry);
                assert!(registry.contains(&format!("build: {module}::build,")));
            }
            let registry = read(&root, kind.registry);
            let names: Vec<_> = names(&registry).collect();
            assert!(
                names.is_sorted() && names.contains(&"least-loss-2"),
                "{names:?}"
            );
            let text = read(&root, kind.modules);
            let modules: Vec<_> = text
                .lines()
                .filter_map(|line| line.strip_prefix("mod "))
                .collect();
            assert!(
                modules.is_sorted() && modules.contains(&"least_loss_2;"),
                "{modules:?}"
            );
            // rustfmt reads every module too, and rejects any that does not parse.
            let formatted = Command::new("rustfmt")
                .args(["--check", "--edition", "2024"])
                .arg(root.join(kind.modules))
                .output()
                .unwrap();
            assert!(formatted.status.success(), "{formatted:?}");
        }
    }

    #[test]
    fn known_and_impossible_names_change_nothing() {
        fn texts(kind: &Kind, copy: &TempDir) -> [String; 2] {
            [kind.modules, kind.registry].map(|file| read(copy.path(), file))
        }

        let copy = copy();
        for (kind, known) in KINDS.into_iter().zip([
            ["live-bbr", "fixed", "rate-meter", "quic", "data-rate"],
            ["min-cost", "oracle", "one-by-one", "duration", "path-id"],
        ]) {
            let before = texts(&kind, &copy);
            let impossible = [
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
            ];
            for name in known.into_iter().chain(impossible) {
                assert!(begin(&kind, copy.path(), name).is_err(), "{name}");
            }
            let written = copy.path().join(kind.folder).join("cheapest.rs");
            fs::write(&written, "mine").unwrap();
            assert!(begin(&kind, copy.path(), "cheapest").is_err());
            assert_eq!(fs::read_to_string(written).unwrap(), "mine");
            assert_eq!(texts(&kind, &copy), before);
        }
    }

    #[test]
    fn elsewhere_than_in_a_checkout_it_says_so() {
        let elsewhere = tempfile::tempdir().unwrap();
        let error = checkout(elsewhere.path()).unwrap_err().to_string();
        assert!(error.contains(SCHEDULER.registry), "{error}");
    }
}
