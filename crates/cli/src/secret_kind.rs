//! Kinds of secrets in files, and their words in messages.

/// Words about a kind of secret in messages.
pub(crate) struct SecretKind {
    pub(crate) noun: &'static str,
    pub(crate) option: &'static str,
}

/// Path by which the program's starter hands a key over.
pub(crate) const STDIN: &str = "/dev/stdin";
