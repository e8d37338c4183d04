//! Kinds of secrets in files, and their words in messages.

/// Words about a kind of secret in messages.
pub(crate) struct SecretKind {
    pub(crate) noun: &'static str,
    #[cfg_attr(
        windows,
        expect(dead_code, reason = "only rights of files on Unix are explained by it")
    )]
    pub(crate) option: &'static str,
}

/// Path by which the program's starter hands a key over.
pub(crate) const STDIN: &str = "/dev/stdin";
