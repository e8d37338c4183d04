//! Arrows between the files of a crate: the uses of one file's items in another.
//!
//! A name that a module re-exports counts as a use of the file that defines it. A file's uses of
//! the modules around it (`super`, and theirs) are no arrows: a folder is a part of its module.
//! Code that is compiled for tests alone does not count, nor that of the feature `testing`.

#[cfg(test)]
mod planted;

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

/// Path of a module from the crate's root: empty for `lib.rs`.
type Module = Vec<String>;

/// Source file of a crate, read for the uses of other files.
#[derive(Debug, Default)]
struct Source {
    /// Paths of `use` declarations by the names that they bind.
    imports: BTreeMap<String, Vec<String>>,
    /// Imports that other modules may use.
    exports: BTreeSet<String>,
    /// Modules of which everything is imported.
    globs: Vec<Vec<String>>,
    /// All other paths.
    paths: Vec<Vec<String>>,
    /// Modules that exist for tests alone.
    test_modules: Vec<String>,
    /// Methods by the type on which they are.
    methods: BTreeMap<String, usize>,
}

/// Files of a crate without its tests.
#[derive(Debug)]
pub struct Crate {
    sources: BTreeMap<Module, Source>,
}

/// Arrows from each module to those whose items it uses.
pub type Arrows = BTreeMap<String, BTreeSet<String>>;

impl Crate {
    /// Reads a crate from its files: their paths from `src/` on, and their texts.
    pub fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut sources: BTreeMap<Module, Source> = files
            .into_iter()
            .map(|(path, text)| (module_of(path), Source::read(path, text)))
            .collect();
        let of_tests: Vec<Module> = sources
            .iter()
            .flat_map(|(module, source)| {
                source
                    .test_modules
                    .iter()
                    .map(|name| [module.as_slice(), std::slice::from_ref(name)].concat())
            })
            .collect();
        sources.retain(|module, _| !of_tests.iter().any(|test| module.starts_with(test)));
        Crate { sources }
    }

    /// Returns the names of the modules in the crate's root.
    pub fn top_modules(&self) -> BTreeSet<String> {
        let tops = self.sources.keys().filter_map(|module| module.first());
        tops.cloned().collect()
    }

    /// Returns the number of methods on a type, in all files and without those of traits.
    pub fn method_count(&self, of: &str) -> usize {
        let counts = self.sources.values().filter_map(|it| it.methods.get(of));
        counts.sum()
    }

    /// Returns the arrows between the files.
    pub fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (module, source) in self.sources.iter().filter(|(module, _)| !module.is_empty()) {
            let imports = source.imports.values().chain(&source.paths);
            // The import of a whole module is no use of its file's own items.
            let items = imports
                .filter_map(|path| self.definition(module, path, 0))
                .filter(|(_, is_module)| !is_module);
            let globs = source
                .globs
                .iter()
                .filter_map(|path| self.definition(module, path, 0));
            for (used, _) in items.chain(globs) {
                if !module.starts_with(&used) {
                    arrows
                        .entry(module.join("::"))
                        .or_default()
                        .insert(used.join("::"));
                }
            }
        }
        arrows
    }

    /// Returns the module that defines what `path` names in `module`, and whether the path names
    /// the module itself. `None` for names from elsewhere.
    fn definition(&self, module: &Module, path: &[String], depth: usize) -> Option<(Module, bool)> {
        let source = self.sources.get(module)?;
        let (first, rest) = path.split_first()?;
        let full = match first.as_str() {
            "crate" => rest.to_vec(),
            "self" => [module, rest].concat(),
            "super" => {
                let supers = path
                    .iter()
                    .take_while(|segment| *segment == "super")
                    .count();
                let around = module.len().checked_sub(supers)?;
                [&module[..around], &path[supers..]].concat()
            }
            _ if self
                .sources
                .contains_key(&[module.as_slice(), std::slice::from_ref(first)].concat()) =>
            {
                [module, path].concat()
            }
            // A name that was imported: `wire::decode` after `use crate::wire`.
            _ => {
                let imported = source.imports.get(first).filter(|it| it[0] != *first)?;
                let path = [imported, rest].concat();
                return (depth < MAX_DEPTH).then(|| self.definition(module, &path, depth + 1))?;
            }
        };
        let length = (0..=full.len())
            .rev()
            .find(|length| self.sources.contains_key(&full[..*length]))?;
        let (defining, item) = (full[..length].to_vec(), &full[length..]);
        let exported = item
            .first()
            .filter(|name| self.sources[&defining].exports.contains(*name));
        if let Some(name) = exported
            && depth < MAX_DEPTH
        {
            let path = [&self.sources[&defining].imports[name], &item[1..]].concat();
            return self.definition(&defining, &path, depth + 1);
        }
        Some((defining, item.is_empty()))
    }
}

/// More re-exports of re-exports than any crate has.
const MAX_DEPTH: usize = 8;

