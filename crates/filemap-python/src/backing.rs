//! Backing of a Python handle: a local store, or one behind a server. Common operations use the
//! interface that all stores share; the others need the local files.

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

/// URLs of a list that are requested at once.
const LISTED_AT_ONCE: usize = 1000;

/// The variables of the server's token, and of a file of certificates to trust.
const TOKEN: &str = "FILEMAP_TOKEN";
const AUTHORITIES: &str = "FILEMAP_CA_FILE";

/// An open store.
#[derive(Clone, Debug)]
pub enum Backing {
    Local(PageStore),
    /// The client, and whether it was opened for writing.
    Remote(Client, bool),
}

impl Backing {
    /// Opens the store at a path.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub fn local(path: &Path, mode: Mode, opening: Opening) -> Result<Backing> {
        opened(path, mode, opening).map(Backing::Local)
    }

    /// Connects to the store of the server at `location`.
    ///
    /// # Errors
    ///
    /// Errors of the client; `ReadOnlyError` if the mode writes and the server does not.
    pub fn remote(location: &str, mode: Mode, options: &ClientOptions) -> std::result::Result<Backing, Failure> {
        let client = Client::open(location, options)?;
        if mode == Mode::Create {
            let said = format!("{location}: mode 'x' makes a new store, but the server has one already");
            return Err(Failure::Python(errors::make("StoreExistsError", said)));
        }
        if mode != Mode::Read && !client.writes() {
            let said = format!("{location}: the server only reads; start it with --write, or use the mode 'r'");
            return Err(Failure::Python(errors::make("ReadOnlyError", said)));
        }
        Ok(Backing::Remote(client, mode != Mode::Read))
    }

    /// The store's interface.
    pub fn pages(&self) -> &dyn PageWrite {
        match self {
            Backing::Local(store) => store,
            Backing::Remote(client, _) => client,
        }
    }

    /// The store's interface, for writing. A local store reports itself that it is read-only.
    ///
    /// # Errors
    ///
    /// `ReadOnlyError` for one behind a server that was opened for reading.
    pub fn writing(&self) -> std::result::Result<&dyn PageWrite, Failure> {
        self.check_writes()?;
        Ok(self.pages())
    }

    /// # Errors
    ///
    /// As [`Backing::writing`].
    pub fn check_writes(&self) -> std::result::Result<(), Failure> {
        match self {
            Backing::Remote(_, false) => {
                let said = "the store is open read-only".to_owned();
                Err(Failure::Python(errors::make("ReadOnlyError", said)))
            }
            _ => Ok(()),
        }
    }

    /// The local store, with its files.
    ///
    /// # Errors
    ///
    /// `FileMapError` for one behind a server.
    pub fn here(self) -> PyResult<PageStore> {
        match self {
            Backing::Local(store) => Ok(store),
            Backing::Remote(..) => {
                let said = "this works on the files of a store, and this one is behind a server: do it on the server";
                Err(errors::make("FileMapError", said.to_owned()))
            }
        }
    }
}

/// Options for a store behind a server: `token` and `ca_file`, or those of the environment.
///
/// # Errors
///
/// `TypeError` for an unknown option, or one of a wrong type; any error of reading the file.
pub fn client_options(py: Python<'_>, given: Option<&Bound<'_, PyDict>>) -> PyResult<ClientOptions> {
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
        let path = py.import("pathlib")?.getattr("Path")?.call1((file,))?;
        options = options.authorities(path.call_method0("read_bytes")?.extract::<Vec<u8>>()?);
    }
    Ok(options)
}

/// Items of a list from a server's store, fetched in batches.
pub struct RemoteList {
    client: Client,
    scope: Scope,
    after: Option<Cursor>,
    got: std::vec::IntoIter<Result<Listed>>,
    is_over: bool,
}

impl RemoteList {
    pub fn new(client: Client, scope: Scope, after: Option<Cursor>) -> RemoteList {
        RemoteList { client, scope, after, got: Vec::new().into_iter(), is_over: false }
    }

    fn ask(&mut self) -> Result<()> {
        let listed = self.client.list(&self.scope, self.after.as_ref())?;
        let most = if self.client.capabilities().lists_from_cursor { LISTED_AT_ONCE } else { usize::MAX };
        // The items before an error are returned; the error says what may be missing.
        let got: Vec<Result<Listed>> = listed.take(most).collect();
        self.is_over = got.len() < most || got.iter().any(Result::is_err);
        if let Some(Ok(last)) = got.last() {
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
                return Some(listed);
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
