//! A store behind a server, named by its `http://` or `https://` address.

use std::path::Path;

use filemap_http::{Client, ClientOptions, SeenClient};
use fm_cli::{Failure, credentials};

use crate::stores::{bucket, shards};

fn location(path: &Path) -> Option<&str> {
    path.to_str().filter(|location| Client::is_location(location))
}

/// Returns whether a path is the address of a server.
pub fn is_server(path: &Path) -> bool {
    location(path).is_some()
}

/// The store of a server; `None` if the path is not a server's address.
pub fn open(path: &Path) -> Result<Option<Client>, Failure> {
    let Some(location) = location(path) else { return Ok(None) };
    Ok(Some(Client::open(location, &options()?)?))
}

/// The seen set of a server; `None` if the path is not a server's address.
pub fn open_seen(path: &Path) -> Result<Option<SeenClient>, Failure> {
    let Some(location) = location(path) else { return Ok(None) };
    Ok(Some(SeenClient::open(location, &options()?)?))
}

fn options() -> Result<ClientOptions, Failure> {
    let (mut options, credentials) = (ClientOptions::new(), credentials::read()?);
    if let Some(token) = credentials.token {
        options = options.token(token);
    }
    if let Some(pem) = credentials.authorities {
        options = options.authorities(pem);
    }
    Ok(options)
}

/// A path for messages: without user and password if it is a server's address.
pub fn shown(path: &Path) -> String {
    let is_secret = |location: &str| {
        let rest = location.split_once("://").map_or(location, |(_, rest)| rest);
        rest.contains('@')
    };
    match location(path) {
        Some(location) if is_secret(location) => "the address".to_owned(),
        _ => path.display().to_string(),
    }
}

/// Refuses the address of a server, a bucket, or a store over several folders, for verbs that need
/// the files of one store.
pub fn refuse(path: &Path) -> Result<(), Failure> {
    bucket::refuse(path)?;
    shards::refuse(path)?;
    if !is_server(path) {
        return Ok(());
    }
    let words = "this verb works on the files of a store: run it on the server's machine, with the store's folder";
    Err(Failure::Usage(format!("{} is a server: {words}", shown(path))))
}