/// Returns the module of a file by its path from `src/` on.
fn module_of(path: &str) -> Module {
    match path.trim_end_matches(".rs") {
        "lib" | "main" => Vec::new(),
        module => module.split('/').map(str::to_owned).collect(),
    }
}

impl Source {
    fn read(path: &str, text: &str) -> Self {
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut source = Source::default();
        source.visit_file(&file);
        source
    }

    fn bind(&mut self, name: &syn::Ident, path: Vec<String>, is_export: bool) {
        if is_export {
            self.exports.insert(name.to_string());
        }
        self.imports.insert(name.to_string(), path);
    }

    fn import(&mut self, tree: &syn::UseTree, before: &[String], is_export: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                self.import(&path.tree, &extended(before, &path.ident), is_export);
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                if let Some(name) = before.last().cloned() {
                    self.imports.insert(name, before.to_vec());
                }
            }
            syn::UseTree::Name(name) => {
                self.bind(&name.ident, extended(before, &name.ident), is_export);
            }
            syn::UseTree::Rename(renamed) => {
                let path = extended(before, &renamed.ident);
                self.bind(&renamed.rename, path, is_export);
            }
            syn::UseTree::Glob(_) => self.globs.push(before.to_vec()),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, is_export);
                }
            }
        }
    }
}

/// Returns whether an item is compiled for tests alone.
fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            let mut words = condition.split(|letter: char| !letter.is_alphanumeric());
            condition == "feature = \"testing\"" || words.any(|word| word == "test")
        }
        _ => false,
    })
}

impl Visit<'_> for Source {
    fn visit_item_mod(&mut self, module: &syn::ItemMod) {
        match (is_of_tests(&module.attrs), &module.content) {
            (true, None) => self.test_modules.push(module.ident.to_string()),
            (true, Some(_)) => {}
            (false, _) => visit::visit_item_mod(self, module),
        }
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        if !is_of_tests(&item.attrs) {
            let is_export = !matches!(item.vis, syn::Visibility::Inherited);
            self.import(&item.tree, &[], is_export);
        }
    }

    fn visit_item_impl(&mut self, item: &syn::ItemImpl) {
        if is_of_tests(&item.attrs) {
            return;
        }
        if let (None, syn::Type::Path(of)) = (&item.trait_, &*item.self_ty)
            && let Some(name) = of.path.segments.last()
        {
            let methods = item.items.iter().filter(|item| match item {
                syn::ImplItem::Fn(method) => !is_of_tests(&method.attrs),
                _ => false,
            });
            *self.methods.entry(name.ident.to_string()).or_default() += methods.count();
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_fn(&mut self, item: &syn::ItemFn) {
        if !is_of_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
        if !is_of_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_variant(&mut self, variant: &syn::Variant) {
        if !is_of_tests(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_field(&mut self, field: &syn::Field) {
        if !is_of_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_arm(&mut self, arm: &syn::Arm) {
        if !is_of_tests(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let segments = path.segments.iter();
        self.paths
            .push(segments.map(|it| it.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &syn::Macro) {
        // Arguments of a macro are mere tokens.
        let tokens = call.tokens.to_string().replace(" :: ", "::");
        for path in tokens.split(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter))
        {
            let segments = path.split("::").map(str::to_owned);
            self.paths.push(segments.collect());
        }
        visit::visit_macro(self, call);
    }
}

/// Returns the circles: groups of files each of which uses all others of its group, directly or
/// through others.
pub fn circles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let reachable: BTreeMap<&String, BTreeSet<&String>> = arrows
        .keys()
        .map(|from| (from, reachable(arrows, from)))
        .collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (from, reached) in &reachable {
        let circle: BTreeSet<String> = reached
            .iter()
            .filter(|other| reachable.get(**other).is_some_and(|it| it.contains(from)))
            .copied()
            .cloned()
            .collect();
        if circle.contains(*from) && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

/// Returns all files that a file uses, directly or through others.
fn reachable<'a>(arrows: &'a Arrows, from: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = arrows.get(from).into_iter().flatten().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(arrows.get(module).into_iter().flatten());
        }
    }
    reached
}

/// Returns the path of a name in a module.
fn extended(module: &[String], name: &syn::Ident) -> Vec<String> {
    [module, &[name.to_string()]].concat()
}

/// Returns the number of a module's layer.
fn layer(module: &str, layers: &[&str]) -> Option<usize> {
    let top = module.split("::").next();
    layers.iter().position(|layer| Some(*layer) == top)
}

/// Returns the arrows from a module to one that is above it, `layers` having each below those that
/// may use it.
pub fn arrows_up(arrows: &Arrows, layers: &[&str]) -> Vec<(String, String)> {
    let pairs = arrows
        .iter()
        .flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    let up = pairs
        .filter(|(from, to)| layer(from, layers) < layer(to, layers))
        .map(|(from, to)| (from.clone(), to.clone()));
    up.collect()
}
