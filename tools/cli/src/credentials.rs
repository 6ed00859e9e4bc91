//! Token, certificates and password for servers. They come from the environment, because every
//! user of the machine can see a program's arguments.

use std::path::Path;
use std::{env, fs};

use crate::Failure;

/// The variables of the server's token, and of a file of certificates to trust.
const TOKEN: &str = "FILEMAP_TOKEN";
const AUTHORITIES: &str = "FILEMAP_CA_FILE";
/// The variable of the Redis password: the one that `redis-cli` reads.
const REDIS: &str = "REDISCLI_AUTH";

/// A token, and certificates to trust in PEM, each if given.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The token.
    pub token: Option<String>,
    /// The certificates.
    pub authorities: Option<Vec<u8>>,
}

/// Reads them from the environment.
///
/// # Errors
/// [`Failure::Usage`] if the token is not text; [`Failure::Io`] if the file cannot be read.
pub fn read() -> Result<Credentials, Failure> {
    let token = env::var_os(TOKEN).map(|token| {
        let text = token.into_string();
        text.map_err(|_| Failure::Usage(format!("{TOKEN} is not text")))
    });
    let authorities = env::var_os(AUTHORITIES).map(|file| {
        let file = Path::new(&file);
        fs::read(file).map_err(|error| Failure::io("read", file, &error))
    });
    Ok(Credentials { token: token.transpose()?, authorities: authorities.transpose()? })
}

/// The password of Redis, if one is given.
///
/// # Errors
/// [`Failure::Usage`] if the password is not text.
pub fn redis_password() -> Result<Option<String>, Failure> {
    let password = env::var_os(REDIS).map(std::ffi::OsString::into_string);
    password.transpose().map_err(|_| Failure::Usage(format!("{REDIS} is not text")))
}
