//! Code of others that builds and installs a release, and the rights of its services.

use std::process::Command;

use crate::repository::{files, workspace};

fn text(path: &str) -> String {
    std::fs::read_to_string(workspace().join(path)).unwrap()
}

#[test]
fn actions_are_named_by_commit() {
    let folder = workspace().join(".github/workflows");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            let Some((_, action)) = line.split_once("uses: ") else {
                continue;
            };
            let commit = action.split_once('@').unwrap().1;
            let (commit, version) = commit.split_once(" # v").unwrap_or((commit, ""));
            let is_commit = commit.len() == 40 && commit.bytes().all(|at| at.is_ascii_hexdigit());
            assert!(
                is_commit && !version.is_empty(),
                "{}: {action}",
                path.display()
            );
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn tools_of_a_release_are_named_by_hash() {
    let tools = text("packaging/tools.txt");
    let names = tools.lines().filter(|line| line.contains("==")).count();
    let hashes = tools.matches("--hash=sha256:").count();
    assert!(
        names > 0 && names == hashes,
        "{names} tools, {hashes} hashes"
    );
    let release = text(".github/workflows/release.yml");
    for line in release
        .lines()
        .filter(|line| line.contains("pip\" install"))
    {
        assert!(line.contains("--require-hashes"), "{line}");
    }
}

#[test]
fn a_release_comes_by_https_alone() {
    for url in ["http://127.0.0.1:9", "ftp://127.0.0.1:9", "127.0.0.1:9"] {
        let installed = Command::new("sh")
            .arg(workspace().join("packaging/install.sh"))
            .args(["--prefix", "/nonexistent"])
            .env("ANABRANCH_URL", url)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&installed.stderr);
        assert!(
            !installed.status.success() && said.contains("https://"),
            "{url}: {said}"
        );
    }
    let script = text("packaging/install.sh");
    for line in script
        .lines()
        .filter(|line| line.trim().starts_with("curl "))
    {
        assert!(line.contains("--proto '=https"), "{line}");
    }
}

#[test]
fn no_service_reads_or_writes_the_files_of_others() {
    for ending in [".service", "tun.conf"] {
        for (path, text) in files(ending) {
            let path = path.display();
            assert!(!text.contains("CAP_DAC_OVERRIDE"), "{path}");
            let wide = text
                .lines()
                .find(|line| line.trim_end() == "ReadWritePaths=/etc");
            assert_eq!(wide, None, "{path}");
        }
    }
}
