//! A store behind a server, named by its `http://` or `https://` address.
//!
//! A token is not an argument, which every user of the machine could see: it stands in the
//! environment.

use std::path::Path;
use std::{env, fs};

use filemap_http::{Client, ClientOptions};
use fm_cli::Failure;

/// The variable with the server's token, and that with a file of certificates to trust.
const TOKEN: &str = "FILEMAP_TOKEN";
const AUTHORITIES: &str = "FILEMAP_CA_FILE";

fn location(path: &Path) -> Option<&str> {
    path.to_str().filter(|location| Client::is_location(location))
}

/// Whether a path is the address of a server.
pub fn is_server(path: &Path) -> bool {
    location(path).is_some()
}

/// The store of a server; `None` if the path is no address of one.
pub fn open(path: &Path) -> Result<Option<Client>, Failure> {
    let Some(location) = location(path) else { return Ok(None) };
    let mut options = ClientOptions::new();
    if let Some(token) = env::var_os(TOKEN) {
        let token = token.into_string().map_err(|_| Failure::Usage(format!("{TOKEN} is not text")))?;
        options = options.token(token);
    }
    if let Some(file) = env::var_os(AUTHORITIES) {
        let file = Path::new(&file);
        options = options.authorities(fs::read(file).map_err(|error| Failure::io("read", file, &error))?);
    }
    Ok(Some(Client::open(location, &options)?))
}

/// Refuses the address of a server where the store's files are needed.
pub fn refuse(path: &Path) -> Result<(), Failure> {
    let Some(location) = location(path) else { return Ok(()) };
    let words = "this verb works on the files of a store: run it on the server's machine, with the store's folder";
    Err(Failure::Usage(format!("{location} is a server: {words}")))
}
