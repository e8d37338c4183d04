//! Alphabetical insertion of a new module and its entry.

use super::Kind;

/// Returns the names in the registry, in its order.
pub(super) fn names(registry: &str) -> impl Iterator<Item = &str> {
    let lines = registry.lines().map(str::trim);
    lines.filter_map(|line| line.strip_prefix("name: \"")?.strip_suffix("\","))
}

/// Returns the registry with the new entry; `None` if it has no list.
pub(super) fn entered(kind: &Kind, registry: &str, name: &str, entry: &str) -> Option<String> {
    let entries_at = registry.find(kind.list)? + kind.list.len();
    let entries_end = entries_at + registry[entries_at..].find("];\n")?;
    let follows = names(&registry[entries_at..entries_end]).find(|known| *known > name);
    let entry_at = match follows {
        Some(known) => {
            let name_at = registry.find(&format!("name: \"{known}\","))?;
            registry[..name_at].rfind(kind.entry_start)?
        }
        None => entries_end,
    };
    let mut registered = registry.to_owned();
    registered.insert_str(entry_at, entry);
    Some(registered)
}

/// Returns the start of the attributes in front of the line that begins at `at`.
fn before_attributes(file: &str, at: usize) -> usize {
    let attributes = file[..at]
        .split_inclusive('\n')
        .rev()
        .take_while(|line| line.starts_with("#["));
    at - attributes.map(str::len).sum::<usize>()
}

/// Returns the file with the new module; `None` if it declares none.
pub(super) fn declared(file: &str, module: &str) -> Option<String> {
    // Start of each line, and the module that it declares.
    let mut line_at = 0;
    let modules: Vec<(usize, usize, &str)> = file
        .split_inclusive('\n')
        .filter_map(|line| {
            line_at += line.len();
            let declaration = line.trim().trim_start_matches("pub ");
            let module = declaration
                .strip_prefix("mod ")
                .and_then(|rest| rest.strip_suffix(';'));
            Some((line_at - line.len(), line_at, module?))
        })
        .collect();
    let (_, last_end, _) = modules.last()?;
    let module_at = match modules.iter().find(|(_, _, known)| *known > module) {
        Some((at, ..)) => before_attributes(file, *at),
        None => *last_end,
    };
    let mut declared = file.to_owned();
    declared.insert_str(module_at, &format!("mod {module};\n"));
    Some(declared)
}
