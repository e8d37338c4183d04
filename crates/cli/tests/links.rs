//! Links between Markdown documents: the files and headings that they lead to exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::repository::{files, workspace};

/// Returns the lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Removes code between backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

/// Returns the targets of a text's links and pictures.
fn links(text: &str) -> Vec<String> {
    let lines: Vec<&str> = prose(text).collect();
    let text = without_code(&lines.join("\n"));
    let targets = text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?;
        target.split_whitespace().next().map(str::to_owned)
    });
    targets.collect()
}

/// Returns a heading's text as it is shown: of a link, the part in brackets.
fn shown(heading: &str) -> String {
    let mut shown = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    shown + rest
}

/// Returns the anchors of a text: those that forges and mdBook derive from its headings, and those
/// that it names (`<a id="…">`).
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for line in prose(text) {
        let named = line.split(" id=\"").skip(1);
        found.extend(named.filter_map(|rest| rest.split('"').next().map(str::to_owned)));
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if !(1..=6).contains(&level) || !heading.starts_with(' ') {
            continue;
        }
        let text: String = shown(heading.trim())
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .collect();
        let slug = text.to_lowercase().replace(' ', "-");
        let count = counts.entry(slug.clone()).or_default();
        let repeated = format!("{slug}-{count}");
        found.insert(if *count == 0 { slug } else { repeated });
        *count += 1;
    }
    found
}

/// Returns the reason for which a link of the document at `path` leads nowhere.
fn mistake(path: &Path, link: &str, documents: &BTreeMap<PathBuf, String>) -> Option<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let mut target = PathBuf::new();
    for part in path.parent().unwrap().join(file).components() {
        match part.as_os_str().to_str().unwrap() {
            ".." if !target.pop() => return Some("leaves the repository".to_owned()),
            ".." | "." => {}
            part => target.push(part),
        }
    }
    if file.is_empty() {
        path.clone_into(&mut target);
    }
    if !workspace().join(&target).exists() {
        return Some("the file does not exist".to_owned());
    }
    if anchor.is_empty() {
        return None;
    }
    let text = documents.get(&target)?;
    let known = anchors(text);
    (!known.contains(anchor)).then(|| format!("{} has only {known:?}", target.display()))
}

#[test]
fn links_between_documents_lead_to_files_and_headings() {
    let documents: BTreeMap<PathBuf, String> = files(".md").into_iter().collect();
    let mut mistakes = Vec::new();
    let (mut file_count, mut anchor_count) = (0, 0);
    for (path, text) in &documents {
        for link in links(text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            file_count += 1;
            anchor_count += usize::from(link.contains('#'));
            let mistake = mistake(path, &link, &documents);
            mistakes.extend(mistake.map(|it| format!("{}: {link}: {it}", path.display())));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    // An empty search is no success.
    assert!(
        file_count > 200 && anchor_count > 50,
        "{file_count}, {anchor_count}"
    );
}

#[test]
fn a_link_to_a_missing_file_or_heading_is_a_mistake() {
    let page = "# A *page*: `x` & [y](z.md)\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n\
                <a id=\"named\"></a>\n";
    let documents = BTreeMap::from([(PathBuf::from("docs/README.md"), page.to_owned())]);
    for (link, is_mistake) in [
        ("#a", false),
        ("docs/README.md#a-page-x--y", false),
        ("docs/README.md#twice-1", false),
        ("docs/README.md#named", false),
        ("docs/", false),
        ("docs/none.md", true),
        ("docs/README.md#twice-2", true),
        ("docs/README.md#no-heading", true),
        ("../x", true),
    ] {
        let mistake = mistake(Path::new("README.md"), link, &documents);
        assert_eq!(mistake.is_some(), is_mistake, "{link}");
    }
    let found = links("[a](b.md) `[c](d.md)`\n```\n[e](f.md)\n```\n![g](h.svg \"title\")");
    assert_eq!(found, ["b.md", "h.svg"]);
}
