//! What a handle of Python's stands on: a store on this machine, or one behind a server. What both
//! have goes through the interface of every store of pages; the rest needs the files.

use std::path::Path;

use filemap::access::{Cursor, Listed, Scope};
use filemap::{PageRead, PageStore, PageWrite, Result};
use filemap_http::{Client, ClientOptions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::argument::named;
use crate::errors::{self, Failure};
use crate::options::{Mode, Opening, opened};

/// URLs of a list that are asked for at once.
const LISTED_AT_ONCE: usize = 1000;

/// The variables with the server's token, and with a file of certificates to trust.
const TOKEN: &str = "FILEMAP_TOKEN";
const AUTHORITIES: &str = "FILEMAP_CA_FILE";

/// An open store.
#[derive(Clone, Debug)]
pub enum Backing {
    Local(PageStore),
    Remote(Client),
}

impl Backing {
    /// Opens the store at a path.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn local(path: &Path, mode: Mode, opening: Opening) -> Result<Backing> {
        opened(path, mode, opening).map(Backing::Local)
    }

    /// Reaches the store of the server at `location`.
    ///
    /// # Errors
    ///
    /// Those of the client; `ReadOnlyError` if a mode that writes is asked for and it does not.
    pub fn remote(location: &str, mode: Mode, options: &ClientOptions) -> std::result::Result<Backing, Failure> {
        let client = Client::open(location, options)?;
        if mode != Mode::Read && !client.writes() {
            let said = format!("{location}: the server only reads; start it with --write, or use the mode 'r'");
            return Err(Failure::Python(errors::make("ReadOnlyError", said)));
        }
        Ok(Backing::Remote(client))
    }

    /// The store's interface.
    pub fn pages(&self) -> &dyn PageWrite {
        match self {
            Backing::Local(store) => store,
            Backing::Remote(client) => client,
        }
    }

    /// The store, whose files are here.
    ///
    /// # Errors
    ///
    /// `FileMapError` for one behind a server.
    pub fn here(self) -> PyResult<PageStore> {
        match self {
            Backing::Local(store) => Ok(store),
            Backing::Remote(_) => {
                let said = "this works on the files of a store, and this one is behind a server: do it there";
                Err(errors::make("FileMapError", said.to_owned()))
            }
        }
    }
}

/// The options of a store behind a server: `token` and `ca_file`, or what the environment has.
///
/// # Errors
///
/// `TypeError` for another option, or one of a wrong type; `StoreIOError` if the file cannot be
/// read.
pub fn client_options(given: Option<&Bound<'_, PyDict>>) -> PyResult<ClientOptions> {
    let (mut token, mut authorities) = (std::env::var(TOKEN).ok(), std::env::var(AUTHORITIES).ok());
    for (name, value) in given.into_iter().flat_map(|given| given.iter()) {
        let name: String = name.extract()?;
        if value.is_none() {
            continue;
        }
        match name.as_str() {
            "token" => token = Some(named(&name, &value)?),
            "ca_file" => authorities = Some(named(&name, &value)?),
            _ => {
                let said = format!("{name} is an option of stores on this machine: the server has its own");
                return Err(PyTypeError::new_err(said));
            }
        }
    }
    let mut options = ClientOptions::new();
    if let Some(token) = token {
        options = options.token(token);
    }
    if let Some(file) = authorities {
        let read = std::fs::read(&file);
        options = options
            .authorities(read.map_err(|error| errors::io_error(&error, format!("cannot read {file}: {error}")))?);
    }
    Ok(options)
}

/// What a list of a server's store gives, some at a time.
pub struct RemoteList {
    client: Client,
    scope: Scope,
    after: Option<Cursor>,
    got: std::vec::IntoIter<Listed>,
    is_over: bool,
}

impl RemoteList {
    pub fn new(client: Client, scope: Scope, after: Option<Cursor>) -> RemoteList {
        RemoteList { client, scope, after, got: Vec::new().into_iter(), is_over: false }
    }

    fn ask(&mut self) -> Result<()> {
        let listed = self.client.list(&self.scope, self.after.as_ref())?;
        let most = if self.client.capabilities().lists_from_cursor { LISTED_AT_ONCE } else { usize::MAX };
        let got: Vec<Listed> = listed.take(most).collect::<Result<_>>()?;
        self.is_over = got.len() < most;
        if let Some(last) = got.last() {
            self.after.clone_from(&last.cursor);
        }
        self.got = got.into_iter();
        Ok(())
    }
}

impl Iterator for RemoteList {
    type Item = Result<Listed>;

    fn next(&mut self) -> Option<Result<Listed>> {
        loop {
            if let Some(listed) = self.got.next() {
                return Some(Ok(listed));
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.ask() {
                self.is_over = true;
                return Some(Err(error));
            }
        }
    }
}
