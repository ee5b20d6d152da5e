//! An authorization server, with what a login needs of its metadata. Made by `metadata`, which checks it, and of a saved login.

/// An authorization server whose metadata passed every check.
#[derive(Clone, Debug)]
pub(crate) struct Issuer {
    /// Its identifier, equal to the address that its metadata was fetched for.
    pub(crate) id: String,
    pub(crate) authorization_endpoint: String,
    pub(crate) token_endpoint: String,
    pub(crate) registers: bool,
    pub(crate) revocation_endpoint: Option<String>,
    /// How an application with a secret shows it at the token endpoint.
    pub(crate) auth_methods: Vec<String>,
}
