//! Options of a client: its token, and the certificates that it trusts.

/// Options of a [`Client`](super::Client). By default it sends no token, and trusts the well-known
/// authorities.
///
/// ```
/// let options = filemap_http::ClientOptions::new().token("2f1f8cf5d9a44c0c");
/// # let _ = options;
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ClientOptions {
    pub(super) token: Option<String>,
    pub(super) authorities: Vec<u8>,
}

impl ClientOptions {
    /// The defaults.
    pub fn new() -> ClientOptions {
        ClientOptions::default()
    }

    /// The token that the server requires.
    pub fn token(self, token: impl Into<String>) -> ClientOptions {
        ClientOptions { token: Some(token.into()), ..self }
    }

    /// Trusts only these certificates, in PEM: for a server whose certificate is not signed by a
    /// well-known authority.
    pub fn authorities(self, pem: impl Into<Vec<u8>>) -> ClientOptions {
        ClientOptions { authorities: pem.into(), ..self }
    }
}
