//! Fields of structs that no code reads, or that keep the constant with which they begin.
//!
//! Fields with one name count as one, in all crates together. A method call on a field counts as a
//! use of both kinds, and so does a field's name in a macro. So no field in use is reported, but
//! one that shares its name with another may be missed.

#[cfg(test)]
mod planted;

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprPath, Member, UnOp};

/// Words in the attributes of structs whose fields other programs read or set: derived traits, and
/// layouts for C.
const FOR_OTHERS: [&str; 8] = [
    "Args",
    "Deserialize",
    "Parser",
    "Record",
    "Serialize",
    "Subcommand",
    "pyclass",
    "repr",
];
/// Derived traits that read all fields. `Debug` and `Clone` do too, to no effect.
const READERS: [&str; 2] = ["Hash", "Ord"];

/// The fields of all files by their names, and the uses of names.
#[derive(Debug, Default)]
pub struct Fields {
    /// A struct with a field of each name.
    declared: BTreeMap<String, String>,
    read: BTreeSet<String>,
    set: BTreeSet<String>,
    /// Constants with which a field of each name begins.
    constants: BTreeMap<String, BTreeSet<String>>,
}

impl Fields {
    /// Adds a file.
    pub fn add(&mut self, text: &str) {
        let file = syn::parse_file(text).expect("a file of Rust");
        self.visit_file(&file);
    }

    /// Returns the fields that no code reads.
    pub fn unread(&self) -> Vec<String> {
        self.not_in(&self.read)
    }

    /// Returns the fields that only ever have one constant.
    pub fn unset(&self) -> Vec<String> {
        self.not_in(&self.set)
    }

    fn not_in(&self, used: &BTreeSet<String>) -> Vec<String> {
        self.declared
            .iter()
            .filter(|(name, _)| !used.contains(*name))
            .map(|(name, of)| format!("{of}::{name}"))
            .collect()
    }

    fn use_name(&mut self, name: String) {
        self.read.insert(name.clone());
        self.set.insert(name);
    }

    /// Records a use of both kinds of each field on the way to a place.
    fn use_place(&mut self, place: &Expr) {
        match place {
            Expr::Field(field) => {
                if let Member::Named(name) = &field.member {
                    self.use_name(name.to_string());
                }
                self.use_place(&field.base);
            }
            Expr::Index(index) => self.use_place(&index.expr),
            Expr::Paren(paren) => self.use_place(&paren.expr),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => {
                self.use_place(&unary.expr);
            }
            _ => {}
        }
    }

    /// Records an assignment. It sets the place and reads only what leads to it.
    fn assign(&mut self, place: &Expr) {
        match place {
            Expr::Tuple(tuple) => {
                for element in &tuple.elems {
                    self.assign(element);
                }
            }
            Expr::Field(field) => {
                if let Member::Named(name) = &field.member {
                    self.set.insert(name.to_string());
                }
                self.use_place(&field.base);
            }
            _ => self.use_place(place),
        }
        if let Expr::Index(index) = place {
            self.visit_expr(&index.index);
        }
    }

    fn use_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.use_tokens(group.stream()),
                TokenTree::Ident(name) => self.use_name(name.to_string()),
                TokenTree::Literal(_) | TokenTree::Punct(_) => {}
            }
        }
    }

    fn add_constant(&mut self, name: String, constant: String) {
        let constants = self.constants.entry(name.clone()).or_default();
        constants.insert(constant);
        if constants.len() > 1 {
            self.set.insert(name);
        }
    }
}

/// Returns whether a value is the same each time: a literal, a constant, or a new empty value.
fn is_constant(value: &Expr) -> bool {
    match value {
        Expr::Lit(_) => true,
        Expr::Path(path) => {
            let last = path.path.segments.last();
            let name = last.map_or(String::new(), |last| last.ident.to_string());
            name.chars().next().is_some_and(char::is_uppercase)
        }
        Expr::Call(call) => {
            let makes =
                |path: &ExprPath| path.path.segments.len() > 1 || path.path.is_ident("Some");
            matches!(&*call.func, Expr::Path(path) if makes(path))
                && call.args.iter().all(is_constant)
        }
        Expr::Unary(unary) => is_constant(&unary.expr),
        Expr::Tuple(tuple) => tuple.elems.iter().all(is_constant),
        Expr::Array(array) => array.elems.iter().all(is_constant),
        Expr::Repeat(repeat) => is_constant(&repeat.expr),
        _ => false,
    }
}

/// Returns whether attributes have one of the words.
fn have_word(attributes: &[Attribute], words: &[&str]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.meta.to_token_stream().to_string();
        let mut names = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        names.any(|name| words.contains(&name))
    })
}

impl<'a> Visit<'a> for Fields {
    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        let names: Vec<String> = item
            .fields
            .iter()
            .filter_map(|field| field.ident.as_ref().map(ToString::to_string))
            .filter(|name| !name.starts_with('_'))
            .collect();
        let is_for_others = have_word(&item.attrs, &FOR_OTHERS);
        let (is_read, has_default) = (
            have_word(&item.attrs, &READERS),
            have_word(&item.attrs, &["Default"]),
        );
        for name in names {
            if is_read {
                self.read.insert(name.clone());
            }
            if has_default {
                self.add_constant(name.clone(), "default".to_owned());
            }
            if !is_for_others {
                let of = item.ident.to_string();
                self.declared.entry(name).or_insert(of);
            }
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        if let Ok(list) = attribute.meta.require_list() {
            self.use_tokens(list.tokens.clone());
        }
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.use_tokens(call.tokens.clone());
    }

    fn visit_expr_field(&mut self, field: &'a syn::ExprField) {
        if let Member::Named(name) = &field.member {
            self.read.insert(name.to_string());
        }
        visit::visit_expr_field(self, field);
    }

    fn visit_expr_assign(&mut self, assignment: &'a syn::ExprAssign) {
        self.assign(&assignment.left);
        self.visit_expr(&assignment.right);
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        // `a += b`, and its like.
        let operator = binary.op.to_token_stream().to_string();
        if operator.ends_with('=') && !["==", "!=", "<=", ">="].contains(&operator.as_str()) {
            self.assign(&binary.left);
            self.visit_expr(&binary.right);
        } else {
            visit::visit_expr_binary(self, binary);
        }
    }

    fn visit_expr_reference(&mut self, reference: &'a syn::ExprReference) {
        if reference.mutability.is_some() {
            self.use_place(&reference.expr);
        }
        visit::visit_expr_reference(self, reference);
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        self.use_place(&call.receiver);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_field_value(&mut self, value: &'a syn::FieldValue) {
        if let Member::Named(name) = &value.member {
            if is_constant(&value.expr) {
                let constant = value.expr.to_token_stream().to_string();
                self.add_constant(name.to_string(), constant);
            } else {
                self.set.insert(name.to_string());
            }
        }
        visit::visit_field_value(self, value);
    }

    fn visit_field_pat(&mut self, pattern: &'a syn::FieldPat) {
        if let Member::Named(name) = &pattern.member {
            self.use_name(name.to_string());
        }
        visit::visit_field_pat(self, pattern);
    }
}
